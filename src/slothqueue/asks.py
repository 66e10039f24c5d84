"""What others ask of running attempts: to be cancelled, step by step, and to be sent input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .clock import Millis
from .runs import Run
from .storage.base import Ask, Store, Tx


class Cancel(NamedTuple):
    """An attempt on its way out. The next step is taken at `due`, awake time, if one is left."""

    step: int
    grace: Millis
    due: Millis | None


class Asks:
    """The requests to the attempts of one worker."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cancels: dict[int, Cancel] = {}

    def look(self, me: int, runs: Mapping[int, Run]) -> None:
        """Act on what is asked of these attempts."""
        asks = self._store.look(lambda tx: self._store.waits.asks_of(tx, me))
        for ask in asks:
            run = runs.get(ask.job)
            if run is not None and ask.kind == "cancel":
                self._cancel(run, int(ask.detail or 0))
        self._send([ask for ask in asks if ask.kind != "cancel"], runs)

    def _send(self, asks: list[Ask], runs: Mapping[int, Run]) -> None:
        if asks:  # taken first: a store that is locked just now must not have it sent twice
            self._store.write(lambda tx: self._take(tx, asks), durable=False, tell=False)
        for ask in asks:
            if (run := runs.get(ask.job)) is not None:
                run.send(None if ask.kind == "eof" else ask.detail or "")

    def _take(self, tx: Tx, asks: list[Ask]) -> None:
        for ask in asks:
            self._store.waits.take_ask(tx, ask.n)

    def _cancel(self, run: Run, grace: Millis) -> None:
        known = self._cancels.get(run.held.id)
        if known is None:
            self._cancels[run.held.id] = self._next(run, 0, grace)
        elif known.due is not None and grace < known.grace:  # asked again, for sooner
            sooner = known.due - known.grace + grace
            self._cancels[run.held.id] = known._replace(grace=grace, due=sooner)

    def keep_time(self, runs: Mapping[int, Run]) -> None:
        """Take the steps that are due."""
        awake = self._store.clock.awake()
        for job, cancel in list(self._cancels.items()):
            if cancel.due is not None and cancel.due <= awake and job in runs:
                self._cancels[job] = self._next(runs[job], cancel.step, cancel.grace)

    def _next(self, run: Run, step: int, grace: Millis) -> Cancel:
        wait = run.cancel(step, grace)
        due = None if wait is None else self._store.clock.awake() + wait
        return Cancel(step + 1, grace, due)

    def waits(self) -> list[Millis]:
        """In how many ms the next steps are due."""
        awake = self._store.clock.awake()
        return [one.due - awake for one in self._cancels.values() if one.due is not None]

    def drop(self, job: int) -> None:
        self._cancels.pop(job, None)
