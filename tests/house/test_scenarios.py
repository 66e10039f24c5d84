"""Every fault that was seen elsewhere has a test, and the page that says so tells the truth."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from .code import ROOT, nothing

PAGE = ROOT / "docs" / "design" / "scenarios.md"
ROW = re.compile(r"^\| (\d+) \|.*\| (.*) \|$", re.MULTILINE)
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
WANTED = {*range(1, 23), *range(34, 53)}


def rows(text: str) -> dict[int, list[tuple[str, str]]]:
    """The tests that each row names, as (file, name)."""
    return {int(number): NAMED.findall(tests) for number, tests in ROW.findall(text)}


def missing(text: str, tests: Path) -> list[str]:
    """What a page names and is not there."""
    named = sorted({one for row in rows(text).values() for one in row})
    return [f"{file}::{name}" for file, name in named if name not in functions(tests / file)]


def functions(file: Path) -> set[str]:
    """The names of the tests of a file."""
    if not file.is_file():
        return set()
    body = ast.parse(file.read_text(encoding="utf-8")).body
    defined = (node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node.name for node in defined if node.name.startswith("test_")}


def test_every_test_that_is_named_is_there():
    nothing(missing(PAGE.read_text(encoding="utf-8"), ROOT / "tests"))


def test_every_scenario_has_a_test():
    told = rows(PAGE.read_text(encoding="utf-8"))
    nothing(f"scenario {number} has no test" for number in sorted(WANTED) if not told.get(number))


def test_a_name_without_a_test_is_seen(tmp_path: Path):
    (tmp_path / "unit").mkdir()
    (tmp_path / "unit" / "test_a.py").write_text("def test_one(): ...\ndef helper(): ...\n")
    page = (
        "| 1 | x | `unit/test_a.py::test_one`, `unit/test_a.py::helper` |\n"
        "| 2 | y | `unit/test_b.py::test_one` |\n"
        "| 3 | z |  |\n"
    )
    assert missing(page, tmp_path) == ["unit/test_a.py::helper", "unit/test_b.py::test_one"]
    assert {number for number, tests in rows(page).items() if not tests} == {3}
