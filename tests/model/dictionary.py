"""What a queue is, said with a dictionary: no store, no tables, one place for each rule."""

from __future__ import annotations

from dataclasses import dataclass, field

from slothqueue.models import REASONS

SECOND = 1_000


@dataclass
class Lease:
    """What the model knows of a lease that was handed out."""

    job: int
    fence: int
    handle: int
    boot: str
    length: int
    until: int
    alive: bool = True


@dataclass
class Job:
    id: int
    queue: str
    priority: int
    due: int
    max_attempts: int
    asked: int
    base: int | None = None
    ready: bool = False
    state: str = "queued"
    attempts: int = 0
    spent: int = 0
    error: str | None = None
    fence: int = 0
    lease: Lease | None = None
    told: list[tuple[str, int | None, str | None]] = field(default_factory=list)


@dataclass
class Options:
    """Of a queue, in ms."""

    lease: int
    base: int
    cap: int
    max_attempts: int


class Dictionary:
    """Jobs by id. Every method is told what time it is."""

    def __init__(self, queues: dict[str, Options]) -> None:
        self.queues = queues
        self.jobs: dict[int, Job] = {}
        self.noted: tuple[int, str] | None = None
        self.boot = ""

    # ---- enqueue and claim ------------------------------------------------------------------

    def enqueue(self, job: Job, wall: int, base: int) -> None:
        assert job.id not in self.jobs, "an id was given twice"
        job.told.append(("enqueued", None, None))
        self.jobs[job.id] = job
        self._wait(job, job.due, wall, base if job.base is not None else None)

    def _wait(self, job: Job, due: int, wall: int, base: int | None) -> None:
        job.due, job.ready, job.base, job.asked = due, due <= wall, base, wall
        if base is not None:
            noted, boot = self.noted or (base, "never looked at")
            self.noted = (max(noted, base), boot)

    def start_order(self, queue: str, wall: int) -> list[Job]:
        """The jobs that may start now, first first."""
        waiting = [job for job in self.jobs.values() if job.state == "queued"]
        due = [job for job in waiting if job.queue == queue and (job.ready or job.due <= wall)]
        for job in due:
            job.ready = True
        return sorted(due, key=lambda job: (-job.priority, job.due, job.id))

    def claim(self, job: Job, lease: Lease) -> None:
        assert lease.fence > job.fence, "a fence did not grow"
        job.state, job.attempts, job.fence, job.lease = "running", job.spent + 1, lease.fence, lease
        job.told.append(("claimed", job.attempts, None))

    # ---- the end of an attempt --------------------------------------------------------------

    def holds(self, lease: Lease) -> bool:
        return self.jobs[lease.job].lease is lease

    def settle(self, lease: Lease, verb: str, delay: int, error: str, wall: int, base: int) -> None:
        job = self.jobs[lease.job]
        if verb == "heartbeat":
            return
        attempt, job.lease = job.attempts, None
        if verb == "complete":
            job.state, job.spent = "done", attempt
            job.told.append(("completed", attempt, None))
        elif verb in ("release", "snooze"):
            job.state, job.attempts = "queued", job.spent
            job.told.append(({"release": "released", "snooze": "snoozed"}[verb], attempt, None))
            if verb == "snooze":
                self._wait(job, wall + delay, wall, base if delay else None)
        else:
            self._fail(job, verb, attempt, delay, error, wall, base)

    def _fail(
        self, job: Job, verb: str, attempt: int, delay: int, error: str, wall: int, base: int
    ) -> None:
        job.spent, job.error = attempt, error
        if verb != "discard":
            job.told.append(("failed_attempt", attempt, error))
        if verb == "discard" or attempt >= job.max_attempts:
            job.state = "failed"
            job.told.append(("failed", attempt, None))
            return
        if verb == "fail":
            options = self.queues[job.queue]
            delay = min(options.cap, 1000 * options.base**attempt)
        job.state = "queued"
        job.told.append(("retried", attempt, None))
        self._wait(job, wall + delay, wall, base if delay else None)

    # ---- the rota ---------------------------------------------------------------------------

    def look(self, wall: int, awake: int, boot: str, base: int) -> None:
        """What who claims does first: see who is dead or silent, and whether the clock fell."""
        self._meet_clock(wall, boot, base)
        for job in self.jobs.values():
            if job.lease is not None and (reason := self._why_lost(job.lease, awake, boot)):
                self._reclaim(job, reason)

    def _why_lost(self, lease: Lease, awake: int, boot: str) -> str | None:
        if lease.boot != boot:
            return "restarted"
        if not lease.alive:
            return "gone"
        return "silent" if lease.until < awake else None

    def _reclaim(self, job: Job, reason: str) -> None:
        job.lease, job.error, job.spent = None, REASONS[reason], job.attempts
        job.told.append(("reclaimed", job.attempts, reason))
        job.state = "failed" if job.attempts >= job.max_attempts else "queued"
        if job.state == "failed":
            job.told.append(("failed", job.attempts, None))

    def _meet_clock(self, wall: int, boot: str, base: int) -> None:
        if self.noted is None or (base >= self.noted[0] - 100 and boot == self.noted[1]):
            return
        self.noted = (base, boot)
        for job in self.jobs.values():
            if job.state != "queued" or job.ready or job.base is None:
                continue
            if job.base > base or job.asked > wall:
                delay = job.due - job.asked
                job.due = min(job.due + min(base - job.base, 0), wall + delay)
                job.base, job.asked = base, job.due - delay
