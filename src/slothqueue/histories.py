"""The history of a job: what its record tells, and the events that were written out."""

from __future__ import annotations

from collections.abc import Sequence

from .clock import Millis
from .models import DONE, RUNNING, Event
from .storage.base import Row
from .timing import as_datetime


def timeline(record: Row, rows: Sequence[Row]) -> list[Event]:
    """One timeline from the packed record of a job and the events that were written out."""
    state, created, claimed, finished, attempts, message, worker = record[:7]
    running, running_since, running_by = record[7:]
    events = [Event(1, "enqueued", as_datetime(created))]
    events += [Event(row[0], row[1], as_datetime(row[2]), *row[3:]) for row in rows]
    if running is not None:
        state, attempts, claimed, worker = RUNNING, running, running_since, running_by
    told = events[-1].kind in ("claimed", "progress")  # else the latest claim is not written out
    if state in (RUNNING, DONE) and not told:
        events.append(_next(events, "claimed", claimed, attempts, worker))
    if state == DONE:
        events.append(_next(events, "completed", finished, attempts, worker, message))
    return events


def _next(
    events: list[Event], kind: str, at: Millis, attempt: int, worker: str, detail: str | None = None
) -> Event:
    return Event(events[-1].n + 1, kind, as_datetime(at), attempt, worker, None, detail)
