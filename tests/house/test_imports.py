"""Start-up time is a feature: `sloth add` loads nothing that is slow to load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .code import ROOT, nothing

SLOW_TO_LOAD = {
    "asyncio",
    "concurrent.futures",
    "ctypes",
    "dataclasses",
    "email",
    "importlib.metadata",
    "inspect",
    "logging",
    "multiprocessing",
    "subprocess",
    "urllib.request",
}

# Written to a file: what the command itself prints is its own affair.
PROGRAM = """
import sys
before = set(sys.modules)
try:
    from slothqueue.cli import main
    code = main(sys.argv[2:])
except SystemExit as end:
    code = end.code
loaded = sorted(set(sys.modules) - before)
import json
with open(sys.argv[1], "w") as file:
    json.dump([code, loaded], file)
"""


def loaded_by(folder: Path, *argv: str) -> set[str]:
    """The modules that a command loads beyond what Python itself has loaded."""
    report = folder / "loaded.json"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "SLOTH_AUTOSTART": "0"}
    done = subprocess.run(
        # Without site: what other people's .pth files load is not ours.
        [sys.executable, "-S", "-c", PROGRAM, str(report), *argv],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert report.exists(), f"{argv} did not run: {done.stderr}"
    code, loaded = json.loads(report.read_text(encoding="utf-8"))
    assert not code, f"{argv} ended with {code}: {done.stderr}"
    return set(loaded)


@pytest.mark.parametrize(
    "argv",
    [
        pytest.param(["--version"], id="version"),
        pytest.param(["add", "--db", "work.db", "--", "true"], id="add"),
    ],
)
def test_a_command_loads_nothing_slow(tmp_path: Path, argv: list[str]):
    nothing(sorted(loaded_by(tmp_path, *argv) & SLOW_TO_LOAD))


def test_the_version_is_told_without_opening_the_engine(tmp_path: Path):
    loaded = loaded_by(tmp_path, "--version")
    nothing(sorted(loaded & {"sqlite3", "json", "slothqueue.client", "slothqueue.worker"}))
