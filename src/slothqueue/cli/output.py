"""`sloth log` and `sloth follow`: what a command has written, and what it writes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..outputs import Cut, Kept, pieces
from .follower import Follower
from .logs import CHUNK, Log, logs_of, written
from .needs import say_if_stuck
from .parsing import Parser, Usage, job_id, whole
from .session import Session
from .sinks import show, sink_for
from .told import Told, are_apart, silence

if TYPE_CHECKING:
    from ..handles import Job

TRIES = 5


def log_options(parser: Parser) -> None:
    parser.option("id", metavar="ID", type=job_id, help="the job, as `sloth add` printed it")
    parser.option("-n", dest="lines", metavar="N", type=whole(0), help="only the last N lines")
    parser.option(
        "--attempt", metavar="N", type=whole(1), help="of this attempt (default: the latest)"
    )
    _stderr_option(parser)
    _raw_option(parser)
    parser.describe(
        "ID [-n N] [--attempt N] [--stderr] [--raw]",
        "What the command of a job has written, to its output and its errors. Into a\n"
        "pipe or a file it goes byte for byte. On a terminal colors are shown, progress\n"
        "bars as they were in the end, and what else could steer the terminal is written\n"
        "out instead of obeyed; --raw shows the bytes there, too.",
        """
sloth log 5
sloth log 5 -n 20
sloth log 5 --attempt 1 > first.txt
""",
    )


def _stderr_option(parser: Parser) -> None:
    parser.flag("--stderr", help="what it wrote to its errors, if that was kept apart")


def _raw_option(parser: Parser) -> None:
    parser.flag("--raw", help="byte for byte on a terminal, too, whatever that does to it")


def _refuse_raw_json(session: Session, options: Any) -> None:
    if options.raw and session.json:
        raise Usage("give --raw or --json, not both")


def log_command(session: Session, options: Any) -> int:
    _refuse_raw_json(session, options)
    job = session.job(options.id)
    found = _chosen(session, job, options.attempt)
    if options.stderr:
        found = _errors(session, job, found)
    if found and options.lines != 0 and not any(os.path.getsize(log.path) for log in found):
        session.note(_nothing(job, found[-1]))
    sink = sink_for(session, job.id, raw=options.raw, live=False)
    for log in found if options.lines != 0 else []:
        for part in written(log.path, _start(log.path, options.lines)):
            show(sink, log.attempt, part)
    sink.end()
    return 0


def _chosen(session: Session, job: Job, attempt: int | None) -> list[Log]:
    """The logs that were asked for; a note when there is more, or nothing."""
    logs = logs_of(session.store().store.logs, job.id)
    if attempt is None:
        earlier = sorted({log.attempt for log in logs[:-1]})
        if earlier:
            session.note(
                f"this is attempt {logs[-1].attempt}; --attempt N shows another, the first "
                f"is {earlier[0]}"
            )
        if not logs:
            session.note(silence(job))
        return logs[-1:]
    if attempt > max([job.attempts, *(log.attempt for log in logs)]):
        raise Usage(
            f"there is no attempt {attempt} of job {job.id}; it has had {job.attempts} so far"
        )
    chosen = [log for log in logs if log.attempt == attempt]
    if not chosen:
        session.note(f"there is no output of attempt {attempt} of job {job.id}")
    return chosen


def _errors(session: Session, job: Job, logs: list[Log]) -> list[Log]:
    """The same logs with their errors in place of their output; a note where there are none."""
    apart = [log._replace(path=log.errors) for log in logs if os.path.exists(log.errors)]
    if logs and not apart:
        session.note(_together(session, job))
    return apart


def _together(session: Session, job: Job) -> str:
    return (
        f"job {job.id} did not keep its errors apart: they are in its output, in their order; "
        f"{session.command(f'log {job.id}')} shows it"
    )


def _nothing(job: Job, log: Log) -> str:
    """Why there is nothing in a log."""
    latest = log.attempt == job.attempts
    return silence(job) if latest else f"attempt {log.attempt} of job {job.id} wrote nothing"


def _start(path: str, lines: int | None) -> int:
    """Where the last so many lines of a file begin; 0 for all of it."""
    start = 0
    for _ in range(TRIES if lines is not None else 0):  # it may be cut while we look for them
        parts = pieces(path)
        start = _start_of_lines(path, parts, lines or 0)
        if [part.length for part in parts[:2]] == [part.length for part in pieces(path)[:2]]:
            break
    return start


def _start_of_lines(path: str, parts: list[Kept | Cut], lines: int) -> int:
    """The same in these pieces. If they begin right behind a cut, that is told, too."""
    start = 0
    with open(path, "rb") as file:
        for part in reversed([part for part in parts if isinstance(part, Kept)]):
            if lines <= 0:
                return part.offset + part.length
            start, lines = _start_of_last(file, part, lines)
            if start > part.offset:
                break
    return start


def _start_of_last(file: Any, part: Kept, lines: int) -> tuple[int, int]:
    """Where the last so many lines begin, and how many are to be found before this part.

    Reads from the end, whatever the size.
    """
    end = part.offset + part.length
    at, wanted = end, lines
    while at > part.offset:
        start = max(part.offset, at - CHUNK)
        file.seek(start)
        chunk = file.read(at - start)
        if at == end and chunk.endswith(b"\n"):
            wanted += 1  # it ends the last line and begins none
        count = chunk.count(b"\n")
        if count >= wanted:
            return start + _nth_from_end(chunk, wanted) + 1, 0
        wanted, at = wanted - count, start
    return part.offset, wanted - 1


def _nth_from_end(chunk: bytes, n: int) -> int:
    at = len(chunk)
    for _ in range(n):
        at = chunk.rindex(b"\n", 0, at)
    return at


def follow_options(parser: Parser) -> None:
    parser.option("id", metavar="ID", type=job_id, help="the job, as `sloth add` printed it")
    _stderr_option(parser)
    _raw_option(parser)
    parser.describe(
        "ID [--stderr] [--raw]",
        "Shows the output of the latest attempt and goes on until the job has ended, over\n"
        "all attempts that follow. Ctrl-C ends the watching, not the job.",
        """
sloth follow 5
sloth follow 5 | grep --line-buffered warning
""",
    )


def follow_command(session: Session, options: Any) -> int:
    _refuse_raw_json(session, options)
    job = session.job(options.id)
    if options.stderr and not are_apart(job):
        session.note(_together(session, job))
        return 0
    say_if_stuck(session, job, f"job {job.id} waits; start one")
    told, sink = Told(session), sink_for(session, job.id, raw=options.raw)
    follower = Follower(session, job.id, sink, errors=options.stderr)
    job = follower.run(told.look)
    if not follower.wrote:
        session.note(silence(job))
    if job.state != "done" and (follower.wrote or job.kind != "command"):
        told.end(job)
    return 0
