"""The architecture: imports go down only.

This table is the map of the code; read it from the top to see what stands on what.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from .code import Module, at_run_time, modules, nothing, where

FLOORS: list[tuple[str, set[str]]] = [
    ("words", {"errors", "clock", "processes", "shim", "starting", "streams", "papers", "caps"}),
    (
        "rules",
        {
            "timing",
            "sizes",
            "models",
            "codec",
            "context",
            "environment",
            "reports",
            "titles",
            "typed",
        },
    ),
    ("storage interface, waiting", {"storage", "storage.base", "storage.statements", "waiting"}),
    (
        "engines and what they ask of the kernel",
        {
            "storage.sqlite",
            "storage.backup",
            "storage.bound",
            "storage.check",
            "storage.checkpoints",
            "storage.flushing",
            "storage.forking",
            "storage.health",
            "storage.locking",
            "storage.log_readers",
            "storage.opening",
            "storage.outlook",
            "storage.readers",
            "storage.reading",
            "storage.turns",
            "storage.sqlite_errors",
            "storage.sqlite_claims",
            "storage.sqlite_jobs",
            "storage.sqlite_limits",
            "storage.sqlite_names",
            "storage.sqlite_pruning",
            "storage.sqlite_waits",
            "storage.migrate",
            "storage.filesystem",
            "liveness",
            "kernel",
            "herald",
            "senses",
            "watch",
            "receipts",
            "outputs",
            "spawn",
        },
    ),
    (
        "features",
        {
            "control",
            "copies",
            "crew",
            "handles",
            "histories",
            "jobs",
            "lanes",
            "options",
            "patience",
            "presence",
            "pruning",
            "settling",
            "upkeep",
            "waker",
            "why",
        },
    ),
    ("compound features", {"commands", "groups", "orders", "queues", "tasks"}),
    (
        "running",
        {
            "asks",
            "attempt",
            "beats",
            "child",
            "ear",
            "launching",
            "loading",
            "pool",
            "running",
            "runs",
            "signals",
        },
    ),
    ("worker", {"worker", "steps", "telling"}),
    ("face", {"client"}),
    ("second faces", {"onlooking", "testing"}),
    ("doors", {"cli"}),
    ("the public names", {"__init__", "__main__"}),
]

# Who may look sideways on a floor, and at whom.
NEIGHBORS = {
    # the shim of a command and its parts
    ("shim", "caps"),
    ("shim", "papers"),
    ("shim", "processes"),
    ("shim", "starting"),
    ("shim", "streams"),
    ("papers", "processes"),
    ("starting", "papers"),
    ("streams", "starting"),
    ("context", "codec"),
    ("titles", "codec"),
    ("context", "timing"),
    ("models", "timing"),
    # JSON by annotations, on top of plain JSON
    ("typed.calls", "codec"),
    ("typed.fitting", "codec"),
    ("typed.records", "codec"),
    ("typed.scalars", "codec"),
    ("typed.shapes", "codec"),
    ("storage.base", "waiting"),
    # the engine and its parts
    ("storage.bound", "storage.migrate"),
    ("storage.bound", "storage.sqlite_errors"),
    ("storage.outlook", "liveness"),
    ("storage.outlook", "storage.locking"),
    ("storage.readers", "storage.locking"),
    ("storage.outlook", "watch"),
    ("storage.sqlite", "storage.bound"),
    ("storage.sqlite", "storage.flushing"),
    ("storage.sqlite", "storage.forking"),
    ("storage.sqlite", "storage.outlook"),
    ("storage.sqlite", "storage.sqlite_errors"),
    ("storage.sqlite", "storage.sqlite_jobs"),
    ("storage.sqlite", "storage.sqlite_names"),
    ("storage.sqlite", "storage.sqlite_pruning"),
    ("storage.sqlite", "storage.sqlite_waits"),
    ("storage.sqlite_jobs", "storage.sqlite_claims"),
    ("storage.sqlite_claims", "storage.sqlite_waits"),
    ("storage.sqlite_waits", "storage.sqlite_limits"),
    # a copy of the store, and looks at it
    ("storage.backup", "liveness"),
    ("storage.backup", "storage.opening"),
    ("storage.backup", "storage.sqlite_errors"),
    ("storage.check", "storage.migrate"),
    ("storage.health", "storage.check"),
    ("storage.health", "storage.checkpoints"),
    ("storage.health", "storage.filesystem"),
    ("storage.health", "storage.log_readers"),
    ("storage.health", "storage.migrate"),
    ("storage.health", "storage.opening"),
    ("storage.health", "storage.reading"),
    ("storage.health", "storage.sqlite_errors"),
    ("storage.reading", "storage.locking"),
    ("storage.reading", "storage.migrate"),
    ("storage.reading", "storage.opening"),
    ("storage.reading", "storage.readers"),
    ("storage.reading", "storage.sqlite"),
    ("storage.reading", "storage.sqlite_errors"),
    ("copies", "settling"),
    # the watcher and its parts
    ("senses", "herald"),
    ("senses", "kernel"),
    ("watch", "herald"),
    ("watch", "kernel"),
    ("watch", "senses"),
    ("storage.checkpoints", "storage.locking"),
    ("storage.locking", "storage.sqlite_errors"),
    ("storage.opening", "liveness"),
    ("storage.opening", "storage.checkpoints"),
    ("storage.opening", "storage.filesystem"),
    ("storage.opening", "storage.locking"),
    ("storage.opening", "storage.migrate"),
    ("storage.opening", "storage.sqlite_errors"),
    ("storage.opening", "waiting"),
    ("storage.sqlite", "storage.checkpoints"),
    ("storage.sqlite", "storage.locking"),
    ("storage.sqlite", "storage.opening"),
    ("storage.sqlite", "receipts"),
    ("storage.sqlite", "storage.readers"),
    ("storage.sqlite", "storage.turns"),
    # jobs and what they are made of
    ("control", "options"),
    ("control", "settling"),
    ("control", "upkeep"),
    ("crew", "lanes"),
    ("crew", "presence"),
    ("handles", "options"),
    ("jobs", "control"),
    ("jobs", "handles"),
    ("jobs", "histories"),
    ("jobs", "options"),
    ("jobs", "patience"),
    ("patience", "upkeep"),
    ("patience", "waker"),
    ("jobs", "why"),
    ("why", "crew"),
    ("why", "options"),
    ("jobs", "lanes"),
    ("jobs", "presence"),
    ("jobs", "settling"),
    ("jobs", "upkeep"),
    ("jobs", "waker"),
    ("upkeep", "presence"),
    ("upkeep", "settling"),
    # a queue takes commands, a task enqueues on a queue
    ("queues", "commands"),
    ("commands", "orders"),
    ("tasks", "queues"),
    # an attempt runs in a process of ours
    ("child", "attempt"),
    ("child", "loading"),
    ("pool", "loading"),
    ("pool", "attempt"),
    ("pool", "child"),
    ("running", "pool"),
    ("launching", "pool"),
    ("launching", "running"),
    ("asks", "runs"),
    ("beats", "runs"),
    ("running", "runs"),
    ("launching", "runs"),
    # a worker writes by steps
    ("worker", "steps"),
    ("worker", "telling"),
    ("telling", "steps"),
}

# Packages that are one room: they stand on the map as one, and the modules in them know each other.
ROOMS = {"cli", "typed"}

# Modules that know which engine there is, apart from the engines themselves.
KNOWS_ENGINES = {"client", "onlooking"}
ENGINES = {name for name in FLOORS[3][1] if name.startswith("storage.")}

# Modules apart from the engines that may name `sqlite3`, each with its reason.
NAMES_SQLITE3 = {
    "storage.backup": "copies the pages",
    "storage.check": "makes an empty store to compare with",
    "storage.health": "tells its version",
    "storage.reading": "opens the file to look at it only",
    "storage.bound": "joins a connection of the user",
    "storage.checkpoints": "keeps the log small",
    "storage.locking": "waits for the write lock",
    "storage.opening": "opens the file",
    "storage.outlook": "sees with a connection of its own what others have committed",
    "storage.readers": "lends connections",
}

# Run by themselves, once per command: with nothing of ours but each other.
STAND_ALONE = {"shim", "processes", "starting", "streams", "papers", "caps"}


def floor(name: str) -> int | None:
    """The floor on which a module lives."""
    room = name.partition(".")[0]
    wanted = room if room in ROOMS else name
    return next((n for n, (_, names) in enumerate(FLOORS) if wanted in names), None)


def imports(module: Module, known: set[str]) -> Iterator[tuple[str, ast.stmt | ast.expr]]:
    """What a module imports at run time, at its top or later; ours without the package."""
    is_package = module.path.name == "__init__.py" and module.name != "__init__"
    package = module.name if is_package else module.name.rpartition(".")[0]
    for node in at_run_time(module.tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield _own(name.name), node
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, package)
            for name in node.names:
                yield _target(base, name.name, known), node
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            text = node.args[0] if node.args else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield _own(text.value), node


def _own(name: str) -> str:
    return "__init__" if name == "slothqueue" else name.removeprefix("slothqueue.")


def _base(node: ast.ImportFrom, package: str) -> str:
    """The module or package after `from`, ours as a name below the package ("" is the package)."""
    if not node.level:
        name = node.module or ""
        return "" if name == "slothqueue" else name.removeprefix("slothqueue.")
    parts = package.split(".") if package else []
    parts = parts[: len(parts) - (node.level - 1)]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _target(base: str, name: str, known: set[str]) -> str:
    below = f"{base}.{name}" if base else name
    if below in known:
        return below
    if not base:
        # The version is a literal at the very top of the package: no floor is climbed for it.
        return "errors" if name == "__version__" else "__init__"
    return base


def faults(package_modules: list[Module]) -> list[str]:
    """Every import that the map does not allow."""
    known = {module.name for module in package_modules}
    found = []
    for module in package_modules:
        here = floor(module.name)
        if here is None:
            found.append(f"{module.name} has no floor: put it into FLOORS")
            continue
        for target, node in imports(module, known):
            reason = _fault(module.name, here, target)
            if reason:
                found.append(f"{where(module, node)}: {module.name} imports {target}, {reason}")
    return list(dict.fromkeys(found))


def _fault(name: str, here: int, target: str) -> str | None:
    if target.partition(".")[0] == "sqlite3" and not _may_name_sqlite3(name):
        return "which only the engine may"
    there = floor(target)
    if there is None or target == name:
        return None
    if name in STAND_ALONE and target not in STAND_ALONE:
        return "and must stand alone"
    if there > here:
        return f"which is above it ({FLOORS[here][0]} < {FLOORS[there][0]})"
    if there == here and not _may_look_at(name, target):
        return "a neighbor that it may not know"
    if target in ENGINES and there < here and name not in KNOWS_ENGINES:
        return "and so knows which engine there is"
    return None


def _may_name_sqlite3(name: str) -> bool:
    return name.startswith("storage.sqlite") or name == "storage.migrate" or name in NAMES_SQLITE3


def _may_look_at(name: str, target: str) -> bool:
    room = name.partition(".")[0]
    if room in ROOMS and target.partition(".")[0] == room:
        return True
    return (name, target) in NEIGHBORS


def test_imports_go_down_only():
    nothing(faults(modules()))


def test_the_map_names_only_modules_that_exist():
    names = {module.name for module in modules()} | {"storage"}
    nothing(sorted(set().union(*(floor for _, floor in FLOORS)) - names))


def test_every_pair_of_neighbors_is_needed():
    known = {module.name for module in modules()}
    real = {(m.name, target) for m in modules() for target, _ in imports(m, known)}
    nothing(sorted(NEIGHBORS - real))


def test_every_exception_for_sqlite3_is_needed():
    known = {module.name for module in modules()}
    real = {m.name for m in modules() if "sqlite3" in {target for target, _ in imports(m, known)}}
    nothing(sorted(set(NAMES_SQLITE3) - real))


def tree(path: Path, **files: str) -> list[Module]:
    """A small package of these modules; `__` in a name stands for a slash."""
    for name, text in files.items():
        file = path / (name.replace("__", "/") + ".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return modules(path)


def test_an_upward_import_is_seen(tmp_path):
    assert len(faults(tree(tmp_path, errors="from .jobs import Jobs", jobs=""))) == 1
    assert len(faults(tree(tmp_path, errors="from slothqueue.jobs import Jobs"))) == 1
    assert len(faults(tree(tmp_path, errors="from . import jobs"))) == 1
    assert len(faults(tree(tmp_path, errors="import slothqueue.jobs"))) == 1


def test_a_lazy_upward_import_is_seen(tmp_path):
    lazy = "def late():\n    if 1:\n        from .worker import Worker"
    assert len(faults(tree(tmp_path, jobs=lazy, worker=""))) == 1
    named = "import importlib\nimportlib.import_module('slothqueue.worker')"
    assert len(faults(tree(tmp_path, jobs=named))) == 1


def test_an_upward_import_out_of_a_package_is_seen(tmp_path):
    found = faults(tree(tmp_path, storage__base="from ..jobs import Jobs", jobs=""))
    assert len(found) == 1
    assert "storage.base imports jobs" in found[0]


def test_an_import_for_types_alone_is_no_import(tmp_path):
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .worker import Worker"
    assert faults(tree(tmp_path, jobs=typed, worker="")) == []


def test_a_neighbor_is_seen(tmp_path):
    found = faults(tree(tmp_path, liveness="from .watch import Watch", watch=""))
    assert len(found) == 1
    assert "neighbor" in found[0]


def test_a_package_at_the_door_may_know_itself(tmp_path):
    files = {"cli__add": "from .parser import parse", "cli__parser": "from ..client import Sloth"}
    assert faults(tree(tmp_path, client="", **files)) == []


def test_sqlite3_outside_of_the_engine_is_seen(tmp_path):
    assert len(faults(tree(tmp_path, worker="import sqlite3"))) == 1
    assert len(faults(tree(tmp_path, worker="from sqlite3 import Row"))) == 1
    assert len(faults(tree(tmp_path, worker="import sqlite3.dbapi2"))) == 1
    assert faults(tree(tmp_path, worker="", storage__sqlite="import sqlite3")) == []


def test_a_feature_that_knows_its_engine_is_seen(tmp_path):
    files = {"storage__sqlite": ""}
    assert len(faults(tree(tmp_path, jobs="from .storage.sqlite import Store", **files))) == 1
    assert faults(tree(tmp_path, jobs="", client="from .storage.sqlite import S", **files)) == []


def test_a_module_without_a_floor_is_seen(tmp_path):
    assert faults(tree(tmp_path, helpers="")) == ["helpers has no floor: put it into FLOORS"]


def test_the_version_may_be_read_from_anywhere(tmp_path):
    assert faults(tree(tmp_path, cli="from . import __version__")) == []
    assert len(faults(tree(tmp_path, cli="from . import Sloth"))) == 1


def test_the_shim_stands_alone(tmp_path):
    assert len(faults(tree(tmp_path, shim="from .errors import SlothError", errors=""))) == 1
