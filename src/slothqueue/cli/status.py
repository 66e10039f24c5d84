"""`sloth status`, and `sloth` alone: how many jobs there are, who works, what runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..caps import SUFFIX
from ..crew import Working
from ..models import COUNTED
from ..sizes import spoken_size
from . import berth, facts
from .limits import notices, queue_facts, queue_rows
from .lives import NOBODY, ORPHAN, Life, life_facts, lives
from .needs import Stuck, crew, stuck
from .parsing import Parser
from .screen import one_line, rough, safe
from .session import NoStoreYet, Session

if TYPE_CHECKING:
    from ..client import Sloth
    from ..handles import Job
    from ..storage.base import QueueRow

MUCH_LOG = 64_000_000
MOST_RUNNING = 50
COUNTS = COUNTED
HEADS = {"scheduled": "FOR LATER"}
IF_ANY = ("blocked", "held")
"""Columns that are shown only where there is something in them."""
TINTS = {"running": "blue", "failed": "red"}


def status_options(parser: Parser) -> None:
    parser.flag(
        "--verbose", help="also where the store is, how large its files are, which version this is"
    )
    parser.describe(
        "[--verbose]",
        "Counts per queue, the workers that are alive, and the jobs that run.\n"
        "`sloth` alone does the same. Nothing needs to be running for it.",
        """
sloth
sloth status --json
sloth status --db /var/lib/app/jobs.db
""",
    )


def status_command(session: Session, options: Any) -> int:
    try:
        sloth = session.existing()
    except NoStoreYet as error:
        return _nothing_yet(session, str(error))
    counts, rows = _counts(sloth), queue_rows(sloth)
    living = crew(sloth)
    alive = living.workers
    running = sloth.jobs(state="running", limit=MOST_RUNNING)
    life = lives(sloth) if running else {}
    if session.json:
        _as_facts(
            session, rows, counts, alive, [(job, life.get(job.id, NOBODY)) for job in running]
        )
    else:
        waiting = stuck(sloth, living.servers, by_hand=living.by_hand)
        session.say(*_queues(session, counts), "")
        if told := notices(session, rows):
            session.say(*(session.screen.paint(safe(line), tint) for line, tint in told), "")
        session.say(*_workers(session, alive, waiting), "")
        session.say(*_running(session, running, life, _total(counts)["running"]))
        if options.verbose:
            _details(session, sloth)
    _warn(session, sloth)
    return 0


def _nothing_yet(session: Session, told: str) -> int:
    if session.json:
        session.tell(
            {"type": "store", "path": session.path(), "workers": 0} | dict.fromkeys(COUNTS, 0)
        )
    else:
        session.say(f"{safe(told)}:", "", f"  {session.command('add')} -- make all")
    return 0


def _counts(sloth: Sloth) -> dict[str, dict[str, int]]:
    found = sloth.verbs.counts_by_queue()
    return {name: found[name] for name in sorted(found, key=lambda name: (name != "default", name))}


def _total(counts: dict[str, dict[str, int]]) -> dict[str, int]:
    return {key: sum(each[key] for each in counts.values()) for key in COUNTS}


# ---- for programs -------------------------------------------------------------------------------


def _as_facts(
    session: Session,
    rows: list[QueueRow],
    counts: dict[str, dict[str, int]],
    alive: list[Working],
    running: list[tuple[Job, Life]],
) -> None:
    store = session.store().store
    head = {"type": "store", "path": session.store().path, "workers": len(alive)}
    session.tell(head | _total(counts) | {"log_bytes": store.log_bytes()})
    none = dict.fromkeys(COUNTS, 0)
    for row in rows:
        session.tell({"type": "queue"} | queue_facts(row) | counts.get(row.name, none))
    there = berth.signed(store.live)
    for one in alive:
        session.tell(_worker_facts(one) | {"background": _is_in_background(one, there)})
    for job, life in running:
        session.tell({"type": "job"} | facts.job_facts(job) | life_facts(life))


def _is_in_background(one: Working, there: tuple[int, int] | None) -> bool:
    return (one.holder.pid, one.holder.started) == there


def _worker_facts(one: Working) -> dict[str, Any]:
    from ..timing import as_datetime

    return {
        "type": "worker",
        "worker": one.label,
        "pid": one.holder.pid,
        "since": facts.iso(as_datetime(one.since)),
        "queues": one.queues,
        "concurrency": one.concurrency,
        "pool": one.pool,
    }


# ---- for people ---------------------------------------------------------------------------------


def _queues(session: Session, counts: dict[str, dict[str, int]]) -> list[str]:
    if not counts:
        return [f"No jobs yet. Queue one: {session.command('add')} -- make all"]
    table = dict(counts)
    if len(table) > 1:
        table["all"] = _total(counts)
    shown = [key for key in COUNTS if key not in IF_ANY or _total(counts)[key]]
    rows = [[name, *(str(each[key]) for key in shown)] for name, each in table.items()]
    tints = [
        ["", *(TINTS.get(key, "") if each[key] else "gray" for key in shown)]
        for each in table.values()
    ]
    head = ["QUEUE", *(HEADS.get(key, key.upper()) for key in shown)]
    return session.screen.table(head, rows, right=range(1, len(head)), colors=tints)


def _workers(session: Session, alive: list[Working], waiting: list[Stuck]) -> list[str]:
    told = [session.screen.paint(safe(line), "yellow") for line in _stuck(session, alive, waiting)]
    if not alive:
        return told or [f"No worker is running. Start one: {session.command('worker')}"]
    now, there = session.now(), berth.signed(session.store().store.live)
    rows = [_worker_row(one, now, background=_is_in_background(one, there)) for one in alive]
    head = ["WORKER", "SINCE", "SLOTS", "FUNCTIONS IN", "QUEUES"]
    return [*session.screen.table(head, rows), *([""] if told else []), *told]


def _stuck(session: Session, alive: list[Working], waiting: list[Stuck]) -> list[str]:
    """Who is missing. Without any worker, the commands need no line of their own."""
    lines = [each.told(session) for each in waiting if alive or each.what != "command"]
    if alive or not waiting:
        return lines
    start = f" Start one: {session.command('worker')}" if len(lines) < len(waiting) else ""
    return [f"No worker is running.{start}", *lines]


def _worker_row(one: Working, now: Any, *, background: bool) -> list[str]:
    from ..timing import as_datetime

    queues = "all" if one.queues is None else ", ".join(one.queues)
    age = rough(now - as_datetime(one.since))
    return [
        one.label + (" (background)" if background else ""),
        age,
        str(one.concurrency),
        f"{one.pool}es" if one.pool == "process" else f"{one.pool}s",
        queues,
    ]


def _running(session: Session, running: list[Job], life: dict[int, Life], count: int) -> list[str]:
    if not running:
        return ["Nothing is running."]
    now = session.now()
    rows = [
        [
            str(job.id),
            job.queue,
            rough(now - (job.started_at or now)),
            *_who(job, life.get(job.id, NOBODY)),
            facts.title(job),
        ]
        for job in running
    ]
    head = ["RUNNING", "QUEUE", "FOR", "WORKER", "PID", "NAME"]
    lines = session.screen.table(head, rows, right=[0, 4])
    more = count - len(running)
    return (
        [*lines, f"and {more} more: {session.command('list --state running')}"]
        if more > 0
        else lines
    )


def _who(job: Job, life: Life) -> tuple[str, str]:
    pid = life.pid or life.shim
    return ORPHAN if life.orphan else job.worker or "", str(pid or "")


def _details(session: Session, sloth: Sloth) -> None:
    count, total = _output(sloth.store.logs)
    files = "1 file" if count == 1 else f"{count} files"
    session.say(
        "",
        f"store            {one_line(sloth.path)}",
        f"write-ahead log  {spoken_size(sloth.store.log_bytes())}",
        f"output of jobs   {spoken_size(total)} in {files} in {one_line(sloth.store.logs)}",
        f"sloth            {__version__}",
    )


def _output(folder: str) -> tuple[int, int]:
    """How many files of output there are, and the bytes that they take."""
    try:
        with os.scandir(folder) as entries:
            files = {entry.name: entry for entry in entries if not entry.is_dir()}
    except OSError:
        return 0, 0
    logs = [name for name in files if name.endswith((".log", ".err"))]
    return len(logs), sum(_taken(files[name], name + SUFFIX in files) for name in logs)


def _taken(file: os.DirEntry[str], cut: bool) -> int:
    """What a file takes; one that was cut has a hole, which its size does not tell."""
    try:
        found = file.stat()
    except FileNotFoundError:  # pruned since
        return 0
    return min(found.st_size, 512 * found.st_blocks) if cut else found.st_size


def _warn(session: Session, sloth: Sloth) -> None:
    log = sloth.store.log_bytes()
    if log > MUCH_LOG:
        session.note(
            f"the write-ahead log has grown to {spoken_size(log)}: a reader keeps the log from "
            f"being reused. `{session.command('doctor')}` tells which"
        )
