"""`sloth wait`: until jobs have ended."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

from ..timing import millis
from . import facts
from .needs import say_if_stuck
from .parsing import Parser, duration, job_id
from .screen import one_line
from .session import Session

if TYPE_CHECKING:
    from ..clock import Millis
    from ..handles import Job

TIMED_OUT = 124


def wait_options(parser: Parser) -> None:
    parser.option(
        "ids", metavar="ID", nargs="+", type=job_id, help="a job, as `sloth add` printed it"
    )
    parser.option(
        "--timeout", metavar="T", type=duration, help="wait no longer, and end with 124 then"
    )
    parser.describe(
        "ID... [--timeout T]",
        "Prints a line for each job that has ended, and ends with the worst of their\n"
        "exit codes: that of a command, 128 + n for a signal, 124 for its timeout, else 1\n"
        "for a job that failed or was cancelled.",
        """
sloth wait 5 6 7
sloth wait 5 --timeout 10m
sloth wait $(sloth add -- make test) && echo fine
""",
    )


def wait_command(session: Session, options: Any) -> int:
    jobs = [session.job(id) for id in options.ids]  # who does not exist is told before any waiting
    any(say_if_stuck(session, job, "nothing happens until you start one") for job in jobs)
    logging.getLogger("slothqueue").addHandler(logging.NullHandler())  # that was said already
    limit = None if options.timeout is None else millis(options.timeout)
    awake = session.store().clock.awake
    until = None if limit is None else awake() + limit
    return max(_wait(session, job, until and max(until - awake(), 0)) for job in jobs)


def _wait(session: Session, job: Job, left: Millis | None) -> int:
    if not job.ended:
        try:
            job = session.store().verbs.wait_for_end(job, None if left is None else left / 1000)
        except TimeoutError:
            session.note(f"job {job.id} has not ended in time: it is {job.refresh().state}")
            return TIMED_OUT
    if session.json:
        session.tell(facts.job_facts(job))
    else:
        session.say(ended(session, job))
    sys.stdout.flush()
    return facts.exit_code(job)


def ended(session: Session, job: Job) -> str:
    """How a job ended, in one line."""
    from .screen import STATE_COLORS

    state = session.screen.paint(job.state, STATE_COLORS[job.state])
    why = facts.reason(job)
    return f"job {job.id} {state}" + (
        f": {one_line((why or '').partition(chr(10))[0])}" if why else ""
    )
