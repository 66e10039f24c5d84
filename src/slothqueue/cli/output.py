"""`sloth log` and `sloth follow`: what a command has written, and what it writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .follower import Follower
from .logs import Log, logs_of
from .needs import say_if_stuck
from .parsing import Parser, Usage, job_id, whole
from .session import Session
from .sinks import sink_for
from .told import Told, silence

if TYPE_CHECKING:
    from ..handles import Job

CHUNK = 1 << 16


def log_options(parser: Parser) -> None:
    parser.option("id", metavar="ID", type=job_id, help="the job, as `sloth add` printed it")
    parser.option("-n", dest="lines", metavar="N", type=whole(0), help="only the last N lines")
    parser.option(
        "--attempt", metavar="N", type=whole(1), help="of this attempt (default: the latest)"
    )
    parser.describe(
        "ID [-n N] [--attempt N]",
        "What the command of a job has written, to its output and its errors. Into a\n"
        "pipe or a file it goes byte for byte; what could harm a terminal is shown there\n"
        "instead of obeyed.",
        """
sloth log 5
sloth log 5 -n 20
sloth log 5 --attempt 1 > first.txt
""",
    )


def log_command(session: Session, options: Any) -> int:
    job = session.job(options.id)
    found = _chosen(session, job, options.attempt)
    if found and options.lines != 0 and not any(os.path.getsize(log.path) for log in found):
        session.note(_nothing(job, found[-1]))
    sink = sink_for(session, job.id)
    for log in found:
        for chunk in _bytes(log.path, options.lines):
            sink.write(log.attempt, chunk)
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


def _nothing(job: Job, log: Log) -> str:
    """Why there is nothing in a log."""
    latest = log.attempt == job.attempts
    return silence(job) if latest else f"attempt {log.attempt} of job {job.id} wrote nothing"


def _bytes(path: str, lines: int | None) -> Iterator[bytes]:
    with open(path, "rb") as file:
        if lines is not None:
            file.seek(_start_of_last(file, lines))
        while chunk := file.read(CHUNK):
            yield chunk


def _start_of_last(file: Any, lines: int) -> int:
    """Where the last so many lines begin. Reads from the end, whatever the size."""
    at = end = int(file.seek(0, os.SEEK_END))
    if not lines:
        return end
    wanted = lines
    while at > 0:
        start = max(0, at - CHUNK)
        file.seek(start)
        chunk = file.read(at - start)
        if at == end and chunk.endswith(b"\n"):
            wanted += 1  # it ends the last line and begins none
        count = chunk.count(b"\n")
        if count >= wanted:
            return start + _nth_from_end(chunk, wanted) + 1
        wanted, at = wanted - count, start
    return 0


def _nth_from_end(chunk: bytes, n: int) -> int:
    at = len(chunk)
    for _ in range(n):
        at = chunk.rindex(b"\n", 0, at)
    return at


def follow_options(parser: Parser) -> None:
    parser.option("id", metavar="ID", type=job_id, help="the job, as `sloth add` printed it")
    parser.describe(
        "ID",
        "Shows the output of the latest attempt and goes on until the job has ended, over\n"
        "all attempts that follow. Ctrl-C ends the watching, not the job.",
        """
sloth follow 5
sloth follow 5 | grep --line-buffered warning
""",
    )


def follow_command(session: Session, options: Any) -> int:
    job = session.job(options.id)
    say_if_stuck(session, job, f"job {job.id} waits; start one")
    told = Told(session)
    follower = Follower(session, job.id, sink_for(session, job.id))
    job = follower.run(told.look)
    if not follower.wrote:
        session.note(silence(job))
    if job.state != "done" and (follower.wrote or job.kind != "command"):
        told.end(job)
    return 0
