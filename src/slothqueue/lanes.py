"""Names to numbers: the queue and the lane of a job, remembered once they are committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from .models import Policy
from .storage.base import Store, Tx

DEFAULT = Policy()


class Lane(NamedTuple):
    """The jobs of one queue that the same workers can run."""

    id: int
    queue_id: int
    queue: str
    kind: int
    task: str


class Lanes:
    """The queues and lanes of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ids: dict[tuple[str, int, str], int] = {}

    def within(self, store: Store) -> Lanes:
        """The same names seen from a transaction that may yet be rolled back."""
        lanes = Lanes(store)
        lanes._ids = self._ids  # read only: what is committed stays true
        return lanes

    def id(self, queue: str, kind: int, task: str = "") -> int:
        """The lane's number; the queue and the lane are made at first use."""
        key = (queue, kind, task)
        lane = self._ids.get(key)
        if lane is None:
            lane = self.find(queue, kind, task)
        if lane is None:
            lane = self._store.write(lambda tx: self._make(tx, key), tell=False)
            self._remember(key, lane)
        return lane

    def find(self, queue: str, kind: int, task: str = "") -> int | None:
        """The lane's number, None if nobody has used it yet. Takes no write lock."""
        key = (queue, kind, task)
        lane = self._ids.get(key)
        if lane is None:
            lane = self._store.look(lambda tx: self._find(tx, key))
            self._remember(key, lane)
        return lane

    def _remember(self, key: tuple[str, int, str], lane: int | None) -> None:
        if lane is not None and not self._store.bound:
            self._ids[key] = lane

    def _find(self, tx: Tx, key: tuple[str, int, str]) -> int | None:
        queue = self._store.names.queue(tx, key[0])
        return queue and self._store.names.lane(tx, queue[0], key[1], key[2], make=False)

    def _make(self, tx: Tx, key: tuple[str, int, str]) -> int:
        names = self._store.names
        queue = names.queue(tx, key[0])
        number = queue[0] if queue else self.make(tx, key[0])
        lane = names.lane(tx, number, key[1], key[2], make=True)
        assert lane is not None
        return lane

    def make(self, tx: Tx, name: str, policy: Policy = DEFAULT) -> int:
        """Write a new queue; its number."""
        return self._store.names.make_queue(tx, name, policy, self._store.clock.wall())

    def all(self, tx: Tx) -> list[Lane]:
        """Every lane of the store, in one cheap read."""
        return [Lane(*row) for row in self._store.names.lanes(tx)]

    def select(self, tx: Tx, queue: str | None) -> list[Lane]:
        """The lanes of one queue, or of all."""
        return [lane for lane in self.all(tx) if queue is None or lane.queue == queue]

    # ---- options of queues ----------------------------------------------------------------------

    def policy(self, queue: str) -> Policy:
        """What the store says of a queue; the defaults if it has never been used."""
        found = self._store.look(lambda tx: self._store.names.queue(tx, queue))
        return found[1] if found else Policy()

    def set_policy(
        self, queue: str, change: Callable[[Policy], Policy], asked: Iterable[str]
    ) -> None:
        """Store a queue's options: those asked for, and of the others what stands there already.

        The last who asks wins, and the change is recorded.
        """
        found = self._store.look(lambda tx: self._store.names.queue(tx, queue))
        if found is None or change(found[1]) != found[1]:
            # A limit that is raised lets jobs start that others sleep for.
            self._store.write(
                lambda tx: self._set_policy(tx, queue, change, asked), tell=found is not None
            )

    def _set_policy(
        self, tx: Tx, queue: str, change: Callable[[Policy], Policy], asked: Iterable[str]
    ) -> None:
        names, now = self._store.names, self._store.clock.wall()
        found = names.queue(tx, queue)
        if found is None:
            self.make(tx, queue, change(Policy()))
            return
        old, new = found[1], change(found[1])
        told = ", ".join(f"{name}: {getattr(old, name)} -> {getattr(new, name)}" for name in asked)
        if new != old:
            names.change_queue(tx, found[0], new, now, told)
