"""The laws that tests live by."""

from __future__ import annotations

import ast
from pathlib import Path

from .code import ROOT, aliases, dotted, nothing, read

TESTS = ROOT / "tests"
WITHOUT_SLEEP = ("unit", "conformance", "model")


def sleeps(folder: Path) -> list[str]:
    """Every sleep below this folder."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        module = read(path, folder)
        known = aliases(module.tree)
        found += [
            f"{path.name}:{node.lineno}"
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Name | ast.Attribute)
            and dotted(node, known) in ("time.sleep", "asyncio.sleep")
        ]
    return found


def slow_without_reason(folder: Path) -> list[str]:
    """Every `slow` or `night` mark that does not say why."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        tree = read(path, folder).tree
        reasoned = {
            id(node.func)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and (node.args or node.keywords)
        }
        found += [
            f"{path.name}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and ast.unparse(node).endswith(("mark.slow", "mark.night"))
            and id(node) not in reasoned
        ]
    return found


def test_no_test_of_rules_sleeps():
    nothing(f"{name}/{place}" for name in WITHOUT_SLEEP for place in sleeps(TESTS / name))


def test_whatever_is_slow_says_why():
    nothing(slow_without_reason(TESTS))


def test_a_sleep_is_seen(tmp_path: Path):
    (tmp_path / "test_a.py").write_text("from time import sleep as nap\nnap(1)\n")
    (tmp_path / "test_b.py").write_text("import time\ntime.sleep(1)\n")
    assert sleeps(tmp_path) == ["test_a.py:2", "test_b.py:2"]


def test_a_slow_mark_without_a_reason_is_seen(tmp_path: Path):
    marks = "import pytest\n@pytest.mark.slow\ndef test_a(): ...\n"
    marks += "@pytest.mark.slow(reason='a real hour')\ndef test_b(): ...\n"
    (tmp_path / "test_a.py").write_text(marks)
    assert slow_without_reason(tmp_path) == ["test_a.py:2"]
