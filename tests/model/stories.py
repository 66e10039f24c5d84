"""Stories about leases and clocks that chance would seldom tell."""

from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from slothqueue import Lease as RealLease

from .stage import VERBS, Stage, handles, picks, queues
from .words import Lease


class Stories(Stage):
    @precondition(lambda self: self.held())
    @rule(pick=picks, other=handles, same=st.booleans(), verb=st.sampled_from(VERBS))
    def a_holder_stalls_and_another_takes_over(
        self, pick: int, other: int, same: bool, verb: str
    ) -> None:
        held = self.held()
        lease, real = held[pick % len(held)]
        self.clock.advance(lease.length / 1000)
        self.take(self.model.jobs[lease.job].queue, 100, lease.handle if same else other)
        self.end(lease, real, "heartbeat")
        self.end(lease, real, verb, 5)

    @precondition(lambda self: self.held())
    @rule(pick=picks, other=handles, exactly=st.booleans())
    def time_runs_to_the_end_of_a_lease(self, pick: int, other: int, exactly: bool) -> None:
        held = self.held()
        lease, _ = held[pick % len(held)]
        left = lease.until - self.clock.awake() - 1000 + (not exactly)
        if lease.boot == self.clock.boot() and left > 0:
            self.clock.advance(left / 1000)
        self.take(self.model.jobs[lease.job].queue, 1, other)

    @precondition(lambda self: self.held())
    @rule(pick=picks, verb=st.sampled_from(VERBS))
    def a_stranger_with_the_right_fence_settles(self, pick: int, verb: str) -> None:
        held = self.held()
        lease, real = held[pick % len(held)]
        claimed = real._claimed._replace(holder=real._claimed.holder ^ 2)
        forged = RealLease(claimed, real.queue, real._jobs)
        nobody = Lease(lease.job, lease.fence, lease.handle, "", lease.length, 0)
        self.end(nobody, forged, verb, 5)

    @precondition(lambda self: self.held())
    @rule(pick=picks, other=handles)
    def a_job_fails_until_it_has_failed(self, pick: int, other: int) -> None:
        held = self.held()
        lease, real = held[pick % len(held)]
        self.end(lease, real, "fail")
        self.clock.advance(9)
        if lease.job in self.model.jobs:
            self.take(self.model.jobs[lease.job].queue, 100, other)

    @rule(
        handle=handles,
        queue=queues,
        step=st.sampled_from([-40, 40, -40_000]),
        when=st.sampled_from(["delay", "run_at", "edit"]),
        held=st.booleans(),
    )
    def the_clock_is_set_while_a_job_waits(
        self, handle: int, queue: str, step: int, when: str, held: bool
    ) -> None:
        asked: dict[str, Any] = {"run_at": self.moment(60)} if when == "run_at" else {"delay": 60}
        job = self.put(queue, handle, priority=1, hold=held, **({} if when == "edit" else asked))
        if when == "edit" and job is not None:
            self.real(job).edit(**asked)
            self.model.edit(job, None, self.wall + 60_000, self.wall, self.base)
        self.clock.step_wall(step)
        self.clock.advance(59)
        self.take(queue, 1, handle)
        if held and job is not None and job.state == "queued":
            self.real(job).unhold()
            self.model.unhold(job, self.wall)
            self.take(queue, 1, handle)

    @precondition(lambda self: self.held())
    @rule(pick=picks, other=handles)
    def a_heartbeat_comes_in_time(self, pick: int, other: int) -> None:
        held = self.held()
        lease, real = held[pick % len(held)]
        self.clock.advance(lease.length / 2000)
        self.end(lease, real, "heartbeat")
        self.clock.advance(lease.length / 1000 - 1)
        self.take(self.model.jobs[lease.job].queue, 1, other)

    @precondition(lambda self: self.held())
    @rule(pick=picks, told=st.integers(1, 2))
    def an_attempt_tells_how_far_it_is(self, pick: int, told: int) -> None:
        held = self.held()
        lease, real = held[pick % len(held)]
        store, now = self.handles[0].store, self.wall
        for n in range(told):
            progress = partial(
                store.jobs.progress, held=real.held, now=now, part=f"{n}%", message=None
            )
            assert store.write(progress)
            self.model.progress(lease)
