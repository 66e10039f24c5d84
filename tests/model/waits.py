"""The dictionary's rules for what a job waits for, and for what follows from its end."""

from __future__ import annotations

from collections.abc import Collection

from .words import Job, Options


class Waits:
    """Keys, parents, expiry, holds; cancel, revive, edit, prune."""

    jobs: dict[int, Job]
    queues: dict[str, Options]
    deleted: set[int]

    def wait(self, job: Job, due: int, wall: int, base: int | None) -> None:
        raise NotImplementedError

    def note(self, base: int) -> None:
        raise NotImplementedError

    def is_live(self, id: int) -> bool:
        return id in self.jobs and not self.jobs[id].ended

    # ---- keys -------------------------------------------------------------------------------

    def owner(self, queue: str, key: str) -> Job | None:
        """The live job that has this key."""
        having = [job for job in self.jobs.values() if (job.queue, job.key) == (queue, key)]
        live = [job for job in having if not job.ended]
        assert len(live) < 2, "two live jobs have one key"
        return live[0] if live else None

    def waits_for(self, ids: Collection[int], other: int) -> bool:
        """Whether one of these waits for the other in the end, or is it."""
        seen: set[int] = set()
        left = list(ids)
        while left:
            id = left.pop()
            if id not in seen and id in self.jobs:
                seen.add(id)
                left += self.jobs[id].waits
        return other in seen

    def replace(self, old: Job, new: int, wall: int) -> None:
        """Another job takes its key and its children."""
        for job in self.jobs.values():
            if old.id in job.waits:
                job.waits = job.waits - {old.id} | {new}
                job.parents = [new if id == old.id else id for id in job.parents]
        self.cancel(old, wall, f"replaced:{new}")

    # ---- parents ----------------------------------------------------------------------------

    def tie(self, job: Job, after: list[int], wall: int) -> None:
        """Have it wait for those that live; one that has ended badly may end it at once."""
        job.parents, job.waits = after, {id for id in after if self.is_live(id)}
        bad = [id for id in after if self.jobs[id].state in ("failed", "cancelled")]
        if bad and job.after_failed == "cancel":
            self.cancel(job, wall, "parent")

    def end(self, job: Job, state: str, wall: int) -> None:
        """Whatever brought it there: its key is free, and its children are told."""
        job.state, job.finished, job.lease, job.held = state, wall, None, False
        self._tell_children(job.id, state == "done", wall)

    def _tell_children(self, id: int, well: bool, wall: int) -> None:
        waiting = [job for job in self.jobs.values() if id in job.waits]
        for child in waiting:
            child.waits.discard(id)
            if not well and child.state == "queued" and child.after_failed == "cancel":
                self.cancel(child, wall, "parent")
        for child in waiting:
            self.let_go(child, wall)

    def let_go(self, job: Job, wall: int) -> None:
        """If nothing keeps it any more, it waits for its moment and its turn."""
        if job.state == "queued" and not job.parked and job.due <= wall:
            job.ready = True

    def meet_deleted(self, wall: int) -> None:
        for id in sorted(self.deleted):
            self._tell_children(id, False, wall)
        self.deleted.clear()

    # ---- cancel, hold, expire ---------------------------------------------------------------

    def cancel(self, job: Job, wall: int, because: str, attempt: int | None = None) -> None:
        job.told.append(("cancelled", attempt, None))
        job.because, job.parent = because, None
        self.end(job, "cancelled", wall)

    def expire(self, wall: int) -> None:
        """Cancel those that have not started in time."""
        late = [job for job in self.jobs.values() if job.is_expired(wall)]
        for job in sorted(late, key=lambda job: (job.expires, job.id)):
            if job.state == "queued":
                self.cancel(job, wall, "expired")

    def hold(self, job: Job) -> None:
        if not job.held:
            job.held = True
            job.told.append(("held", None, None))

    def unhold(self, job: Job, wall: int) -> None:
        if job.held:
            job.held = False
            job.told.append(("unheld", None, None))
            self.let_go(job, wall)

    # ---- revive and edit --------------------------------------------------------------------

    def family(self, job: Job, children: bool) -> list[Job]:
        """Who is put back with it: those that were cancelled because of it, and so on."""
        found = [job]
        for one in found if children else []:
            went = [job for job in self.jobs.values() if one.id in job.parents]
            found += [
                job
                for job in went
                if job.state == "cancelled"
                and job.because == "parent"
                and job.parent == one.id
                and job not in found
            ]
        return found

    def revive(self, jobs: list[Job], wall: int) -> None:
        for job in jobs:
            job.state, job.max_attempts, job.because = "queued", job.spent + job.budget, None
            self.wait(job, wall, wall, None)
            job.told.append(("revived", None, None))
            if job.is_expired(wall):
                job.expires = job.expires_base = None
        for job in jobs:
            job.waits = {id for id in job.parents if self.is_live(id)}

    def edit(self, job: Job, priority: int | None, due: int | None, wall: int, base: int) -> None:
        """`base` is for a delay, 0 for a moment."""
        asked = (due, base or None, wall)
        moved = due is not None and asked != (job.due, job.base, job.asked)
        changed = moved or priority not in (None, job.priority)
        job.priority = job.priority if priority is None else priority
        if moved and base:
            self.note(base)
        if moved and due is not None and due != job.due:
            self.wait(job, due, wall, base or None)
        if changed:
            job.told.append(("edited", None, None))

    # ---- forget -----------------------------------------------------------------------------

    def prune(self, wall: int, age: int | None, states: Collection[str], queue: str | None) -> int:
        """Forget those that ended long ago; the latest id of all stays. How many there were."""
        latest, gone = max(self.jobs), []
        for job in self.jobs.values():
            keep = self.queues[job.queue].keep if age is None else age
            old = keep is not None and job.finished + keep <= wall
            if job.state in states and old and queue in (None, job.queue) and job.id < latest:
                gone.append(job.id)
        needed = {id for job in self.jobs.values() if not job.ended for id in job.parents}
        for id in set(gone) - needed:
            del self.jobs[id]
        return len(set(gone) - needed)

    def delete(self, id: int) -> None:
        """Somebody deletes the row of a job."""
        del self.jobs[id]
        if any(id in job.waits for job in self.jobs.values()):
            self.deleted.add(id)
