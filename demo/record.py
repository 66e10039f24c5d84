"""The demo's own record of what ran when, beside the queue's: one file to which everybody appends.

A line is `begin NAME TOKEN PID PARENT` or `end NAME TOKEN`. Each is one write with O_APPEND, so
the order of the lines is the order of what happened, and a job that runs twice, or in two places
at once, shows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from slothqueue import current_job


class Run(NamedTuple):
    """One execution of a job: where its first and its last line stand in the record."""

    name: str
    token: str
    pid: int
    parent: int
    begun: int
    ended: int | None = None

    @property
    def attempt(self) -> int:
        return int(self.token.rpartition(":")[2])


@contextmanager
def running(name: str) -> Iterator[None]:
    """Record the execution of a function."""
    token = current_job().token
    append(f"begin {name} {token} {os.getpid()} {os.getppid()}\n")
    yield
    append(f"end {name} {token}\n")


def append(line: str) -> None:
    record = os.open(os.environ["DEMO_RECORD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(record, line.encode())
    finally:
        os.close(record)


def read(path: Path) -> dict[str, list[Run]]:
    """Every execution so far, by the name of its job, in the order in which they began."""
    runs: dict[str, list[Run]] = {}
    text = path.read_text() if path.exists() else ""
    for number, line in enumerate(text.splitlines()):
        verb, name, token, *who = line.split()
        if verb == "begin":
            runs.setdefault(name, []).append(Run(name, token, int(who[0]), int(who[1]), number))
        else:
            runs[name] = [_ended(run, token, number) for run in runs[name]]
    return runs


def _ended(run: Run, token: str, number: int) -> Run:
    return run._replace(ended=number) if run.token == token and run.ended is None else run
