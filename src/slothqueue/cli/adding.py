"""`sloth add`: queue a command and print its id."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from ..errors import WrongState
from ..queues import check_name
from . import facts
from .background import ensure_worker, start_option
from .command_options import USAGE as COMMAND_OPTIONS
from .command_options import asked, command_options
from .conditions import USAGE as CONDITIONS
from .conditions import condition_options, conditions, say_if_existed, taken
from .explaining import say_if_kept
from .parsing import Parser, Usage, checked, duration, some_duration, whole
from .session import Session

if TYPE_CHECKING:
    import datetime as dt

    from ..handles import Job

USAGE = f"""\
[-q QUEUE] [--in T | --at TIME] [--priority N] [--retries N]
                 {CONDITIONS}
                 {COMMAND_OPTIONS}
                 [--hold] [--timeout T] [--cwd DIR] [--shell] [--no-start]
                 -- CMD..."""


def job_options(parser: Parser) -> None:
    """The options of a job, for `add` and `run`."""
    parser.takes_command()
    parser.option(
        "-q",
        "--queue",
        metavar="QUEUE",
        default="default",
        type=checked(check_name),
        help="the queue to put it into (default: default)",
    )
    parser.option(
        "--in",
        dest="delay",
        metavar="T",
        type=duration,
        help="start it so much later: 90s, 10m, 2h30m, 1d",
    )
    parser.option(
        "--at",
        metavar="TIME",
        help="start it then: 18:30, 'fri 22:00', 'tomorrow noon', '31 jan 8:00', ISO",
    )
    parser.option(
        "--priority",
        metavar="N",
        type=whole(-1_000_000, 1_000_000),
        default=0,
        help="higher starts sooner (default: 0)",
    )
    parser.option(
        "--retries",
        metavar="N",
        type=whole(0, 999_999),
        help="how often to try again when it fails (default: as the queue says, 3)",
    )
    parser.option(
        "--timeout",
        metavar="T",
        type=some_duration,
        help="end it, with all it has started, after so long",
    )
    parser.option("--cwd", metavar="DIR", help="the directory that it runs in (default: this one)")
    parser.flag("--shell", help="CMD is one text for /bin/sh, such as 'sort a | uniq > b'")
    start_option(parser)
    condition_options(parser)
    command_options(parser)


def add_options(parser: Parser) -> None:
    job_options(parser)
    parser.describe(
        USAGE,
        "The job is safe on disk when the id is printed. A worker runs it; if none is\n"
        "there, one is started in the background, and ends itself after a while without\n"
        "work. If the job fails, it is tried again after 2, 4 and 8 seconds, and then it\n"
        "has failed. Everything behind -- is the command, as it is.",
        """
sloth add -- make all
sloth add --in 10m -- notify-send 'tea is ready'
sloth add -q media --timeout 2h --retries 0 -- ffmpeg -i a.mov a.mp4
sloth add --after 3,4 -- notify-send 'both are done'
sloth add --unique sync --expires 1h -- rsync -a photos nas:
sloth add --at 'fri 23:00' --shell -- 'tar cz photos | ssh host "cat > x.tgz"'
id=$(sloth add -- make all) && sloth follow $id
""",
    )


def add_command(session: Session, options: Any) -> int:
    job = enqueue(session, options)
    if session.json:
        session.tell(facts.job_facts(job))
    else:
        session.say(str(job.id))
    sys.stdout.flush()
    if options.delay is not None or options.at is not None:
        say_if_later(session, job)
    say_if_existed(session, job)
    if not say_if_kept(session, job, asked=not job.existed):
        ensure_worker(session, queue=job.queue)
    return 0


def enqueue(session: Session, options: Any) -> Job:
    """Write the job that the options tell of; a note for what may be meant in another way."""
    cwd = _directory(options.cwd)
    words = _command(options, cwd)
    sloth = session.store()
    if options.delay is not None and options.at is not None:
        raise Usage("give --in or --at, not both")
    at = None if options.at is None else moment_at(session, options.at)
    if options.stray:
        session.note(options.stray)
    try:
        return sloth.queue(options.queue).enqueue_command(
            words,
            cwd=cwd,
            shell=options.shell,
            timeout=options.timeout,
            delay=options.delay,
            run_at=at,
            priority=options.priority,
            max_attempts=None if options.retries is None else options.retries + 1,
            **conditions(session, options),
            **asked(session, options),
        )
    except WrongState as error:
        raise taken(error) from None


def moment_at(session: Session, text: str, *, option: str = "--at") -> dt.datetime:
    """The moment that is named; a note if a job is to start at one that has passed."""
    from ..timing import as_datetime
    from .moments import Here, moment_of

    now = session.store().clock.wall()
    try:
        at = moment_of(text, now, Here())
    except ValueError as error:
        raise Usage(f"{option} {error}") from None
    if at < now and option == "--at":
        session.note(f"--at {text} is in the past, so the job starts at once")
    return as_datetime(at)


def say_if_later(session: Session, job: Job) -> None:
    """Tell when a job starts that is for later, as it was understood."""
    from ..timing import spoken
    from .moments import Here, told

    wait = job.run_at - session.now()
    if wait.total_seconds() <= 0:
        return
    seconds = max(round(wait.total_seconds()), 1)
    if job.expires_at is not None and job.expires_at <= job.run_at:
        session.note(f"job {job.id} expires before it may start, so it will be cancelled unrun")
    session.note(
        f"job {job.id} starts {told(job.run_at.astimezone(Here()))} (in {spoken(1000 * seconds)})"
    )


def _command(options: Any, cwd: str) -> list[str] | str:
    words: list[str] = options.command
    if not words:
        raise Usage(
            "there is no command to run; write it behind --, such as `sloth add -- make all`"
        )
    if foreign := next((word for word in words if not _is_text(word)), None):
        raise Usage(f"{foreign!r} is not UTF-8, and a job keeps text only; let a script name it")
    if not options.shell:
        if len(words) == 1 and _looks_like_shell(words[0]) and not _is_there(words[0], cwd):
            raise Usage(_meant_for_a_shell(words[0]))
        return words
    if len(words) != 1:
        raise Usage(
            "--shell takes one text, so put it in quotes: sloth add --shell -- 'sort a | uniq'"
        )
    return words[0]


def _looks_like_shell(word: str) -> bool:
    return bool(word.strip()) and any(char.isspace() or char in "|&;<>$" for char in word)


def _is_there(name: str, cwd: str) -> bool:
    """Whether there is a file of this name where the command would look for it, from here."""
    folders = [cwd] if "/" in name else os.environ.get("PATH", os.defpath).split(os.pathsep)
    return any(os.path.exists(os.path.join(cwd, folder, name)) for folder in folders)


def _meant_for_a_shell(word: str) -> str:
    from shlex import quote

    return (
        f"there is no program {word!r}; for a line of shell write "
        f"`sloth add --shell -- {quote(word)}`, for a program with arguments leave out the quotes"
    )


def _is_text(word: str) -> bool:
    try:
        word.encode()
        return True
    except UnicodeEncodeError:
        return False


def _directory(told: str | None) -> str:
    if told is None:
        try:
            return os.getcwd()
        except OSError:
            raise Usage(
                "this directory is gone; go elsewhere, or name one with --cwd DIR"
            ) from None
    if not os.path.isdir(told):
        raise Usage(f"--cwd {told!r} is not a directory")
    return os.path.abspath(told)
