"""Where Python functions run: child processes, threads of the worker, one event loop."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from queue import SimpleQueue
from socket import socket
from typing import TYPE_CHECKING, Any

from . import attempt, child
from .attempt import Write, plainly
from .codec import decode, encode
from .context import CurrentJob, call_within
from .loading import MAIN
from .models import Ending
from .spawn import Spawned
from .timing import LONGEST

if TYPE_CHECKING:
    import asyncio

_ENDINGS = ("complete", "fail", "retry", "discard", "snooze")

Done = Callable[[Ending], None]
"""Called once with the end of the call, on the thread that ran it. It must not raise."""


# ---- which functions a child can load -----------------------------------------------------------


def reference(function: Any) -> dict[str, Any] | None:
    """Where a child finds this function; None when only this process has it.

    That is so for lambdas, for functions made inside of functions, and for what was typed into an
    interpreter, given to it by `-c`, or lives in a notebook.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<>")
    if module not in sys.modules or "<" in name or _source(function).startswith("<"):
        return None
    if module not in ("__main__", MAIN):
        return _place(module, name) if getattr(sys.modules[module], "__spec__", None) else None
    main = _main(module)
    return _place(module, name, main) if main else None


def _source(function: Any) -> str:
    """The file in which the function was written, below whatever wraps it."""
    while (inner := getattr(function, "__wrapped__", None)) is not None:
        function = inner
    return getattr(getattr(function, "__code__", None), "co_filename", "")


def _place(module: str, name: str, main: dict[str, str] | None = None) -> dict[str, Any]:
    return {"module": module, "qualname": name, "main": main}


def _main(name: str) -> dict[str, str] | None:
    """How to load the main script again: by its module's name after `-m`, else by its path."""
    module = sys.modules[name]
    spec, path = getattr(module, "__spec__", None), getattr(module, "__file__", None)
    if spec is not None and spec.name != "__main__":
        return {"module": spec.name}
    if path is None or not os.path.isfile(path):
        return None
    path = os.path.abspath(path)
    return {"path": path} if _is_text(path) else None


def _is_text(path: str) -> bool:
    """Whether the path has a UTF-8 form, so that it can be told to a child."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


# ---- child processes ----------------------------------------------------------------------------


class Child:
    """A pool child, as its worker sees it: runs one function at a time and holds a lock of its own.

    It is `ready` once it has its lock. Functions share it one after the other, with all the state
    that they leave in it.
    """

    def __init__(self, lock: str) -> None:
        self.ready = False
        self._spawned = Spawned(_argv(lock), lock=lock)

    @property
    def lock(self) -> str:
        return self._spawned.lock

    @property
    def pid(self) -> int:
        return self._spawned.pid

    @property
    def pidfd(self) -> int | None:
        """Becomes readable when the child ends, where the system has such a thing."""
        return self._spawned.pidfd

    @property
    def socket(self) -> socket:
        """Becomes readable when there is something to receive."""
        return self._spawned.socket

    def receive(self) -> list[dict[str, Any]]:
        """What it said since the last call: `progress`, `heartbeat`, `ended`. Never waits.

        The `ending` of `ended` has the fields of an Ending.
        """
        self._spawned.flush()
        try:
            messages = [_understood(line) for line in self._spawned.receive()]
        except (ValueError, TypeError, KeyError, RecursionError):
            # Somebody else has written into the socket; what it says means nothing any more.
            self.kill()
            return []
        if self._spawned.closed:  # it cannot be spoken with, and may have let go of its lock too
            self.kill()
        heard = [message for message in messages if message["kind"] != "ready"]
        self.ready = self.ready or len(heard) < len(messages)
        return heard

    @property
    def sending(self) -> bool:
        """Whether it has not taken all that it was told. Receive when its socket can be written."""
        return self._spawned.unsent

    def run(self, message: Mapping[str, Any]) -> bool:
        """Have it run a function; False when it is no longer there. Never waits."""
        return self._spawned.send(encode({**message, "kind": "run"}, "call").encode())

    def stop(self, kind: str = "stop") -> bool:
        """Ask the function to come to an end: its `current_job().stopping` becomes true; with `end`
        SIGTERM raises an exception in it."""
        return self._spawned.send(b'{"kind":"%b"}' % kind.encode())

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End it at once, with every process that its function has started in its group."""
        # Not waited for yet, so its number cannot have been given to anybody else.
        if self._spawned.process.returncode is not None:
            return
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):  # it ended just now
            return

    @property
    def gone(self) -> bool:
        """Whether it has ended. Receive once more then: it may have said something before."""
        return self._spawned.gone

    def ended_by(self) -> str:
        """What ended it: `killed by signal 9 (SIGKILL)`, `exited with code 3`."""
        code = self._spawned.process.poll()
        if code is None:
            return "still running"
        return f"exited with code {code}" if code >= 0 else f"killed by signal {_named(-code)}"

    def close(self, patience: float = 2.0) -> None:
        """Part from it. An idle child ends by itself, a busy one with all that it started."""
        self._spawned.close()
        try:
            self._spawned.process.wait(patience)
        except Exception:  # TimeoutExpired, from a module that is costly to import here
            self.kill()
            self._spawned.process.wait()

    def __repr__(self) -> str:
        return f"Child(pid={self.pid}, {'ready' if self.ready else 'starting'}, {self.ended_by()})"


def _argv(lock: str) -> list[str]:
    from subprocess import _args_from_interpreter_flags as flags  # type: ignore[attr-defined]

    paths = "\n".join(str(path) for path in sys.path)
    return [sys.executable, *flags(), "-c", child.PROGRAM, paths, lock, *sys.argv]


def _named(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)


def _understood(line: bytes) -> dict[str, Any]:
    """What a child says in this line; raises if no child of ours says such a thing."""
    message: dict[str, Any] = decode(line.decode())
    kind = message["kind"]
    if kind == "ended":
        _check_ending(**message["ending"])
    elif kind == "progress":
        _check_number(message["fraction"], 1)
        _check_text(message["message"])
    elif kind not in ("ready", "heartbeat"):
        raise ValueError(f"a child said {kind!r}")
    return message


def _check_ending(*, kind: str, delay: Any, **texts: Any) -> None:
    if kind not in _ENDINGS or texts.keys() | {"kind", "delay"} != set(Ending._fields):
        raise ValueError(f"no function ends by {kind!r} with {sorted(texts)}")
    if delay is not None:
        _check_number(delay, LONGEST)
    for text in texts.values():
        _check_text(text)


def _check_number(value: Any, most: int) -> None:
    if not isinstance(value, int | float) or not 0 <= value <= most:
        raise ValueError(f"a child said {value!r}")


def _check_text(value: Any) -> None:
    if value is not None and (not isinstance(value, str) or not value.isascii()):
        str.encode(value)  # raises unless a store can keep it


# ---- threads ------------------------------------------------------------------------------------


class ThreadSlots:
    """Runs functions in threads of this process, which are kept for the next ones.

    As many threads as calls were ever running at once. A thread cannot be killed: a function that
    should end sees it by `current_job().stopping`, and the process does not wait for it.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads = 0

    def start(
        self, call: Callable[[], Any], context: CurrentJob, done: Done, write: Write = plainly
    ) -> None:
        """Run the call within this job; `done` gets its ending. Raises RuntimeError without both
        when no thread can be started.
        """
        self._provide()
        self._calls.put(lambda: done(attempt.run(lambda: call_within(context, call), write)))

    def _provide(self) -> None:
        """See to it that a thread is free for one more call. Raises when none can be started."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
                return
            threading.Thread(target=self._work, name="slothqueue-call", daemon=True).start()
            self._threads += 1

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call
            with self._lock:
                self._idle += 1

    def close(self) -> None:
        """Let the threads end; those that are busy, after their call."""
        with self._lock:
            threads, self._threads, self._idle = self._threads, 0, 0
        for _ in range(threads):
            self._calls.put(None)

    def __repr__(self) -> str:
        return f"ThreadSlots(threads={self._threads}, idle={self._idle})"


# ---- the event loop -----------------------------------------------------------------------------

_TOLD_TO_STOP = Ending("release", reason="worker stopped")
_CANCELLED_ITSELF = Ending("fail", error="CancelledError: the function cancelled its own task")


class LoopThread:
    """Runs `async def` functions on one event loop in one thread, which starts with the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._calls: set[LoopCall] = set()

    def start(
        self,
        call: Callable[[], Awaitable[Any]],
        current: CurrentJob,
        done: Done,
        write: Write = plainly,
    ) -> LoopCall:
        """Run the coroutine within this job; `done` gets its ending, on the thread of the loop."""

        def finished(ending: Ending) -> None:
            self._calls.discard(made)
            done(ending)

        loop = self._running()
        made = LoopCall(loop, lambda: attempt.run_async(call, write), current, finished)
        self._calls.add(made)
        loop.call_soon_threadsafe(made.begin)
        return made

    def _running(self) -> asyncio.AbstractEventLoop:
        import asyncio

        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_turn, args=(self._loop,), name="slothqueue-loop", daemon=True
                )
                self._thread.start()
            return self._loop

    def close(self, patience: float = 2.0) -> None:
        """Cancel what still runs (it is released) and end the loop, waiting no longer than told."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is None or self._thread is None:
            return
        for call in list(self._calls):
            call.cancel(_TOLD_TO_STOP)
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join(patience)

    def __repr__(self) -> str:
        return f"LoopThread(calls={len(self._calls)})"


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    import asyncio

    asyncio.set_event_loop(loop)
    while True:
        try:
            loop.run_forever()
            break
        except BaseException:  # SystemExit of a function's own task: not the end of the others
            continue
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=1))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


class LoopCall:
    """One coroutine on the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        attempt: Callable[[], Coroutine[Any, Any, Ending]],
        current: CurrentJob,
        done: Done,
    ) -> None:
        self._loop = loop
        self._attempt = attempt
        self._current = current
        self._done = done
        self._task: asyncio.Task[Ending] | None = None
        self._told: Ending | None = None

    def begin(self) -> None:
        """Start it; on the loop's own thread."""
        if self._told is not None:
            self._done(self._told)
            return
        self._task = call_within(self._current, lambda: self._loop.create_task(self._attempt()))
        self._task.add_done_callback(self._finish)

    def cancel(self, ending: Ending) -> None:
        """Cancel the coroutine. This is its ending then, unless it completes nevertheless."""
        self._told = ending
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _finish(self, task: asyncio.Task[Ending]) -> None:
        ending = _CANCELLED_ITSELF if task.cancelled() else task.result()
        # What it raised when it was cancelled says less than why it was.
        if self._told is not None and ending.kind == "fail":
            ending = self._told
        self._done(ending)
