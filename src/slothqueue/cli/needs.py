"""Who has to be there for a queued job to start, when nobody of that kind is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .. import crew as crews
from ..crew import BY_HAND, Crew, Need, Server
from ..models import COMMAND, KINDS, PAYLOAD

if TYPE_CHECKING:
    from ..client import Sloth
    from ..handles import Job
    from ..lanes import Lane
    from .session import Session

__all__ = ["Crew", "Need", "Server", "Stuck", "crew", "need", "need_of", "say_if_stuck", "stuck"]

MANY = "a program that claims them by hand"

need = crews.need_of
"""What a command, or a call of a task, of this queue waits for with only these workers there."""


class Stuck(NamedTuple):
    """So many queued jobs of a kind that nobody takes."""

    number: int
    what: str
    need: Need

    def told(self, session: Session) -> str:
        """One line, with the way out if it is a command of ours."""
        one = self.number == 1
        who = MANY if self.need.start is None and not one else self.need.who
        line = f"{self.number} {self.what}{'' if one else 's'} wait{'s' if one else ''} for {who}"
        return line if self.need.start is None else f"{line}: {session.command(self.need.start)}"


def crew(sloth: Sloth, *, others: bool = False) -> Crew:
    """Who is alive; with `others` without ourselves."""
    return crews.crew(sloth.store, sloth.presence, sloth.store.live, others=others)


def need_of(sloth: Sloth, job: Job) -> Need | None:
    """What this queued job waits for; None if somebody who takes it is there."""
    return crews.need(crew(sloth), job.queue, KINDS.index(job.kind), job.task)


def stuck(sloth: Sloth, servers: Sequence[Server], *, by_hand: bool) -> list[Stuck]:
    """All queued jobs that nobody of these takes, by what they wait for."""
    found: dict[tuple[str, Need], int] = {}
    for lane, number in _waiting(sloth):
        if (what := _lack(servers, lane, by_hand)) is not None:
            found[what] = found.get(what, 0) + number
    return [Stuck(number, what, need) for (what, need), number in found.items()]


def _lack(servers: Sequence[Server], lane: Lane, by_hand: bool) -> tuple[str, Need] | None:
    if lane.kind == PAYLOAD:
        return None if by_hand else ("payload", BY_HAND)
    task = None if lane.kind == COMMAND else lane.task
    lacking = need(servers, lane.queue, task)
    return lacking and ("command" if task is None else "function", lacking)


def _waiting(sloth: Sloth) -> Iterable[tuple[Lane, int]]:
    """How many jobs of each lane are queued, of those that have any."""
    jobs, lanes, now = sloth.store.jobs, sloth.verbs.lanes, sloth.clock.wall()
    seen = sloth.store.read(
        lambda tx: [(lane, sum(jobs.waiting(tx, lane.id, now))) for lane in lanes.all(tx)]
    )
    return [(lane, number) for lane, number in seen if number]


def say_if_stuck(session: Session, job: Job, so: str) -> bool:
    """Tell on stderr that a queued job has nobody to start it; `so` says what follows."""
    lacking = need_of(session.store(), job) if job.state == "queued" else None
    if lacking is None:
        return False
    if lacking.start is None:
        session.note(f"job {job.id} waits for {lacking.who}")
    else:
        session.note(f"{lacking.nobody}, so {so}: {session.command(lacking.start)}")
    return True
