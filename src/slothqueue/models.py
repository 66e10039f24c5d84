"""The values that travel between the floors: what a job is, how an attempt ends, what follows."""

from __future__ import annotations

from typing import Any, NamedTuple

from .clock import Millis
from .timing import back_off, spoken

# The states as the store keeps them. A job is running while it has a row in `running`; its own row
# says queued until it ends.
QUEUED, RUNNING, DONE, FAILED, CANCELLED = range(5)
STATES = ("queued", "running", "done", "failed", "cancelled")
COUNTED = (
    "queued",
    "scheduled",
    "blocked",
    "held",
    "running",
    "done",
    "failed",
    "cancelled",
)
"""What is counted: the states, and of the queued jobs those that are for later, that wait for other
jobs, and that are held."""
ENDED = frozenset({"done", "failed", "cancelled"})

# What a job is made of.
PAYLOAD, COMMAND, TASK = range(3)

# Why a queued job is filed nowhere: bits of `parked`.
HELD, BLOCKED, GATED_OUT = 1, 2, 4

# What is kept elsewhere about a job: bits of `extras`.
EXTRA, PARENT, ASKED, GATED, EXPIRES = 1, 2, 4, 8, 16

ON_INTERRUPT = ("retry", "hold", "fail")
AFTER_FAILED = ("cancel", "run")
A_WEEK: Millis = 7 * 86_400_000

REASONS = {
    "restarted": "the machine restarted",
    "gone": "its process is gone",
    "silent": "its lease ran out without a heartbeat",
}
"""Why a job may be taken back from its holder, in the order in which it is looked at."""


class Policy(NamedTuple):
    """What a queue says about its jobs: their attempts, and how many start and run at once.

    `rate` starts in `per` ms; `ageing` ms of waiting are worth one step of priority; jobs that are
    done or cancelled are kept for `keep` ms.
    """

    max_attempts: int = 4
    base: float = 2.0
    cap: Millis = 3_600_000
    lease: Millis | None = None
    concurrency: int | None = None
    rate: int | None = None
    per: Millis | None = None
    ageing: Millis | None = None
    keep: Millis | None = A_WEEK


class Ending(NamedTuple):
    """How one attempt ended, by the word of whoever ran it.

    `kind` is complete, fail, retry, discard, snooze, release, or reclaim. `result` is JSON text. An
    attempt of a job that somebody wants cancelled is the last, however it ends.
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
    hold: str | None = None
    """Why it is held from now on, if it is."""


class Wishes(NamedTuple):
    """What was asked for one job that matters when an attempt of it ends."""

    on_interrupt: int = 0
    cancelled: str | None = None
    """If somebody wants it cancelled, `by` whom."""
    expired: bool = False
    """Whether it must not start any more."""


def verdict(ending: Ending, attempt: int, policy: Policy, wishes: Wishes | None = None) -> Verdict:
    """Decide what follows from the end of an attempt. No clock, no store."""
    judged = _verdict(ending, attempt, policy)
    if wishes is None or judged.state == DONE:
        return judged
    if wishes.cancelled is not None:  # the detail tells how it ended: a receipt names who was hit
        return Verdict(CANCELLED, True, None, (("cancelled", wishes.cancelled, ending.error),))
    if judged.state == QUEUED and wishes.on_interrupt and _was_interrupted(ending):
        judged = _interrupted(ending, judged, ON_INTERRUPT[wishes.on_interrupt])
    if judged.state == QUEUED and wishes.expired:
        return Verdict(CANCELLED, judged.spent, None, (*judged.events, EXPIRED))
    return judged


EXPIRED = ("cancelled", "it expired before it could start", None)
INTERRUPTED = "it was interrupted"


def _was_interrupted(ending: Ending) -> bool:
    """Whether its process died without an answer."""
    return ending.kind == "reclaim" and ending.reason in ("gone", "restarted", "copied")


def _interrupted(ending: Ending, judged: Verdict, wish: str) -> Verdict:
    if wish == "fail":
        failed = ("failed", INTERRUPTED, ending.error)
        return Verdict(FAILED, True, None, (*judged.events, failed))
    held = ("held", INTERRUPTED, None)
    return Verdict(QUEUED, True, None, (*judged.events, held), hold=INTERRUPTED)


def _verdict(ending: Ending, attempt: int, policy: Policy) -> Verdict:
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


class Extra(NamedTuple):
    """What few jobs have. `gate` is the name of a concurrency key, of whose jobs so many run at
    once; `after` are the ids of parents."""

    expires: Millis | None = None
    base: Millis | None = None
    on_interrupt: int = 0
    after_failed: int = 0
    takes: int = 0
    gate: str | None = None
    gate_limit: int | None = None
    held: str | None = None
    """By whom."""
    after: tuple[int, ...] = ()


class NewJob(NamedTuple):
    """A job to be written. `due` is the moment it may start; `relative` says it was a delay."""

    lane: int
    priority: int
    due: Millis
    relative: bool
    max_attempts: int | None
    timeout: Millis | None
    payload: str
    key: str | None = None
    env: str | None = None
    """The environment of a command, JSON text."""
    extra: Extra | None = None

    @property
    def timed(self) -> bool:
        """Whether something of it was asked for as a duration, which must not grow."""
        return self.relative or (self.extra is not None and self.extra.base is not None)


class Room(NamedTuple):
    """How many more jobs of a queue may start: by its `concurrency`, by its `rate`, None where
    there is no such limit. `again` is when the rate allows the next, if it does not now."""

    running: int | None = None
    starts: int | None = None
    again: Millis | None = None

    def least(self, wanted: int) -> int:
        """So many of those that are wanted."""
        return max(0, min([wanted, *(n for n in (self.running, self.starts) if n is not None)]))


class Event(NamedTuple):
    """One thing that happened to a job. `at` is an aware datetime in UTC.

    Kinds: enqueued, claimed, completed, failed_attempt, retried, reclaimed, snoozed, released,
    failed, cancelled, revived, held, unheld, edited, progress.
    """

    n: int
    kind: str
    at: Any
    attempt: int | None = None
    worker: str | None = None
    reason: str | None = None
    detail: str | None = None
