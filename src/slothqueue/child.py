"""The program of a pool child: runs functions for one worker, and ends when that worker ends.

It locks a file of its own for its whole life, so that everybody can see whether it lives. Its main
thread runs the functions; another reads what the worker says, and so notices its end even while a
function is busy. Both sides send one JSON object a line:

* from the worker `run` and `stop`;
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
from types import CodeType, ModuleType
from typing import Any

from . import attempt, context
from .codec import decode, encode
from .context import CurrentJob, Loading, call_within
from .errors import WrongState
from .models import Ending

PROGRAM = (
    "import sys; sys.path[:] = sys.argv[1].split('\\n'); from slothqueue.child import main; main()"
)
"""For `python -c`. Its arguments: module path, lock, the worker's own arguments, socket."""

MAIN = "__mp_main__"
"""The name under which the user's main script is loaded here; multiprocessing calls it so too."""

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
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
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

    A handler and not SIG_IGN, which the programs that a function starts would inherit.
    """


def _show_lines_at_once() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a TextIOWrapper


class Line:
    """The connection to the worker."""

    def __init__(self, socket: int) -> None:
        self.orders: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self.stopping = False
        self._socket = socket
        self._token: str | None = None  # of the attempt that runs
        self._sending = threading.Lock()
        os.set_inheritable(socket, False)

    def send(self, message: dict[str, Any]) -> None:
        """Tell the worker. When it is gone nothing happens: the watchdog sees that too."""
        data = memoryview(encode(message).encode() + b"\n")
        with self._sending:
            try:
                while data and self._socket >= 0:
                    data = data[os.write(self._socket, data) :]
            except OSError:
                return

    def tell(self, token: str, message: dict[str, Any]) -> None:
        """Send what a function says, unless its attempt is over: its threads may outlive it."""
        if token == self._token:
            self.send(message)

    def finish(self, ending: Ending) -> None:
        """Tell how the attempt ended."""
        # First, for what the worker says next may be the next order.
        self._token = None
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
        elif message["kind"] == "run":
            self.stopping = False
            self._token = message["token"]
            self.orders.put(message)

    def _end(self) -> None:
        if self._token is None:
            self.orders.put(None)
            # Time for what the functions left to run at exit, but not for ever.
            time.sleep(_EXIT_GRACE)
        try:
            os.killpg(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)

    def leave(self) -> None:
        """Close our side, in a forked process."""
        os.close(self._socket)
        self._socket = -1
        self._token = None
        self._sending = threading.Lock()


def _run(order: dict[str, Any], functions: Functions, line: Line) -> Ending:
    job = _current(order, line)
    ending = attempt.run(lambda: call_within(job, lambda: _call(order, functions)))
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
    payload = order["payload"]
    function = functions.find(order)
    return function(*payload.get("args", ()), **payload.get("kwargs", {}))


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
        self._script: Script | None = None

    def find(self, order: dict[str, Any]) -> Callable[..., Any]:
        """The function of the order's task. Raises what loading its module raised."""
        name = order["task"]
        if name not in self._known:
            self._known[name] = self._look(order)
        return self._known[name]

    def _look(self, order: dict[str, Any]) -> Callable[..., Any]:
        module = self._module(order)
        registered = getattr(sys.modules.get("slothqueue.tasks"), "registered", {})
        found = registered.get(order["task"]) or _walk(module, order["qualname"])
        function = getattr(found, "function", found)
        if not callable(function):
            raise WrongState(self._advice(order))
        return function  # type: ignore[no-any-return]

    def _module(self, order: dict[str, Any]) -> ModuleType:
        if order["main"] is None:
            __import__(order["module"])
            return sys.modules[order["module"]]
        if self._script is None:
            self._script = Script(order["main"])
        return self._script.loaded()

    def _advice(self, order: dict[str, Any]) -> str:
        stop = self._script.stopped_at if self._script and order["main"] else None
        if stop is None:
            return (
                f"the task {order['task']!r} was not found in a pool child: {order['module']} has "
                f"no {order['qualname']} there. Define it at the top level of its module, whatever "
                "the module is loaded for."
            )
        return (
            f"the task {order['task']!r} was not found in a pool child, which loads your script "
            f"only up to its first use of a queue ({stop}). Define the task above that line, or "
            'put the rest of the script under `if __name__ == "__main__":`.'
        )


def _walk(start: Any, qualname: str) -> Any:
    for name in qualname.split("."):
        start = getattr(start, name, None)
    return start


class Script:
    """The main script of the worker's process, loaded once for the functions in it."""

    def __init__(self, main: dict[str, str]) -> None:
        self.stopped_at: str | None = None
        self._main = main
        self._module: ModuleType | None = None
        self._error: Exception | None = None

    def loaded(self) -> ModuleType:
        """The module. Raises what the script raised, again if asked again."""
        if self._module is None:
            self._module = ModuleType(MAIN)
            self._load(self._module)
        if self._error is not None:
            raise self._error
        return self._module

    def _load(self, module: ModuleType) -> None:
        context.loading = True
        try:
            code = self._prepare(module)
            # Under both names, for what looks up the classes and functions in it.
            sys.modules[MAIN] = sys.modules["__main__"] = module
            exec(code, module.__dict__)
        except Loading as stop:
            self.stopped_at = _line_of(stop, module)
        except SystemExit:
            pass  # what was defined until then is what there is
        except Exception as error:
            error.add_note(_NOTE)
            self._error = error
        finally:
            context.loading = False

    def _prepare(self, module: ModuleType) -> CodeType:
        if "module" in self._main:
            return _by_name(module, self._main["module"])
        return _by_path(module, self._main["path"])


_NOTE = (
    "(A pool child loads the main script to find the tasks in it. What only the script itself "
    'should do belongs under `if __name__ == "__main__":`.)'
)


def _by_path(module: ModuleType, path: str) -> CodeType:
    module.__file__ = path
    with open(path, "rb") as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


def _by_name(module: ModuleType, name: str) -> CodeType:
    """As `python -m name` does it, for relative imports to work."""
    from importlib.util import find_spec

    spec = find_spec(name)
    if spec is None or spec.loader is None:
        raise ImportError(f"there is no module {name} here", name=name)
    module.__file__ = spec.origin
    module.__spec__, module.__loader__, module.__package__ = spec, spec.loader, spec.parent
    return spec.loader.get_code(name)  # type: ignore[attr-defined,no-any-return]


def _line_of(stop: Loading, module: ModuleType) -> str:
    trace, number = stop.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_globals is module.__dict__:
            number = trace.tb_lineno
        trace = trace.tb_next
    return f"{module.__file__}, line {number}"
