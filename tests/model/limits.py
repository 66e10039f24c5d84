"""The dictionary's rules for which jobs may start, in what order, and why the others do not."""

from __future__ import annotations

from .words import Job, Options


class Limits:
    """Priority and ageing, pauses, the limits of queues and of concurrency keys."""

    jobs: dict[int, Job]
    queues: dict[str, Options]
    paused: set[str]
    starts: dict[str, list[int]]

    # ---- order ------------------------------------------------------------------------------

    def start_order(self, queue: str, wall: int) -> list[Job]:
        """Those whose moment has come and that wait for nobody, first first."""
        due = [job for job in self.jobs.values() if job.queue == queue and self.is_due(job, wall)]
        ageing = self.queues[queue].ageing

        def rank(job: Job) -> float:
            return -job.priority if ageing is None else job.due - job.priority * ageing

        return sorted(due, key=lambda job: (rank(job), job.due, job.id))

    def is_due(self, job: Job, wall: int) -> bool:
        return job.state == "queued" and not job.parked and (job.ready or job.due <= wall)

    def starters(self, queue: str, wall: int, limit: int) -> list[Job]:
        """Those that a claim of so many takes now."""
        limit = 0 if queue in self.paused else min(limit, self.room(queue, wall))
        taken: dict[tuple[str, str], int] = {}
        chosen: list[Job] = []
        for job in self.start_order(queue, wall):
            if len(chosen) < limit and (job.gate is None or self.passes(job, taken)):
                chosen.append(job)
        return chosen

    # ---- limits -----------------------------------------------------------------------------

    def running(self, queue: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.queue == queue and job.lease is not None]

    def room(self, queue: str, wall: int) -> int:
        """How many more may start."""
        options = self.queues[queue]
        room = 1_000_000
        if options.concurrency is not None:
            room = options.concurrency - len(self.running(queue))
        if options.rate is not None:
            most, per = options.rate
            latest = [start for start in self.starts[queue] if start > wall - per]
            room = min(room, most - len(latest))
        return max(room, 0)

    def passes(self, job: Job, taken: dict[tuple[str, str], int]) -> bool:
        assert job.gate is not None
        name, most = job.gate
        key = (job.queue, name)
        taken.setdefault(key, len(self.of_gate(job.queue, name)))
        taken[key] += (passes := taken[key] < most)
        return passes

    def of_gate(self, queue: str, name: str) -> list[Job]:
        """The running jobs of a concurrency key."""
        return [job for job in self.running(queue) if job.gate and job.gate[0] == name]

    # ---- why --------------------------------------------------------------------------------

    def why(self, job: Job, wall: int, by_hand: bool) -> str:
        """A pattern for the sentence that says why a job does not run."""
        options = self.queues[job.queue]
        if job.state != "queued":
            return {"running": "is running", "done": "is done", "failed": "has failed"}.get(
                job.state, "was cancelled"
            )
        if job.is_expired(wall):
            return "has expired at .*as soon as anybody looks"
        if job.held:
            return "is held .*unhold"
        if job.waits:
            named = [id for id in job.parents if id in job.waits][:3]
            return "is blocked by " + ".*".join(f"#{id} " for id in named) + ".*it starts when"
        if not self.is_due(job, wall):
            return "is due at"
        if job.queue in self.paused:
            return f"waits because queue '{job.queue}' is paused since .*resume"
        if not by_hand:
            return "waits because nobody claims it by hand"
        if options.concurrency is not None and len(self.running(job.queue)) >= options.concurrency:
            named = sorted(one.id for one in self.running(job.queue))[:3]
            return f"at its limit of {options.concurrency} by " + ".*".join(f"#{n}" for n in named)
        if options.rate is not None and not self.room(job.queue, wall):
            return f"has had its {options.rate[0]} starts in .*the next may start at"
        if job.gate and not self.passes(job, {}):
            by = ".*".join(f"#{one.id}" for one in self.of_gate(job.queue, job.gate[0]))
            return f"its key '{job.gate[0]}' is at its limit of {job.gate[1]} by {by}"
        return self._turn(job, wall)

    def _turn(self, job: Job, wall: int) -> str:
        order = self.start_order(job.queue, wall)
        before = order[: order.index(job)]
        if not before:
            return "is due, and starts when"
        free = [one for one in before if one.gate is None or self.passes(one, {})]
        return "is due and waits for its turn" if free else "is due"
