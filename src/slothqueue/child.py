"""The program of a pool child: runs functions for one worker, and ends when that worker ends.

It locks a file of its own for its whole life, so that everybody can see whether it lives. Its main
thread runs the functions; another reads what the worker says, and so notices its end even while a
function is busy. Both sides send one JSON object a line:

* from the worker `run`, `stop` and `end`;
* to the worker `ready`, `progress`, `heartbeat` and `ended`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NoReturn

from . import attempt, loading
from .codec import decode, encode
from .context import CurrentJob, call_within
from .errors import WrongState
from .loading import Loaded
from .models import Ending
from .typed import calls

PROGRAM = (
    "import sys; sys.path[:] = sys.argv[1].split('\\n'); from slothqueue.child import main; main()"
)
"""For `python -c`. Its arguments: module path, lock, the worker's own arguments, socket."""

_EXIT_GRACE = 5.0


def main() -> None:
    """Lock, say so, and run what is asked for until the worker is gone."""
    lock, arguments, socket = sys.argv[2], sys.argv[3:-1], int(sys.argv[-1])
    sys.argv[:] = arguments
    line = Line(socket)
    held = _hold(lock)
    os.register_at_fork(after_in_child=lambda: _become_stranger(line, held))
    signal.signal(signal.SIGTERM, _leave_it_to_the_worker)
    _show_lines_at_once()
    threading.Thread(target=line.listen, name="slothqueue-watchdog", daemon=True).start()
    line.send({"kind": "ready"})
    functions = Functions()
    while (order := line.orders.get()) is not None:
        line.finish(_run(order, functions, line))


def _hold(path: str) -> int:
    import fcntl

    lock = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _become_stranger(line: Line, held: int) -> None:
    """In a process that a function forked: it must not keep our lock, nor speak for us."""
    # Closed, never unlocked: unlocking would take the lock from us as well.
    os.close(held)
    line.leave()
    if signal.getsignal(signal.SIGTERM) is _leave_it_to_the_worker:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _leave_it_to_the_worker(number: int, frame: Any) -> None:
    """A service manager that stops everybody at once must not cut short the worker's grace.

    Once the worker has said `end`, its function ends by an exception, so that what it opened is
    closed. A handler and not SIG_IGN, which the programs that a function starts would inherit.
    """
    if Line.to_end is not None and Line.to_end is Line.runs:
        Line.to_end = None
        raise SystemExit("the job was cancelled")


def _show_lines_at_once() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a TextIOWrapper


class Line:
    """The connection to the worker."""

    runs: str | None = None
    """The token of the attempt that runs."""
    to_end: str | None = None
    """The token of the attempt that is to end."""

    def __init__(self, socket: int) -> None:
        self.orders: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self.stopping = False
        self._socket = socket
        self._sending = threading.Lock()
        self._ours = _identity(socket)
        os.set_inheritable(socket, False)

    def send(self, message: dict[str, Any]) -> None:
        """Tell the worker. When it is gone nothing happens: the watchdog sees that too."""
        data = memoryview(encode(message).encode() + b"\n")
        with self._sending:
            if self._socket >= 0 and _identity(self._socket) != self._ours:
                _end_all()  # a function has closed our files: our lock is no longer held
            try:
                while data and self._socket >= 0:
                    data = data[os.write(self._socket, data) :]
            except OSError:
                return

    def tell(self, token: str, message: dict[str, Any]) -> None:
        """Send what a function says, unless its attempt is over: its threads may outlive it."""
        if token == Line.runs:
            self.send(message)

    def finish(self, ending: Ending) -> None:
        """Tell how the attempt ended."""
        # First, for what the worker says next may be the next order.
        Line.runs = None
        self.send({"kind": "ended", "ending": ending._asdict()})

    def listen(self) -> None:
        """Hear the worker until it is gone, then see to it that this process ends too."""
        try:
            self._hear()
        except OSError:
            pass  # a reset is an end as well
        finally:
            self._end()

    def _hear(self) -> None:
        with open(self._socket, "rb", closefd=False) as lines:
            for line in lines:
                self._take(decode(line.decode()))

    def _take(self, message: dict[str, Any]) -> None:
        if message["kind"] == "stop":
            self.stopping = True
        elif message["kind"] == "end":
            Line.to_end = Line.runs
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        elif message["kind"] == "run":
            self.stopping = False
            Line.runs = message["token"]
            self.orders.put(message)

    def _end(self) -> None:
        if Line.runs is None:
            self.orders.put(None)
            # Time for what the functions left to run at exit, but not for ever.
            time.sleep(_EXIT_GRACE)
        _end_all()

    def leave(self) -> None:
        """Close our side, in a forked process."""
        os.close(self._socket)
        self._socket = -1
        Line.runs = None
        self._sending = threading.Lock()


def _identity(descriptor: int) -> tuple[int, int] | None:
    """What file this is: its number may be another's by now, or nobody's."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _end_all() -> NoReturn:
    """End this process and what it has started, at once."""
    try:
        os.killpg(os.getpid(), signal.SIGKILL)
    finally:
        os._exit(1)


def _run(order: dict[str, Any], functions: Functions, line: Line) -> Ending:
    job = _current(order, line)
    ending = attempt.run(
        lambda: call_within(job, lambda: _call(order, functions)),
        lambda result: calls.result_text(functions.find(order), order["task"], result),
    )
    _flush()
    return ending


def _current(order: dict[str, Any], line: Line) -> CurrentJob:
    token = order["token"]
    return CurrentJob(
        order["job"],
        order["attempt"],
        token=token,
        stopping=lambda: line.stopping,
        heartbeat=lambda: line.tell(token, {"kind": "heartbeat"}),
        progress=lambda fraction, message: line.tell(
            token, {"kind": "progress", "fraction": fraction, "message": message}
        ),
    )


def _call(order: dict[str, Any], functions: Functions) -> Any:
    function = functions.find(order)
    args, kwargs = calls.arguments(function, order["task"], order["payload"])
    try:
        return function(*args, **kwargs)
    except NameError as error:
        if stop := functions.stopped_at(order):
            error.add_note(
                f"(A pool child loads your program only up to its first use of a queue, {stop}: "
                "what is defined below is not there. Put that use under "
                '`if __name__ == "__main__":`.)'
            )
        raise


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:  # closed or replaced by the function: its own affair
            continue


class Functions:
    """Finds the functions of tasks, by name among the registered ones or else by their place."""

    def __init__(self) -> None:
        self._known: dict[str, Callable[..., Any]] = {}
        self._modules: dict[str, Loaded] = {}
        self._failed: dict[str, Exception] = {}

    def find(self, order: dict[str, Any]) -> Callable[..., Any]:
        """The function of the order's task. Raises what loading its module raised."""
        name = order["task"]
        if name not in self._known:
            self._known[name] = self._look(order)
        return self._known[name]

    def _look(self, order: dict[str, Any]) -> Callable[..., Any]:
        module = self._loaded(order).module
        registered = getattr(sys.modules.get("slothqueue.tasks"), "registered", {})
        found = registered.get(order["task"]) or _walk(module, order["qualname"])
        function = getattr(found, "function", found)
        if not callable(function):
            raise WrongState(self._advice(order))
        return function  # type: ignore[no-any-return]

    def _loaded(self, order: dict[str, Any]) -> Loaded:
        """The module of the order's task, loaded for its definitions only, and once."""
        main = order["main"]
        name = loading.MAIN if main else order["module"]
        if name in self._failed:
            raise self._failed[name]
        if name not in self._modules:
            try:
                self._modules[name] = loading.main(main) if main else loading.module(name)
            except Exception as error:  # once is enough, whatever else it did
                self._failed[name] = error
                raise
        return self._modules[name]

    def stopped_at(self, order: dict[str, Any]) -> str | None:
        """Where the loading of the order's module stopped, if it did."""
        name = loading.MAIN if order["main"] else order["module"]
        return self._modules[name].stopped_at if name in self._modules else None

    def _advice(self, order: dict[str, Any]) -> str:
        stop = self.stopped_at(order)
        if stop is None:
            return (
                f"the task {order['task']!r} was not found in a pool child: {order['module']} has "
                f"no {order['qualname']} there. Define it at the top level of its module, whatever "
                "the module is loaded for."
            )
        return (
            f"the task {order['task']!r} was not found in a pool child, which loads your program "
            f"only up to its first use of a queue ({stop}). Define the task above that line, or "
            'put the rest under `if __name__ == "__main__":`.'
        )


def _walk(start: Any, qualname: str) -> Any:
    for name in qualname.split("."):
        start = getattr(start, name, None)
    return start
