"""Time is an argument: clocks are read in one place, and the rules roll no dice."""

from __future__ import annotations

import ast
from pathlib import Path

from .code import Module, aliases, dotted, modules, nothing, where
from .test_floors import FLOORS, floor, tree

READS_A_CLOCK = {
    *(f"time.{name}" for name in ("time", "monotonic", "perf_counter", "clock_gettime")),
    *(f"time.{name}_ns" for name in ("time", "monotonic", "perf_counter", "clock_gettime")),
    *(f"time.{name}" for name in ("localtime", "gmtime", "ctime")),
    *(f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")),
    "datetime.date.today",
}

# Whoever reads a clock outside of clock.py, with the reason.
ALLOWED: dict[tuple[str, str], str] = {
    ("processes", "time.monotonic"): "bounds the killing, also in a shim",
    ("caps", "time.monotonic"): "spaces out the looks at a log, in a shim",
    ("papers", "time.monotonic"): "bounds the patience with a full disk, in a shim",
    ("shim", "time.monotonic"): "stands alone, and its process knows no other clock",
    (
        "storage.locking",
        "time.monotonic",
    ): "bounds the wait for a lock, in real time",
    ("storage.opening", "time.monotonic"): "spaces out the looks at the file, in real time",
    ("waiting", "time.monotonic"): "spaces out the looks at a file, in real time under any Clock",
}

# The floors of words and rules: no chance there either. clock.py alone looks at the machine.
PURE = FLOORS[0][1] | FLOORS[1][1]
ROLLS_DICE = {"random", "secrets", "uuid"}


def readings(package_modules: list[Module]) -> list[tuple[str, str, str]]:
    """Every mention of a clock outside of clock.py: module, clock, place."""
    found = []
    for module in package_modules:
        known = aliases(module.tree)
        for node in ast.walk(module.tree):
            if module.name == "clock" or not isinstance(node, ast.Name | ast.Attribute):
                continue
            name = dotted(node, known)
            if name in READS_A_CLOCK:
                found.append((module.name, name, where(module, node)))
    return found


def test_only_the_clock_reads_a_clock():
    nothing(
        f"{place} reads {name}: take the time as an argument or from a Clock"
        for module, name, place in readings(modules())
        if (module, name) not in ALLOWED
    )


def test_every_exception_is_needed_and_says_why():
    real = {(module, name) for module, name, _ in readings(modules())}
    nothing(sorted(set(ALLOWED) - real))
    nothing(pair for pair, reason in ALLOWED.items() if len(reason) < 15)


def test_words_and_rules_roll_no_dice():
    found = []
    for module in modules():
        if module.name not in PURE - {"shim"}:
            continue
        for known_as, name in aliases(module.tree).items():
            if name.partition(".")[0] in ROLLS_DICE or name == "os.urandom":
                found.append(f"{module.name} imports {name} as {known_as}")
    nothing(found)


def test_a_clock_under_another_name_is_seen(tmp_path: Path):
    found = readings(
        tree(
            tmp_path,
            jobs="import time as t\nlook = t.monotonic\nt.sleep(1)",
            tasks="from datetime import datetime\ndatetime.now()",
            worker="import datetime as dt\ndt.datetime.now(dt.timezone.utc)",
            client="from time import time_ns\ntime_ns()",
            clock="import time\ntime.time()",
        )
    )
    assert sorted((module, name) for module, name, _ in found) == [
        ("client", "time.time_ns"),
        ("jobs", "time.monotonic"),
        ("tasks", "datetime.datetime.now"),
        ("worker", "datetime.datetime.now"),
    ]


def test_the_exceptions_name_modules_on_the_map():
    assert [module for module, _ in ALLOWED if floor(module) is None] == []
