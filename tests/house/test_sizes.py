"""Small numbers: what a reader meets at one time is small."""

from __future__ import annotations

import ast
from pathlib import Path
from statistics import median

from .code import Module, functions, modules, nothing, where
from .test_floors import tree

MEDIAN, MOST, LONGEST, FILE = 8, 20, 60, 400


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function from its `def`, without its docstring and decorators."""
    end = function.end_lineno or function.lineno
    return end - function.lineno + 1 - _docstring_lines(function)


def _docstring_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is None:
        return 0
    return (first.end_lineno or first.lineno) - first.lineno + 1


def lengths(package_modules: list[Module]) -> dict[str, int]:
    """The length of every function, by its place."""
    return {
        f"{where(module, function)} {function.name}": length(function)
        for module in package_modules
        for function in functions(module.tree)
    }


def long_files(package_modules: list[Module]) -> dict[str, int]:
    """The files that are longer than one reads in a sitting."""
    counted = {
        module.name: len(module.path.read_text(encoding="utf-8").splitlines())
        for module in package_modules
    }
    return {name: lines for name, lines in counted.items() if lines > FILE}


def test_half_of_the_functions_are_very_short():
    assert median(lengths(modules()).values()) <= MEDIAN


def test_nine_functions_in_ten_are_short():
    found = lengths(modules())
    longer = sorted((n, place) for place, n in found.items() if n > MOST)
    assert len(longer) <= len(found) / 10, longer


def test_no_function_is_long():
    nothing((n, place) for place, n in lengths(modules()).items() if n > LONGEST)


def test_no_file_is_long():
    nothing(long_files(modules()).items())


def test_a_docstring_does_not_count_and_a_long_function_does(tmp_path: Path):
    short = 'def short():\n    """One.\n\n    Two.\n    """\n    return 1\n'
    long = "def long():\n" + "    x = 1\n" * 60
    found = lengths(tree(tmp_path, jobs=short + long))
    assert sorted(found.values()) == [2, 61]


def test_a_long_file_is_seen(tmp_path: Path):
    assert long_files(tree(tmp_path, jobs="x = 1\n" * 401, tasks="x = 1\n" * 400)) == {"jobs": 401}
