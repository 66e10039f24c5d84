"""The demo: it comes to its end, and its verdict sees what it should see."""

from __future__ import annotations

import datetime as dt
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from slothqueue import Event

DEMO = Path(__file__).resolve().parents[2] / "demo"
START = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def verdict(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module that judges. The demo's modules are scripts beside each other, not a package."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(DEMO))
    yield importlib.import_module("verdict")
    for name in set(sys.modules) - before:
        if str(DEMO) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def run(attempt: int, begun: int, ended: int | None = None) -> Any:
    made = importlib.import_module("record").Run
    return made("job", f"store:7:{attempt}", 100 + attempt, 1, begun, ended)


def story(*told: tuple[str, int], reason: str = "gone") -> list[Event]:
    """A history with a tenth of a second between its events."""
    return [
        Event(n, kind, START + n * dt.timedelta(seconds=0.1), attempt, "host:1", reason)
        for n, (kind, attempt) in enumerate(told, start=1)
    ]


def deed(at: float, **hit: dict[str, int]) -> Any:
    made = importlib.import_module("accidents").Deed
    return made(START.timestamp() + at, "killed", hit.get("lost", {}), hit.get("kept", {}))


ONCE = (("claimed", 1), ("completed", 1))
TWICE = (("claimed", 1), ("reclaimed", 1), ("claimed", 2), ("completed", 2))


@pytest.mark.slow(reason="some dozen processes work for several seconds, and some are killed")
def test_the_demo_finds_nothing_lost_and_nothing_doubled(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, str(DEMO / "main.py"), "--small"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "All is right" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_job_that_ran_once_is_right(verdict: ModuleType):
    assert verdict.wrong_runs("job", [run(1, 0, 1)], story(*ONCE)) == []


def test_a_job_that_was_taken_back_may_run_again(verdict: ModuleType):
    assert verdict.wrong_runs("job", [run(1, 0), run(2, 1, 2)], story(*TWICE)) == []


@pytest.mark.parametrize(
    ("runs", "told", "word"),
    [
        ([(1, 0, 1), (2, 2, 3)], ONCE, "neither ended the job nor was it taken back"),
        ([(1, 0, 1), (1, 2, 3)], ONCE, "one attempt ran twice"),
        ([(1, 0, 3), (2, 1, 2)], TWICE, "overlap"),
        ([(1, 0, None)], ONCE, "no end"),
        ([], ONCE, "no end"),
        ([(1, 0, 1)], TWICE, "nothing ran after it"),
        ([(1, 0, 1)], (("claimed", 1),), "completed by"),
    ],
)
def test_a_run_too_many_or_too_few_is_seen(
    verdict: ModuleType, runs: list[Any], told: Any, word: str
):
    faults = verdict.wrong_runs("job", [run(*each) for each in runs], story(*told))
    assert word in " ".join(faults)


def test_a_reissue_is_told_with_its_cause_and_its_times(verdict: ModuleType):
    (again,) = verdict.agains({"job": story(*TWICE)}, [deed(0.15, lost={"job": 1})])
    assert (again.why, verdict.milliseconds(again.noticed)) == ("gone", "50 ms")
    assert verdict.milliseconds(again.claimed) == "150 ms"


def test_a_kill_without_consequence_is_seen(verdict: ModuleType):
    assert verdict.wrong_deeds([deed(0.15, lost={"job": 1})], []) != []


@pytest.mark.parametrize(
    ("reason", "hit"),
    [("silent", {"lost": {"job": 1}}), ("gone", {"kept": {"job": 1}})],
)
def test_a_job_taken_from_somebody_who_lived_is_seen(
    verdict: ModuleType, reason: str, hit: dict[str, dict[str, int]]
):
    deeds = [deed(0.15, **hit)]
    again = verdict.agains({"job": story(*TWICE, reason=reason)}, deeds)
    assert verdict.wrong_deeds(deeds, again) != []


def test_a_wrong_and_a_missing_output_are_seen(verdict: ModuleType, tmp_path: Path):
    work = importlib.import_module("work")
    source, output = tmp_path / "source", tmp_path / "output"
    source.write_bytes(b"one two\nthree\n")
    for kind, wrong in (("wc", b"3 source"), ("count", b"2 4 14"), ("gzip", b"?"), ("wc", None)):
        right = (work.COMMANDS.get(kind) or (0, work.FUNCTIONS.get(kind)))[1]
        output.unlink(missing_ok=True)
        if wrong is not None:
            output.write_bytes(wrong)
        assert verdict.wrong_outputs([work.Piece("job", kind, source, output, right)]) != []
