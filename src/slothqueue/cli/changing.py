"""`sloth cancel`, `retry`, `hold` and `unhold`: what becomes of jobs by a person's word."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..control import GRACE
from ..errors import WrongState
from ..timing import millis, spoken
from . import facts
from .background import see_to, start_option
from .editing import edit_in_editor
from .family import count, stayed, went_along
from .many import Failed, all_of, each, ids_option
from .needs import crew
from .parsing import Parser, Usage, duration
from .session import NoStoreYet, Session

if TYPE_CHECKING:
    from ..client import Sloth
    from ..handles import Job

BATCH = 100_000

# ---- cancel -------------------------------------------------------------------------------------


def cancel_options(parser: Parser) -> None:
    ids_option(parser)
    parser.option("--reason", metavar="TEXT", help="why, for its history")
    parser.option(
        "--grace",
        metavar="T",
        type=duration,
        help="how long one that runs may take to end by itself (default: 10s)",
    )
    parser.flag("--now", help="end one that runs at once: --grace 0")
    parser.flag("--wait", help="wait until they have ended")
    parser.describe(
        "ID... [--reason TEXT] [--grace T | --now] [--wait]",
        "A job that waits is cancelled at once, and so are those that wait for it. One\n"
        "that runs is told to end: a command gets SIGTERM, a function sees that it is\n"
        "stopping; what is still there after the grace is killed. A job that has ended\n"
        "stays what it is. `sloth retry ID` puts a cancelled job back.",
        """
sloth cancel 5
sloth cancel 3-7 12 --reason 'wrong disk'
sloth cancel 5 --grace 1m --wait
sloth cancel 5 --now
""",
    )


def cancel_command(session: Session, options: Any) -> int:
    if options.now and options.grace is not None:
        raise Usage("give --grace or --now, not both")
    grace = 0 if options.now else GRACE if options.grace is None else millis(options.grace)
    told: list[Job] = []

    def cancel(job: Job) -> tuple[Job, str]:
        asked = session.store().verbs.cancel_asked(job.id)
        after = job.cancel(options.reason, grace=grace / 1000)
        if after.state == "running":
            told.append(after)
        return after, _cancelled(session.store(), job, after, grace, asked=asked)

    code = each(session, options.ids, cancel)
    if options.wait:
        _wait(session, told)
    return code


def _cancelled(sloth: Sloth, before: Job, after: Job, grace: int, *, asked: bool) -> str:
    name = f"job {before.id}"
    if before.state == "cancelled":
        return f"{name} was cancelled already"
    if before.ended:
        return f"{name} is {before.state} already, so there is nothing to cancel"
    if after.state == "cancelled":
        along = len(went_along(sloth, after, just_now=True))
        return f"{name} cancelled" + (f", and {count(along)} that waited for it" if along else "")
    if after.ended:
        return f"{name} is {after.state}: it ended by itself meanwhile"
    return f"{name} is running: {_told_to_end(sloth, after, grace, asked=asked)}"


def _told_to_end(sloth: Sloth, job: Job, grace: int, *, asked: bool) -> str:
    if job.kind == "payload":
        return "whoever claimed it by hand is told, and ends it"
    told = "it had been told to end already" if asked else "it was told to end"
    if job.kind == "task" and _in_thread(sloth, job):
        return f"{told}; in a thread it goes on until it looks"
    return f"{told}, and is ended " + (f"after {spoken(grace)}" if grace else "now")


def _in_thread(sloth: Sloth, job: Job) -> bool:
    """Whether nobody but itself can end this function."""
    return any(one.label == job.worker and one.pool == "thread" for one in crew(sloth).workers)


def _wait(session: Session, jobs: list[Job]) -> None:
    import logging

    from .waiting import ended

    logging.getLogger("slothqueue").addHandler(logging.NullHandler())
    for job in jobs:
        job = session.store().verbs.wait_for_end(job, None)
        if session.json:
            session.tell(facts.job_facts(job))
        else:
            session.say(ended(session, job))
        sys.stdout.flush()


# ---- retry --------------------------------------------------------------------------------------


def retry_options(parser: Parser) -> None:
    ids_option(parser, least="*")
    parser.flag("--all-failed", help="all jobs that have failed")
    parser.option("-q", "--queue", metavar="QUEUE", help="of these, only those of this queue")
    parser.flag("--children", help="also those that were cancelled with it")
    parser.flag("--edit", help="change the command first, in an editor")
    start_option(parser)
    parser.describe(
        "{ID... | --all-failed [-q QUEUE]} [--children] [--edit]\n                   [--no-start]",
        "Puts jobs back that have failed or were cancelled, with as many attempts as they\n"
        "had at first. Their history goes on. With --edit the command is opened first in\n"
        "$VISUAL or $EDITOR; if it comes back empty, the job stays what it is.",
        """
sloth retry 5
sloth retry 5 --children
sloth retry 5 --edit
sloth retry --all-failed -q media
""",
    )


def retry_command(session: Session, options: Any) -> int:
    if options.all_failed == bool(options.ids):
        raise Usage("name the jobs to put back, or give --all-failed")
    if options.queue is not None and not options.all_failed:
        raise Usage("-q goes with --all-failed")
    back: list[Job] = []

    def retry(job: Job) -> tuple[Job, str]:
        after, told = _revive(session, job, options)
        back.append(after)
        return after, told

    if options.all_failed:
        code = _retry_all(session, options.queue, retry)
    else:
        code = each(session, options.ids, retry)
    see_to(session, back)
    return code


def _revive(session: Session, job: Job, options: Any) -> tuple[Job, str]:
    if job.state == "queued":
        raise WrongState(_waits_already(job))
    changed = _edited(session, job) if options.edit else ""
    along = went_along(session.store(), job)
    after = job.revive(children=options.children)
    left = after.max_attempts - job.attempts  # of after, the first may have begun
    tries = "1 attempt" if left == 1 else f"{left} attempts"
    told = f"job {job.id} is queued again, for up to {tries}{_along(session, along)}"
    return after, f"{told}; it{changed}" if changed else told


def _edited(session: Session, job: Job) -> str:
    told = edit_in_editor(session, job)
    if told is None:
        raise Failed(f"its text came back empty, so job {job.id} stays {job.state}")
    return told.rpartition("; `")[0] or told


def _along(session: Session, along: list[int]) -> str:
    if not along:
        return ""
    left = len(stayed(session.store(), along))
    if left < len(along):
        return f", and {count(len(along) - left)} with it"
    stay = "that was cancelled with it stays" if left == 1 else "that were cancelled with it stay"
    return f"; {count(left)} {stay} so, --children puts back those too"


def _waits_already(job: Job) -> str:
    if job.held:
        return f"job {job.id} is queued and held; `sloth unhold {job.id}` lets it go"
    return f"job {job.id} is queued already; `sloth edit {job.id} --in 0` makes it due now"


def _retry_all(session: Session, queue: str | None, retry: Any) -> int:
    """All that have failed, the oldest first; those that cannot be put back stay what they are."""
    from .looking import check_queue

    try:
        sloth = session.existing()
    except NoStoreYet as error:
        session.note(str(error))
        return 0
    check_queue(sloth, queue)
    code, seen = 0, set[int]()
    while True:
        stayed = sloth.jobs(state="failed", queue=queue, limit=BATCH + len(seen))
        jobs = [job for job in stayed if job.id not in seen]
        if not jobs:
            break
        seen.update(job.id for job in jobs)
        code = max(code, all_of(session, reversed(jobs), retry))
    if not seen:
        session.note("no job has failed" + ("" if queue is None else f" in queue {queue!r}"))
    return code


# ---- hold ---------------------------------------------------------------------------------------


def hold_options(parser: Parser) -> None:
    ids_option(parser)
    parser.describe(
        "ID...",
        "Keeps queued jobs from running until `sloth unhold`. It stays so across\n"
        "restarts. What waits for a held job waits, too.",
        """
sloth hold 5
sloth hold 3-7
""",
    )


def hold_command(session: Session, options: Any) -> int:
    def hold(job: Job) -> tuple[Job, str]:
        after = job.hold()
        how = "was held already" if job.held else "held"
        return after, session.ours(f"job {job.id} {how}; `sloth unhold {job.id}` lets it go")

    return each(session, options.ids, hold)


def unhold_options(parser: Parser) -> None:
    ids_option(parser)
    start_option(parser)
    parser.describe(
        "ID... [--no-start]",
        "Lets held jobs run again, when it is their turn.",
        """
sloth unhold 5
sloth unhold 3-7
""",
    )


def unhold_command(session: Session, options: Any) -> int:
    free: list[Job] = []

    def unhold(job: Job) -> tuple[Job, str]:
        after = job.unhold()
        free.append(after)
        return after, f"job {job.id} " + ("is free to run" if job.held else "was not held")

    code = each(session, options.ids, unhold)
    see_to(session, free)
    return code
