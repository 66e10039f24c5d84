"""Several jobs as one: how they are, when all have ended, and a job that runs then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .codec import bounded
from .handles import Job
from .jobs import Jobs
from .models import STATES
from .timing import Duration, millis


class Group:
    """Jobs that are looked at together. Made by `sloth.group(jobs)`; nothing of it is stored.

    `ids` are those of its jobs; `then` is the job that runs once all of them have ended.
    """

    def __init__(self, ids: Sequence[int], jobs: Jobs, then: Job | None = None) -> None:
        self.ids, self._jobs, self.then = tuple(ids), jobs, then

    @property
    def jobs(self) -> list[Job]:
        """Its jobs as they are now. Raises JobNotFound for one that was pruned."""
        return [self._jobs.get(id) for id in self.ids]

    def counts(self) -> dict[str, int]:
        """How many are in each state; `gone` are those that were pruned."""
        found = self._jobs.states_of(self.ids)
        known = {state: found.get(number, 0) for number, state in enumerate(STATES)}
        return {**known, "gone": len(self.ids) - sum(known.values())}

    @property
    def ended(self) -> bool:
        """Whether all have ended."""
        return not self._jobs.live_of(self.ids, 1)

    def wait(self, timeout: Duration | None = None) -> dict[str, int]:
        """Wait until all have ended, however; returns the counts. Raises TimeoutError."""
        self._jobs.wait_for_all(self.ids, timeout)
        return self.counts()

    def results(self, timeout: Duration | None = None) -> list[Any]:
        """What they returned, in order, once all have ended.

        Raises JobFailed or JobCancelled for the first that has no result, or TimeoutError.
        """
        self._jobs.wait_for_all(self.ids, timeout)
        return [job.result(timeout=0) for job in self.jobs]

    def cancel(self, reason: str | None = None, *, grace: Duration = 10) -> None:
        """Cancel all that have not ended, as `Job.cancel` does."""
        said, wait = None if reason is None else bounded(str(reason)), millis(grace, what="grace")
        self._jobs.control.cancel_all(self._jobs.live_of(self.ids), said, wait)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Job]:
        return iter(self.jobs)

    def __repr__(self) -> str:
        return f"<Group of {len(self.ids)} jobs>"
