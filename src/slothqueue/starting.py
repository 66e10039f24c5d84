"""How a shim starts its command: its output, its directory, its environment, why it cannot.

It is loaded by the shim and stands alone.
"""

import errno
import os
import sys
from collections.abc import Mapping

from .papers import make

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any
else:  # as in shim.py
    import _signal as signal

ASIDE = "SLOTH_ASIDE_"
"""What the name of a variable begins with that the command is to have and the shim is not."""

LOADER = ("LD_", "DYLD_", "PYTHON", "MALLOC_", "GLIBC_", "GCONV_", "ASAN_", "LSAN_", "LC_ALL")
"""How names begin of variables that could keep a Python from starting, or change it."""

LOCALE = {"LC_ALL": "C"}
"""A Python that finds no locale makes one up, and puts it into the environment."""

NO_INPUT = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)


class Refusal(Exception):
    """Why the command could not be started: what a shell would have ended with, and the text."""


def set_aside(command: Mapping[str, str], ours: Mapping[str, str]) -> dict[str, str]:
    """The environment of a shim: its command's, with what could disturb a Python put aside.

    What `ours` says for the loader counts for the shim: it is how the Python of its worker started.
    """
    kept = {name: value for name, value in ours.items() if name.startswith(LOADER)} | LOCALE
    for name, value in command.items():
        kept[ASIDE + name if name.startswith(LOADER) else name] = value
    return kept


def put_back(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the command, from that of its shim."""
    return {
        name.removeprefix(ASIDE): value
        for name, value in environ.items()
        if not name.startswith(LOADER)
    }


def open_log(path: str) -> int:
    """A new log, for appending. Raises Refusal."""
    try:
        make(os.path.dirname(path))
        return os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Refusal(126, f"its log {path} cannot be opened: {error.strerror}") from None


def enter(cwd: str) -> None:
    """Go to the directory of the command. Raises Refusal."""
    try:
        os.chdir(cwd)
    except OSError as error:
        what = "is gone" if error.errno == errno.ENOENT else f"cannot be used: {error.strerror}"
        raise Refusal(126, f"its working directory {cwd} {what}") from None


def onto(logs: list[int]) -> "list[Any]":
    """File actions: output and errors go to these, to the only one if there is one."""
    return [(os.POSIX_SPAWN_DUP2, logs[0], 1), (os.POSIX_SPAWN_DUP2, logs[-1], 2)]


def spawn(argv: list[str], io: "list[Any]", *, nice: int, session: bool = False) -> int:
    """Start the command here, with these file actions; returns its pid. Raises Refusal.

    With `session` it leads one of its own, and so can have a terminal.
    """
    usual = set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}
    how: dict[str, Any] = {"setsid": True} if session else {"setpgroup": 0}

    def begin() -> int:
        return os.posix_spawnp(
            argv[0],
            argv,
            put_back(os.environ),
            file_actions=io,
            setsigmask=(),
            setsigdef=usual,
            **how,
        )

    try:
        return _nicely(begin, nice) if nice else begin()
    except OSError as error:
        raise _refusal(argv[0], error) from None
    except NotImplementedError:  # an old C library
        raise Refusal(126, "this system cannot start a command at a terminal of its own") from None


def _nicely(begin: "Any", nice: int) -> int:
    """Start it with less claim on the processor than we have ourselves.

    On Linux this is a property of each thread, which hands it down; elsewhere of the process, whose
    command is told right after it has begun.
    """
    if sys.platform != "linux":
        pid: int = begin()
        os.setpriority(os.PRIO_PROCESS, pid, nice)
        return pid
    import _thread

    ended, outcome = _thread.allocate_lock(), []
    ended.acquire()

    def in_a_thread() -> None:
        try:
            os.nice(nice)
            outcome.append(begin())
        except BaseException as error:
            outcome.append(error)
        finally:
            ended.release()

    _thread.start_new_thread(in_a_thread, ())
    ended.acquire()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return int(outcome[0])


def _refusal(name: str, error: OSError) -> Refusal:
    tip = "; --shell gives a text to the shell" if set(name) & set(" \t\n|&;<>$") else ""
    if error.errno == errno.ENOENT and "/" not in name:
        path = os.environ.get("PATH", os.defpath)[:200]
        return Refusal(127, f"there is no program {name!r} on its PATH ({path}){tip}")
    if error.errno == errno.ENOENT and os.path.lexists(name):
        return Refusal(127, f"{name} needs an interpreter that is not there; see its first line")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return Refusal(127, f"there is no program {name!r}{tip}")
    if error.errno == errno.ENOEXEC:
        return Refusal(126, f"{name} is not a program: it has no #! line and is no binary of ours")
    return Refusal(126, f"{name} cannot be run: {error.strerror}")
