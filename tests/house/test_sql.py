"""Every named statement is used, every used name exists, and none walks through the big tables."""

from __future__ import annotations

import ast
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from slothqueue.storage import migrate, statements

from .code import PACKAGE, Module, modules, nothing, where
from .test_floors import tree

ENGINE = "sqlite"
BIG = {"_sloth_job", "_sloth_event", "_sloth_ready", "_sloth_sched"}

# What statements are called by: `run("claim")`, `sql["claim"]`, `SQL.claim`.
CALLED = {"run", "run_many", "row", "rows", "one", "many", "value", "sql"}
HELD = {"sql", "SQL", "statements", "STATEMENTS"}


def blocks() -> dict[str, str]:
    """Every block of the engine with its comments, by name."""
    found = {}
    for path in sorted((PACKAGE / "sql" / ENGINE).glob("*.sql")):
        for block in path.read_text(encoding="utf-8").split("-- name:")[1:]:
            name, _, text = block.partition("\n")
            found[name.strip()] = text
    return found


def used(package_modules: list[Module]) -> Iterator[tuple[str, str]]:
    """Every name of a statement that the code mentions, with its place."""
    for module in package_modules:
        for node in ast.walk(module.tree):
            for name in _names(node):
                assert isinstance(node, ast.expr)
                yield name, where(module, node)


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Subscript) and _last_name(node.value) in HELD:
        return _texts(node.slice)
    if isinstance(node, ast.Call) and _last_name(node.func) in CALLED:
        # The statement is the first text there is: run("claim"), run(tx, "claim").
        return next((texts for texts in map(_texts, node.args[:2]) if texts), [])
    if isinstance(node, ast.Attribute) and _last_name(node.value) in {"SQL"}:
        return [node.attr]
    return []


def _last_name(node: ast.expr) -> str:
    text = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return text.lstrip("_") if isinstance(text, str) else ""


def _texts(node: ast.expr) -> list[str]:
    """The texts that an expression may be: a literal, or either side of a choice."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return _texts(node.body) + _texts(node.orelse)
    return []


def scans(connection: sqlite3.Connection, statement: str) -> list[str]:
    """The big tables that a statement walks through from end to end."""
    called = _tables(statement)
    plan = connection.execute(f"explain query plan {statement}", _anything(statement)).fetchall()
    lines = [str(row[3]) for row in plan]
    return [
        line
        for line in lines
        if line.startswith("SCAN ") and called.get(line.split()[1], line.split()[1]) in BIG
    ]


def _tables(statement: str) -> dict[str, str]:
    """What each short name in a statement stands for."""
    found = re.findall(r"(\b_sloth_\w+)\s+(?:as\s+)?(\w+)", statement, re.IGNORECASE)
    return {short: table for table, short in found}


class _Nothing(dict[str, None]):
    def __missing__(self, key: str) -> None:
        return None


def _anything(statement: str) -> list[None] | _Nothing:
    numbers = [int(number) for number in re.findall(r"\?(\d+)", statement)]
    return [None] * max(numbers, default=statement.count("?")) if "?" in statement else _Nothing()


def migrated() -> sqlite3.Connection:
    """An empty store of the current schema, in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for script in statements.migrations(ENGINE):
        migrate.apply(connection.cursor(), script, 0)
    return connection


@pytest.fixture(scope="module")
def connection() -> Iterator[sqlite3.Connection]:
    connection = migrated()
    yield connection
    connection.close()


def test_every_statement_is_used():
    mentioned = {name for name, _ in used(modules())}
    nothing(sorted(set(statements.load(ENGINE)) - mentioned))


def test_every_used_name_exists():
    known = statements.load(ENGINE)
    nothing(f"{place}: {name}" for name, place in used(modules()) if name not in known)


def test_no_statement_is_lost_on_the_way():
    assert set(statements.load(ENGINE)) == set(blocks())


@pytest.mark.parametrize("name", sorted(blocks()))
def test_no_statement_walks_through_a_big_table(name: str, connection: sqlite3.Connection):
    found = scans(connection, statements.load(ENGINE)[name])
    excused = re.search(r"^-- scan: \S.*\S$", blocks()[name], re.MULTILINE)
    assert excused or found == []


def test_python_holds_no_sql_of_the_features():
    """SQL is a named text; what the engine says to itself (pragmas, begin, commit) is not meant."""
    pattern = re.compile(r"^\s*(select|insert into|update|delete from)\s+.*\b_sloth_(?!migration)")
    found = [
        f"{where(module, node)}: {node.value.split()[0]}"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and pattern.match(node.value.lower())
    ]
    nothing(found)


def test_the_text_that_runs_on_old_engines_uses_no_new_words():
    """SQLite 3.37 is the floor."""
    new = re.compile(
        r"->|\bunixepoch\b|'subsec'|\bright join\b|\bfull join\b|\bjsonb", re.IGNORECASE
    )
    folders = [PACKAGE / "sql" / ENGINE, PACKAGE / "migrations" / ENGINE]
    texts = {path.name: path.read_text() for folder in folders for path in folder.glob("*.sql")}
    code = {name: re.sub(r"--.*", "", text) for name, text in texts.items()}
    assert {name: new.findall(text) for name, text in code.items() if new.search(text)} == {}


@pytest.mark.parametrize(
    "statement",
    [
        "select id from _sloth_job where payload = ?1",
        "select j.id from _sloth_job j where j.error is not null",
        "select j.id from _sloth_job as j order by j.payload",
        "update _sloth_job set message = :message where payload = :payload",
        "delete from _sloth_event where reason = ?",
        "insert into _sloth_ready (lane, priority, due, id) "
        "select lane, priority, due, id from _sloth_sched where base > ?1",
        "select count(*) from _sloth_ready",
    ],
)
def test_a_full_scan_is_seen(statement: str, connection: sqlite3.Connection):
    assert scans(connection, statement) != []


def test_a_search_is_no_scan(connection: sqlite3.Connection):
    assert scans(connection, "select payload from _sloth_job where id = ?1") == []
    assert scans(connection, "select count(*) from _sloth_running") == []


def test_names_are_found_in_every_form(tmp_path: Path):
    text = """
def verbs(self, tx, sql, SQL):
    tx.execute(sql["one"], ())
    tx.execute(self._sql["two"], ())
    self.run(tx, "three", 1)
    run("four", "not_this")
    tx.execute(SQL.five)
    tx.execute(sql["six" if tx else "seven"])
"""
    found = [name for name, _ in used(tree(tmp_path, jobs=text))]
    assert sorted(found) == sorted(["one", "two", "three", "four", "five", "six", "seven"])
