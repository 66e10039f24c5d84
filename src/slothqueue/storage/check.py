"""Looks for what is wrong with a store: the file by SQLite's own check, and what must hold in it.

One reader's view of one moment: others go on, and nothing that they do looks like a fault.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from ..reports import Finding
from . import migrate
from .base import Tx
from .statements import load

SQL = load("sqlite")
SHOWN = 5
"""So many places are named; of the others only the number is told."""


class Rule(NamedTuple):
    """A statement that finds what must not be, with what to say of it."""

    sql: str
    what: str
    remedy: str
    slow: bool = False


_AGAIN = "`sloth show ID` tells what it was: add it again, and report this as a fault of slothqueue"
_REPORT = "Nothing has to be done now. Please report it as a fault of slothqueue"
_UNHOLD = (
    "`sloth cancel ID` and `sloth retry ID` put it back; and report this as a fault of slothqueue"
)
_FOREIGN = "Another program has written to these tables. Look which one, or restore a backup"

RULES = (
    Rule(SQL["check_unfiled"], "a queued job that no claim can find", _AGAIN),
    Rule(SQL["check_filed_twice"], "a job that is filed twice, so it may run twice", _AGAIN),
    Rule(
        SQL["check_filed_for_nothing"],
        "an entry of a job that does not exist",
        "Somebody has deleted the job from the table. The next claim drops the entry",
    ),
    Rule(SQL["check_filed_though_over"], "a job that has ended and is filed to run", _FOREIGN),
    Rule(SQL["check_filed_though_parked"], "a job that is filed though it is to wait", _AGAIN),
    Rule(SQL["check_parked_for_nothing"], "a job that waits for nothing", _UNHOLD),
    Rule(SQL["check_waits_unparked"], "a job that may run before its parents", _REPORT),
    Rule(SQL["check_waits_in_vain"], "a job that waits for a parent that has ended", _UNHOLD),
    Rule(SQL["check_expires_though_over"], "an expiry of a job that has ended", _REPORT),
    Rule(SQL["check_asked_of_nothing"], "a request to a job that does not run", _REPORT),
    Rule(SQL["check_filed_elsewhere"], "a job that is filed under another queue or task", _FOREIGN),
    Rule(
        SQL["check_running_nothing"],
        "a lease on a job that does not exist",
        "Somebody has deleted the job from the table. The lease is dropped when it ends",
    ),
    Rule(SQL["check_held_by_nobody"], "a running job whose holder is not known", _FOREIGN),
    Rule(SQL["check_state"], "a job in a state that does not exist", _FOREIGN),
    Rule(SQL["check_lane_of_job"], "a job of a queue that does not exist", _FOREIGN),
    Rule(SQL["check_queue_of_lane"], "a lane of a queue that does not exist", _FOREIGN),
    Rule(SQL["check_event_numbers"], "a history with a gap", _REPORT),
    Rule(SQL["check_events_of_nothing"], "the history of a job that does not exist", _REPORT),
    Rule(SQL["check_name_of_store"], "a store without an id", _FOREIGN),
    Rule(SQL["check_payload"], "a job whose payload is no JSON", _FOREIGN, slow=True),
)


def findings(tx: Tx, *, quick: bool) -> list[Finding]:
    """All that is wrong, the worst first. What cannot even be looked at is told as well."""
    damage = list(file_findings(tx, quick=quick))
    try:
        return [*damage, *_schema_findings(tx), *_rule_findings(tx, quick=quick)]
    except sqlite3.DatabaseError as error:
        if not damage:
            raise
        return [*damage, Finding("what is in it could not be looked at", str(error), _RESTORE)]


# ---- the file -----------------------------------------------------------------------------------

_RESTORE = (
    "Stop all that uses the file, keep it with its -wal for later, and restore a backup; `sqlite3 "
    "FILE .recover` saves what can be saved"
)


def file_findings(tx: Tx, *, quick: bool) -> Iterator[Finding]:
    """What SQLite says of the file."""
    pragma = "quick_check" if quick else "integrity_check"
    try:
        rows = tx.execute(f"pragma {pragma}({SHOWN})").fetchall()
    except sqlite3.DatabaseError as error:
        rows = [(error,)]
    for (text,) in rows:
        if text != "ok":
            yield Finding("the file is damaged", " ".join(str(text).split()), _RESTORE)


# ---- the schema ---------------------------------------------------------------------------------


def _schema_findings(tx: Tx) -> Iterator[Finding]:
    """Tables, indexes and triggers that are missing or not as we made them."""
    there = dict(tx.execute(SQL["schema_objects"]).fetchall())
    for name, text in _expected().items():
        if name not in there:
            yield Finding("a part of the schema is missing", name, _FOREIGN + ".")
        elif there[name] != text and not migrate.novelties(tx):
            yield Finding("a part of the schema was changed", name, _FOREIGN + ".")


@cache
def _expected() -> dict[str, str]:
    """What an empty store of the present schema is made of."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        tx = connection.cursor()
        for script in migrate.scripts():
            migrate.apply(tx, script, 0)
        return dict(tx.execute(SQL["schema_objects"]).fetchall())
    finally:
        connection.close()


# ---- what is in it ------------------------------------------------------------------------------


def _rule_findings(tx: Tx, *, quick: bool) -> Iterator[Finding]:
    for rule in RULES:
        if quick and rule.slow:
            continue
        found = [row[0] for row in tx.execute(rule.sql).fetchall()]
        if found:
            yield Finding(rule.what, _places(found), rule.remedy + ".")


def _places(found: list[int | str]) -> str:
    """`job 3`; `jobs 3, 4, 5, 6, 7 and 12 more`."""
    shown = ", ".join(str(place) for place in found[:SHOWN])
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    if isinstance(found[0], str):
        return shown + more
    return f"job{'s' if len(found) > 1 else ''} {shown}{more}"
