"""An attempt that runs, in one of four ways: under a shim, in a pool child, in a thread, on the
loop.

All four look alike to the worker: they may hand the lease over to a process of their own, they are
polled for their ending, and they can be asked to stop or be made to.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from . import codec
from .clock import Millis
from .commands import MOST_UNREAD, Command
from .context import CurrentJob
from .liveness import Place, describe, fresh_id
from .models import Ending
from .pool import Child
from .runs import CANCELLED, held_of
from .storage.base import Claimed, Held, Holder
from .typed import calls
from .upkeep import reclaim

AFTER_TERM: Millis = 2_000
"""So long after SIGTERM a process of a cancelled function is killed."""


class CommandRun:
    """A command: the lease goes to its shim, which keeps the time limit and leaves a receipt."""

    deadline: Millis | None = None
    news: tuple[float, str | None] | None = None

    def __init__(self, claimed: Claimed, command: Command, place: Place) -> None:
        self.held, self._command, self._place = held_of(claimed), command, place
        self.limit = claimed.timeout
        self._given = self._begun = self._stopping = False
        self._told: Ending | None = None
        self._unsent: list[bytes | None] = []

    def taker(self) -> Holder | None:
        spawned = self._command.spawned
        if self._given or not self._command.receive():
            return None
        self._given = True
        try:
            return describe(
                fresh_id(), "shim", spawned.lock, spawned.pid, self._place, self.held.worker
            )
        except OSError:  # its lock was deleted, so nobody could see whether it lives
            self.end(Ending("release", reason="its lock was deleted before it began"))
            return None

    def begin(self) -> None:
        if self._told is None:
            self._begun = self._command.go()
        self._push()

    def poll(self) -> Ending | None:
        self._command.keep_talking()
        self._push()
        if not self._command.gone:
            return None
        told = self._command.ending(stopping=self._stopping)
        if told is not None:
            self._command.drop_logs()
        if told is None and self._told is not None:
            return self._told
        if told is None:
            self._command.sweep()
            return reclaim("gone", f"shim {self._command.spawned.pid}", self._how())
        return told

    def _how(self) -> str:
        code = self._command.spawned.process.returncode or 0
        return (
            f"killed by signal {-code} ({signal.Signals(-code).name})"
            if code < 0
            else f"exit {code}"
        )

    def ask(self) -> None:
        """A command is not told before it has to stop."""
        self._stopping = True

    def end(self, ending: Ending, *, hurry: bool = False) -> None:
        self._stop(ending, hurry=hurry)

    def _stop(self, ending: Ending, *, hurry: bool, grace: Millis | None = None) -> None:
        if not self._begun:
            self._told = ending  # it has not begun, and will not: the shim goes when it hears this
        why = ending.reason or "its worker stops"
        self._command.stop(why, grace=grace, cancel=ending is CANCELLED)
        if hurry:
            self._command.hurry()

    def cancel(self, step: int, grace: Millis) -> Millis | None:
        """SIGTERM to all of it at once, and SIGKILL after the grace."""
        self._stop(CANCELLED, hurry=step > 0, grace=grace)
        return None if step else grace

    def send(self, text: str | None) -> None:
        """Pass it on as fast as the command reads; one that takes no input never hears of it."""
        data, most = (text or "").encode(), MOST_UNREAD
        pieces = [data[start : start + most] for start in range(0, len(data), most)]
        self._unsent += [None] if text is None else pieces
        self._push()

    def _push(self) -> None:
        if not self._command.takes_input:
            self._unsent.clear()
        while self._unsent and self._begun and self._pass_on(self._unsent[0]):
            del self._unsent[0]

    def _pass_on(self, piece: bytes | None) -> bool:
        return self._command.end_input() if piece is None else self._command.send(piece)

    def files(self) -> list[Any]:
        spawned = self._command.spawned
        return [spawned.socket] + ([] if spawned.pidfd is None else [spawned.pidfd])

    def close(self) -> None:
        self._command.close()
        _unlink(self._command.spawned.lock)


class Slot:
    """A pool child, with the row that makes it a holder."""

    def __init__(self, lock: str) -> None:
        self.child = Child(lock)
        self.holder: Holder | None = None
        self.registered = False
        self.busy = self._killed = False
        self.said: list[dict[str, Any]] = []

    def listen(self, place: Place, worker: int) -> None:
        """Take what it says; once it is ready it has a holder."""
        self.said += self.child.receive()
        if self.holder is None and self.child.ready and not self.child.gone:
            self._register(place, worker)
        if self._stranger(place):
            self.kill()

    def _register(self, place: Place, worker: int) -> None:
        try:
            self.holder = describe(
                fresh_id(), "child", self.child.lock, self.child.pid, place, worker
            )
        except OSError:  # somebody has deleted its lock, so nobody could see whether it lives
            self.kill()

    def _stranger(self, place: Place) -> bool:
        """Whether it is not one that we may give work to, though it is idle."""
        if self.busy:
            return False
        speaks = any(message["kind"] == "ended" for message in self.said)
        return speaks or (self.holder is not None and self.holder.boot != place.boot)

    def kill(self) -> None:
        """Have no more of it."""
        self._killed = True
        self.child.kill()

    @property
    def idle(self) -> bool:
        fit = self.holder is not None and not self._killed
        return fit and not self.busy and not self.child.gone

    def files(self) -> list[Any]:
        return [self.child.socket] + ([] if self.child.pidfd is None else [self.child.pidfd])

    def close(self) -> None:
        self.child.close()
        _unlink(self.child.lock)


class ChildRun:
    """A function in a pool child."""

    def __init__(
        self,
        claimed: Claimed,
        slot: Slot,
        message: dict[str, Any],
        deadline: Millis | None,
        *,
        heartbeat: Callable[[], None],
    ) -> None:
        self.held, self.limit, self.deadline = held_of(claimed), claimed.timeout, deadline
        self.slot, self._message, self._beat = slot, message, heartbeat
        self.news: tuple[float, str | None] | None = None
        self.given = slot.holder is not None and claimed.holder == slot.holder.id
        self._told: Ending | None = None
        self._begun = self._asked = False
        slot.busy = True

    def taker(self) -> Holder | None:
        if self.given or self.slot.holder is None:
            return None
        self.given = True
        return self.slot.holder

    def begin(self) -> None:
        self._begun = True
        self.slot.child.run(self._message)
        if self._asked:
            self.slot.child.stop()

    def poll(self) -> Ending | None:
        gone = self.slot.child.gone  # asked first: what it said before it ended is then all there
        if gone:
            self.slot.said += self.slot.child.receive()
        said, self.slot.said = self.slot.said, []
        for message in said:
            if message["kind"] == "progress":
                self.news = (message["fraction"], message["message"])
            elif message["kind"] == "heartbeat":
                self._beat()
            elif message["kind"] == "ended":
                ending = Ending(**message["ending"])
                return ending if ending.kind == "complete" else self._told or ending
        if not gone:
            return None
        return self._told or reclaim(
            "gone", f"child {self.slot.child.pid}", self.slot.child.ended_by()
        )

    def ask(self) -> None:
        """It is told once it runs: before that nobody would remember it for this attempt."""
        self._asked = True
        if self._begun:
            self.slot.child.stop()

    def end(self, ending: Ending, *, hurry: bool = False) -> None:
        self._told = ending
        self.slot.child.kill()

    def cancel(self, step: int, grace: Millis) -> Millis | None:
        """It is told; after the grace SIGTERM raises SystemExit in it, unless it has a handler of
        its own, and reaches what it has started; soon after that comes SIGKILL."""
        if step == 0:
            self.ask()
            return grace
        if step == 1:
            self._told = CANCELLED._replace(error="ended by SIGTERM: it did not end when told")
            self.slot.child.stop("end")
            self.slot.child.kill(signal.SIGTERM)
            return AFTER_TERM
        self.end(CANCELLED._replace(error="killed: it ended neither when told nor by SIGTERM"))
        return None

    def send(self, text: str | None) -> None:
        """A function has no input."""

    def files(self) -> list[Any]:
        return []

    def close(self) -> None:
        self.slot.busy = False


class ThreadRun:
    """A function in a thread of the worker. It cannot be made to stop, only be asked."""

    def __init__(
        self,
        claimed: Claimed,
        token: str,
        deadline: Millis | None,
        *,
        heartbeat: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        self.held, self.limit, self.deadline = held_of(claimed), claimed.timeout, deadline
        self._payload, self._wake = claimed.payload, wake
        self.news: tuple[float, str | None] | None = None
        self._ending: Ending | None = None
        self._told: Ending | None = None
        self._settle: Callable[[Held, Ending], None] | None = None
        self._ends = threading.Lock()
        self._stopping = False
        self.current = CurrentJob(
            claimed.id,
            claimed.attempt,
            token=token,
            stopping=lambda: self._stopping,
            heartbeat=heartbeat,
            progress=self._progress,
        )

    def start(self, where: Any, function: Callable[..., Any], name: str) -> None:
        """Begin; `where` are the worker's threads or its loop, `name` is that of the task."""

        def call() -> Any:
            args, kwargs = calls.arguments(function, name, codec.decode(self._payload))
            return function(*args, **kwargs)

        self._call = where.start(
            call,
            self.current,
            self._finished,
            lambda result: calls.result_text(function, name, result),
        )

    def _progress(self, fraction: float, message: str | None) -> None:
        first, self.news = self.news is None, (fraction, message)
        if first:
            self._wake()

    def _finished(self, ending: Ending) -> None:
        with self._ends:
            self._ending = ending
        self._wake()
        self._settle_late()

    def leave(self, settle: Callable[[Held, Ending], None]) -> None:
        """Its worker goes before it has ended: settle it by this, whenever and wherever it ends."""
        with self._ends:
            self._settle = settle
        self._settle_late()

    def _settle_late(self) -> None:
        with self._ends:
            if self._ending is None:
                return
            settle, self._settle = self._settle, None
        if settle is not None and (ending := self.poll()) is not None:
            settle(self.held, ending)

    def taker(self) -> Holder | None:
        return None

    def begin(self) -> None:
        """It began when it was started."""

    def poll(self) -> Ending | None:
        # What it was told counts for what it could not finish; what it completed is complete.
        if self._ending is None or self._told is None or self._ending.kind == "complete":
            return self._ending
        return self._told

    def ask(self) -> None:
        self._stopping = True

    def end(self, ending: Ending, *, hurry: bool = False) -> None:
        self._told, self._stopping, self.deadline = ending, True, None

    def cancel(self, step: int, grace: Millis) -> Millis | None:
        """It is told; after the grace a coroutine is cancelled, and a thread goes on."""
        if step == 0:
            self.ask()
            return grace
        self.end(CANCELLED)
        return None

    def send(self, text: str | None) -> None:
        """A function has no input."""

    def files(self) -> list[Any]:
        return []

    def close(self) -> None:
        """The thread goes back to the pool by itself."""


class LoopRun(ThreadRun):
    """A coroutine function on the worker's event loop: like a thread, but it can be cancelled."""

    def poll(self) -> Ending | None:
        return self._ending

    def end(self, ending: Ending, *, hurry: bool = False) -> None:
        self._stopping, self.deadline = True, None
        self._call.cancel(ending)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
