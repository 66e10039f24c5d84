"""Stories about keys, parents, expiry, holds, cancelling, reviving, editing, forgetting."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from slothqueue import WrongState

from .stage import Stage, endings, handles, picks, queues
from .words import Job

conflicts = st.sampled_from(["return", "replace", "error"])
plain = st.sampled_from(["a", "b"])


class StoriesOfJobs(Stage):
    # ---- one step each ----------------------------------------------------------------------

    @rule(pick=picks, reason=st.sampled_from(["enough", "wrong"]))
    def somebody_cancels(self, pick: int, reason: str) -> None:
        if job := self.some(pick, "queued", "running", "done"):
            self.cancel(job, reason)

    @rule(pick=picks, state=st.sampled_from(["queued", "queued", "queued", "running", "failed"]))
    def somebody_holds(self, pick: int, state: str) -> None:
        if (job := self.some(pick, state)) and self._may(job, "hold"):
            self.model.hold(job)

    @rule(pick=picks, state=st.sampled_from(["queued", "queued", "queued", "running", "cancelled"]))
    def somebody_lets_it_go(self, pick: int, state: str) -> None:
        held = [job for job in self.model.jobs.values() if job.held]
        job = held[pick % len(held)] if held and state == "queued" else self.some(pick, state)
        if job and self._may(job, "unhold"):
            self.model.unhold(job, self.wall)

    def _may(self, job: Job, verb: str) -> bool:
        """Do it; refused for whatever is not queued."""
        try:
            getattr(self.real(job), verb)()
        except WrongState:
            assert job.state != "queued"
            return False
        assert job.state == "queued"
        return True

    @rule(pick=picks, children=st.booleans(), handle=handles)
    def somebody_revives(self, pick: int, children: bool, handle: int) -> None:
        if job := self.some(pick, "failed", "cancelled", *(["done"] if pick % 9 == 0 else [])):
            self.revive(job, children=children, handle=handle)

    @rule(
        pick=picks,
        priority=st.sampled_from([None, -1, 0, 2]),
        delay=st.sampled_from([None, None, 0, 3, 60]),
        moment=st.booleans(),
        state=st.sampled_from(["queued", "queued", "queued", "running", "failed", "done"]),
    )
    def somebody_edits(
        self, pick: int, priority: int | None, delay: int | None, moment: bool, state: str
    ) -> None:
        if (job := self.some(pick, state)) is None or (priority, delay) == (None, None):
            return
        when = None if delay is None or not moment else self.moment(delay)
        try:
            self.real(job).edit(priority=priority, delay=None if when else delay, run_at=when)
        except WrongState:
            assert job.state in ("running", "done") or (job.ended and delay is not None)
            return
        assert job.state == "queued" or not (job.state in ("running", "done") or delay is not None)
        due = None if delay is None else self.wall + 1000 * delay
        self.model.edit(job, priority, due, self.wall, 0 if moment else self.base)

    @rule(
        states=st.lists(st.sampled_from(["done", "failed", "cancelled"]), unique=True),
        age=st.sampled_from([None, 0, 1, 100]),
        only=st.one_of(st.none(), queues),
        wait=st.sampled_from([0, 99.999, 100, 86_400 * 7]),
    )
    def somebody_prunes(
        self, states: list[str], age: int | None, only: str | None, wait: float
    ) -> None:
        self.clock.advance(wait)
        chosen = states or ["done", "failed", "cancelled"]
        if age is None:
            states, chosen = [], ["done", "cancelled"]
        gone = self.handles[0].prune(age, states=states or None, queue=only)
        old = None if age is None else 1000 * age
        assert gone == self.model.prune(self.wall, old, chosen, only)

    @rule(pick=picks, run=st.booleans())
    def somebody_deletes_a_parent(self, pick: int, run: bool) -> None:
        job = self.some(pick, "queued", "running", "done")
        if job is None:
            return
        self.put("a", after=[job.id], after_failed="run" if run else "cancel")
        with self.handles[1].transaction() as tx:
            tx.execute("delete from _sloth_job where id = ?", (job.id,))
        self.model.delete(job.id)
        self.take("a", 1)

    # ---- keys -------------------------------------------------------------------------------

    @rule(
        handle=handles,
        queue=plain,
        state=st.sampled_from(["queued", "later", "held", "running", "put back", "ended"]),
        how=endings,
        conflict=conflicts,
    )
    def a_key_comes_again_at_each_state(
        self, handle: int, queue: str, state: str, how: str, conflict: str
    ) -> None:
        key = f"again {max(self.model.jobs)}"
        first = self.put(
            queue,
            unique=key,
            priority=2,
            delay=30 if state == "later" else 0,
            hold=state == "held",
        )
        if first is not None and state in ("running", "put back", "ended"):
            self.take(queue, 100)
            if state == "put back" and first.lease is not None:
                self.end(*self.lease_of(first), "fail")
            elif state == "ended":
                self.bring_to_an_end(first, how)
        if first is not None and first.lease is not None:
            self.put(queue, handle, unique=key, on_conflict="replace")
        self.put(queue, handle, unique=key, on_conflict=conflict)
        self.put(queue, handle, unique=key, on_conflict="return")

    @rule(queue=plain, how=endings, key=st.sampled_from(["again", "x"]))
    def a_key_is_taken_when_its_first_holder_comes_back(
        self, queue: str, how: str, key: str
    ) -> None:
        first = self.put(queue, unique=key, priority=2, max_attempts=1)
        if first is None:
            return
        self.bring_to_an_end(first, how)
        if how == "die":
            self.take(queue)
        self.put(queue, unique=key)
        if first.id in self.model.jobs:
            self.revive(first)

    @rule(
        queue=plain,
        run=st.booleans(),
        after=st.sampled_from(["nobody", "somebody", "bad", "itself", "its child"]),
        how=endings,
    )
    def it_is_replaced_while_children_wait(
        self, queue: str, run: bool, after: str, how: str
    ) -> None:
        old = self.put(queue, unique="parent", hold=True)
        old = old or self.model.owner(queue, "parent")
        assert old is not None
        failed = "run" if run else "cancel"
        child = self.put(queue, after=[old.id], after_failed=failed)
        assert child is not None
        grandchild = self.put(queue, after=[child.id])
        parents = {"nobody": [], "itself": [old.id], "its child": [grandchild and grandchild.id]}
        if after in ("somebody", "bad"):
            other = self.put(queue)
            assert other is not None
            parents[after] = [other.id]
            if after == "bad":
                self.cancel(other)
        new = self.put(
            queue, priority=2, unique="parent", on_conflict="replace", after=parents[after]
        )
        if new is not None and new.state == "queued":
            self.bring_to_an_end(new, how)
        self.take(queue, 3)

    # ---- parents ----------------------------------------------------------------------------

    @rule(
        queue=queues,
        how=endings,
        run=st.booleans(),
        held=st.booleans(),
        delay=st.sampled_from([0, 20]),
        back=st.booleans(),
        by_hand=st.booleans(),
    )
    def a_parent_ends_with_grandchildren(
        self, queue: str, how: str, run: bool, held: bool, delay: int, back: bool, by_hand: bool
    ) -> None:
        parent = self.put(queue, priority=2, max_attempts=1)
        assert parent is not None
        failed = "run" if run else "cancel"
        child = self.put(queue, after=[parent.id], after_failed=failed, hold=held, delay=delay)
        assert child is not None
        self.put("a", after=[child.id], priority=2)
        self.put("a", after=[child.id, parent.id], after_failed="run")
        if by_hand:
            self.cancel(child)
        self.bring_to_an_end(parent, how)
        self.take("a", 2)
        if back and parent.id in self.model.jobs:
            self.revive(parent, children=True)
            self.take("a", 3)

    @rule(how=endings, swapped=st.booleans(), children=st.booleans(), then=endings)
    def a_diamond_comes_back(self, how: str, swapped: bool, children: bool, then: str) -> None:
        """The last one waits for a sibling and for the child of the other sibling."""
        top = self.put("a", priority=2, max_attempts=1)
        assert top is not None
        left, right = self.put("a", after=[top.id]), self.put("a", after=[top.id])
        assert left is not None and right is not None
        if swapped:
            left, right = right, left
        below = self.put("a", after=[right.id])
        assert below is not None
        self.put("a", after=[left.id, below.id])
        self.bring_to_an_end(top, how)
        self.take("b")
        if self.revive(top, children=children):
            self.take("a", 100)
            if top.lease is not None:
                self.end(*self.lease_of(top), "discard" if then == "discard" else "complete")
            self.take("a", 1)
            if left.lease is not None:
                self.end(*self.lease_of(left), "complete")
            self.take("a", 100)

    @rule(pick=picks, handle=handles, run=st.booleans(), wait=st.booleans())
    def it_runs_after_one_that_has_ended(
        self, pick: int, handle: int, run: bool, wait: bool
    ) -> None:
        ended = self.some(pick, "done", "failed", "cancelled")
        if ended is None:
            return
        after = [ended.id]
        if wait and (other := self.some(pick, "queued", "running")):
            after.insert(pick % 2, other.id)
        job = self.put("a", handle, after=after, after_failed="run" if run else "cancel")
        assert job is not None
        self.put("a", handle, after=[job.id], priority=2)
        self.take("a", 100, handle)

    @rule(how=endings, queue=plain)
    def it_is_forgotten_while_a_child_waits_for_another(self, how: str, queue: str) -> None:
        first, second = self.put(queue, priority=2), self.put(queue, hold=True)
        assert first is not None and second is not None
        child = self.put(queue, after=[first.id, second.id])
        self.bring_to_an_end(first, how)
        assert self.handles[0].prune(0) == self.model.prune(
            self.wall, 0, ["done", "failed", "cancelled"], None
        )
        assert child is not None

    # ---- expiry -----------------------------------------------------------------------------

    @rule(
        queue=queues,
        how=st.sampled_from(["queued", "held", "blocked", "later", "fail", "snooze", "release"]),
        step=st.sampled_from([0, 0, -40, 40]),
        exactly=st.booleans(),
        twice=st.booleans(),
    )
    def it_expires(self, queue: str, how: str, step: int, exactly: bool, twice: bool) -> None:
        parent = self.put(queue, hold=True) if how == "blocked" else None
        after = [parent.id] if parent else []
        delay = 30 if how == "later" else 0
        job = self.put(queue, priority=2, expires=20, after=after, delay=delay, hold=how == "held")
        assert job is not None
        self.put("a", after=[job.id], expires=20 if twice else 50)
        if how in ("fail", "snooze", "release"):
            self.take(queue, 100)
            if job.lease is not None:
                self.end(*self.lease_of(job), how)
        self.clock.step_wall(step)
        left = (job.expires or 0) + min(0, 1000 * step) - self.wall - 1000
        if left > 0:
            self.clock.advance((left - (not exactly)) / 1000)
        self.take(queue, 100)

    @rule(
        queue=plain,
        verb=st.sampled_from(["fail", "retry", "snooze", "release", "complete", "die", "wait"]),
    )
    def it_expires_while_it_runs(self, queue: str, verb: str) -> None:
        job = self.put(queue, priority=2, expires=20)
        self.take(queue, 100)
        if job is None or job.lease is None:
            return
        self.clock.advance(21)
        if verb == "die":
            self.die(job.lease.handle)
        elif verb != "wait":
            self.end(*self.lease_of(job), verb)
        self.take(queue, 100)

    @rule(queue=plain, late=st.booleans(), how=endings)
    def one_that_expires_is_revived(self, queue: str, late: bool, how: str) -> None:
        job = self.put(queue, priority=2, expires=20, max_attempts=1)
        assert job is not None
        if late:
            self.clock.advance(30)
            self.take(queue)
        else:
            self.bring_to_an_end(job, how)
        if job.id in self.model.jobs and self.revive(job):
            self.clock.advance(0 if late else 30)
            self.take(queue, 100)
            if job.lease is not None:
                self.end(*self.lease_of(job), "release")
                self.take(queue, 100)

    # ---- cancel, hold, revive, interrupt ----------------------------------------------------

    @precondition(lambda self: self.held())
    @rule(
        pick=picks,
        verb=st.sampled_from(["complete", "fail", "retry", "snooze", "release", "discard", "die"]),
        twice=st.booleans(),
    )
    def it_is_cancelled_while_it_runs(self, pick: int, verb: str, twice: bool) -> None:
        held = self.held()
        lease, real = held[pick % len(held)]
        job = self.model.jobs[lease.job]
        self.put("a", after=[job.id])
        self.cancel(job)
        if twice:
            self.cancel(job, "again")
        if verb == "die":
            self.die(lease.handle)
        else:
            self.end(lease, real, verb, 5)
        self.take(job.queue, 2)

    @rule(
        wish=st.sampled_from(["retry", "hold", "fail"]),
        how=st.sampled_from(["die", "restart", "stall"]),
        attempts=st.sampled_from([1, 2, 2]),
        step=st.sampled_from([0, -50]),
    )
    def its_process_dies_in_the_middle(self, wish: str, how: str, attempts: int, step: int) -> None:
        job = self.put("a", priority=2, on_interrupt=wish, max_attempts=attempts)
        self.take("a", 100)
        if job is None or job.lease is None:
            return
        if how == "die":
            self.die(job.lease.handle)
        elif how == "restart":
            self.clock.reboot(1)
        else:
            self.clock.advance(61)
        self.clock.step_wall(step)
        self.take("a", 100)
        if job.held:
            self.real(job).unhold()
            self.model.unhold(job, self.wall)
            self.take("a", 100)

    @rule(queue=plain, fails=st.integers(1, 3))
    def it_is_revived_again_and_again(self, queue: str, fails: int) -> None:
        job = self.put(queue, priority=2, max_attempts=2)
        assert job is not None
        for _ in range(fails):
            for _ in range(3):
                self.clock.advance(9)
                self.take(queue, 100)
                if job.lease is not None:
                    self.end(*self.lease_of(job), "retry")
            if not self.revive(job):
                return

    @rule(
        queue=plain,
        step=st.sampled_from([0, -50]),
        how=st.sampled_from(["hold", "edit", "after"]),
    )
    def one_whose_moment_has_come_is_kept_back(self, queue: str, step: int, how: str) -> None:
        parent = self.put(queue, priority=2)
        assert parent is not None
        job = self.put(queue, priority=2, after=[parent.id] if how == "after" else [])
        assert job is not None
        self.clock.step_wall(step)
        if how == "hold" and self._may(job, "hold"):
            self.model.hold(job)
            self.take(queue, 100)
            if self._may(job, "unhold"):
                self.model.unhold(job, self.wall)
        elif how == "edit":
            self.real(job).edit(priority=3)
            self.model.edit(job, 3, None, self.wall, 0)
        else:
            self.bring_to_an_end(parent, "complete")
        self.take(queue, 100)
