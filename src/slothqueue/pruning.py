"""Forgets ended jobs and their logs: by the queues' `keep`, or as a person asks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator

from .clock import Millis
from .models import CANCELLED, COMMAND, DONE, FAILED, STATES
from .storage.base import EndedJob, Store, Tx

LOOKED_AT = 5_000
"""Jobs that one look goes over."""

SLICE = 500
"""Jobs deleted in one transaction."""

MANY = 20_000
"""Jobs whose logs are deleted in one go: each go reads the whole directory."""

SOON, LATER = 100, 10_000
"""In so many ms the next look is due: if there was something to delete, and if there was not."""

Doomed = Callable[[EndedJob], bool]


class Pruning:
    """Prunes one store. The rota calls `tend` now and then; `prune` is for people."""

    def __init__(self, store: Store, logs: str) -> None:
        self._store, self._logs = store, logs
        self._cursor = self._next = 0
        self._due: Millis | None = None
        self._logged: set[int] = set()
        self._untidy = False

    # ---- the rota -------------------------------------------------------------------------------

    def waits(self) -> list[Millis]:
        """In how many ms to go on, while there is more to delete."""
        return [] if self._due is None else [self._due - self._store.clock.awake()]

    def tend(self) -> None:
        """If it is time, look at the next jobs and delete those that were kept long enough."""
        awake = self._store.clock.awake()
        if awake >= self._next:
            found = self._step(self._by_policy())
            self._due = awake + SOON if found else None
            self._next = awake + (SOON if found else LATER)

    def _step(self, doomed: Doomed) -> int:
        rows, self._cursor = self._look(self._cursor)
        ids = [row for row in rows if row.state > 1 and doomed(row)]
        if len(ids) > SLICE:
            ids = ids[:SLICE]
            self._cursor = ids[-1].id
        gone = self._delete(ids) if ids else []
        if len(gone) < SLICE:
            self._unlink_logs()
        if self._cursor == 0:
            self._tidy()
        return len(gone)

    def _look(self, cursor: int) -> tuple[list[EndedJob], int]:
        store = self._store
        rows = store.read(lambda tx: store.pruning.ended_after(tx, cursor, LOOKED_AT))
        return rows, rows[-1].id if len(rows) == LOOKED_AT else 0

    def _by_policy(self) -> Doomed:
        now = self._store.clock.wall()
        queues = self._store.look(self._store.names.queues)
        keep = {queue.id: queue.policy.keep for queue in queues}

        def doomed(job: EndedJob) -> bool:
            longest = keep.get(job.queue)
            return (
                job.state in (DONE, CANCELLED)
                and longest is not None
                and (job.finished + longest <= now)
            )

        return doomed

    # ---- for people -----------------------------------------------------------------------------

    def prune(
        self,
        older_than: Millis | None,
        states: Collection[str] | None,
        queue: int | None,
        *,
        dry: bool = False,
    ) -> Iterator[tuple[int, int]]:
        """Delete as asked, or by the queues' `keep`; yields (how many so far, up to which id)."""
        doomed = self._by_policy() if older_than is None else self._by_age(older_than, states)
        remove, total = self._free if dry else self._delete, 0
        try:
            for rows, after in self._slices():
                found = [row for row in rows if row.state > 1 and doomed(row)]
                found = [row for row in found if queue is None or row.queue == queue]
                parts = (found[start : start + SLICE] for start in range(0, len(found), SLICE))
                total += sum(len(remove(part)) for part in parts)
                yield total, after
        finally:
            self._unlink_logs()
        self._untidy = not dry
        self._tidy()

    def _slices(self) -> Iterator[tuple[list[EndedJob], int]]:
        rows, after = self._look(0)
        yield rows, after
        while after:
            rows, after = self._look(after)
            yield rows, after

    def _by_age(self, older_than: Millis, states: Collection[str] | None) -> Doomed:
        before = self._store.clock.wall() - older_than
        chosen = {STATES.index(s) for s in states} if states else {DONE, FAILED, CANCELLED}
        return lambda job: job.state in chosen and job.finished <= before

    # ---- deleting -------------------------------------------------------------------------------

    def _free(self, jobs: list[EndedJob]) -> list[int]:
        """Those that would be deleted."""
        ids = [job.id for job in jobs]
        return self._store.read(lambda tx: self._store.pruning.free(tx, ids))

    def _delete(self, jobs: list[EndedJob]) -> list[int]:
        store, ids = self._store, [job.id for job in jobs]
        gone = store.write(lambda tx: store.pruning.delete(tx, ids), durable=False, tell=False)
        self._untidy = self._untidy or bool(gone)
        self._logged |= {job.id for job in jobs if job.kind == COMMAND}.intersection(gone)
        if len(self._logged) >= MANY:
            self._unlink_logs()
        return gone

    def _tidy(self) -> None:
        if self._untidy:
            self._store.write(self._store.pruning.tidy, durable=False, tell=False)
            self._untidy = False

    def _unlink_logs(self) -> None:
        if self._logged:
            self._unlink(self._logged)
            self._logged = set()

    def _unlink(self, jobs: set[int]) -> None:
        """The files of these jobs: JOB-ATTEMPT-FENCE and an ending."""
        with contextlib.suppress(OSError), os.scandir(self._logs) as entries:
            for entry in entries:
                number = entry.name.partition("-")[0]
                if number.isdecimal() and int(number) in jobs:
                    with contextlib.suppress(OSError):
                        os.unlink(entry.path)

    def collect_logs(self) -> None:
        """Files of jobs that are gone: a kill between the two steps of `_delete` leaves some."""
        store = self._store
        names: list[str] = []
        with contextlib.suppress(OSError):
            names = os.listdir(self._logs)
        numbers = {int(n) for name in names if (n := name.partition("-")[0]).isdecimal()}
        missing = store.read(lambda tx: _missing(store, tx, numbers))
        if missing:
            self._unlink(missing)


def _missing(store: Store, tx: Tx, numbers: set[int]) -> set[int]:
    return {number for number in numbers if store.jobs.state(tx, number) is None}
