"""Deliberate faults in the rules of pauses, limits, concurrency keys, ageing, and in `why()`."""

from __future__ import annotations

from typing import Any

from slothqueue import why
from slothqueue.models import Room
from slothqueue.storage import sqlite_jobs
from slothqueue.storage.sqlite_claims import SqliteClaims
from slothqueue.storage.sqlite_jobs import SqliteJobs
from slothqueue.storage.sqlite_waits import SqliteWaits

from .faults import FAULTS, Patch, fault, replace

__all__ = ["FAULTS"]

# ---- pause ----------------------------------------------------------------------------------


@fault("a paused queue claims")
def _(patch: Patch) -> None:
    replace(patch, "heads", "q.paused is null and", "")
    replace(patch, "level_heads", "q.paused is null and", "")


@fault("a queue is never resumed")
def _(patch: Patch) -> None:
    replace(patch, "pause_queue", "set paused = ?2", "set paused = coalesce(?2, paused)")


# ---- limits of queues -----------------------------------------------------------------------


@fault("one too many of a queue runs at once")
def _(patch: Patch) -> None:
    replace(patch, "room", "select q.concurrency -", "select q.concurrency + 1 -")


@fault("one too few of a queue runs at once")
def _(patch: Patch) -> None:
    replace(patch, "room", "select q.concurrency -", "select q.concurrency - 1 -")


@fault("a slot that is free is not counted")
def _(patch: Patch) -> None:
    replace(patch, "room", "select count(*) from _sloth_running r", _EVER_RUN)


_EVER_RUN = """select count(*) from
    (select id, lane from _sloth_job where state = 0 and attempts > 0
     union select id, lane from _sloth_running) r"""


@fault("one claim takes more than there is room for")
def _(patch: Patch) -> None:
    patch.setattr(Room, "least", _any_room)


def _any_room(self: Any, wanted: int) -> int:
    return wanted if all(n is None or n > 0 for n in (self.running, self.starts)) else 0


@fault("the rate allows one more")
def _(patch: Patch) -> None:
    replace(patch, "room", "q.rate - (", "q.rate + 1 - (")


@fault("a start counts a moment too long")
def _(patch: Patch) -> None:
    replace(patch, "room", "s.at > ?2 - q.per", "s.at >= ?2 - q.per")
    replace(patch, "drop_starts", "at <= ?2", "at < ?2")


@fault("the rate counts from the edges of windows")
def _(patch: Patch) -> None:
    replace(patch, "room", "s.at > ?2 - q.per", "s.at >= ?2 - ?2 % q.per")


@fault("only jobs that still run count as starts")
def _(patch: Patch) -> None:
    running = "s.queue = q.id and s.job in (select id from _sloth_running) and"
    replace(patch, "room", "s.queue = q.id and", running)


@fault("starts of the future count when the clock is set back")
def _(patch: Patch) -> None:
    replace(patch, "starts_ahead", "s.at > ?1", "s.at > ?1 + 86400000")
    replace(patch, "future_starts", "at > ?1", "at > ?1 + 86400000")


# ---- concurrency keys -----------------------------------------------------------------------


@fault("a concurrency key is ignored")
def _(patch: Patch) -> None:
    replace(patch, "gate_running", "x.gate = ?1", "x.gate = ?1 and x.gate is null")


@fault("one too many of a key runs")
def _(patch: Patch) -> None:
    replace(patch, "gate_running", "limit ?2", "limit ?2 offset 1")


@fault("a key counts over all queues")
def _(patch: Patch) -> None:
    replace(patch, "gate_running", "x.gate = ?1", _SAME_NAME)


_SAME_NAME = "substr(x.gate, instr(x.gate, char(10))) = substr(?1, instr(?1, char(10)))"


@fault("one claim takes all of a key")
def _(patch: Patch) -> None:
    right: Any = SqliteWaits.passes
    patch.setattr(SqliteWaits, "passes", lambda self, *given: right(self, *given[:-1], {}))


@fault("nobody is admitted when one of a key has ended")
def _(patch: Patch) -> None:
    patch.setattr(SqliteWaits, "_leave", _without_admission(SqliteWaits._leave))


@fault("nobody is admitted when one of a key comes again")
def _(patch: Patch) -> None:
    patch.setattr(SqliteJobs, "_put_back", _without_admission(SqliteJobs._put_back))


@fault("nobody is admitted when the holder of a key dies")
def _(patch: Patch) -> None:
    right, wrong = SqliteJobs._put_back, _without_admission(SqliteJobs._put_back)

    def at_a_death(self: Any, tx: Any, s: Any, *more: Any) -> None:
        (wrong if s.events[0][0] == "reclaimed" else right)(self, tx, s, *more)

    patch.setattr(SqliteJobs, "_put_back", at_a_death)


@fault("nobody is admitted when the next of a key goes away")
def _(patch: Patch) -> None:
    patch.setattr(SqliteWaits, "_unfile", _without_admission(SqliteWaits._unfile))


def _without_admission(right: Any) -> Any:
    def wrong(self: Any, *given: Any) -> Any:
        waits = getattr(self, "waits", self)
        waits.admit = lambda tx, gate: None
        try:
            return right(self, *given)
        finally:
            del waits.admit

    return wrong


@fault("the wrong one of a key is admitted")
def _(patch: Patch) -> None:
    replace(
        patch, "next_gated", "priority, due, id limit", "priority desc, due desc, id desc limit"
    )


# ---- ageing ---------------------------------------------------------------------------------


@fault("ageing is ignored")
def _(patch: Patch) -> None:
    replace(patch, "heads", "q.ageing", "null")
    replace(patch, "level_heads", "q.ageing", "null")


@fault("ageing counts double")
def _(patch: Patch) -> None:
    replace(patch, "heads", "q.ageing", "q.ageing / 2")
    replace(patch, "level_heads", "q.ageing", "q.ageing / 2")


@fault("ageing looks at one priority only")
def _(patch: Patch) -> None:
    patch.setattr(SqliteClaims, "_aged", SqliteClaims._heads)


# ---- why ------------------------------------------------------------------------------------


@fault("why() says that a job is due later which is due")
def _(patch: Patch) -> None:
    patch.setattr(why, "_is_later", lambda jobs, tx, job, now: job.due > now and not job.parked)


@fault("why() looks at priority before a hold")
def _(patch: Patch) -> None:
    patch.setattr(why, "HELD", 0)


@fault("why() forgets the limits")
def _(patch: Patch) -> None:
    patch.setattr(why, "_limits", lambda facts, now: None)


@fault("why() names parents that have ended")
def _(patch: Patch) -> None:
    replace(patch, "pending_parents", "e.ended = 0", "e.ended >= 0")


@fault("stats() takes those that wait for others for scheduled ones")
def _(patch: Patch) -> None:
    replace(patch, "count_parked", "parked & 2 > 0", "parked & 2 > 9")


@fault("a word of progress replaces the claim")
def _(patch: Patch) -> None:
    patch.setattr(sqlite_jobs, "OPEN", ("claimed",))
