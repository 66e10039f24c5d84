"""Whatever is done to jobs, in whatever order: all are filed as they must be, and all end."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from slothqueue import Job, JobNotFound, Lease, LeaseLost, ManualClock, Sloth, WrongState

from .keeping import check_filing, delete_row
from .running import OpenSloth

QUEUES = ("a", "b")


class Anything:
    """A store to which anything is done, by dice."""

    def __init__(self, open_sloth: OpenSloth, clock: ManualClock, seed: int) -> None:
        self.open, self.clock, self.dice = open_sloth, clock, random.Random(seed)
        self.sloths = [open_sloth() for _ in range(2)]
        limits: Any = self.dice.choice([{}, {"concurrency": 2}, {"rate": (3, 20)}, {"ageing": 30}])
        for name in QUEUES:
            self.sloth.queue(name, max_attempts=2, backoff=(0, 0), **limits)
        self.leases: list[Lease] = []
        self.last = 0

    @property
    def sloth(self) -> Sloth:
        return self.dice.choice(self.sloths)

    def queue(self) -> Any:
        return self.sloth.queue(self.dice.choice(QUEUES))

    def job(self) -> Job:
        """Most often one that is live."""
        live = self.sloth.jobs(state=self.dice.choice(["queued", "running"]), limit=1_000)
        if live and self.chance(70):
            return self.dice.choice(live)
        return self.sloth.job(self.dice.randint(1, max(self.last, 1)))

    def chance(self, percent: int) -> bool:
        return self.dice.random() * 100 < percent

    # ---- what is done ---------------------------------------------------------------------------

    def options(self) -> dict[str, Any]:
        asked: dict[str, Any] = {"priority": self.dice.randrange(3)}
        if self.chance(30):
            asked |= {"unique": self.dice.choice("uvw")}
            asked |= {"on_conflict": self.dice.choice(["return", "replace", "error"])}
        if self.chance(25) and self.last:
            asked["after"] = [
                self.dice.randint(1, self.last) for _ in range(self.dice.choice([1, 2, 3]))
            ]
            asked["after_failed"] = self.dice.choice(["cancel", "run"])
        if self.chance(20):
            asked["expires"] = self.dice.choice([0, 10, 300])
        if self.chance(70):
            asked["concurrency_key"] = (self.dice.choice("ggh"), self.dice.choice([1, 1, 2]))
        if self.chance(7):
            asked["hold"] = True
        if self.chance(15):
            asked["delay"] = self.dice.choice([0, 5, 120])
        asked["on_interrupt"] = self.dice.choice(["retry", "hold", "fail"])
        return asked

    def enqueue(self) -> None:
        if self.chance(70):
            self.last = max(self.last, self.queue().enqueue("x", **self.options()).id)
        elif self.chance(50):
            options = self.options()
            options.pop("unique", None)
            self.last = self.queue().enqueue_many([1, 2, 3], **options)[-1].id
        else:
            with self.sloth.transaction() as tx:
                queue = tx.queue(self.dice.choice(QUEUES))
                parent = queue.enqueue("parent", concurrency_key="g")
                self.last = queue.enqueue("child", after=parent).id

    def claim(self) -> None:
        self.leases += self.queue().claim_many(self.dice.choice([1, 2, 5]))

    def end(self) -> None:
        if not self.leases:
            return
        lease = self.leases.pop(self.dice.randrange(len(self.leases)))
        self.dice.choice(
            [
                lease.complete,
                lease.complete,
                lease.release,
                lambda: lease.fail("no"),
                lambda: lease.snooze(self.dice.choice([0, 30])),
                lambda: lease.retry(5, "no"),
                lambda: lease.discard("no"),
            ]
        )()

    def change(self) -> None:
        job = self.job()
        self.dice.choice(
            [
                job.hold,
                job.unhold,
                job.cancel,
                job.revive,
                lambda: job.revive(children=True),
                lambda: job.edit(priority=self.dice.randrange(3)),
                lambda: job.edit(delay=self.dice.choice([0, 60])),
                lambda: job.edit(max_attempts=self.dice.randint(1, 4)),
            ]
        )()

    def pause(self) -> None:
        queue = self.queue()
        queue.resume() if queue.paused else queue.pause()

    def delete(self) -> None:
        job = self.job()
        if job.id < self.last:  # ids are ours: whoever deletes the latest has it given again
            delete_row(self.sloth, job)

    def die(self) -> None:
        dead = self.sloths.pop(self.dice.randrange(2))
        dead.close()
        self.sloths.append(self.open())

    def pass_time(self) -> None:
        self.dice.choice(
            [
                lambda: self.clock.advance(self.dice.choice([1, 10, 61])),
                lambda: self.clock.step_wall(self.dice.choice([-3600, 3600])),
                lambda: self.clock.suspend(100),
            ]
        )()

    def look(self) -> None:
        self.sloth.verbs.upkeep.run()
        self.sloth.prune(self.dice.choice([0, 60])) if self.chance(20) else self.sloth.stats()

    def step(self) -> None:
        acts: list[Callable[[], None]] = [self.enqueue] * 5 + [self.claim] * 5 + [self.end] * 4
        acts += [self.change] * 5 + [self.pass_time] * 2 + [self.look] * 2
        acts += [self.pause, self.delete, self.die]
        with contextlib.suppress(WrongState, LeaseLost, JobNotFound):
            self.dice.choice(acts)()
        check_filing(self.sloth)

    # ---- the end --------------------------------------------------------------------------------

    def finish(self) -> None:
        """Everything is let go, and claimed by one who completes it: nothing may be left."""
        sloth = self.sloths[0]
        self.sloths.pop(1).close()
        for name in QUEUES:
            sloth.queue(name).resume()
        for _ in range(400):
            for job in sloth.jobs(state="queued", limit=1_000):
                if job.refresh().held:
                    job.unhold()
            taken = [lease for name in QUEUES for lease in sloth.queue(name).claim_many(50)]
            for lease in taken:
                lease.complete()
            check_filing(sloth)
            counts = sloth.stats()
            if not counts["queued"] and not counts["running"]:
                return
            self.clock.advance(61)
        raise AssertionError([job.why() for job in sloth.jobs() if not job.ended])


@pytest.mark.parametrize("seed", range(15))
def test_whatever_is_done_every_job_is_where_it_must_be_and_comes_to_an_end(
    open_sloth: OpenSloth, clock: ManualClock, seed: int
):
    store = Anything(open_sloth, clock, seed)
    for _ in range(150):
        store.step()
    store.finish()
