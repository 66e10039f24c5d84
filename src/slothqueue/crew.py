"""Who is alive to take jobs, and who would have to be there for those that nobody takes."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from .lanes import Lane
from .liveness import verdict
from .models import COMMAND, PAYLOAD, TASK
from .presence import Presence
from .storage.base import Holder, Store


class Working:
    """A worker that is alive, with what it tells of itself."""

    def __init__(self, holder: Holder, since: int, told: dict[str, Any]) -> None:
        self.holder, self.since = holder, since
        self.queues: list[str] | None = told.get("queues")
        self.concurrency: int = told.get("concurrency", 0)
        self.pool: str = told.get("pool", "")
        self.tasks: list[str] = told.get("tasks", [])
        self.background: bool = told.get("background", False)

    @property
    def label(self) -> str:
        return self.holder.label


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


BY_HAND = Need("a program that claims it by hand", "nobody claims it by hand", None)
"""What a payload waits for."""


def crew(store: Store, presence: Presence, live: str, *, others: bool = False) -> Crew:
    """The living; with `others` without ourselves. A row that a worker left does not count."""
    place, me = presence.place, presence.id_if_any if others else None
    size = len(Holder._fields)
    workers, by_hand = [], False
    for row in store.read(store.names.live_holders):
        holder, since, tells = Holder(*row[:size]), row[size], row[size + 1]
        if holder.kind != "worker" or holder.id == me:
            continue
        if verdict(holder, place, live) == "alive":
            by_hand = by_hand or tells is None
            workers += [] if tells is None else [Working(holder, since, json.loads(tells))]
    return Crew(workers, by_hand)


def need(crew: Crew, queue: str, kind: int, task: str | None) -> Need | None:
    """What a job of this queue waits for; None if somebody who takes it is there."""
    if kind == PAYLOAD:
        return None if crew.by_hand else BY_HAND
    return need_of(crew.servers, queue, task if kind == TASK else None)


def need_of(servers: Sequence[Server], queue: str, task: str | None = None) -> Need | None:
    """The same for a command, or for a call of `task`, of this queue."""
    knowing = [one for one in servers if task is None or task in one.tasks]
    if any(one.serves(queue) for one in knowing):
        return None
    who = "worker" if task is None else f"worker that knows {task}"
    nobody = f"no {who} serves queue {queue!r}" if knowing else f"no {who} is running"
    if task is not None:
        return Need(f"a {who}", nobody, f"worker --app {program(task)}")
    if not knowing:
        return Need("a worker", nobody, "worker")
    from shlex import quote

    return Need(f"a worker of queue {queue!r}", nobody, f"worker -q {quote(queue)}")


def program(task: str) -> str:
    """What to write behind --app for a task, as far as its name tells."""
    parts = task.split(".")[:-1]
    while parts and parts[-1][:1].isupper():  # a class that the function is in
        parts.pop()
    known = parts and parts[0] != "__main__" and all(part.isidentifier() for part in parts)
    return f"{'.'.join(parts)}:sloth" if known else "MODULE:NAME"
