"""When the timed leases of a worker need a heartbeat: at a third of their length."""

from __future__ import annotations

from .clock import Clock, Millis


class Beats:
    """The heartbeats of one worker; all that are due go into one transaction."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next: dict[int, tuple[Millis, Millis]] = {}

    def add(self, job: int, lease: Millis | None) -> None:
        """Keep this lease alive from now on; one without an end needs nothing."""
        if lease is not None:
            self._next[job] = (lease, self._clock.awake() + lease // 3)

    def drop(self, job: int) -> None:
        self._next.pop(job, None)

    def soon(self, job: int) -> None:
        """The function said that it makes progress: do not wait for a third of the lease."""
        if job in self._next:
            self._next[job] = (self._next[job][0], 0)

    def waits(self) -> list[Millis]:
        """In how many ms each of them is due."""
        awake = self._clock.awake()
        return [due - awake for _, due in self._next.values()]

    def due(self) -> dict[int, Millis]:
        """If one is due, all of them: the job, and until when its lease then lasts (awake time)."""
        awake = self._clock.awake()
        if not any(due <= awake for _, due in self._next.values()):
            return {}
        self._next = {job: (lease, awake + lease // 3) for job, (lease, _) in self._next.items()}
        return {job: awake + lease for job, (lease, _) in self._next.items()}
