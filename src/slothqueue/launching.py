"""Starts attempts: a shim for a command; a child, a thread or the loop for a function."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

from . import codec
from .clock import Millis
from .commands import Command
from .jobs import Jobs
from .lanes import Lane
from .liveness import make_private
from .models import COMMAND, DONE, EXTRA, Ending
from .pool import LoopThread, ThreadSlots, reference
from .receipts import cookie
from .running import ChildRun, CommandRun, LoopRun, Slot, ThreadRun
from .runs import Run
from .storage.base import Claimed
from .tasks import Task

Beater = Callable[[int], None]


_SCARCE = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)


class Launcher:
    """The means by which one worker runs things: children, threads, a loop."""

    def __init__(
        self,
        verbs: Jobs,
        tasks: dict[str, Task[..., Any]],
        *,
        pool: str,
        live: str,
        logs: str,
        wake: Callable[[], None],
        beat: Callable[[int], None],
    ) -> None:
        self._verbs, self._tasks, self._pool = verbs, tasks, pool
        self._live, self._logs, self._wake, self._beat = live, logs, wake, beat
        self._threads, self._loop = ThreadSlots(), LoopThread()
        self._places: dict[str, dict[str, Any] | None] = {}
        self.slots: list[Slot] = []

    # ---- children -------------------------------------------------------------------------------

    def listen(self) -> list[Slot]:
        """Hear what the children say; returns the slots of those that are gone for good.

        They are no longer ours, and to be closed once nobody listens to their files.
        """
        place, me = self._verbs.presence.place, self._verbs.presence.id
        for slot in self.slots:
            slot.listen(place, me)
        gone = [slot for slot in self.slots if slot.child.gone and not slot.busy]
        self.slots = [slot for slot in self.slots if slot not in gone]
        return gone

    def files(self) -> set[Any]:
        """What becomes readable when there is something to listen to."""
        return {file for slot in self.slots for file in slot.files()}

    def sending(self) -> set[Any]:
        """Those of the files whose children are to hear more than they could take so far."""
        return {slot.child.socket for slot in self.slots if slot.child.sending}

    def in_child(self, task: str) -> bool:
        """Whether this task runs in a child process here."""
        return self._place(task) is not None

    def _place(self, name: str) -> dict[str, Any] | None:
        if name not in self._places:
            task = self._tasks[name]
            apart = self._pool == "process" and not is_async(task.function)
            self._places[name] = reference(task.function) if apart else None
        return self._places[name]

    def idle(self) -> list[Slot]:
        """Children that are ready for a function."""
        return [slot for slot in self.slots if slot.idle]

    def _slot(self, claimed: Claimed) -> Slot:
        """The child that holds the lease already, or a new one that will."""
        for slot in self.idle():
            if slot.holder is not None and slot.holder.id == claimed.holder:
                return slot
        slot = Slot(self._fresh_lock())
        self.slots.append(slot)
        return slot

    def _fresh_lock(self) -> str:
        make_private(self._live)
        return os.path.join(self._live, f"{os.urandom(16).hex()}.lock")

    # ---- attempts -------------------------------------------------------------------------------

    def start(self, claimed: Claimed, lane: Lane) -> Run:
        """Start what was claimed. Raises whatever keeps it from starting."""
        token = f"{self._verbs.store_id()}:{claimed.id}:{claimed.attempt}"
        if lane.kind == COMMAND:
            return self._start_command(claimed, token)
        if claimed.extras & EXTRA:
            claimed = claimed._replace(payload=self._with_results(claimed))
        place = self._place(lane.task)
        if place is not None:
            return self._start_child(claimed, lane.task, token, place)
        return self._start_here(claimed, self._tasks[lane.task], token)

    def _with_results(self, claimed: Claimed) -> str:
        """The call with the results of its parents in front, if it was enqueued to take them."""
        store = self._verbs.store
        rows = store.look(lambda tx: store.waits.results_of_parents(tx, claimed.id))
        if rows is None:
            return claimed.payload
        if (gone := next((id for id, state, _ in rows if state is None), None)) is not None:
            raise LookupError(f"the result of its parent {gone} is gone with that job")
        call = codec.decode(claimed.payload)
        results = [
            codec.decode(text) if state == DONE and text is not None else None
            for _, state, text in rows
        ]
        return codec.encode({**call, "args": [*results, *call["args"]]}, "call")

    def _start_command(self, claimed: Claimed, token: str) -> Run:
        payload = codec.decode(claimed.payload)
        command = Command(
            payload,
            job=claimed.id,
            attempt=claimed.attempt,
            fence=claimed.fence,
            token=token,
            cookie=cookie(self._verbs.store_id(), claimed.id, claimed.fence),
            lock=self._fresh_lock(),
            logs=self._logs,
            environment=self._environment(claimed.env),
            timeout=claimed.timeout,
        )
        return CommandRun(claimed, command, self._verbs.presence.place)

    def _environment(self, env: int | None) -> dict[str, str] | None:
        """All that a command was enqueued with; None if an older version has enqueued it."""
        store = self._verbs.store
        text = None if env is None else store.look(lambda tx: store.waits.environment(tx, env))
        return None if text is None else codec.decode(text)

    def _start_child(self, claimed: Claimed, task: str, token: str, place: dict[str, Any]) -> Run:
        message = {
            "job": claimed.id,
            "attempt": claimed.attempt,
            "token": token,
            "task": task,
            "payload": codec.decode(claimed.payload),
            **place,
        }
        run = ChildRun(
            claimed,
            self._slot(claimed),
            message,
            self._deadline(claimed),
            heartbeat=lambda: self._beat(claimed.id),
        )
        if run.given:
            run.begin()
        return run

    def _start_here(self, claimed: Claimed, task: Task[..., Any], token: str) -> Run:
        kind = LoopRun if is_async(task.function) else ThreadRun
        run = kind(
            claimed,
            token,
            self._deadline(claimed),
            heartbeat=lambda: self._beat(claimed.id),
            wake=self._wake,
        )
        run.start(
            self._loop if isinstance(run, LoopRun) else self._threads, task.function, task.name
        )
        return run

    def _deadline(self, claimed: Claimed) -> Millis | None:
        limit = claimed.timeout
        return None if limit is None else self._verbs.store.clock.awake() + limit

    def close(self) -> None:
        """End the children; let the threads and the loop come to their end."""
        for slot in self.slots:
            slot.close()
        self.slots.clear()
        self._threads.close()
        self._loop.close()


def is_async(function: Callable[..., Any]) -> bool:
    """Whether it is a coroutine function, also behind a wrapper or an object that is called."""
    import inspect

    call = getattr(type(function), "__call__", None)  # noqa: B004  # looked at, not called
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def not_started(error: Exception) -> Ending:
    """The ending of an attempt that never began. What this machine lacks now is not its fault."""
    if isinstance(error, OSError) and error.errno in _SCARCE:
        return Ending("snooze", delay=1_000, reason=f"its worker could not start it: {error}")
    return Ending("fail", error=f"could not be started: {type(error).__name__}: {error}")
