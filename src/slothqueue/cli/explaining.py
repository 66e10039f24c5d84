"""`sloth why`: what a job waits for and what would start it; the same in a line of `list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..models import BLOCKED, GATED_OUT, HELD
from .many import each, ids_option
from .parsing import Parser
from .screen import since
from .session import Session, quoted

if TYPE_CHECKING:
    import datetime as dt

    from ..client import Sloth
    from ..handles import Job
    from ..storage.base import Tx

PARKED = 18
"""The place in the row of a job of why it is filed nowhere."""

MOST = 1_000
"""Of so many jobs that one waits for is seen to whether they are held."""


def why_options(parser: Parser) -> None:
    ids_option(parser)
    parser.describe(
        "ID...",
        "One sentence for each job: what it waits for, and what would start it. It is\n"
        "read from the same rules by which workers take jobs, and never guessed. Of a job\n"
        "that runs or has ended it says so.",
        """
sloth why 5
sloth why 5-9 12
sloth why 5 --json
""",
    )


def why_command(session: Session, options: Any) -> int:
    def explain(job: Job) -> tuple[Job, str]:
        return job, sentence(session, job)

    return each(session, options.ids, explain, more=lambda told: {"why": told})


def sentence(session: Session, job: Job) -> str:
    """Why it does not run, with commands that work on this store."""
    return session.ours(job.why())


def bare(session: Session, job: Job) -> str:
    """The same behind the name of the job: `is held by ...`."""
    return sentence(session, job).removeprefix(f"job {job.id} ")


# ---- in a list ----------------------------------------------------------------------------------


class Waiting:
    """In a word or two, what each of these queued jobs waits for; read at once for all of them."""

    def __init__(self, sloth: Sloth, jobs: list[Job]) -> None:
        waits, names = sloth.store.waits, sloth.store.names
        blocked = [job.id for job in jobs if job.blocked]

        def look(tx: Tx) -> tuple[set[str], dict[int, tuple[int, list[Any]]]]:
            paused = {row.name for row in names.queues(tx) if row.paused is not None}
            return paused, {id: waits.pending(tx, id, 1) for id in blocked}

        self._paused, self._parents = sloth.store.read(look)

    def told(self, job: Job, now: dt.datetime) -> str:
        """In the order in which a claim meets the reasons."""
        if job.held:
            return "held"
        if job.blocked:
            return self._after(job.id)
        if job.run_at > now:
            return since(job.run_at, now)
        if job.queue in self._paused:
            return "paused"
        return "key busy" if job._row[PARKED] & GATED_OUT else "due"

    def _after(self, id: int) -> str:
        count, parents = self._parents.get(id, (0, []))
        if not parents:  # they have ended since
            return "due"
        more = f" +{count - 1}" if count > 1 else ""
        return f"after #{parents[0][0]}{more}"


# ---- beside other commands ----------------------------------------------------------------------


def say_if_kept(session: Session, job: Job, *, asked: bool = False) -> bool:
    """Tell on stderr what keeps a queued job: a pause, and, unless that was just asked for, a hold
    or its parents. Whether a worker would not help: parents have to be run, if none holds them."""
    if job.state == "cancelled":
        session.note(f"job {job.id} is cancelled: {job.message}")
        return True
    if job.state != "queued":
        return False
    if job.held or job.blocked:
        if not asked:
            session.note(sentence(session, job))
        return job.held or _waits_for_held(session.store(), job)
    if not session.store().queue(job.queue).paused:
        return False
    start = session.command(f"resume {quoted(job.queue)}")
    session.note(f"queue {job.queue!r} is paused, so job {job.id} waits: {start}")
    return True


def _waits_for_held(sloth: Sloth, job: Job) -> bool:
    """Whether all that it waits for is held, or waits in its turn for what is."""
    waits = sloth.store.waits

    def look(tx: Tx) -> bool:
        ahead, seen = [job.id], {job.id}
        for id in ahead:
            known = waits.known(tx, id)
            if known is None or not known.parked & (HELD | BLOCKED) or len(seen) > MOST:
                return False
            if not known.parked & HELD:
                parents = {row[0] for row in waits.pending(tx, id, MOST)[1]} - seen
                ahead += sorted(parents)
                seen |= parents
        return True

    return sloth.store.read(look)
