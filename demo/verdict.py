"""The verdict on the demo, from the files themselves: outputs, the record of runs, the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from accidents import Deed
from record import Run
from screen import table
from work import Piece

from slothqueue import Event, Job


class Again(NamedTuple):
    """One re-issue: which job, why, after what deed, and how long it took."""

    name: str
    attempt: int
    why: str
    cause: Deed | None
    noticed: float
    claimed: float | None


def wrong_outputs(pieces: Iterable[Piece]) -> list[str]:
    """Every output is read and compared with what its source says it should be."""
    return [fault for piece in pieces if (fault := _wrong(piece))]


def _wrong(piece: Piece) -> str | None:
    if not piece.output.is_file():
        return f"{piece.name}: its output is missing"
    try:
        right = piece.right(piece.output.read_bytes(), piece.source.read_bytes())
    except (ValueError, OSError, IndexError, EOFError) as error:
        return f"{piece.name}: its output cannot be read: {error}"
    return None if right else f"{piece.name}: its output is wrong"


def wrong_ends(jobs: dict[str, Job]) -> list[str]:
    """Every job is done."""
    return [
        f"{name}: job {job.id} is {job.state}: {job.error}"
        for name, job in jobs.items()
        if job.state != "done"
    ]


def wrong_runs(name: str, runs: list[Run], events: list[Event]) -> list[str]:
    """A job runs once; again only after it was taken back, and never in two places at once."""
    taken_back = {event.attempt for event in events if event.kind == "reclaimed"}
    faults = [
        f"{name}: attempt {run.attempt} ran, and neither ended the job nor was it taken back"
        for run in runs[:-1]
        if run.attempt not in taken_back
    ]
    if len({run.token for run in runs}) < len(runs):
        faults.append(f"{name}: one attempt ran twice")
    for run, following in pairwise(runs):
        if run.ended is not None and run.ended > following.begun:
            faults.append(f"{name}: attempts {run.attempt} and {following.attempt} overlap")
    if not runs or runs[-1].ended is None:
        faults.append(f"{name}: its last run has no end in the record")
    elif runs[-1].attempt in taken_back:
        faults.append(f"{name}: attempt {runs[-1].attempt} was taken back and nothing ran after it")
    completed = [event.attempt for event in events if event.kind == "completed"]
    if runs and completed != [runs[-1].attempt]:
        faults.append(f"{name}: completed by attempts {completed}, ran last in {runs[-1].attempt}")
    return faults


def agains(histories: dict[str, list[Event]], deeds: list[Deed]) -> list[Again]:
    """Every re-issue there was, in the order of time."""
    found = [
        _again(name, event, events, deeds)
        for name, events in histories.items()
        for event in events
        if event.kind == "reclaimed"
    ]
    return sorted(found, key=lambda again: (again.cause.at if again.cause else 0, again.name))


def _again(name: str, event: Event, events: list[Event], deeds: list[Deed]) -> Again:
    at, attempt = event.at.timestamp(), event.attempt or 0
    # The history counts in whole milliseconds.
    cause = max((d for d in deeds if d.at <= at + 0.001), key=lambda d: d.at, default=None)
    began = cause.at if cause else at
    later = [e.at.timestamp() for e in events if e.kind == "claimed" and (e.attempt or 0) > attempt]
    claimed = max(min(later) - began, 0.0) if later else None
    return Again(name, attempt, event.reason or "?", cause, max(at - began, 0.0), claimed)


def wrong_deeds(deeds: list[Deed], found: list[Again]) -> list[str]:
    """Whoever was killed was noticed for the true reason; whoever was only slow lost nothing."""
    why = {(again.name, again.attempt): again.why for again in found}
    faults = [
        f"{name}: its process was killed in attempt {attempt}, and its history does not say so"
        for deed in deeds
        for name, attempt in deed.lost.items()
        if why.get((name, attempt)) != "gone"
    ]
    faults += [
        f"{name}: attempt {attempt} was taken away from a process that lived"
        for deed in deeds
        for name, attempt in deed.kept.items()
        if (name, attempt) in why
    ]
    faults += [f"{a.name}: re-issued although nobody was killed" for a in found if a.cause is None]
    faults += [f"{a.name}: re-issued because {a.why}" for a in found if a.why != "gone"]
    faults += [f"{a.name}: never claimed again" for a in found if a.claimed is None]
    return faults


def wrong_store(path: Path) -> list[str]:
    """SQLite's own check of the whole file."""
    connection = sqlite3.connect(path)
    try:
        told = [row[0] for row in connection.execute("pragma integrity_check").fetchall()]
    finally:
        connection.close()
    return [] if told == ["ok"] else [f"the store fails its check: {line}" for line in told]


def told(found: list[Again], runs: dict[str, list[Run]]) -> str:
    """The re-issues as a table. A job that had only just been claimed had not begun to run."""
    begun = {(name, run.attempt) for name, each in runs.items() for run in each}
    head = ["what happened", "job", "reason", "noticed after", "claimed again after"]
    rows = [
        [
            again.cause.what if again.cause else "?",
            again.name if (again.name, again.attempt) in begun else f"{again.name} (not begun)",
            again.why,
            milliseconds(again.noticed),
            "never" if again.claimed is None else milliseconds(again.claimed),
        ]
        for again in found
    ]
    return table([head, *rows])


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
