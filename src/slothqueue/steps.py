"""The one transaction of a worker: settle what ended, hand over, tell, claim for free slots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .clock import Millis
from .jobs import BY_HAND
from .lanes import Lane
from .launching import Launcher
from .models import COMMAND, TASK, Ending
from .running import Slot
from .runs import Run
from .settling import Settled, decide
from .storage.base import Ask, Claimed, Glance, Held, Holder, Terms, Tx

if TYPE_CHECKING:
    from .client import Sloth


class Ended(NamedTuple):
    """An attempt that has ended and is not settled yet."""

    held: Held
    ending: Ending


class Todo(NamedTuple):
    """What a worker has to write down, and how much it could take on."""

    ended: list[Ended]
    takers: list[tuple[Run, Holder]]
    news: list[tuple[Run, float, str | None]]
    dropped: list[Holder]
    slots: list[Slot]
    due: dict[int, Glance]
    room: int

    @property
    def needed(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.ended or self.takers or self.news or self.dropped or self.due)


class Step(NamedTuple):
    """What one transaction did."""

    claimed: list[Claimed]
    lost: list[int]
    handed: list[tuple[Run, Holder]]
    settled: list[Settled | None]
    """What became of each that had ended; None if its lease was lost."""


class Steps:
    """Looks for work of one worker, and carries out what it has to write."""

    def __init__(self, sloth: Sloth, launcher: Launcher, queues: Sequence[str] | None) -> None:
        self._sloth, self._store, self._verbs = sloth, sloth.store, sloth.verbs
        self._launcher, self._queues = launcher, queues
        self._served = 0
        self.lanes: dict[int, Lane] = {}
        """The lanes that this worker can run, by number, as of the latest look."""

    # ---- looking --------------------------------------------------------------------------------

    def due_lanes(self) -> dict[int, Glance]:
        """The lanes that we can run and that have something due; looks for the dead if none."""
        return self.look() or (self.look() if self._verbs.upkeep.run() else {})

    def look(self) -> dict[int, Glance]:
        """The same without looking for the dead. Takes no lock."""
        return self._store.look(self._glances)

    def _glances(self, tx: Tx) -> dict[int, Glance]:
        self.lanes = {lane.id: lane for lane in self._verbs.lanes.all(tx) if self._runs(lane)}
        now, glance = self._store.clock.wall(), self._store.jobs.glance
        glances = {lane: glance(tx, lane, now) for lane in self.lanes}
        return {lane: seen for lane, seen in glances.items() if seen.due(now)}

    def _runs(self, lane: Lane) -> bool:
        if self._queues is not None and lane.queue not in self._queues:
            return False
        return lane.kind == COMMAND or (lane.kind == TASK and lane.task in self._sloth.tasks)

    def asks(self) -> list[Ask]:
        """What is asked of the attempts of this worker."""
        me = self._sloth.presence.id
        return self._store.look(lambda tx: self._store.waits.asks_of(tx, me))

    # ---- writing --------------------------------------------------------------------------------

    def carry_out(self, todo: Todo) -> Step:
        """Write all of it in one transaction, or nothing. Raises StoreUnavailable."""
        me = self._sloth.presence.id
        return self._store.write(
            lambda tx: self._transact(tx, me, todo), durable=False, tell=bool(todo.ended)
        )

    def _transact(self, tx: Tx, me: int, todo: Todo) -> Step:
        jobs, names, now = self._store.jobs, self._store.names, self._store.clock.wall()
        settled = [decide(self._store, tx, *one) for one in todo.ended]
        lost = [one.held.id for one, became in zip(todo.ended, settled) if became is None]
        for run, fraction, message in todo.news:
            jobs.progress(tx, run.held, now, f"{fraction:.0%}", message)
        for holder in [taker for _, taker in todo.takers] + _unregistered(todo.slots):
            names.add_holder(tx, holder, now)
        handed = [
            (run, taker) for run, taker in todo.takers if jobs.hand_over(tx, run.held, taker.id)
        ]
        for holder in todo.dropped:
            names.drop_helper(tx, holder.id)
        claimed = self._claim(tx, me, todo, now) if todo.due else []
        lost += [run.held.id for run, taker in todo.takers if (run, taker) not in handed]
        return Step(claimed, lost, handed, settled)

    def _claim(self, tx: Tx, me: int, todo: Todo, now: Millis) -> list[Claimed]:
        idle = iter([slot.holder.id for slot in todo.slots if slot.holder is not None])
        late = [lane for lane, glance in todo.due.items() if glance.late(now)]
        self._store.jobs.promote(tx, late, now)
        claimed = self._store.jobs.claim(
            tx,
            self._by_queue(todo.due),
            todo.room,
            now,
            lambda lane: self._terms(me, lane, todo.due[lane].lease, idle),
        )
        if claimed:
            self._served = self.lanes[claimed[-1].lane].queue_id
        return claimed

    def _by_queue(self, due: Iterable[int]) -> list[list[int]]:
        """These lanes by queue; the turn is with the queue after the one that was served last."""
        queues: dict[int, list[int]] = {}
        for lane in due:
            queues.setdefault(self.lanes[lane].queue_id, []).append(lane)
        order = sorted(queues, key=lambda queue: (queue <= self._served, queue))
        return [queues[queue] for queue in order]

    def _terms(self, me: int, number: int, lease: Millis | None, idle: Iterator[int]) -> Terms:
        """A function's lease goes to the child that will run it, a command's to its shim, later.

        A command's has no end: its shim outlives us, and nobody would be there for its heartbeats.
        Where locks cannot be trusted, every lease has one.
        """
        lane, holder = self.lanes[number], me
        lease = (
            None if lane.kind == COMMAND else self._sloth.tasks[lane.task].settings.lease or lease
        )
        if not self._store.trusts_locks:
            lease = lease or BY_HAND
        if lane.kind == TASK and self._launcher.in_child(lane.task):
            holder = next(idle, me)
        return Terms(holder, me, lease, lease and self._store.clock.awake() + lease)


def _unregistered(slots: list[Slot]) -> list[Holder]:
    return [slot.holder for slot in slots if slot.holder is not None and not slot.registered]
