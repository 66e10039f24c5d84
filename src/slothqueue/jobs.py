"""The verbs of jobs: enqueue, claim, heartbeat, complete, fail, wait, look."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from .clock import Millis
from .control import Control
from .errors import JobNotFound, LeaseLost, WrongState
from .handles import Job, Lease
from .histories import timeline
from .lanes import Lane, Lanes
from .models import COUNTED, DONE, PAYLOAD, RUNNING, STATES, Ending, Event, NewJob
from .options import bare_key
from .patience import Patience
from .presence import Presence
from .settling import base, note_base, settle
from .storage.base import Claimed, Row, Store, Terms, Tx
from .timing import Duration
from .upkeep import Upkeep
from .waker import Waker, soonest
from .why import why

MOST_SIFTS = 250
"""So often a claim by hand looks again, at some thousands of jobs that may not start each time."""

BY_HAND: Millis = 60_000
"""A lease taken by hand lasts this long unless the queue says otherwise."""


class Jobs:
    """Jobs of one store, seen through one handle, or through one transaction of it."""

    def __init__(
        self,
        store: Store,
        lanes: Lanes,
        presence: Presence,
        upkeep: Upkeep,
        waker: Waker,
        store_id: Callable[[], str],
    ) -> None:
        self.store, self.lanes, self.presence = store, lanes, presence
        self.upkeep, self.waker, self.store_id = upkeep, waker, store_id
        self.control = Control(store, upkeep, lanes)
        self.patience = Patience(store, upkeep, waker)

    def within(self, store: Store) -> Jobs:
        """The same verbs inside a transaction that somebody else ends."""
        lanes = self.lanes.within(store)
        return Jobs(store, lanes, self.presence, self.upkeep, self.waker, self.store_id)

    # ---- enqueue --------------------------------------------------------------------------------

    def add(
        self, job: NewJob, names: tuple[str, int, str], now: Millis, on_conflict: str = "return"
    ) -> Job:
        """Write one job; it survives what happens next. `names` are its queue, kind and task."""
        if job.extra is not None or job.key is not None:
            return self._add_special(job, now, on_conflict)
        store, late = self.store, job.relative
        asked = base(store.clock) if late else 0

        def work(tx: Tx) -> int:
            if late:
                note_base(store, tx, asked)
            return store.jobs.add(tx, job, now, asked)

        id = store.write(work, single=not late and job.env is None)
        return Job((id, *self._row(job, names, now)), self)

    def _add_special(self, job: NewJob, now: Millis, on_conflict: str) -> Job:
        """One with something special about it, or the job that has its key."""
        store, asked = self.store, base(self.store.clock)

        def work(tx: Tx) -> tuple[Row, bool]:
            if job.timed:
                note_base(store, tx, asked)
            there = None if job.key is None else store.waits.with_key(tx, job.key)
            existed = there is not None and on_conflict == "return"
            if there is None:
                there = store.jobs.add(tx, job, now, asked)
            elif not existed:
                there = self._meet(tx, there, job, now, asked, on_conflict)
            return self._sure(tx, there), existed

        row, existed = store.write(work)
        found = Job(row, self)
        found._existed = existed
        return found

    def _meet(
        self, tx: Tx, there: int, job: NewJob, now: Millis, asked: Millis, on_conflict: str
    ) -> int:
        known = self.store.waits.known(tx, there)
        assert known is not None
        told = f"job {there} has the key {bare_key(job.key)!r} and is {STATES[known.state]}"
        if on_conflict == "error":
            raise WrongState(f"{told}; on_conflict='return' gives you that job")
        if known.state == RUNNING:
            raise WrongState(f"{told}, so it cannot be replaced; enqueue again when it has ended")
        return self.store.waits.replace(tx, known, job, now, asked)

    def add_many(
        self, job: NewJob, payloads: Sequence[str], names: tuple[str, int, str], now: Millis
    ) -> list[Job]:
        """Write a job like this for each payload, in one transaction with one wake-up; or none."""
        store, asked = self.store, base(self.store.clock)

        def work(tx: Tx) -> list[Row]:
            if job.timed:
                note_base(store, tx, asked)
            ids = store.jobs.add_many(tx, job, payloads, now, asked)
            if job.extra is not None:
                return [self._sure(tx, id) for id in ids]
            row = self._row(job, names, now)
            return [(id, *row[:13], text, *row[14:]) for id, text in zip(ids, payloads)]

        return [Job(row, self) for row in store.write(work)]

    def _sure(self, tx: Tx, id: int) -> Row:
        """Of a job that is there in this transaction; afterwards it may have ended and be gone."""
        row = self.store.jobs.get(tx, id)
        assert row is not None
        return row

    def _row(self, job: NewJob, names: tuple[str, int, str], now: Millis) -> Row:
        """The row of a job that was just written, without its id."""
        queue, kind, task = names
        row = (queue, kind, task, 0, -job.priority, job.due, now, None, None, 0, job.max_attempts)
        return (*row, job.timeout, None, job.payload, None, None, None, *_NOTHING_SPECIAL)

    # ---- claim ----------------------------------------------------------------------------------

    def claim(self, queue: str, limit: int = 1) -> list[Lease]:
        """Take up to `limit` due jobs of a queue, payloads only; never waits."""
        self.patience.refuse_inside("claim")
        lane = self.lanes.find(queue, PAYLOAD)
        if lane is None:
            return []
        looked = self.upkeep.due()
        if looked:
            self.upkeep.run()
        taken = self._claim(lane, limit)
        if not taken and not looked and self.upkeep.run():  # what the dead have left
            taken = self._claim(lane, limit)
        for _ in range(MOST_SIFTS):  # so many may not start that one look was too short
            if taken or not self._is_due(lane):
                break
            taken = self._claim(lane, limit)
        return [Lease(claimed, queue, self) for claimed in taken]

    def _claim(self, lane: int, limit: int) -> list[Claimed]:
        if not self.presence.registered and not self._is_due(lane):
            return []
        store, worker = self.store, self.presence.id

        def work(tx: Tx) -> list[Claimed]:
            now = store.clock.wall()  # when it has the lock, for which it may have waited long
            terms = partial(self._by_hand, worker)
            return store.jobs.claim_lane(tx, lane, limit, now, terms)

        return store.write(work, durable=False, tell=False, lazy=True)

    def _by_hand(self, worker: int, lease: Millis | None) -> Terms:
        length = lease or BY_HAND
        return Terms(worker, worker, length, self.store.clock.awake() + length)

    def _is_due(self, lane: int) -> bool:
        store, now = self.store, self.store.clock.wall()
        return store.look(lambda tx: store.jobs.glance(tx, lane, now)).due(now)

    def wait(self, queue: str, timeout: Duration | None) -> Lease:
        """Claim one job, waiting for it. Raises TimeoutError."""
        self.patience.refuse_inside("claim")
        until = self.patience.deadline(timeout)
        self.waker.start()
        while True:
            mark = self.waker.mark()
            if leases := self.claim(queue):
                return leases[0]
            left = self.patience.left(until, f"nothing to claim in queue {queue!r}")
            lane = self.lanes.find(queue, PAYLOAD)
            self.waker.wait(mark, soonest(left, self.next_look([] if lane is None else [lane])))

    def next_look(self, lanes: Iterable[int]) -> Millis | None:
        """In how many ms there may be something to do without anybody's commit."""
        store, now = self.store, self.store.clock.wall()
        glances = store.look(lambda tx: [store.jobs.glance(tx, lane, now) for lane in lanes])
        due = soonest(*(glance.next_due for glance in glances))
        wait = None if due is None else max(due - now, 0)
        return soonest(wait, self.upkeep.next_look())

    # ---- the end of an attempt ------------------------------------------------------------------

    def complete(self, lease: Lease, result: str | None, message: str | None) -> None:
        """End the attempt well. Raises LeaseLost."""
        store, held, now = self.store, lease.held, self.store.clock.wall()
        if not store.write(lambda tx: store.jobs.complete(tx, held, now, result, message)):
            raise LeaseLost.of(held.id, held.attempt)

    def complete_many(self, leases: Sequence[Lease]) -> list[Lease]:
        """Complete all that are still held, in one transaction; returns those."""
        leases = list(leases)
        fences: dict[int, dict[int, int]] = {}
        for lease in leases:  # of two on one job only the later can still be held
            known = fences.setdefault(lease.holder, {})
            known[lease.id] = max(lease.fence, known.get(lease.id, 0))
        jobs, now = self.store.jobs, self.store.clock.wall()
        done = self.store.write(
            lambda tx: {
                (id, fences[holder][id])
                for holder in fences
                for id in jobs.complete_many(tx, holder, fences[holder], now)
            }
        )
        return [lease for lease in leases if (lease.id, lease.fence) in done]

    def settle(self, lease: Lease, ending: Ending) -> None:
        """End the attempt as told. Raises LeaseLost."""
        if not self.store.write(lambda tx: settle(self.store, tx, lease.held, ending)):
            raise LeaseLost.of(lease.id, lease.attempt)

    def heartbeat(self, lease: Lease) -> None:
        """Extend the lease. Raises LeaseLost."""
        store, until = self.store, self.store.clock.awake() + (lease.length or BY_HAND)
        if not store.write(
            lambda tx: store.jobs.extend(tx, lease.held, until), durable=False, tell=False
        ):
            raise LeaseLost.of(lease.id, lease.attempt)

    # ---- looking --------------------------------------------------------------------------------

    def get(self, id: int) -> Job:
        """The job as it is now. Raises JobNotFound."""
        row = self.store.read(lambda tx: self.store.jobs.get(tx, id)) if _is_id(id) else None
        if row is None:
            raise JobNotFound.of(id)
        return Job(row, self)

    def progress_of(self, id: int) -> tuple[float, str | None] | None:
        """How far the function of a job is, by its own latest word."""
        row = self.store.read(lambda tx: self.store.jobs.progress_of(tx, id))
        return None if row is None else (int(row[0].rstrip("%")) / 100, row[1])

    def parents(self, id: int) -> list[int]:
        """The ids of the jobs after which it runs, in the order in which they were given."""
        return self.store.read(lambda tx: self.store.waits.parents(tx, id))

    def states_of(self, ids: Sequence[int]) -> dict[int, int]:
        """How many of these are in each state, by its number."""
        return self.store.read(lambda tx: self.store.jobs.states_of(tx, ids))

    def live_of(self, ids: Sequence[int], limit: int = 1 << 31) -> list[int]:
        """Those of these that have not ended."""
        return self.store.look(lambda tx: self.store.jobs.live_of(tx, ids, limit))

    def cancel_asked(self, id: int) -> bool:
        """Whether somebody wants a running job cancelled."""
        return self.store.look(lambda tx: self.store.waits.cancel_asked(tx, id)) is not None

    def why(self, id: int) -> str:
        """Why a job does not run, in one sentence. Raises JobNotFound."""
        return why(self, self.get(id))

    def find(self, queue: str | None, state: str | None, limit: int) -> list[Job]:
        """Running jobs first, then waiting ones in start order, then ended ones, newest first."""
        if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit < 1 << 31:
            raise ValueError(
                f"limit must be a whole number from 0 to {(1 << 31) - 1}, not {limit!r}"
            )
        rows = self.store.read(lambda tx: self._find(tx, queue, state, limit))
        return [Job(row, self) for row in rows]

    def _find(self, tx: Tx, queue: str | None, state: str | None, limit: int) -> list[Row]:
        lanes = self.lanes.select(tx, queue)
        if not lanes:
            return []
        number = None if queue is None else lanes[0].queue_id
        ids, now = [lane.id for lane in lanes], self.store.clock.wall()
        return self.store.jobs.find(tx, ids, number, state, limit, now)

    def counts(self, queue: str | None) -> dict[str, int]:
        """How many jobs are in each state."""
        each = self.store.read(lambda tx: self._counts(tx, queue))
        return _sum(counts for _, counts in each)

    def counts_by_queue(self) -> dict[str, dict[str, int]]:
        """The same for every queue, in one pass."""
        each = self.store.read(lambda tx: self._counts(tx, None))
        names = sorted({lane.queue for lane, _ in each})
        return {name: _sum(counts for lane, counts in each if lane.queue == name) for name in names}

    def _counts(self, tx: Tx, queue: str | None) -> list[tuple[Lane, dict[str, int]]]:
        lanes = self.lanes.select(tx, queue)
        found = self.store.jobs.counts(tx, [lane.id for lane in lanes], self.store.clock.wall())
        return [(lane, found[lane.id]) for lane in lanes]

    def wait_for_end(self, job: Job, timeout: Duration | None) -> Job:
        """The job once it has ended. Raises TimeoutError, JobNotFound."""
        if not self.store.ended:
            self.patience.refuse_inside("wait for a job")
        alone = None if job.kind == "payload" else (lambda: self._say_if_alone(job))
        what = f"job {job.id} has not ended"
        self.patience.until(lambda: self._ended(job.id), timeout, what, alone)
        return self.get(job.id)

    def _ended(self, id: int) -> bool | None:
        state = self.store.look(lambda tx: self.store.jobs.state(tx, id))
        if state is None:
            raise JobNotFound.of(id)
        return state >= DONE or None

    def _say_if_all_alone(self, ids: Sequence[int]) -> None:
        live = [self.get(id) for id in self.live_of(ids, 1)]
        if live and live[0].kind != "payload":
            self._say_if_alone(live[0])

    def wait_for_all(self, ids: Sequence[int], timeout: Duration | None) -> None:
        """Wait until all of these have ended, or are gone. Raises TimeoutError."""
        self.patience.refuse_inside("wait for jobs")
        left = list(ids)

        def all_ended() -> bool | None:
            # The last one mostly ends last, so a wake-up need not ask for them all.
            if self.live_of(left[-1:]):
                return None
            left[:] = self.live_of(left) or self.live_of(ids)  # somebody may have been revived
            return not left or None

        what = f"not all of these {len(ids)} jobs have ended"
        self.patience.until(all_ended, timeout, what, lambda: self._say_if_all_alone(ids))

    def wait_for_quiet(self, queue: str, timeout: Duration | None) -> None:
        """Wait until no job of this queue runs. Raises TimeoutError."""
        self.patience.refuse_inside("wait for a queue")
        lanes = self.store.read(lambda tx: self.lanes.select(tx, queue))
        if lanes:
            number, waits = lanes[0].queue_id, self.store.waits
            self.patience.until(
                lambda: (
                    not self.store.look(lambda tx: waits.running_of_queue(tx, number, 1)) or None
                ),
                timeout,
                f"jobs of queue {queue!r} still run",
            )

    def _say_if_alone(self, job: Job) -> None:
        """Who waits for a job that nobody will run should know it."""
        if self.upkeep.anybody_works() or self.store.look(
            lambda tx: self.store.jobs.running(tx, job.id)
        ):
            return
        import logging  # costly, and only those who wait need it

        logging.getLogger("slothqueue").warning(
            "waiting for job %d (%s), but no worker is running: sloth.worker().run(), or `sloth "
            "worker`, runs it. Without one give result() a timeout.",
            job.id,
            job.name[:60],
        )

    def history(self, id: int) -> list[Event]:
        """Everything that happened to a job, oldest first. Raises JobNotFound."""
        if not _is_id(id):
            raise JobNotFound.of(id)
        record, rows = self.store.read(
            lambda tx: (self.store.jobs.record(tx, id), self.store.jobs.events(tx, id))
        )
        if record is None:
            raise JobNotFound.of(id)
        return timeline(record, rows)


_NOTHING_SPECIAL = (0, None, None, None, None, None)
"""The end of the row of a job that waits for nothing but its moment."""


def _is_id(id: object) -> bool:
    """Whether there could be such a job: a store cannot even be asked for text or for 2 ** 64."""
    return isinstance(id, int) and 0 < id < 1 << 63


def _sum(each: Iterable[dict[str, int]]) -> dict[str, int]:
    total = dict.fromkeys(COUNTED, 0)
    for counts in each:
        for state, count in counts.items():
            total[state] += count
    return total
