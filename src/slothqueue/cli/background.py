"""Starts a worker in the background for a store in which nobody is there to run a command.

The worker is `resident.py` in a process of its own. It says by a pipe what became of it: `worker
PID` once it is there for everybody to see, `other PID` when somebody else was sooner, `error TEXT`.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..processes import BACKGROUND
from ..timing import some_millis, spoken
from .needs import crew, need
from .parsing import Parser
from .screen import one_line
from .session import Session

if TYPE_CHECKING:
    from .needs import Need

DEADLINE = 10.0
"""Seconds in which the worker has to say what became of it; the job is queued all the same."""

IDLE = "5m"
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


def start_option(parser: Parser) -> None:
    """`--no-start`, for every command that puts something into a queue."""
    parser.flag("--no-start", help="start no background worker if none is there")


def ensure_worker(
    session: Session, *, queue: str = "default", so: str = "nothing will run until you start one"
) -> bool:
    """See to it that somebody runs the commands of this queue; whether somebody does.

    If nobody is there, a background worker is started, and a line on stderr says so; or it says why
    not, and what follows: `so`. Nothing that keeps a worker from starting is raised.
    """
    lacking = need(crew(session.store()).servers, queue)
    if lacking is None:
        return True
    if not session.starts:
        session.note(f"{lacking.nobody}, so {so}: {session.command(lacking.start or 'worker')}")
        return False
    limit = 0
    try:
        limit = idle_limit(os.environ)
        answer = _start(session.store().store, limit)
    except OSError as error:
        answer = Answer("error", text=f"{error.filename or sys.executable}: {error.strerror}")
    except ValueError as error:
        answer = Answer("error", text=str(error))
    return _tell(session, lacking, answer, so=so, limit=limit)


def idle_limit(environment: Mapping[str, str]) -> int:
    """How long a background worker stays without work, in ms. Raises ValueError."""
    return some_millis(environment.get("SLOTH_IDLE_EXIT") or IDLE, what="SLOTH_IDLE_EXIT")


def _tell(session: Session, lacking: Need, answer: Answer, *, so: str, limit: int) -> bool:
    if answer.word == "worker":
        session.note(
            f"started a background worker (pid {answer.pid}), which ends itself after "
            f"{spoken(limit)} without work; --no-start or SLOTH_AUTOSTART=0 turns this off"
        )
    elif answer.word == "error":
        start = session.command(lacking.start or "worker")
        session.note(
            f"{lacking.nobody}, and none could be started ({answer.text}), so {so}: {start}"
        )
    elif answer.word == "silent":
        session.note(
            f"a background worker (pid {answer.pid}) was started, but has not said yet that it is "
            f"there; {session.command('status')} shows whether it is"
        )
    return answer.word != "error"


def _start(store: Any, limit: int) -> Answer:
    """Start the process and wait for its word. Raises OSError."""
    import subprocess  # 14 ms, only when a worker is needed

    if not sys.executable:
        return Answer("error", text="this Python does not know its own program")
    log = open_log(store.logs)
    ear, mouth = os.pipe()
    try:
        with open(log, "ab", closefd=True) as output:
            process = subprocess.Popen(
                _argv(store.path, limit, mouth),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env=_environment(os.environ),
                pass_fds=[mouth],
                start_new_session=True,
            )
        os.close(mouth)
        mouth = -1
        answer = _listen(ear, process.pid)
    finally:
        os.close(ear)
        if mouth >= 0:
            os.close(mouth)
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
