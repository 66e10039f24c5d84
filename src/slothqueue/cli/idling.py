"""A worker that ends itself when it has had nothing to do for a while."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ..clock import Millis
from ..errors import StoreUnavailable
from .needs import Server

if TYPE_CHECKING:
    from ..client import Sloth
    from ..worker import Worker

SHORTEST, LONGEST = 0.02, 30.0  # seconds between two looks


def run_until_unneeded(sloth: Sloth, worker: Worker, limit: Millis) -> None:
    """Run jobs until told to stop, or until for `limit` nothing ran and nothing waited for us.

    Jobs for later and retries do wait for us. No job is missed: who queues one looks for a worker
    afterwards, and we look for a job after we have said that we are no worker any more.
    """
    server = Server(worker.queues, sloth.tasks)
    while True:
        idle = Idle(sloth, worker, server, limit)
        idle.start()
        try:
            worker.run()
        finally:
            idle.end()
        if not idle.gave_up or not sloth.store.read(lambda tx: _waits(sloth, server, tx)):
            return


class Idle:
    """Looks from time to time, in a thread of its own, whether the worker is needed."""

    def __init__(self, sloth: Sloth, worker: Worker, server: Server, limit: Millis) -> None:
        self._sloth, self._worker, self._server, self._limit = sloth, worker, server, limit
        self._pause = min(max(limit / 4000, SHORTEST), LONGEST)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="sloth-idle", daemon=True)
        self.gave_up = False
        """Whether it was this that ended the worker."""

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        clock = self._sloth.clock
        since, settled = clock.awake(), self._worker.settled
        while not self._over.wait(self._pause):
            if self._is_busy() or settled != self._worker.settled:
                since, settled = clock.awake(), self._worker.settled
            elif clock.awake() - since >= self._limit:
                self.gave_up = True
                self._worker.stop()
                return

    def _is_busy(self) -> bool:
        """Whether we run something, or something waits. In a store that is gone, nothing does."""
        try:
            return self._sloth.store.read(self._look)
        except StoreUnavailable:
            return False

    def _look(self, tx: Any) -> bool:
        me, jobs = self._sloth.presence.id_if_any, self._sloth.store.jobs
        ours = any(holder.worker == me for holder in jobs.holders(tx))
        return ours or _waits(self._sloth, self._server, tx)


def _waits(sloth: Sloth, server: Server, tx: Any) -> bool:
    """Whether a job that this worker would take is queued, now or for later.

    One that is held, or has to wait for another, or for a queue to be resumed, is not for us yet;
    one that has to wait for a limit is.
    """
    jobs, names, now = sloth.store.jobs, sloth.store.names, sloth.clock.wall()
    paused = {queue.id for queue in names.queues(tx) if queue.paused is not None}
    lanes = [lane for lane in sloth.verbs.lanes.all(tx) if server.takes(lane)]
    return any(
        any(jobs.waiting(tx, one.id, now)) or jobs.any_gated(tx, one.id)
        for one in lanes
        if one.queue_id not in paused
    )
