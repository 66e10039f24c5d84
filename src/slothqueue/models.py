"""The values that travel between the floors: what a job is, how an attempt ends, what follows."""

from __future__ import annotations

from typing import Any, NamedTuple

from .clock import Millis
from .timing import back_off, spoken

# The states as the store keeps them. A job is running while it has a row in `running`; its own row
# says queued until it ends.
QUEUED, RUNNING, DONE, FAILED, CANCELLED = range(5)
STATES = ("queued", "running", "done", "failed", "cancelled")
COUNTED = ("queued", "scheduled", "running", "done", "failed", "cancelled")
"""What is counted: the states, and of the queued jobs those that are for later."""
ENDED = frozenset({"done", "failed", "cancelled"})

# What a job is made of.
PAYLOAD, COMMAND, TASK = range(3)

REASONS = {
    "restarted": "the machine restarted",
    "gone": "its process is gone",
    "silent": "its lease ran out without a heartbeat",
}
"""Why a job may be taken back from its holder, in the order in which it is looked at."""


class Policy(NamedTuple):
    """What a queue says about the attempts of its jobs."""

    max_attempts: int = 4
    base: float = 2.0
    cap: Millis = 3_600_000
    lease: Millis | None = None


class Ending(NamedTuple):
    """How one attempt ended, by the word of whoever ran it.

    `kind` is complete, fail, retry, discard, snooze, release, or reclaim. `result` is JSON text.
    """

    kind: str
    result: str | None = None
    message: str | None = None
    error: str | None = None
    delay: Millis | None = None
    reason: str | None = None


class Verdict(NamedTuple):
    """What becomes of the job: its next state, when it is due again, and what history tells.

    `spent` says whether this attempt counts on the budget; a `delay` of None keeps the job's place
    among those that are due. `events` are (kind, reason, detail).
    """

    state: int
    spent: bool
    delay: Millis | None = None
    events: tuple[tuple[str, str | None, str | None], ...] = ()


def verdict(ending: Ending, attempt: int, policy: Policy) -> Verdict:
    """Decide what follows from the end of an attempt. No clock, no store."""
    kind, error = ending.kind, ending.error
    if kind == "complete":
        return Verdict(DONE, spent=True)
    if kind == "release":
        return Verdict(QUEUED, spent=False, events=(("released", ending.reason, error),))
    if kind == "snooze":
        return Verdict(QUEUED, False, ending.delay or 0, (("snoozed", ending.reason, error),))
    if kind == "discard":
        return Verdict(FAILED, spent=True, events=(("failed", "discarded", error),))
    reclaimed = kind == "reclaim"
    reason = ending.reason or (error or "").partition("\n")[0] or None
    first = ("reclaimed" if reclaimed else "failed_attempt", reason, error)
    if attempt >= policy.max_attempts:
        last = ("failed", _spent(policy.max_attempts), error)
        return Verdict(FAILED, spent=True, events=(first, last))
    if reclaimed:  # the budget ends a crash loop, so nobody has to wait
        return Verdict(QUEUED, spent=True, events=(first,))
    delay = ending.delay
    if delay is None:
        delay = back_off(attempt, base=policy.base, cap=policy.cap)
    return Verdict(QUEUED, True, delay, (first, ("retried", f"again in {spoken(delay)}", None)))


def _spent(budget: int) -> str:
    return "its only attempt is spent" if budget == 1 else f"all {budget} attempts are spent"


class NewJob(NamedTuple):
    """A job to be written. `due` is the moment it may start; `relative` says it was a delay."""

    lane: int
    priority: int
    due: Millis
    relative: bool
    max_attempts: int | None
    timeout: Millis | None
    payload: str


class Event(NamedTuple):
    """One thing that happened to a job. `at` is an aware datetime in UTC.

    Kinds: enqueued, claimed, completed, failed_attempt, retried, reclaimed, snoozed, released,
    failed, cancelled, revived, held, unheld, progress.
    """

    n: int
    kind: str
    at: Any
    attempt: int | None = None
    worker: str | None = None
    reason: str | None = None
    detail: str | None = None
