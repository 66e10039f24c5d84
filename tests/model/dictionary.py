"""What a queue is, said with a dictionary: no store, no tables, one place for each rule."""

from __future__ import annotations

from slothqueue.models import REASONS

from .limits import Limits
from .waits import Waits
from .words import Job, Lease, Options


class Dictionary(Limits, Waits):
    """Jobs by id. Every method is told what time it is, in ms."""

    def __init__(self, queues: dict[str, Options]) -> None:
        self.queues = queues
        self.jobs: dict[int, Job] = {}
        self.paused: set[str] = set()
        self.starts: dict[str, list[int]] = {queue: [] for queue in queues}
        self.deleted: set[int] = set()
        self.noted: tuple[int, str] | None = None

    # ---- enqueue and claim ------------------------------------------------------------------

    def enqueue(self, job: Job, wall: int, base: int, after: list[int]) -> None:
        assert job.id not in self.jobs, "an id was given twice"
        job.told += [("enqueued", None, None)] + [("held", None, None)] * job.held
        self.jobs[job.id] = job
        self.wait(job, job.due, wall, base if job.base is not None else None)
        if job.expires_base is not None:
            self.note(base)
        self.tie(job, after, wall)

    def wait(self, job: Job, due: int, wall: int, base: int | None) -> None:
        job.due, job.ready, job.base, job.asked = due, due <= wall, base, wall
        if base is not None:
            self.note(base)

    def note(self, base: int) -> None:
        noted, boot = self.noted or (base, "never looked at")
        self.noted = (max(noted, base), boot)

    def claim(self, job: Job, lease: Lease, wall: int) -> None:
        assert lease.fence > job.fence, "a fence did not grow"
        job.state, job.attempts, job.fence, job.lease = "running", job.spent + 1, lease.fence, lease
        job.ready = True
        job.told.append(("claimed", job.attempts, None))
        if rate := self.queues[job.queue].rate:
            late = [start for start in self.starts[job.queue] if start > wall - rate[1]]
            self.starts[job.queue] = [*late, wall]

    # ---- the end of an attempt --------------------------------------------------------------

    def holds(self, lease: Lease) -> bool:
        return lease.job in self.jobs and self.jobs[lease.job].lease is lease

    def progress(self, lease: Lease) -> None:
        job = self.jobs[lease.job]
        if job.told[-1][0] != "progress":
            job.told.append(("progress", job.attempts, None))

    def settle(self, lease: Lease, verb: str, delay: int, error: str, wall: int, base: int) -> None:
        job = self.jobs[lease.job]
        if verb == "heartbeat":
            return None
        attempt, job.lease, asked = job.attempts, None, job.asked_to_stop
        spends = verb not in ("release", "snooze") or asked is not None
        job.asked_to_stop = None
        job.spent = attempt if spends else job.spent
        job.attempts, job.state, job.asked = job.spent, "queued", wall
        if verb == "complete":
            job.told.append(("completed", attempt, None))
            return self.end(job, "done", wall)
        job.error = job.error if verb in ("release", "snooze") else error
        if asked is not None:
            return self.cancel(job, wall, asked, attempt)
        return self._again(job, verb, attempt, delay, wall, base)

    def _again(self, job: Job, verb: str, attempt: int, delay: int, wall: int, base: int) -> None:
        """Unless the attempt was the last."""
        if verb == "discard" or self._fails(job, verb, attempt):
            job.told.append(("failed", attempt, None))
            return self.end(job, "failed", wall)
        if verb in ("release", "snooze"):
            job.told.append(({"release": "released", "snooze": "snoozed"}[verb], attempt, None))
        elif verb in ("fail", "retry"):
            job.told.append(("retried", attempt, None))
        if job.is_expired(wall):
            return self.cancel(job, wall, "expired", attempt)
        if verb == "fail":
            options = self.queues[job.queue]
            delay = min(options.cap, 1000 * options.base**attempt)
        if verb in ("fail", "retry", "snooze"):
            self.wait(job, wall + delay, wall, base if delay else None)
        return None

    def _fails(self, job: Job, verb: str, attempt: int) -> bool:
        if verb in ("fail", "retry"):
            job.told.append(("failed_attempt", attempt, job.error))
        return verb in ("fail", "retry") and attempt >= job.max_attempts

    # ---- the rota ---------------------------------------------------------------------------

    def look(self, wall: int, awake: int, boot: str, base: int) -> None:
        """What who claims does first: see who is dead or silent, and whether the clock fell."""
        self._meet_clock(wall, boot, base)
        self.meet_deleted(wall)
        self.expire(wall)
        for job in list(self.jobs.values()):
            if job.lease is not None and (reason := self._why_lost(job.lease, awake, boot)):
                self._reclaim(job, reason, wall)

    def _why_lost(self, lease: Lease, awake: int, boot: str) -> str | None:
        if lease.boot != boot:
            return "restarted"
        if not lease.alive:
            return "gone"
        return "silent" if lease.until < awake else None

    def _reclaim(self, job: Job, reason: str, wall: int) -> None:
        attempt, asked, job.asked_to_stop = job.attempts, job.asked_to_stop, None
        job.lease, job.error, job.spent = None, REASONS[reason], attempt
        job.state, job.asked, job.base = "queued", wall, None
        if asked is not None:
            return self.cancel(job, wall, asked, attempt)
        job.told.append(("reclaimed", attempt, reason))
        died = reason != "silent"
        if attempt >= job.max_attempts or (died and job.on_interrupt == "fail"):
            job.told.append(("failed", attempt, None))
            return self.end(job, "failed", wall)
        if died and job.on_interrupt == "hold":
            job.told.append(("held", attempt, None))
            job.held = True
        return self.cancel(job, wall, "expired", attempt) if job.is_expired(wall) else None

    def _meet_clock(self, wall: int, boot: str, base: int) -> None:
        ahead = any(start > wall + 100 for starts in self.starts.values() for start in starts)
        fell = self.noted is not None and (base < self.noted[0] - 100 or boot != self.noted[1])
        if not ahead and not fell:
            return
        self.noted = (base, boot)
        for starts in self.starts.values():
            starts[:] = [min(start, wall) for start in starts]
        for job in self.jobs.values():
            if not job.ended and job.expires is not None and (job.expires_base or 0) > base:
                job.expires += base - (job.expires_base or 0)
                job.expires_base = base
            if job.state != "queued" or job.ready or job.base is None:
                continue
            if job.base > base or job.asked > wall:
                delay = job.due - job.asked
                job.due = min(job.due + min(base - job.base, 0), wall + delay)
                job.base, job.asked = base, job.due - delay
