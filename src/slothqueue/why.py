"""Why a job does not run: read from what claims read, told in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .clock import Millis
from .crew import Crew, Need, crew, need
from .models import BLOCKED, GATED_OUT, HELD, INTERRUPTED, KINDS, QUEUED, STATES, Room
from .options import bare_key
from .storage.base import JobVerbs, Known, QueueRow, Tx
from .timing import as_datetime, spoken

if TYPE_CHECKING:
    from .handles import Job
    from .jobs import Jobs

NAMED = 3
"""So many jobs are named that another one waits for; the rest is counted."""


class Facts(NamedTuple):
    """What there is to know about a queued job, as of one moment."""

    job: Known
    queue: QueueRow
    pending: int
    parents: list[tuple[int, int | None, int | None]]
    """The first parents that have not ended: id, state (None: deleted), its id again if it runs."""
    room: Room
    running: list[int]
    """Of its queue."""
    gate: list[int]
    """Running jobs of its concurrency key."""
    later: bool
    """Whether its moment has not come yet."""
    ahead: bool
    """Whether others of its lane start before it."""


def why(jobs: Jobs, job: Job) -> str:
    """One sentence: what a job waits for and what would start it, or how it is."""
    if job.state == "running":
        asked = jobs.store.read(lambda tx: jobs.store.waits.cancel_asked(tx, job.id))
        told = f"; it was told to end {asked[0]}" if asked else ""
        return f"job {job.id} is running, attempt {job.attempts}, by {job.worker}{told}"
    if job.ended:
        return _ended(job)
    now = jobs.store.clock.wall()
    facts = jobs.store.read(lambda tx: _facts(jobs, tx, job, now))
    if facts is None:
        return why(jobs, job.refresh())
    living = crew(jobs.store, jobs.presence, jobs.presence.live)
    lacking = need(living, job.queue, KINDS.index(job.kind), job.task)
    failed = (job.error or "").partition("\n")[0] if job.attempts else ""
    before = f"; attempt {job.attempts} failed: {failed}" if failed else ""
    return f"job {job.id} {reason(facts, lacking, now, living)}{before}"


def _ended(job: Job) -> str:
    again = f"; `sloth retry {job.id}` puts it back"
    if job.state == "failed":
        told = (job.error or "").partition("\n")[0]
        return f"job {job.id} has failed after attempt {job.attempts}: {told}{again}"
    if job.state == "cancelled":
        return f"job {job.id} was cancelled: {job.message or 'on request'}{again}"
    return f"job {job.id} is done"


def _facts(jobs: Jobs, tx: Tx, job: Job, now: Millis) -> Facts | None:
    waits, store = jobs.store.waits, jobs.store
    known = waits.known(tx, job.id)
    if known is None or known.state != QUEUED:
        return None
    queue = next(row for row in store.names.queues(tx) if row.name == job.queue)
    pending, parents = waits.pending(tx, job.id, NAMED)
    gate = (
        [] if known.gate is None else waits.running_of_gate(tx, known.gate, known.gate_limit or 1)
    )
    limited = queue.policy.concurrency is not None or queue.policy.rate is not None
    return Facts(
        known,
        queue,
        pending,
        [(id, state, running) for id, state, running in parents],
        waits.room(tx, queue.id, now) if limited else Room(),
        waits.running_of_queue(tx, queue.id, NAMED + 1),
        gate,
        _is_later(store.jobs, tx, known, now),
        store.jobs.first_of(tx, known.lane, now, queue.policy.ageing) not in (None, job.id),
    )


def _is_later(jobs: JobVerbs, tx: Tx, job: Known, now: Millis) -> bool:
    if job.due <= now or job.parked:
        return False
    return not jobs.is_ready(tx, job.lane, job.priority, job.due, job.id)


def reason(facts: Facts, lacking: Need | None, now: Millis, living: Crew) -> str:
    """What keeps it from running: the reasons in the order in which a claim meets them."""
    job, queue = facts.job, facts.queue
    if job.expires is not None and job.expires <= now:
        since = _moment(job.expires, now)
        return f"has expired at {since}, and is cancelled as soon as anybody looks for work"
    if job.parked & HELD:
        return f"{_held(job, now)}; `sloth unhold {job.id}` lets it go"
    if job.parked & BLOCKED:
        return f"is blocked by {_parents(facts)}; it starts when {_they(facts)}"
    if facts.later:
        but = f", but {_nobody(lacking)}" if lacking is not None else ""
        return f"is due at {_moment(job.due, now)}{but}"
    if queue.paused is not None:
        since = _moment(queue.paused, now)
        return (
            f"waits because queue {queue.name!r} is paused since {since} by {queue.paused_by}; "
            f"`sloth resume {_quoted(queue.name)}` lets it go"
        )
    if lacking is not None:
        return f"waits because {_nobody(lacking)}"
    return _limits(facts, now) or _turn(facts, living)


def _nobody(lacking: Need) -> str:
    return lacking.nobody + (f"; `sloth {lacking.start}` starts one" if lacking.start else "")


def _limits(facts: Facts, now: Millis) -> str | None:
    policy, room = facts.queue.policy, facts.room
    name = facts.queue.name
    if room.running is not None and room.running <= 0:
        most = policy.concurrency
        return f"waits because queue {name!r} is at its limit of {most} by {_named(facts.running)}"
    if room.starts is not None and room.starts <= 0:
        again = "" if room.again is None else f"; the next may start at {_moment(room.again, now)}"
        per = spoken(policy.per or 0)
        return f"waits because queue {name!r} has had its {policy.rate} starts in {per}{again}"
    key, most = bare_key(facts.job.gate), facts.job.gate_limit
    if len(facts.gate) >= (most or 1):
        return f"waits because its key {key!r} is at its limit of {most} by {_named(facts.gate)}"
    if facts.job.parked & GATED_OUT:
        return f"is due and waits for its turn: others of its key {key!r} start before it"
    return None


def _turn(facts: Facts, living: Crew) -> str:
    """Nothing keeps it from running but that everybody is busy."""
    if facts.ahead:
        return "is due and waits for its turn: others of its queue start before it"
    if living.workers:
        return "is due, and starts as soon as a worker is free"
    return "is due, and starts when it is claimed"


def _held(job: Known, now: Millis) -> str:
    since = "" if job.held is None else f" since {_moment(job.held, now)}"
    return f"is held{since}{by_whom(job.held_by)}"


def by_whom(held_by: str | None) -> str:
    """Who or what keeps a held job, behind a verb: ` by ada (pid 4711)`."""
    if held_by == INTERRUPTED:
        return f" because {held_by}"
    return f" by {held_by}" if held_by else ""


def _parents(facts: Facts) -> str:
    named = [f"#{id} ({_parent_state(state, running)})" for id, state, running in facts.parents]
    more = facts.pending - len(named)
    return _and([*named, f"{more} more"] if more > 0 else named)


def _parent_state(state: int | None, running: int | None) -> str:
    if state is None:
        return "deleted"
    return "running" if running is not None else STATES[state]


def _they(facts: Facts) -> str:
    run = bool(facts.job.after_failed)
    if facts.pending == 1:
        return "that has ended" if run else "that is done"
    return "all have ended" if run else "all are done"


def _named(ids: list[int]) -> str:
    named = [f"#{id}" for id in ids[:NAMED]]
    return _and([*named, "others"] if len(ids) > NAMED else named)


def _and(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _moment(moment: Millis, now: Millis) -> str:
    """A moment by this machine's clock, and how far away it is."""
    local = as_datetime(moment).astimezone()
    away = spoken(abs(moment - now))
    text = f"{local:%Y-%m-%d %H:%M:%S %Z}".rstrip()
    if 0 <= now - moment < 1_000:
        return f"{text} (just now)"
    return f"{text} (in {away})" if moment > now else f"{text} ({away} ago)"


def _quoted(name: str) -> str:
    from shlex import quote

    return quote(name)
