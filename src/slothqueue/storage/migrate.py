"""Brings a file to the current schema, one numbered script at a time, each in one transaction."""

from __future__ import annotations

import re
import sqlite3
import zlib
from collections.abc import Iterator
from functools import cache

from ..clock import Millis
from ..errors import SchemaTooNew
from . import statements
from .base import Tx

_TABLE = """
create table _sloth_migration (
    version integer primary key, name text not null, checksum text not null,
    breaking integer not null, applied_at integer not null
) strict
"""
_READ = "select version, name, breaking from _sloth_migration order by version"
_WRITE = "insert into _sloth_migration values (?1, ?2, ?3, ?4, ?5)"


@cache
def scripts() -> list[tuple[int, str, str]]:
    return statements.migrations("sqlite")


def pending(tx: Tx, path: str) -> list[tuple[int, str, str]]:
    """The scripts that this file lacks. Raises SchemaTooNew if it is ahead of us."""
    known = scripts()
    applied = _applied(tx)
    newest = known[-1][0]
    for version, name, breaking in applied:
        if version > newest and breaking:
            raise SchemaTooNew(
                f"{path} was written by a newer slothqueue (schema {version}, {name}; this version "
                f"knows {newest}). Nothing was changed. Upgrade: pip install --upgrade slothqueue"
            )
    have = {version for version, _, _ in applied}
    return [script for script in known if script[0] not in have]


def version(tx: Tx) -> int:
    """The newest script that this file has had; 0 if it has no tables of ours."""
    return max((version for version, _, _ in _applied(tx)), default=0)


def novelties(tx: Tx) -> bool:
    """Whether a newer slothqueue has added something to this file that we need not know."""
    return version(tx) > scripts()[-1][0]


def _applied(tx: Tx) -> list[tuple[int, str, int]]:
    try:
        return list(tx.execute(_READ).fetchall())
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return []
        raise


def apply(tx: Tx, script: tuple[int, str, str], now: Millis) -> None:
    """Run one script inside the caller's transaction, the row that records it first."""
    version, name, text = script
    if version == 1:
        tx.execute(_TABLE)
    breaking = int(bool(re.search(r"^-- breaking: yes$", text, re.MULTILINE)))
    tx.execute(_WRITE, (version, name, checksum(text), breaking, now))
    for statement in split(text):
        tx.execute(statement)


def checksum(text: str) -> str:
    """What a released script must never change: CRC-32 of its text."""
    return f"{zlib.crc32(text.encode()):08x}"


def split(text: str) -> Iterator[str]:
    """The statements of a script; triggers have semicolons of their own."""
    statement = ""
    for line in text.splitlines(keepends=True):
        if not statement and (not line.strip() or line.startswith("--")):
            continue
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
