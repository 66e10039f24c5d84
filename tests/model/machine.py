"""Drives a store and a dictionary side by side, and compares them after every step."""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from slothqueue import Lease as RealLease
from slothqueue import LeaseLost, ManualClock, Sloth

from .dictionary import Dictionary, Job, Lease, Options

HANDLES = 3
QUEUES = {
    "a": Options(lease=60_000, base=2, cap=3_600_000, max_attempts=4),
    "b": Options(lease=5_000, base=3, cap=10_000, max_attempts=2),
}
VERBS = ["complete", "fail", "retry", "discard", "snooze", "release", "heartbeat"]

handles = st.integers(0, HANDLES - 1)
queues = st.sampled_from(sorted(QUEUES))
picks = st.integers(0, 10_000)
seconds = st.sampled_from([0, 1, 2, 5, 60, 4_000])


class QueueMachine(RuleBasedStateMachine):
    """Several handles on one store. A claim takes a second, so that the rota may look each time."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="slothqueue-model-")
        self.clock = ManualClock()
        self.model = Dictionary(QUEUES)
        self.opened: list[Sloth] = []
        self.handles = [self.open() for _ in range(HANDLES)]
        self.leases: list[tuple[Lease, RealLease]] = []

    def open(self) -> Sloth:
        path = f"{self.folder}/work.db"
        self.opened.append(Sloth(path, clock=self.clock, durability="process"))
        return self.opened[-1]

    def teardown(self) -> None:
        try:
            self.same_history()
        finally:
            for sloth in self.opened:
                sloth.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def base(self) -> int:
        return self.clock.wall() - self.clock.elapsed()

    # ---- enqueue ----------------------------------------------------------------------------

    @initialize()
    def both_queues_exist(self) -> None:
        self.handles[0].queue("b", lease=5, backoff=(3, 10), max_attempts=2)
        for queue in QUEUES:
            self._enqueue(0, queue, {})

    @rule(
        handle=handles,
        queue=queues,
        priority=st.integers(-1, 1),
        max_attempts=st.sampled_from([None, 1, 2, 3]),
        when=st.sampled_from(["now", "delay", "run_at"]),
        later=seconds,
    )
    def enqueue(
        self,
        handle: int,
        queue: str,
        priority: int,
        max_attempts: int | None,
        when: str,
        later: int,
    ) -> None:
        options: dict[str, Any] = {"priority": priority, "max_attempts": max_attempts}
        if when == "delay":
            options["delay"] = later
        elif when == "run_at":
            moment = self.clock.wall() / 1000 + later - 2  # and a little of the past
            options["run_at"] = dt.datetime.fromtimestamp(moment, dt.UTC)
        self._enqueue(handle, queue, options)

    def _enqueue(self, handle: int, queue: str, options: dict[str, Any]) -> int:
        real = self.handles[handle].queue(queue).enqueue("payload", **options)
        wall = self.clock.wall()
        due = wall + 1000 * options.get("delay", 0)
        if "run_at" in options:
            due = round(1000 * options["run_at"].timestamp())
        job = Job(
            real.id,
            queue,
            options.get("priority", 0),
            due,
            options.get("max_attempts") or QUEUES[queue].max_attempts,
            asked=wall,
            base=self.base if "delay" in options else None,
        )
        self.model.enqueue(job, wall, self.base)
        return real.id

    # ---- claim ------------------------------------------------------------------------------

    @rule(handle=handles, queue=queues, limit=st.sampled_from([0, 1, 2, 5]))
    def claim(self, handle: int, queue: str, limit: int) -> None:
        self._claim(handle, queue, limit)

    def _claim(self, handle: int, queue: str, limit: int) -> None:
        clock = self.clock
        clock.advance(1)
        self.model.look(clock.wall(), clock.awake(), clock.boot(), self.base)
        expected = self.model.start_order(queue, clock.wall())[: limit or 1]
        mine = self.handles[handle].queue(queue)
        leases = mine.claim_many(limit) if limit else [x for x in [mine.claim()] if x]
        assert [lease.id for lease in leases] == [job.id for job in expected]
        for job, real in zip(expected, leases):
            length = QUEUES[queue].lease
            until = clock.awake() + length
            lease = Lease(job.id, real.fence, handle, clock.boot(), length, until)
            self.model.claim(job, lease)
            assert real.attempt == job.attempts
            self.leases.append((lease, real))

    # ---- the end of an attempt --------------------------------------------------------------

    @precondition(lambda self: self.leases)
    @rule(pick=picks, verb=st.sampled_from(VERBS), delay=seconds)
    def settle(self, pick: int, verb: str, delay: int) -> None:
        self._settle(*self.leases[pick % len(self.leases)], verb, delay)

    @precondition(lambda self: self.held())
    @rule(pick=picks, verb=st.sampled_from(VERBS), delay=seconds)
    def settle_what_is_held(self, pick: int, verb: str, delay: int) -> None:
        held = self.held()
        self._settle(*held[pick % len(held)], verb, delay)

    def held(self) -> list[tuple[Lease, RealLease]]:
        return [pair for pair in self.leases if self.model.holds(pair[0])]

    def _settle(self, lease: Lease, real: RealLease, verb: str, delay: int) -> None:
        error = f"error {len(self.leases)}"
        calls = {
            "complete": lambda: real.complete({"by": lease.handle}),
            "fail": lambda: real.fail(error),
            "retry": lambda: real.retry(delay, error),
            "discard": lambda: real.discard(error),
            "snooze": lambda: real.snooze(delay),
            "release": real.release,
            "heartbeat": real.heartbeat,
        }
        kept = self.model.holds(lease)
        assert succeeded(calls[verb]) == kept, f"{verb} by {'the' if kept else 'no'} holder"
        if kept:
            self.model.settle(lease, verb, 1000 * delay, error, self.clock.wall(), self.base)
            lease.until = self.clock.awake() + lease.length

    @precondition(lambda self: self.leases)
    @rule(handle=handles, count=st.integers(1, 6))
    def complete_many(self, handle: int, count: int) -> None:
        latest = self.leases[-count:]
        expected = [(lease, real) for lease, real in latest if self.model.holds(lease)]
        done = self.handles[handle].queue("a").complete_many([real for _, real in latest])
        assert done == [real for _, real in expected]
        for lease, _ in expected:
            self.model.settle(lease, "complete", 0, "", self.clock.wall(), self.base)

    # ---- stories that chance would seldom tell ----------------------------------------------

    @precondition(lambda self: self.held())
    @rule(pick=picks, other=handles, same=st.booleans(), verb=st.sampled_from(VERBS))
    def a_holder_stalls_and_another_takes_over(
        self, pick: int, other: int, same: bool, verb: str
    ) -> None:
        held = self.held()
        lease, real = held[pick % len(held)]
        self.clock.advance(lease.length / 1000)
        self._claim(lease.handle if same else other, self.model.jobs[lease.job].queue, 100)
        self._settle(lease, real, "heartbeat", 0)
        self._settle(lease, real, verb, 5)

    @precondition(lambda self: self.held())
    @rule(pick=picks, other=handles, exactly=st.booleans())
    def time_runs_to_the_end_of_a_lease(self, pick: int, other: int, exactly: bool) -> None:
        held = self.held()
        lease, _ = held[pick % len(held)]
        left = lease.until - self.clock.awake() - 1000 + (not exactly)
        if lease.boot == self.clock.boot() and left > 0:
            self.clock.advance(left / 1000)
        self._claim(other, self.model.jobs[lease.job].queue, 1)

    @precondition(lambda self: self.held())
    @rule(pick=picks, verb=st.sampled_from(VERBS))
    def a_stranger_with_the_right_fence_settles(self, pick: int, verb: str) -> None:
        held = self.held()
        lease, real = held[pick % len(held)]
        claimed = real._claimed._replace(holder=real._claimed.holder ^ 2)
        forged = RealLease(claimed, real.queue, real._jobs)
        nobody = Lease(lease.job, lease.fence, lease.handle, "", lease.length, 0)
        self._settle(nobody, forged, verb, 5)

    @precondition(lambda self: self.held())
    @rule(pick=picks, other=handles)
    def a_job_fails_until_it_has_failed(self, pick: int, other: int) -> None:
        held = self.held()
        lease, real = held[pick % len(held)]
        self._settle(lease, real, "fail", 0)
        self.clock.advance(9)
        self._claim(other, self.model.jobs[lease.job].queue, 100)

    @rule(
        handle=handles,
        queue=queues,
        step=st.sampled_from([-40, 40, -40_000]),
        when=st.sampled_from(["delay", "run_at"]),
    )
    def the_clock_is_set_while_a_job_waits(
        self, handle: int, queue: str, step: int, when: str
    ) -> None:
        moment = dt.datetime.fromtimestamp(self.clock.wall() / 1000 + 60, dt.UTC)
        options: dict[str, Any] = {"priority": 1, when: 60 if when == "delay" else moment}
        self._enqueue(handle, queue, options)
        self.clock.step_wall(step)
        self.clock.advance(59)
        self._claim(handle, queue, 1)

    @precondition(lambda self: self.held())
    @rule(pick=picks, other=handles)
    def a_heartbeat_comes_in_time(self, pick: int, other: int) -> None:
        held = self.held()
        lease, real = held[pick % len(held)]
        self.clock.advance(lease.length / 2000)
        self._settle(lease, real, "heartbeat", 0)
        self.clock.advance(lease.length / 1000 - 1)
        self._claim(other, self.model.jobs[lease.job].queue, 1)

    # ---- time and death ---------------------------------------------------------------------

    @rule(duration=st.sampled_from([0.001, 1, 4, 10, 61, 4_000]))
    def time_passes(self, duration: float) -> None:
        self.clock.advance(duration)

    @rule(duration=st.sampled_from([1, 100, 1_000_000]))
    def the_machine_sleeps(self, duration: int) -> None:
        self.clock.suspend(duration)

    @rule(step=st.sampled_from([-100_000, -7, 7, 100_000]))
    def somebody_sets_the_clock(self, step: int) -> None:
        self.clock.step_wall(step)

    @rule(handle=handles)
    def a_handle_dies(self, handle: int) -> None:
        self.handles[handle].close()
        self.handles[handle] = self.open()
        for lease, _ in self.leases:
            lease.alive = lease.alive and lease.handle != handle

    @rule(after=st.sampled_from([1, 30, 100_000]))
    def the_machine_restarts(self, after: int) -> None:
        self.clock.reboot(after)

    # ---- what must be the same --------------------------------------------------------------

    @invariant()
    def same_jobs(self) -> None:
        real = {job.id: job for job in self.handles[0].jobs(limit=10_000)}
        assert real.keys() == self.model.jobs.keys()
        for id, job in self.model.jobs.items():
            found = real[id]
            assert (found.state, found.attempts) == (job.state, job.attempts), found
            assert (found.error or "").startswith(job.error or ""), found
            assert bool(found.error) == bool(job.error)
            assert (found.queue, found.priority) == (job.queue, job.priority)
            if job.state == "queued":
                assert round(1000 * found.run_at.timestamp()) == job.due, found

    @invariant()
    def same_holders(self) -> None:
        store = self.handles[0].store
        held = store.look(
            lambda tx: [store.jobs.leases_of(tx, one.id) for one in store.jobs.holders(tx)]
        )
        real = sorted((one.id, one.fence, one.attempt) for leases in held for one in leases)
        jobs = [job for job in self.model.jobs.values() if job.lease is not None]
        assert real == sorted((job.id, job.fence, job.attempts) for job in jobs)

    @invariant()
    def same_counts(self) -> None:
        states = [job.state for job in self.model.jobs.values()]
        counts = self.handles[0].stats()
        for state in ("queued", "running", "done", "failed"):
            assert counts[state] == states.count(state)

    def same_history(self) -> None:
        for id, job in self.model.jobs.items():
            events = self.handles[0].job(id).events()
            told = [(event.kind, event.attempt) for event in events]
            assert told == [(kind, attempt) for kind, attempt, _ in job.told]
            taken = [event.reason for event in events if event.kind == "reclaimed"]
            assert taken == [reason for kind, _, reason in job.told if kind == "reclaimed"]


def succeeded(call: Any) -> bool:
    """Whether the lease was still held."""
    try:
        call()
    except LeaseLost:
        return False
    return True
