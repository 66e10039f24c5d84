"""Starts a background worker, and hears from it what became of it.

The worker is `resident.py` in a process of its own. It says one line by a pipe: `worker PID` once
it is there for everybody to see, `other PID` when somebody else was sooner, or `error TEXT`.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..processes import BACKGROUND
from .screen import one_line

DEADLINE = 10.0
"""Seconds in which the worker has to say what became of it; the job is queued all the same."""

NOT_OURS = ("SLOTH_LEASE", "SLOTH_JOB", "SLOTH_ATTEMPT", "SLOTH_TOKEN")
"""What a job has in its environment; a worker that it starts belongs to no job."""

# Run from `/`, so not with `-m`: that, and a relative PYTHONPATH, would look for us there.
_BOOT = """\
import sys
sys.path[:1] = []
sys.path.append(sys.argv.pop(1))
from slothqueue.cli import main
sys.exit(main())
"""


class Answer(NamedTuple):
    """What the new process said: a word, a pid if there is one, and a text."""

    word: str
    pid: int = 0
    text: str = ""


def start(store: Any, limit: int) -> Answer:
    """Start the process, and wait for its word. Whatever keeps it from starting is an answer."""
    if not sys.executable:
        return Answer("error", text="this Python does not know its own program")
    try:
        return _start(store, limit)
    except OSError as error:
        return Answer("error", text=f"{error.filename or sys.executable}: {error.strerror}")


def _start(store: Any, limit: int) -> Answer:
    log, (ear, mouth) = open_log(store.logs), os.pipe()
    try:
        process = subprocess.Popen(
            _argv(store.path, limit, mouth),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=_environment(os.environ),
            pass_fds=[mouth],
            start_new_session=True,
        )
        os.close(mouth)
        mouth = -1
        answer = _listen(ear, process.pid)
    finally:
        for file in {log, ear, mouth} - {-1}:
            os.close(file)
    if answer.word in ("other", "error"):
        process.wait()  # it goes by itself
    process.returncode = process.returncode or 0  # it is not waited for: it outlives us
    return answer._replace(text=answer.text or f"it has ended at once; see {log_path(store.logs)}")


def _argv(path: str, limit: int, mouth: int) -> list[str]:
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    home = os.path.dirname(package)
    return [sys.executable, "-c", _BOOT, home, "__background", path, str(limit), str(mouth)]


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in ours.items() if name not in NOT_OURS}
    name, _, value = BACKGROUND.decode().partition("=")
    return kept | {name: value}


def _listen(ear: int, pid: int) -> Answer:
    """The first line that it says; `error` if it ends without one, `silent` if it says none."""
    heard = b""
    while b"\n" not in heard:
        if not select.select([ear], [], [], DEADLINE)[0]:
            return Answer("silent", pid)
        piece = os.read(ear, 4096)
        if not piece:
            return Answer("error")
        heard += piece
    word, _, rest = heard.partition(b"\n")[0].decode("utf-8", "replace").partition(" ")
    if word == "error":
        return Answer("error", text=one_line(rest))
    return Answer(word, int(rest))


def log_path(logs: str) -> str:
    """Where background workers of a store tell what they do."""
    return os.path.join(logs, "worker.log")


def open_log(logs: str) -> int:
    """That file, made if need be, to write at its end. Raises OSError."""
    os.makedirs(logs, mode=0o700, exist_ok=True)
    flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    return os.open(log_path(logs), flags, 0o600)
