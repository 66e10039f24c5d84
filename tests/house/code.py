"""How the house tests read the code: as text and as syntax trees, never by running it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "slothqueue"


def nothing(found: Iterable[object]) -> None:
    """Fail if anything was found, and tell each on a line of its own."""
    told = [str(each) for each in found]
    if told:
        pytest.fail("\n".join(["", *told]), pytrace=False)


class Module(NamedTuple):
    """One source file. Its name is relative to the package: `storage.sqlite`, `__init__`."""

    name: str
    path: Path
    tree: ast.Module


def modules(package: Path = PACKAGE) -> list[Module]:
    """All modules of the package, by name."""
    return [read(path, package) for path in sorted(package.rglob("*.py"))]


def read(path: Path, package: Path) -> Module:
    """One module, parsed."""
    relative = path.relative_to(package).with_suffix("")
    parts = (
        relative.parts[:-1]
        if len(relative.parts) > 1 and relative.name == "__init__"
        else (relative.parts)
    )
    return Module(".".join(parts), path, ast.parse(path.read_text(encoding="utf-8"), str(path)))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Every node below this one, without what stands under `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and _is_for_types(child.test):
            for other in child.orelse:
                yield other
                yield from at_run_time(other)
            continue
        yield child
        yield from at_run_time(child)


def _is_for_types(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def aliases(tree: ast.AST) -> dict[str, str]:
    """What the imported names of a module stand for: `{"dt": "datetime", "now": "time.time"}`."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                known_as = name.asname or name.name.partition(".")[0]
                found[known_as] = name.name if name.asname else known_as
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.update({n.asname or n.name: f"{node.module}.{n.name}" for n in node.names})
    return found


def dotted(node: ast.AST, known: dict[str, str]) -> str | None:
    """The full name that an expression such as `dt.datetime.now` stands for, if it is one."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute):
        before = dotted(node.value, known)
        return None if before is None else f"{before}.{node.attr}"
    return None


def where(module: Module, node: ast.stmt | ast.expr) -> str:
    """A place that an editor can open."""
    base = ROOT if module.path.is_relative_to(ROOT) else module.path.parent
    return f"{module.path.relative_to(base)}:{node.lineno}"
