"""What a worker tells the store of its running attempts: heartbeats, and how far they are."""

from __future__ import annotations

from collections.abc import Iterable

from .clock import Clock, Millis
from .runs import Run

BETWEEN_NEWS: Millis = 1_000


class Beats:
    """The heartbeats of one worker; all that are due go into one transaction."""

    def __init__(self, clock: Clock, minded: set[int]) -> None:
        self._clock, self._minded = clock, minded
        self._next: dict[int, tuple[Millis, Millis]] = {}

    def add(self, job: int, lease: Millis | None, since: Millis) -> None:
        """Keep this lease alive, which began at `since`; one without an end needs nothing."""
        if lease is not None:
            self._next[job] = (lease, since + lease // 3)
            self._minded.add(job)

    def drop(self, job: int) -> None:
        if self._next.pop(job, None) is not None:
            self._minded.discard(job)

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
        return {job: awake + lease for job, (lease, _) in self._next.items()}

    def sent(self) -> None:
        """They are written: the next ones are due a third of each lease later."""
        awake = self._clock.awake()
        self._next = {job: (lease, awake + lease // 3) for job, (lease, _) in self._next.items()}


class News:
    """What functions say of their progress: told at most once a second for each."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: dict[int, Millis] = {}

    def waits(self, runs: Iterable[Run]) -> list[Millis]:
        """In how many ms each one that has something to tell may do so."""
        return [self._wait(run) for run in runs if run.news is not None]

    def due(self, runs: Iterable[Run]) -> list[tuple[Run, float, str | None]]:
        """Those that may tell now, with what they say."""
        said = [(run, run.news) for run in runs if run.news is not None and self._wait(run) <= 0]
        for run, news in said:
            self._told[run.held.id] = self._clock.awake()
            if run.news is news:
                run.news = None
        return [(run, *news) for run, news in said if news is not None]

    def drop(self, job: int) -> None:
        self._told.pop(job, None)

    def _wait(self, run: Run) -> Millis:
        told = self._told.get(run.held.id)
        return 0 if told is None else told + BETWEEN_NEWS - self._clock.awake()
