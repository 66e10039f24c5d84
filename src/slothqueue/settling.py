"""Carries out the end of an attempt: judged by a pure rule, written under the lease's fence."""

from __future__ import annotations

from typing import NamedTuple

from .clock import Clock, Millis
from .models import ASKED, CANCELLED, DONE, Ending, Policy, Verdict, Wishes, verdict
from .storage.base import Held, Settlement, Standing, Store, Tx


def base(clock: Clock) -> Millis:
    """Wall minus elapsed time: falls when the wall clock is set back, whatever else happens."""
    return clock.wall() - clock.elapsed()


NOTICED: Millis = 100
"""Smaller steps of the wall clock are corrections, which nobody has to notice."""


def note_base(store: Store, tx: Tx, asked: Millis) -> None:
    """Note under what clock a delay is asked for, so that everybody can tell when the clock falls.

    The note is never lower than what any waiting delay was asked under; only the rota lowers it,
    once it has moved those delays.
    """
    noted = store.names.meta(tx, "base")
    if noted is None or asked > int(noted):
        store.names.set_meta(tx, "base", str(asked))


class Settled(NamedTuple):
    """What the end of an attempt came to: the state of the job, and the wait if it comes again."""

    state: int
    delay: Millis | None
    max_attempts: int | None


_DONE = Settled(DONE, None, None)


def settle(store: Store, tx: Tx, held: Held, ending: Ending) -> bool:
    """End an attempt inside the caller's transaction; False if the lease was lost before."""
    return decide(store, tx, held, ending) is not None


def decide(store: Store, tx: Tx, held: Held, ending: Ending) -> Settled | None:
    """The same; tells what it came to, None if the lease was lost before."""
    now = store.clock.wall()
    if ending.kind == "complete":
        done = store.jobs.complete(tx, held, now, ending.result, ending.message)
        return _DONE if done else None
    job = store.jobs.standing(tx, held.id)
    if job is None:  # somebody deleted the job, so its lease leads nowhere
        store.jobs.forget(tx, held)
        return None
    policy = Policy(job.max_attempts, job.base, job.cap)
    judged = verdict(ending, held.attempt, policy, _wishes(store, tx, held.id, job, now))
    if judged.delay:
        note_base(store, tx, base(store.clock))
    if not store.jobs.settle(tx, _settlement(store, held, ending, judged, job.attempts, now)):
        return None
    return Settled(judged.state, judged.delay, job.max_attempts)


def _wishes(store: Store, tx: Tx, id: int, job: Standing, now: Millis) -> Wishes | None:
    """What was asked for this job, if anything was."""
    if not job.extras:
        return None
    asked = store.waits.cancel_asked(tx, id) if job.extras & ASKED else None
    expired = job.expires is not None and job.expires <= now
    return Wishes(job.on_interrupt or 0, None if asked is None else asked[0], expired)


def _settlement(
    store: Store, held: Held, ending: Ending, judged: Verdict, attempts: int, now: Millis
) -> Settlement:
    # A job that is only given back keeps its place among those that were due before.
    later = judged.delay is not None
    cancelled = judged.events[-1][1] if judged.state == CANCELLED else None
    return Settlement(
        held=held,
        state=judged.state,
        attempts=held.attempt if judged.spent else attempts,
        now=now,
        due=now + judged.delay if judged.delay is not None else None,
        base=base(store.clock) if later and judged.delay else None,
        result=ending.result,
        error=ending.error if judged.spent else None,
        message=cancelled or ending.message,
        events=judged.events,
        hold=judged.hold,
    )
