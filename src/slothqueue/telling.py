"""What a worker says of its attempts, in the words of those who read it."""

from __future__ import annotations

from .clock import Millis
from .models import CANCELLED, FAILED, Ending
from .settling import Settled
from .steps import Ended
from .timing import spoken


def outcome(one: Ended, became: Settled | None) -> str:
    """How an attempt ended, and what follows from it."""
    held, ending = one
    what = _how(ending, became, held.attempt)
    return f"job {held.id} attempt {held.attempt}: {what}"


def _how(ending: Ending, became: Settled | None, attempt: int) -> str:
    why = (ending.reason if ending.kind == "release" else None) or _first_line(ending)
    if became is None:
        return _with("was settled by another worker", why)
    if ending.kind == "complete":
        return _with("done", why)
    if became.state == CANCELLED:
        return _with("cancelled", why)
    if ending.kind == "release":
        return _with("given back", why)
    if ending.kind == "snooze":
        return f"snoozed: again in {spoken(became.delay or 0)}"
    if became.state == FAILED:
        return f"{_with('failed for good', why)} {_count(attempt, became)}"
    if ending.kind == "reclaim":
        return f"{_with('re-issued', why)} {_count(attempt, became)}"
    return f"{_with('failed', why)}; again in {spoken(became.delay or 0)} {_count(attempt, became)}"


def _first_line(ending: Ending) -> str:
    return (ending.error or ending.message or "").partition("\n")[0]


def _with(word: str, why: str) -> str:
    return f"{word}: {why}" if why else word


def _count(attempt: int, became: Settled) -> str:
    return f"(attempt {attempt} of {became.max_attempts})"


def stopping(running: int, grace: Millis) -> str:
    """What is said when a worker is told to stop."""
    if not running:
        return "stopping"
    jobs = "1 job is running" if running == 1 else f"{running} jobs are running"
    if not grace:
        return f"stopping: {jobs}, and given back at once"
    return f"stopping: {jobs}, for up to {spoken(grace)}; stop again to hurry"


def count(number: int, what: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
