"""Sees to it that somebody runs what is queued: if nobody would, a background worker is started.

Whoever queues something loads this, so what it takes to start one (`starting.py`) is not in here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..timing import some_millis, spoken
from .needs import crew, need, say_if_stuck
from .parsing import Parser
from .session import Session

if TYPE_CHECKING:
    from ..handles import Job
    from .needs import Need
    from .starting import Answer

IDLE = "5m"


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
    from .starting import Answer, start

    limit = 0
    try:
        limit = idle_limit(os.environ)
        answer = start(session.store().store, limit)
    except ValueError as error:
        answer = Answer("error", text=str(error))
    return _tell(session, lacking, answer, so=so, limit=limit)


def see_to(session: Session, jobs: list[Job]) -> None:
    """Start a worker if nobody is there for these, or tell; those of a kind are asked for once."""
    kinds = {(job.queue, job.kind, job.task): job for job in jobs if job.state == "queued"}
    any(_lacks_worker(session, job) for job in kinds.values())


def _lacks_worker(session: Session, job: Job) -> bool:
    so = "nothing happens until you start one"
    if job.kind == "command":
        return not ensure_worker(session, queue=job.queue, so=so)
    return say_if_stuck(session, job, so)


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
