"""Killed before and after every statement, and nothing is lost, doubled or stuck."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from . import scenarios_waits as waits
from .scenarios import __name__ as PROGRAMS
from .support import ROOT
from .support_kills import SCENARIOS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks and kills")

WORKERS = {"work_in_threads": 3, "work_in_children": 7, "work_on_commands": 7}
"""Programs of many statements, and at every which of them they are killed in the default run."""

WAITS = [name for name, one in SCENARIOS.items() if one.act.__module__ == waits.__name__]
EVERY_FIFTH = 5
"""Programs of a hundred statements each: all of them are taken at night."""

WRONG = ("effect_apart",)
BY_HAND = [name for name in SCENARIOS if name not in (*WORKERS, *WRONG, *WAITS)]


def start(name: str, when: str, step: int, folder: Path) -> subprocess.Popen[str]:
    paths = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    return subprocess.Popen(
        [sys.executable, "-m", PROGRAMS, name, when, str(step), str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    )


def kill_everywhere(name: str, folder: Path, step: int = 1, seconds: float = 100) -> list[str]:
    """Both series side by side; what they complained of."""
    running = {when: start(name, when, step, folder) for when in ("before", "after")}
    try:
        told: dict[str, Any] = {
            when: json.loads(process.communicate(timeout=seconds)[0] or "null")
            for when, process in running.items()
        }
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    print(name, told)
    assert all(told.values()), "it ended without a report"
    assert all(series["kills"] > 0 for series in told.values()), told
    return [failure for series in told.values() for failure in series["failures"]]


def unharmed(failures: list[str]) -> None:
    assert not failures, "\n".join(failures)


def test_a_program_that_can_do_a_thing_twice_is_found_out(tmp_path: Path):
    found = "".join(kill_everywhere("effect_apart", tmp_path))
    assert "twice" in found


@pytest.mark.parametrize("name", BY_HAND)
def test_a_program_may_be_killed_at_every_statement(name: str, tmp_path: Path):
    unharmed(kill_everywhere(name, tmp_path))


@pytest.mark.parametrize("name", WAITS)
def test_a_program_about_waiting_may_be_killed_at_any_statement(name: str, tmp_path: Path):
    unharmed(kill_everywhere(name, tmp_path, step=EVERY_FIFTH))


@pytest.mark.night(reason="several processes for each of two thousand statements")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", WAITS)
def test_a_program_about_waiting_may_be_killed_at_every_statement(name: str, tmp_path: Path):
    unharmed(kill_everywhere(name, tmp_path, seconds=1100))


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_may_be_killed_at_any_statement(name: str, tmp_path: Path):
    unharmed(kill_everywhere(name, tmp_path, step=WORKERS[name]))


@pytest.mark.slow(reason="several processes for each of a hundred statements")
@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_may_be_killed_at_every_statement(name: str, tmp_path: Path):
    unharmed(kill_everywhere(name, tmp_path, seconds=500))
