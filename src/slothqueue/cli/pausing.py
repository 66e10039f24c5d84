"""`sloth pause`, `resume` and `queue`: whether the jobs of a queue start, and how many at once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..models import COMMAND, COUNTED
from ..options import policy_change
from ..queues import check_name
from ..timing import millis
from .background import ensure_worker, start_option
from .limits import paused_since, queue_facts, queue_row, queue_rows, still_running, words
from .looking import check_queue
from .parsing import Parser, Usage, checked, none_or, some_duration, whole
from .screen import one_line
from .session import NoStoreYet, Session

if TYPE_CHECKING:
    from ..client import Sloth
    from ..storage.base import QueueRow

UNSET: Any = object()

# ---- pause and resume ---------------------------------------------------------------------------


def _names_option(parser: Parser) -> None:
    parser.option("queues", metavar="QUEUE", nargs="+", type=checked(check_name), help="a queue")


def pause_options(parser: Parser) -> None:
    _names_option(parser)
    parser.flag("--wait", help="wait until none of its jobs runs")
    parser.describe(
        "QUEUE... [--wait]",
        "Starts no job of the queue any more; those that run go on. It stays so across\n"
        "restarts, until `sloth resume`. Jobs can be added meanwhile.",
        """
sloth pause media
sloth pause media --wait && backup.sh; sloth resume media
""",
    )


def pause_command(session: Session, options: Any) -> int:
    sloth = session.store()
    try:
        for name in options.queues:
            _pause(session, sloth, name)
        if options.wait:
            _drain(session, sloth, options.queues)
    except KeyboardInterrupt:
        session.note(session.ours("what was paused stays so; `sloth resume QUEUE` ends that"))
        raise
    return 0


def _pause(session: Session, sloth: Sloth, name: str) -> None:
    before = queue_row(sloth, name)
    sloth.queue(name).pause()
    if before is None:
        session.note(f"there was no queue {name!r} so far")
    row = _row(sloth, name)
    if before is not None and before.paused is not None:
        told = f"queue {name} is paused already, {paused_since(session, row)}"
    else:
        told = f"queue {name} paused"
    running = still_running(sloth, row)
    if running:
        told += f"; {running} of its jobs still run" + ("s" if running == 1 else "")
    _tell(session, row, told)


def _drain(session: Session, sloth: Sloth, names: list[str]) -> None:
    for name in names:
        busy = still_running(sloth, _row(sloth, name)) > 0
        sloth.queue(name).drain()
        if busy and not session.json:
            session.say(one_line(f"queue {name}: none of its jobs runs any more"))
            sys.stdout.flush()


def resume_options(parser: Parser) -> None:
    _names_option(parser)
    start_option(parser)
    parser.describe(
        "QUEUE... [--no-start]",
        "Lets the jobs of a paused queue start again.",
        """
sloth resume media
sloth resume media default
""",
    )


def resume_command(session: Session, options: Any) -> int:
    sloth = session.existing()
    for name in options.queues:
        check_queue(sloth, name)
    for name in options.queues:
        before, waiting = _row(sloth, name), _due(sloth, name)  # a worker may take them at once
        sloth.queue(name).resume()
        _tell(session, _row(sloth, name), _resumed(before, sum(waiting.values())))
        if waiting.get(COMMAND):
            ensure_worker(session, queue=name, so="nothing happens until you start one")
    return 0


def _due(sloth: Sloth, queue: str) -> dict[int, int]:
    """How many jobs of a queue are due, by what they are made of."""
    now, jobs = sloth.clock.wall(), sloth.store.jobs
    seen = sloth.store.read(
        lambda tx: [
            (lane.kind, jobs.waiting(tx, lane.id, now)[0])
            for lane in sloth.verbs.lanes.select(tx, queue)
        ]
    )
    return {kind: sum(n for one, n in seen if one == kind) for kind, _ in seen}


def _resumed(before: QueueRow, waiting: int) -> str:
    if before.paused is None:
        return f"queue {before.name} was not paused"
    due = f"; {waiting} of its jobs {'is' if waiting == 1 else 'are'} due" if waiting else ""
    return f"queue {before.name} resumed{due}"


# ---- options ------------------------------------------------------------------------------------


def queue_options(parser: Parser) -> None:
    parser.option(
        "queue", metavar="QUEUE", nargs="?", type=checked(check_name), help="only this one"
    )
    for name, metavar, convert, text in (
        ("--concurrency", "N", none_or(whole(1, 1_000_000)), "run at most N of its jobs at once"),
        ("--rate", "N/T", none_or(str), "start at most N in any such time, such as 10/1m"),
        ("--ageing", "T", none_or(some_duration), "so long a wait counts as one step of priority"),
        ("--keep", "T", none_or(some_duration), "forget what is done or cancelled after so long"),
        ("--max-attempts", "N", whole(1, 1_000_000), "how often a job is tried in all"),
        ("--backoff", "B[,T]", str, "wait B^n seconds after attempt n, at most T"),
    ):
        parser.option(name, metavar=metavar, type=convert, default=UNSET, help=text)
    parser.describe(
        "[QUEUE] [--concurrency N] [--rate N/T] [--ageing T]\n"
        "                   [--keep T] [--max-attempts N] [--backoff B[,T]]",
        "Shows all queues or one, and sets the options that are given; they are kept in\n"
        "the store and count for all workers. `none` takes a limit away.",
        """
sloth queue
sloth queue media
sloth queue media --concurrency 2 --rate 10/1m
sloth queue media --rate none --keep 30d --backoff 3,10m
""",
    )


def queue_command(session: Session, options: Any) -> int:
    change = _asked(options)
    if change and options.queue is None:
        raise Usage("name the queue whose options are to be set")
    if change:
        return _set(session, options.queue, change)
    try:
        sloth = session.existing()
    except NoStoreYet as error:
        session.note(str(error))
        return 0
    check_queue(sloth, options.queue)
    rows = [row for row in queue_rows(sloth) if options.queue in (None, row.name)]
    none, found = dict.fromkeys(COUNTED, 0), sloth.verbs.counts_by_queue()
    counts = {row.name: found.get(row.name, none) for row in rows}
    if session.json:
        for row in rows:
            session.tell(queue_facts(row) | counts[row.name])
    elif options.queue is None:
        session.say(*_table(session, rows, counts))
    else:
        session.say(*_sheet(session, rows[0], counts[rows[0].name]))
    return 0


def _asked(options: Any) -> dict[str, Any]:
    """The options of the queue that were given. Raises Usage."""
    names = ("concurrency", "rate", "ageing", "keep", "max_attempts", "backoff")
    given = {name: value for name in names if (value := getattr(options, name)) is not UNSET}
    if "backoff" in given:
        given["backoff"] = _backoff(given["backoff"])
    try:
        policy_change(given)
    except ValueError as error:
        raise Usage(f"queue: {error}") from None
    return given


def _backoff(text: str) -> Any:
    """`3` or `3,10m`."""
    base, comma, cap = text.partition(",")
    try:
        return (float(base), millis(cap) / 1000) if comma else float(base)
    except ValueError:
        raise Usage(f"--backoff is such as 2 or 3,10m, not {text!r}") from None


def _set(session: Session, name: str, change: dict[str, Any]) -> int:
    sloth = session.store()
    before = queue_row(sloth, name)
    old = words(sloth.queue(name).options)
    sloth.queue(name, **change)
    if before is None:
        session.note(f"there was no queue {name!r} so far")
    row = _row(sloth, name)
    new = words(row.policy)
    told = [f"{key} {old[key]} -> {new[key]}" for key in new if old[key] != new[key]]
    _tell(session, row, f"queue {name}" + (f": {', '.join(told)}" if told else " is as it was"))
    return 0


def _table(session: Session, rows: list[QueueRow], counts: dict[str, dict[str, int]]) -> list[str]:
    head = ["QUEUE", "QUEUED", "RUNNING", "LIMIT", "RATE", "AGEING", "KEEP", "TRIES", "PAUSED"]
    table = [
        [
            row.name,
            *(str(counts[row.name][key]) for key in ("queued", "running")),
            *(_shown(words(row.policy)[key]) for key in ("concurrency", "rate", "ageing", "keep")),
            str(row.policy.max_attempts),
            "" if row.paused is None else paused_since(session, row),
        ]
        for row in rows
    ]
    colors = [[""] * 8 + ["yellow"] for _ in rows]
    return session.screen.table(head, table, right=[1, 2], colors=colors)


def _shown(word: str) -> str:
    return "-" if word == "none" else word


def _sheet(session: Session, row: QueueRow, counts: dict[str, int]) -> list[str]:
    paused = "" if row.paused is None else f"paused {paused_since(session, row)}"
    jobs = ", ".join(f"{number} {state}" for state, number in counts.items() if number)
    fields = words(row.policy) | {"jobs": jobs or "none"}
    lines = [f"  {name:<13}{text}" for name, text in fields.items()]
    head = f"queue {row.name}  {session.screen.paint(one_line(paused), 'yellow')}"
    return [head.rstrip(), "", *lines]


def _row(sloth: Sloth, name: str) -> QueueRow:
    row = queue_row(sloth, name)
    assert row is not None
    return row


def _tell(session: Session, row: QueueRow, told: str) -> None:
    if session.json:
        session.tell(queue_facts(row))
    else:
        session.say(one_line(told))
    sys.stdout.flush()
