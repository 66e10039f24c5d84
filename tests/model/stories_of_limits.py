"""Stories about pauses, limits of queues, concurrency keys and ageing."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from .stage import KEYS, Stage, endings, handles, picks, queues
from .words import Job

gates = st.sampled_from(sorted(KEYS))


class StoriesOfLimits(Stage):
    # ---- pause ------------------------------------------------------------------------------

    @rule(queue=queues, handle=handles, restart=st.booleans())
    def a_queue_is_paused(self, queue: str, handle: int, restart: bool) -> None:
        self.put(queue, priority=2)
        self.handles[handle].queue(queue).pause()
        self.model.paused.add(queue)
        if restart:
            self.clock.reboot(1)
        self.take(queue, 2, handle)
        assert self.handles[0].queue(queue).paused

    @rule(handle=handles)
    def all_queues_go_on(self, handle: int) -> None:
        for queue in sorted(self.model.paused):
            self.handles[handle].queue(queue).resume()
            self.model.paused.discard(queue)
            assert not self.handles[0].queue(queue).paused
            self.take(queue, 1, handle)

    # ---- how many run and start at once -----------------------------------------------------

    @rule(handle=handles, other=handles, how=endings, one_by_one=st.booleans())
    def a_queue_comes_to_its_limit(
        self, handle: int, other: int, how: str, one_by_one: bool
    ) -> None:
        jobs = [self.put("few", priority=2) for _ in range(4)]
        for _ in range(4 if one_by_one else 1):
            self.take("few", 0 if one_by_one else 5, handle)
        running = next((job for job in jobs if job and job.lease), None)
        if running is not None:
            self.bring_to_an_end(running, how) if how != "die" else self.die(handle)
        self.take("few", 5, other)

    @rule(
        limit=st.sampled_from([1, 2, 5]),
        wait=st.sampled_from([6.999, 7, 8.999, 9, 10]),
        step=st.sampled_from([0, 0, 0, -60, 60]),
        release=st.booleans(),
    )
    def a_queue_has_had_its_starts(self, limit: int, wait: float, step: int, release: bool) -> None:
        for _ in range(4):
            self.put("slow")
        self.take("slow", limit)
        if release and (held := self.held()):
            self.end(*held[-1], "release")
        self.take("slow", 2)
        self.clock.step_wall(step)
        self.clock.advance(wait)
        self.take("slow", 5)
        self.clock.advance(9)
        self.take("slow", 1)

    # ---- keys -------------------------------------------------------------------------------

    @rule(
        queue=st.sampled_from(["a", "b", "old"]),
        key=gates,
        how=st.sampled_from(
            ["complete", "fail", "discard", "snooze", "release", "cancel", "die", "die", "many"]
        ),
        many=st.booleans(),
        other=handles,
        wish=st.sampled_from(["hold", "hold", "retry", "fail"]),
    )
    def the_holder_of_a_key_ends_while_others_wait(
        self, queue: str, key: str, how: str, many: bool, other: int, wish: str
    ) -> None:
        gate = (f"{key} {max(self.model.jobs)}", KEYS[key])
        jobs = [
            self.put(queue, concurrency_key=gate, priority=2, on_interrupt=wish)
            for _ in range(KEYS[key] + 2)
        ]
        for _ in range(1 if many else KEYS[key] + 1):
            self.take(queue, 100 if many else 0)
        running = [job for job in jobs if job is not None and job.lease is not None]
        if how == "die":
            self.die(0)
        elif how == "many":
            leases = [self.lease_of(job) for job in running]
            done = self.handles[other].queue(queue).complete_many([real for _, real in leases])
            assert done == [real for _, real in leases]
            for lease, _ in leases:
                self.model.settle(lease, "complete", 0, "", self.wall, self.base)
        elif running:
            if how == "cancel":
                self.cancel(running[0])
            verb = "fail" if how == "cancel" else how
            if running[0].lease is not None:
                self.end(*self.lease_of(running[0]), verb, 5)
        for _ in range(2):
            self.take(queue, 100 if many else 0, other)

    @rule(
        queue=queues,
        how=st.sampled_from(["hold", "cancel", "edit", "expire", "replace"]),
        pick=picks,
    )
    def one_that_waits_for_a_key_goes_away(self, queue: str, how: str, pick: int) -> None:
        first = self._of_key(queue, pick)
        second = self._of_key(queue, pick, expires=20, unique="waits", on_conflict="replace")
        self._of_key(queue, pick)
        self.take(queue, 100)
        if first is not None and first.lease is not None and pick % 2:
            self.end(*self.lease_of(first), "complete")
        if second is not None and second.state == "queued":
            self._remove(second, how)
        if first is not None and first.lease is not None:
            self.end(*self.lease_of(first), "complete")
        self.take(queue, 100)

    def _of_key(self, queue: str, pick: int, **options: Any) -> Job | None:
        owner = self.model.owner(queue, "waits") if "unique" in options else None
        if owner is not None and owner.state == "running":
            return None
        return self.put(queue, concurrency_key=("one", 1), priority=2, **options)

    def _remove(self, job: Job, how: str) -> None:
        if how == "hold":
            self.real(job).hold()
            self.model.hold(job)
        elif how == "cancel":
            self.cancel(job)
        elif how == "edit":
            self.real(job).edit(delay=60)
            self.model.edit(job, None, self.wall + 60_000, self.wall, self.base)
        elif how == "expire":
            self.clock.advance(25)
        else:
            self.put(job.queue, unique="waits", on_conflict="replace")

    # ---- ageing -----------------------------------------------------------------------------

    @rule(
        wait=st.sampled_from([8.999, 9, 9.001, 20.001]),
        limit=st.sampled_from([0, 1, 2, 100]),
    )
    def one_that_waits_long_goes_before_one_of_more_priority(self, wait: float, limit: int) -> None:
        self.put("old", priority=-1)
        self.clock.advance(wait)
        self.put("old", priority=0)
        self.put("old", priority=1)
        self.take("old", limit)
