"""Who has to be there for a queued job to start, when nobody of that kind is."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..liveness import verdict
from ..models import COMMAND, PAYLOAD, TASK
from ..storage.base import Holder
from .facts import Working

if TYPE_CHECKING:
    from ..client import Sloth
    from ..handles import Job
    from ..lanes import Lane
    from .session import Session

ONE, MANY = "a program that claims it by hand", "a program that claims them by hand"


class Server(NamedTuple):
    """What a worker takes: jobs of these queues (None: of all), and of functions only these."""

    queues: Collection[str] | None
    tasks: Collection[str]

    def serves(self, queue: str) -> bool:
        return self.queues is None or queue in self.queues

    def takes(self, lane: Lane) -> bool:
        """As a worker does: commands, and the functions that it knows."""
        known = lane.kind == COMMAND or (lane.kind == TASK and lane.task in self.tasks)
        return known and self.serves(lane.queue)


class Crew(NamedTuple):
    """Who is alive, by the kernel's word: workers of ours, and whether anybody claims by hand."""

    workers: list[Working]
    by_hand: bool

    @property
    def servers(self) -> list[Server]:
        return [Server(one.queues, one.tasks) for one in self.workers]


class Need(NamedTuple):
    """What a queued job waits for. `nobody` is a sentence, `start` the command that helps."""

    who: str
    nobody: str
    start: str | None


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
    """The living; with `others` without ourselves. A row that a worker left does not count."""
    place, me = sloth.presence.place, sloth.presence.id_if_any if others else None
    workers: list[Working] = []
    by_hand = False
    for row in sloth.store.read(sloth.store.names.live_holders):
        holder = Holder(*row[:12])
        if holder.kind != "worker" or holder.id == me:
            continue
        if verdict(holder, place, sloth.store.live) == "alive":
            by_hand = by_hand or row[13] is None
            workers += [] if row[13] is None else [Working(holder, row[12], json.loads(row[13]))]
    return Crew(workers, by_hand)


def need_of(sloth: Sloth, job: Job) -> Need | None:
    """What this queued job waits for; None if somebody who takes it is there."""
    living = crew(sloth)
    if job.kind == "payload":
        return None if living.by_hand else _BY_HAND
    return need(living.servers, job.queue, job.task)


def need(servers: Sequence[Server], queue: str, task: str | None = None) -> Need | None:
    """The same for a command, or for a call of `task`, of this queue."""
    knowing = [one for one in servers if task is None or task in one.tasks]
    if any(one.serves(queue) for one in knowing):
        return None
    who = "worker" if task is None else f"worker that knows {task}"
    nobody = f"no {who} serves queue {queue!r}" if knowing else f"no {who} is running"
    if task is not None:
        return Need(f"a {who}", nobody, f"worker --app {_program(task)}")
    if not knowing:
        return Need("a worker", nobody, "worker")
    from shlex import quote

    return Need(f"a worker of queue {queue!r}", nobody, f"worker -q {quote(queue)}")


_BY_HAND = Need(ONE, "nobody claims it by hand", None)


def _program(task: str) -> str:
    """What to write behind --app for a task, as far as its name tells."""
    parts = task.split(".")[:-1]
    while parts and parts[-1][:1].isupper():  # a class that the function is in
        parts.pop()
    known = parts and parts[0] != "__main__" and all(part.isidentifier() for part in parts)
    return f"{'.'.join(parts)}:sloth" if known else "MODULE:NAME"


def stuck(sloth: Sloth, servers: Sequence[Server], *, by_hand: bool) -> list[Stuck]:
    """All queued jobs that nobody of these takes, by what they wait for."""
    found: dict[tuple[str, Need], int] = {}
    for lane, number in _waiting(sloth):
        if (what := _lack(servers, lane, by_hand)) is not None:
            found[what] = found.get(what, 0) + number
    return [Stuck(number, what, need) for (what, need), number in found.items()]


def _lack(servers: Sequence[Server], lane: Lane, by_hand: bool) -> tuple[str, Need] | None:
    if lane.kind == PAYLOAD:
        return None if by_hand else ("payload", _BY_HAND)
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
