"""`sloth run`: queue a command, show its output, end as it ends."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from . import facts
from .adding import USAGE, enqueue, job_options, say_if_later
from .background import ensure_worker
from .conditions import say_if_existed
from .explaining import say_if_kept
from .follower import Follower
from .logs import logs_of
from .needs import crew, need, need_of
from .parsing import Parser
from .session import INTERRUPTED, PIPE_CLOSED, Session
from .sinks import sink_for
from .told import Told, are_apart

if TYPE_CHECKING:
    from ..client import Sloth
    from ..handles import Job

GOODBYE = 2.0


def run_options(parser: Parser) -> None:
    job_options(parser)
    parser.describe(
        USAGE,
        "As `sloth add` and `sloth follow` together. Ends with the exit code of the\n"
        "command, 128 + n if signal n ended it, 124 after its timeout. If no worker is\n"
        "there for its queue, one is started in the background; with --no-start it does\n"
        "the work itself, in the order of the queue. Ctrl-C leaves the job alone and\n"
        "tells how to find it.",
        """
sloth run -- make all
sloth run --retries 0 -- ./deploy.sh
sloth run -q media --timeout 2h -- ffmpeg -i a.mov a.mp4
""",
    )


def run_command(session: Session, options: Any) -> int:
    job = enqueue(session, options)
    helper = None
    try:
        if session.json:
            session.tell(facts.job_facts(job))
            sys.stdout.flush()
        say_if_later(session, job)
        say_if_existed(session, job)
        kept = say_if_kept(session, job)
        if not (kept and session.starts) and not _is_served(session, job):
            helper = _work(session, job)
        job = _follow(session, job, helper)
    except KeyboardInterrupt:
        return _leave(session, job, helper, INTERRUPTED)
    except BrokenPipeError:
        return _leave(session, job, helper, PIPE_CLOSED)
    if session.json:
        session.tell(facts.job_facts(job))
    code = facts.exit_code(job)
    if helper is not None:
        helper.finish(code)
    return code


def _is_served(session: Session, job: Job) -> bool:
    """Whether somebody runs the job; a worker is started for it if that is wanted."""
    if session.starts:
        return ensure_worker(session, queue=job.queue, so="this does the work itself; to start one")
    return need_of(session.store(), job) is None


def _follow(session: Session, job: Job, helper: Helper | None) -> Job:
    told = Watched(session, helper)
    job = Follower(session, job.id, sink_for(session, job.id)).run(told.look)
    if job.state != "done":
        told.end(job)
    if are_apart(job) and _has_errors(session, job):
        errors = session.command(f"log {job.id} --stderr")
        session.note(f"job {job.id} has written to its errors, too; {errors} shows that")
    return job


def _has_errors(session: Session, job: Job) -> bool:
    files = [log.errors for log in logs_of(session.store().store.logs, job.id)]
    return any(os.path.exists(path) and os.path.getsize(path) for path in files)


class Watched(Told):
    """The same for a job that a worker of ours may have to run."""

    def __init__(self, session: Session, helper: Helper | None) -> None:
        super().__init__(session)
        self._helper = helper

    def look(self, job: Job) -> None:
        if self._helper is not None and self._helper.error is not None:
            raise self._helper.error  # nobody works any more, so there is nothing to wait for
        super().look(job)


def _leave(session: Session, job: Job, helper: Helper | None, code: int) -> int:
    """The job goes on without us. Ending our worker in order would end the command, too."""
    if session.screen.terminal:
        sys.stderr.write("\n")  # behind the ^C
    session.note(_whereabouts(session, job))
    if helper is not None:
        os._exit(code)
    return code


def _whereabouts(session: Session, job: Job) -> str:
    job = job.refresh()
    follow = session.command(f"follow {job.id}")
    lacking = need(crew(session.store(), others=True).servers, job.queue)
    start = session.command(lacking.start) if lacking and lacking.start else ""
    if job.state == "queued":
        needs = f"; {start} runs it" if start else ""
        return f"job {job.id} stays in its queue{needs}; {follow} shows its output"
    told = f"job {job.id} goes on without this; {follow} shows its output"
    return f"{told}; {lacking.nobody} any more: {start}" if lacking else told


class Helper:
    """A worker in a thread of ours, until one job has ended."""

    def __init__(self, sloth: Sloth, job: Job) -> None:
        self._job, self._bell = job, sloth.store.bell
        self.error: Exception | None = None
        self._worker = sloth.worker([job.queue], concurrency=1, grace="365d")
        self._worker.last = job.id
        self._thread = threading.Thread(target=self._work, name="sloth-worker", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            while not self._job.refresh().ended:  # a failed attempt comes again
                self._worker.run()
        except Exception as error:  # told by the thread that follows
            self.error = error
            self._bell.ring()

    def finish(self, code: int) -> None:
        """The job has ended. Let the worker say goodbye, unless it has work that is not ours."""
        self._worker.stop()
        self._thread.join(GOODBYE)
        if self._thread.is_alive():  # another worker took our job, and this one has another's
            sys.stdout.flush()
            os._exit(code)


def _work(session: Session, job: Job) -> Helper:
    ahead = session.store().jobs(state="queued", queue=job.queue, limit=100)
    count = next((n for n, other in enumerate(ahead) if other.id == job.id), len(ahead))
    if count:
        session.note(
            f"no worker is there for queue {job.queue!r}, so this does its work: {count} job"
            + ("s come" if count > 1 else " comes")
            + f" before job {job.id}"
        )
    return Helper(session.store(), job)
