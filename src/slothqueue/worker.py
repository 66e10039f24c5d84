"""A worker: settles what ended and claims for free slots in one transaction, and sleeps between."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .asks import Asks
from .beats import Beats, News
from .clock import Millis
from .context import refuse_while_loading
from .ear import Ear
from .errors import StoreBusy, StoreFull, StoreReadOnly, StoreUnavailable
from .launching import Launcher, not_started
from .models import Ending
from .pruning import Pruning
from .running import Slot, ThreadRun
from .runs import Run, timed_out
from .settling import settle
from .signals import told_to_stop
from .steps import Ended, Step, Steps, Todo
from .storage.base import Claimed, Held, Holder
from .telling import outcome, stopping
from .timing import Duration, millis
from .waker import soonest

if TYPE_CHECKING:
    from .client import Sloth

log = logging.getLogger("slothqueue.worker")

STOPPED = Ending("release", reason="its worker stops")
_PASSING = (StoreBusy, StoreFull, StoreReadOnly)
_AGAIN = 1.0
_LAST_WAIT: Millis = 15_000


class Worker:
    """Runs commands and the tasks that its Sloth knows. Made by `sloth.worker()`."""

    def __init__(
        self,
        sloth: Sloth,
        *,
        queues: Sequence[str] | str | None = None,
        concurrency: int = 4,
        pool: str = "process",
        grace: Duration = 10,
    ) -> None:
        if pool not in ("process", "thread"):
            raise ValueError(f"pool is 'process' or 'thread', not {pool!r}")
        if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
            raise ValueError(f"concurrency is a whole number from 1 on, not {concurrency!r}")
        self.sloth, self.verbs, self.store = sloth, sloth.verbs, sloth.store
        self.queues: Sequence[str] | None = [queues] if isinstance(queues, str) else queues
        self.concurrency, self.pool = concurrency, pool
        self._grace = millis(grace, what="grace")
        self._runs: dict[int, Run] = {}
        self._beats = Beats(self.store.clock, self.verbs.upkeep.minded)
        self._news = News(self.store.clock)
        self._asks, self._pruning = Asks(self.store), Pruning(self.store, self.store.logs)
        self._ended: list[Ended] = []
        self._dropped: list[Holder] = []
        self._takers: list[tuple[Run, Holder]] = []
        self._ear = Ear()
        self._stops = 0
        self.settled = 0
        """How many attempts have ended here."""
        self.last: int | None = None
        """Once it has this job, it claims no more and comes to an end."""

    # ---- running --------------------------------------------------------------------------------

    def run(self) -> None:
        """Run jobs until told to stop by `stop()`, SIGTERM or SIGINT.

        Then running jobs have the grace to end, and what is left is given back; a second signal
        hurries.
        """
        refuse_while_loading()
        with told_to_stop(self.stop), self._open():
            while not self._done():
                if not self._turn() and not self._done():
                    self._wait()

    def run_until_idle(self) -> int:
        """Run what is due now, and all that becomes due meanwhile; how many attempts ended.

        Jobs for later, retries among them, are left for later. A signal that ends it goes its usual
        way afterwards: Ctrl-C raises KeyboardInterrupt.
        """
        refuse_while_loading()
        before = self.settled
        with told_to_stop(self.stop, pass_on=True), self._open():
            while not self._done():
                if self._turn():
                    continue
                if self._done() or not (self._runs or self._ended):
                    break
                self._wait()
        return self.settled - before

    def stop(self) -> None:
        """Claim no more and come to an end; may be called from any thread, and again to hurry.

        Told before it runs, the worker comes to its end as soon as it is run.
        """
        self._stops += 1
        self._wake()

    def _done(self) -> bool:
        return self._stops > 0 and (self._gave_up or not (self._runs or self._ended))

    @contextmanager
    def _open(self) -> Iterator[None]:
        self._gave_up = False
        self._stop_at: Millis | None = None
        self._launcher = Launcher(
            self.verbs,
            self.sloth.tasks,
            pool=self.pool,
            live=self.store.live,
            logs=self.store.logs,
            wake=self._wake,
            beat=self._beat_soon,
        )
        self._steps = Steps(self.sloth, self._launcher, self.queues)
        unsubscribe = self.store.bell.subscribe(self._wake)
        try:
            self._ear.open()
            self.sloth.waker.start()
            self._introduce(json.dumps(self._tells()))
            self.verbs.upkeep.run()
            self.verbs.upkeep.collect()
            self._pruning.collect_logs()
            yield
        finally:
            unsubscribe()
            self._leave()

    def _tells(self) -> dict[str, Any]:
        return {
            "queues": self.queues,
            "concurrency": self.concurrency,
            "pool": self.pool,
            "tasks": sorted(self.sloth.tasks),
        }

    def _introduce(self, tells: str | None) -> None:
        """Say what we are to whoever asks for the state of the store."""
        self.sloth.presence.tells = tells
        me = self.sloth.presence.id
        self.store.write(lambda tx: self.store.names.tell_holder(tx, me, tells), durable=False)

    def _leave(self) -> None:
        for id, run in self._runs.items():
            self._beats.drop(id)
            if isinstance(run, ThreadRun):
                run.leave(self._settle_late)
            run.close()
        self._runs.clear()
        self._launcher.close()
        self._ear.close()
        self._stops = 0
        try:
            self._introduce(None)
        except StoreUnavailable as error:
            log.warning("%s", error)

    def _settle_late(self, held: Held, ending: Ending) -> None:
        """A thread has ended after we gave up on it; we are on that thread."""
        try:
            self.store.write(lambda tx: settle(self.store, tx, held, ending))
        except Exception as error:  # it runs again once this process has ended
            log.warning("job %d: what became of it cannot be written: %s", held.id, error)

    # ---- waiting --------------------------------------------------------------------------------

    def _wake(self) -> None:
        self._ear.wake()

    def _wait(self) -> None:
        """Sleep until something rings, ends or falls due."""
        with self._bearing():
            if self._free() > 0:
                self.store.want()
                if self._steps.look():
                    return  # committed just before others knew that we want to be rung for
            self._listen_to()
            self._ear.wait(self._patience())

    @contextmanager
    def _bearing(self) -> Iterator[None]:
        """Bear with a store that cannot be used just now: come again a little later."""
        try:
            yield
        except _PASSING as error:
            log.warning("the store cannot be written, trying again: %s", error)
            time.sleep(_AGAIN)
            self._wake()

    def _listen_to(self) -> None:
        files = {file for run in self._runs.values() for file in run.files()}
        self._ear.watch(files | self._launcher.files(), self._launcher.sending())

    def _patience(self) -> float:
        awake = self.store.clock.awake()
        waits = [run.deadline - awake for run in self._runs.values() if run.deadline is not None]
        waits += self._beats.waits() + self._news.waits(self._runs.values()) + self._asks.waits()
        waits += self._pruning.waits()
        if self._stop_at is not None:
            waits.append(self._stop_at - awake if awake < self._stop_at else 1_000)
        look = (
            self.verbs.next_look(self._steps.lanes)
            if self._free() > 0
            else self.verbs.upkeep.next_look()
        )
        return self.sloth.waker.patience(soonest(look, *waits))

    # ---- one turn -------------------------------------------------------------------------------

    def _turn(self) -> bool:
        """Look at everything once and act; whether anything was done."""
        with self._bearing():
            self._poll()
            self._keep_time()
            return self._step()
        return True

    def _poll(self) -> None:
        self._part(self._launcher.listen())
        for run in list(self._runs.values()):
            if (ending := run.poll()) is not None:
                self._ended.append(Ended(run.held, ending))
                self._forget(run)

    def _part(self, gone: list[Slot]) -> None:
        if gone:
            self._listen_to()  # as below
        for slot in gone:
            slot.close()
        self._dropped += [slot.holder for slot in gone if slot.holder is not None]

    def _forget(self, run: Run) -> None:
        del self._runs[run.held.id]
        self._beats.drop(run.held.id)
        self._news.drop(run.held.id)
        self._asks.drop(run.held.id)
        self._listen_to()  # before its descriptors are closed, and their numbers given to others
        run.close()

    def _keep_time(self) -> None:
        """Time limits, and the end of the grace when we are told to stop."""
        awake = self.store.clock.awake()
        for run in self._runs.values():
            if run.deadline is not None and run.deadline <= awake:
                run.deadline = None
                run.end(timed_out(run))
        self._asks.keep_time(self._runs)
        if not self._stops:
            return
        if self._stop_at is None:
            self._stop_at = awake + self._grace
            log.info("%s", stopping(len(self._runs), self._grace))
            for run in self._runs.values():
                run.ask()
        if self._stops > 1 or awake >= self._stop_at:
            self._give_back(awake, self._stop_at)

    def _give_back(self, awake: Millis, since: Millis) -> None:
        for run in self._runs.values():
            run.end(STOPPED, hurry=self._stops > 1)
        # A thread cannot be made to stop: our lock falls with this process, and its job is
        # re-issued.
        stuck = bool(self._runs) and all(type(run) is ThreadRun for run in self._runs.values())
        self._gave_up = stuck or awake > since + _LAST_WAIT

    def _step(self) -> bool:
        """Settle what ended, hand over, claim for free slots: one transaction, if need be."""
        self._pruning.tend()
        if self._runs:
            self._asks.look(self.sloth.presence.id, self._runs)
        self._beat()  # our own leases first, then those of others: we may have been stopped
        if self.sloth.waker.take_deaths() or self.verbs.upkeep.due():
            self.verbs.upkeep.run()
        due = self._steps.due_lanes() if self._room() else {}
        takers = self._takers = self._due_takers()
        todo = Todo(
            ended=self._ended,
            takers=takers,
            news=self._news.due(self._runs.values()),
            dropped=self._dropped,
            slots=self._launcher.idle(),
            due=due,
            room=self._room(),
        )
        if not todo.needed:
            return False
        since = self.store.clock.awake()
        step = self._steps.carry_out(todo)
        self._ended, self._dropped, self._takers = [], [], []
        self._after(step, todo, since)
        if todo.ended:
            self._flush()
        return True

    def _flush(self) -> None:
        """While what was claimed is running already: a claim needs no flush."""
        try:
            self.store.flush()
        except StoreUnavailable as error:  # it is written; no attempt becomes truer by our end
            log.error("%s", error)

    def _beat(self) -> None:
        """Heartbeats for all timed leases of ours, if one is due, in one transaction."""
        beats = [(self._runs[id], until) for id, until in self._beats.due().items()]
        if not beats:
            return
        extend = self.store.jobs.extend
        lost = self.store.write(
            lambda tx: [run for run, until in beats if not extend(tx, run.held, until)],
            durable=False,
            tell=False,
        )
        self._beats.sent()
        for run in lost:
            self._lose(run)

    def _due_takers(self) -> list[tuple[Run, Holder]]:
        """Those that wait for their lease. Each says so once, so it stays until it is written."""
        waiting = [(run, to) for run, to in self._takers if self._runs.get(run.held.id) is run]
        return waiting + [(run, to) for run in self._runs.values() if (to := run.taker())]

    def _free(self) -> int:
        return self._room() - len(self._ended)

    def _room(self) -> int:
        """How many jobs we could take on once what has ended is settled."""
        return 0 if self._stops else self.concurrency - len(self._runs)

    def _after(self, step: Step, todo: Todo, since: Millis) -> None:
        """Act on what is committed."""
        for slot in todo.slots:
            slot.registered = True
        self.settled += len(todo.ended)
        for one, became in zip(todo.ended, step.settled):
            log.info("%s", outcome(one, became))
        for id in step.lost:
            if id in self._runs:
                self._lose(self._runs[id])
        for run, taker in step.handed:
            run.held = run.held._replace(holder=taker.id)
            run.begin()
        for claimed in step.claimed:
            self._launch(claimed, since)

    def _lose(self, run: Run) -> None:
        """Somebody else has the job by now: stop, and change nothing."""
        log.warning("job %d: its lease was lost, so this attempt is stopped", run.held.id)
        self._beats.drop(run.held.id)
        run.end(STOPPED, hurry=True)

    def _launch(self, claimed: Claimed, since: Millis) -> None:
        what = {"lane": self._steps.lanes[claimed.lane], "payload": claimed.payload}
        log.info("job %d attempt %d: started", claimed.id, claimed.attempt, extra=what)
        if claimed.id == self.last:
            self.stop()
        if claimed.id in self._runs:  # its lease was lost, and it has come back before it has ended
            self._runs[claimed.id].end(STOPPED, hurry=True)
            self._forget(self._runs[claimed.id])
        try:
            run = self._launcher.start(claimed, self._steps.lanes[claimed.lane])
        except Exception as error:  # this one job cannot be started; the others can
            self._ended.append(Ended(Held(*claimed[:7]), not_started(error)))
            self._wake()
            return
        self._runs[claimed.id] = run
        self._beats.add(claimed.id, claimed.lease, since)

    def _beat_soon(self, id: int) -> None:
        """A function said that it makes progress."""
        self._beats.soon(id)
        self._wake()
