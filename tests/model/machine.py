"""Drives a store and a dictionary side by side, and compares them after every step."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from .stage import KEYS, VERBS, Stage, handles, picks, queues, seconds
from .stories import Stories
from .stories_of_jobs import StoriesOfJobs
from .stories_of_limits import StoriesOfLimits

A_FEW = 3
"""So many jobs are asked why at each step."""


class Steps(Stage):
    """Anything at any time."""

    @rule(
        handle=handles,
        queue=queues,
        when=st.sampled_from(["now", "delay", "run_at"]),
        later=seconds,
        parents=st.lists(picks, max_size=2),
        options=st.fixed_dictionaries(
            {},
            optional={
                "priority": st.integers(-1, 1),
                "max_attempts": st.sampled_from([1, 2, 3]),
                "unique": st.sampled_from(["x", "y"]),
                "on_conflict": st.sampled_from(["return", "replace", "error"]),
                "after_failed": st.sampled_from(["cancel", "run"]),
                "expires": st.sampled_from([0, 3, 70]),
                "concurrency_key": st.sampled_from(sorted(KEYS.items())),
                "on_interrupt": st.sampled_from(["retry", "hold", "fail"]),
                "hold": st.booleans(),
            },
        ),
    )
    def enqueue(
        self,
        handle: int,
        queue: str,
        when: str,
        later: int,
        parents: list[int],
        options: dict[str, Any],
    ) -> None:
        if when != "now":  # a moment may be a little of the past
            options |= {when: later if when == "delay" else self.moment(later - 2)}
        if options.get("hold") is False and len(parents) == 2 and self.model.jobs:
            known = sorted(self.model.jobs)[-6:]
            options["after"] = list(dict.fromkeys(known[pick % len(known)] for pick in parents))
        self.put(queue, handle, **options)

    @rule(handle=handles, queue=queues, limit=st.sampled_from([0, 1, 2, 5]))
    def claim(self, handle: int, queue: str, limit: int) -> None:
        self.take(queue, limit, handle)

    @precondition(lambda self: self.leases)
    @rule(pick=picks, verb=st.sampled_from(VERBS), delay=seconds)
    def settle(self, pick: int, verb: str, delay: int) -> None:
        self.end(*self.leases[pick % len(self.leases)], verb, delay)

    @precondition(lambda self: self.held())
    @rule(pick=picks, verb=st.sampled_from(VERBS), delay=seconds)
    def settle_what_is_held(self, pick: int, verb: str, delay: int) -> None:
        held = self.held()
        self.end(*held[pick % len(held)], verb, delay)

    @precondition(lambda self: self.leases)
    @rule(handle=handles, count=st.integers(1, 6))
    def complete_many(self, handle: int, count: int) -> None:
        latest = self.leases[-count:]
        expected = [(lease, real) for lease, real in latest if self.model.holds(lease)]
        done = self.handles[handle].queue("a").complete_many([real for _, real in latest])
        assert done == [real for _, real in expected]
        for lease, _ in expected:
            self.model.settle(lease, "complete", 0, "", self.wall, self.base)

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
        self.die(handle)

    @rule(after=st.sampled_from([1, 30, 100_000]))
    def the_machine_restarts(self, after: int) -> None:
        self.clock.reboot(after)


class QueueMachine(Stories, StoriesOfJobs, StoriesOfLimits, Steps):
    """All of it, and what must be the same."""

    def teardown(self) -> None:
        try:
            self.same_history()
        finally:
            super().teardown()

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
            assert (found.held, found.unique) == (job.held, job.key)
            assert found.blocked == (bool(job.waits) and job.state == "queued"), found
            if job.state == "queued":
                assert millis(found.run_at) == job.due, f"{found.run_at}, not {job}"
                assert found.max_attempts == job.max_attempts
                assert millis(found.expires_at) == job.expires, found
            if job.state == "cancelled":
                self.same_message(job, found)

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
    def same_places_at_the_end(self) -> None:
        self.same_places()

    @invariant()
    def same_counts(self) -> None:
        jobs = list(self.model.jobs.values())
        states = [job.state for job in jobs]
        counts = self.handles[0].stats()
        for state in ("queued", "running", "done", "failed", "cancelled"):
            assert counts[state] == states.count(state), state
        waiting = [job for job in jobs if job.state == "queued"]
        assert counts["held"] == sum(job.held for job in waiting)
        assert counts["blocked"] == sum(bool(job.waits) for job in waiting)
        later = [job for job in waiting if not job.parked and not self.model.is_due(job, self.wall)]
        assert counts["scheduled"] == len(later), later

    @invariant()
    def same_reasons(self) -> None:
        """A few jobs, those that wait first, say why they do not run."""
        by_hand = any(sloth.presence.registered for sloth in self.handles)
        jobs = sorted(self.model.jobs.values(), key=lambda job: (job.state != "queued", -job.id))
        for job in jobs[:A_FEW]:
            pattern, told = self.model.why(job, self.wall, by_hand), self.real(job).why()
            assert re.search(f"^job {job.id} .*{pattern}", told), f"{told!r}, not {pattern!r}"

    def same_history(self) -> None:
        for id, job in self.model.jobs.items():
            events = self.handles[0].job(id).events()
            told = [(event.kind, event.attempt) for event in events]
            assert told == [(kind, attempt) for kind, attempt, _ in job.told], job
            taken = [event.reason for event in events if event.kind == "reclaimed"]
            assert taken == [reason for kind, _, reason in job.told if kind == "reclaimed"]


def millis(moment: Any) -> int | None:
    return None if moment is None else round(1000 * moment.timestamp())
