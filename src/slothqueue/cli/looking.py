"""`sloth list` and `sloth show`: jobs, and one job with its history."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

from ..models import COUNTED, Event
from ..timing import spoken
from . import facts
from .about import fields_of, more_facts
from .command_facts import order_facts, order_fields, tell_environment
from .explaining import Waiting, bare, sentence
from .lives import NOBODY, ORPHAN, Life, life_facts, lives
from .parsing import Parser, Usage, job_id, whole
from .screen import STATE_COLORS, folded, local, one_line, rough, safe, since
from .session import NoStoreYet, Session

if TYPE_CHECKING:
    from ..client import Sloth
    from ..handles import Job

# ---- list ---------------------------------------------------------------------------------------


def list_options(parser: Parser) -> None:
    parser.option(
        "--state", choices=COUNTED, metavar="STATE", help=f"only those in it: {', '.join(COUNTED)}"
    )
    parser.option("-q", "--queue", metavar="QUEUE", help="only those of this queue")
    parser.option(
        "-n",
        dest="limit",
        metavar="N",
        type=whole(1),
        default=100,
        help="at most so many (default: 100)",
    )
    parser.describe(
        "[--state STATE] [-q QUEUE] [-n N]",
        "First those that run, then those that wait in the order in which they start,\n"
        "then those that have ended, the latest first.",
        """
sloth list
sloth list --state failed -n 20
sloth list -q media --json
""",
    )


def list_command(session: Session, options: Any) -> int:
    try:
        sloth = session.existing()
    except NoStoreYet as error:
        session.note(str(error))
        return 0
    check_queue(sloth, options.queue)
    jobs = sloth.jobs(state=options.state, queue=options.queue, limit=options.limit + 1)
    shown = jobs[: options.limit]
    if session.json:
        for job in shown:
            session.tell(facts.job_facts(job))
    else:
        _list(session, shown, chosen=bool(options.state or options.queue))
    if len(jobs) > len(shown):
        session.note(f"there are more; -n {options.limit * 10} shows more of them")
    return 0


def check_queue(sloth: Sloth, queue: str | None) -> None:
    """Raises Usage for a queue that nobody has ever used."""
    if queue is None or sloth.store.read(lambda tx: sloth.store.names.queue(tx, queue)):
        return
    names = sorted({lane.queue for lane in sloth.store.read(sloth.verbs.lanes.all)})
    known = f"there are: {', '.join(names[:20])}" if names else "there is none yet"
    raise Usage(f"there is no queue {queue!r} in this store; {known}")


def _list(session: Session, jobs: list[Job], *, chosen: bool) -> None:
    if not jobs:
        session.note("there are no such jobs" if chosen else "there are no jobs yet")
        return
    now = session.now()
    waiting = Waiting(session.store(), jobs)
    rows = [
        [
            str(job.id),
            job.state,
            job.queue,
            f"{job.attempts}/{job.max_attempts}",
            when(job, now, waiting),
            _name(job),
        ]
        for job in jobs
    ]
    colors = [["", STATE_COLORS[job.state], "", "", "", ""] for job in jobs]
    head = ["ID", "STATE", "QUEUE", "TRIES", "WHEN", "NAME"]
    session.say(*session.screen.table(head, rows, right=[0], colors=colors))


def _name(job: Job) -> str:
    if job.error and job.state in ("failed", "queued", "cancelled"):
        return f"{facts.title(job)}  ({job.error.partition(chr(10))[0]})"
    return facts.title(job)


def when(job: Job, now: dt.datetime, waiting: Waiting) -> str:
    """The moment that counts in its state, or what it waits for."""
    if job.state == "running":
        return f"for {rough(now - (job.started_at or now))}"
    if job.finished_at is not None:
        return since(job.finished_at, now)
    return waiting.told(job, now)


# ---- show ---------------------------------------------------------------------------------------


def show_options(parser: Parser) -> None:
    parser.option("id", metavar="ID", type=job_id, help="the job, as `sloth add` printed it")
    parser.flag("--env", help="show the variables that are kept for a command, and nothing else")
    parser.describe(
        "ID [--env]",
        "All that is known of the job, then what happened to it, oldest first.\n"
        "With --json the first object is the job, and one for each event follows.",
        """
sloth show 5
sloth show 5 --json
sloth show --env 5
""",
    )


def show_command(session: Session, options: Any) -> int:
    job = session.job(options.id)
    if options.env:
        return tell_environment(session, job)
    events = job.events()
    sloth = session.store()
    life = lives(sloth).get(job.id, NOBODY) if job.state == "running" else NOBODY
    if session.json:
        more = more_facts(sloth, job) | {"why": sentence(session, job)}
        session.tell(facts.job_facts(job) | life_facts(life) | _payload(job) | more)
        for event in events:
            session.tell(facts.event_facts(job.id, event))
        return 0
    why = bare(session, job) if job.state == "queued" else ""
    fields = [("why", why), ("process", _process(life)), *fields_of(session, job)]
    session.say(*_sheet(session, job, fields), "", *_timeline(session, events))
    return 0


def _payload(job: Job) -> dict[str, Any]:
    told = facts.payload(job)
    if job.kind == "command" and isinstance(told, dict) and "argv" in told:
        line = {"command": told["argv"], "shell": bool(told.get("shell")), "cwd": told.get("cwd")}
        return line | order_facts(told)
    return {"payload": told}


def _process(life: Life) -> str:
    return f"{life.process}, {ORPHAN}" if life.orphan else life.process


def _sheet(session: Session, job: Job, more: list[tuple[str, str]]) -> list[str]:
    paint, now = session.screen.paint, session.now()
    head = (
        f"job {job.id}  {paint(job.state, STATE_COLORS[job.state])}  {one_line(facts.title(job))}"
    )
    fields = more + _fields(job, now)
    width = session.screen.width
    lines = [
        f"  {name if n == 0 else '':<11}{line}".rstrip()
        for name, text in fields
        if text
        for n, line in enumerate(_lines(text, width and width - 13))
    ]
    return [head, "", *lines]


def _lines(text: str, width: int | None) -> list[str]:
    """A text of several lines, each of them safe, and between words cut to this width."""
    lines = [safe(line.rstrip()) for line in text.expandtabs().splitlines()]
    return lines if width is None else [part for line in lines for part in folded(line, width)]


def _fields(job: Job, now: dt.datetime) -> list[tuple[str, str]]:
    command = job.kind == "command"
    what = facts.payload(job)
    told: dict[str, Any] = what if command and isinstance(what, dict) else {}
    return [
        ("kind", job.kind + (", in a shell" if command and told.get("shell") else "")),
        ("directory", str(told.get("cwd", "")) if command else ""),
        *(order_fields(told) if command else []),
        ("payload", json.dumps(what, ensure_ascii=False) if job.kind == "payload" else ""),
        ("queue", job.queue),
        ("priority", str(job.priority)),
        ("attempts", f"{job.attempts} of {job.max_attempts}"),
        ("timeout", "" if job.timeout is None else spoken(round(job.timeout * 1000))),
        ("created", _moment(job.created_at, now)),
        ("due", _moment(job.run_at, now)),
        ("started", _moment(job.started_at, now)),
        ("ended", _moment(job.finished_at, now)),
        ("took", _took(job)),
        ("worker", job.worker or ""),
        ("exit code", "" if job.exit_code is None else str(job.exit_code)),
        ("message", job.message or ""),
        ("error", job.error or ""),
        (
            "result",
            ""
            if facts.result_of(job) is None
            else json.dumps(facts.result_of(job), ensure_ascii=False),
        ),
    ]


def _moment(moment: dt.datetime | None, now: dt.datetime) -> str:
    return "" if moment is None else f"{local(moment)}  ({since(moment, now)})"


def _took(job: Job) -> str:
    if job.started_at is None or job.finished_at is None:
        return ""
    return spoken(round((job.finished_at - job.started_at).total_seconds() * 1000))


def _timeline(session: Session, events: list[Event]) -> list[str]:
    rows = [
        [local(event.at), event.kind, str(event.attempt or ""), event.worker or "", _reason(event)]
        for event in events
    ]
    colors = [["", _tint(event.kind), "", "", ""] for event in events]
    return session.screen.table(
        ["HISTORY", "", "TRY", "WORKER", "WHY"], rows, right=[2], colors=colors
    )


def _reason(event: Event) -> str:
    """Why, in one line; the reason is often the beginning of the detail."""
    reason, detail = event.reason or "", (event.detail or "").partition("\n")[0]
    if not detail or detail.startswith(reason):
        return detail or reason
    return f"{reason}: {detail}" if reason else detail


def _tint(kind: str) -> str:
    return {
        "completed": "green",
        "failed": "red",
        "failed_attempt": "red",
        "reclaimed": "yellow",
    }.get(kind, "")
