"""`sloth doctor`: looks at everything that can be wrong with a store, and says what to do."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import SlothError
from ..liveness import verdict
from ..models import REASONS
from ..reports import Mark
from ..settling import NOTICED, base
from ..storage.base import Holder
from ..timing import spoken
from .limits import paused_since, queue_rows
from .needs import crew, stuck
from .parsing import Parser
from .screen import folded, one_line
from .session import Session, quoted

if TYPE_CHECKING:
    from ..onlooking import Onlooker
    from ..storage.base import QueueRow

COLORS = {"ok": "green", "note": "blue", "warning": "yellow", "problem": "red"}
WIDTH, INDENT = 100, " " * 9
A_MOMENT = 5_000  # ms


def doctor_options(parser: Parser) -> None:
    parser.flag("--quick", help="leave out what takes long in a large store")
    parser.describe(
        "[--quick]",
        "A line for each thing looked at: ok, note, warning or problem, and below it what\n"
        "to do. Changes nothing, works beside live workers, and on a broken file. Ends\n"
        "with 1 if there is a problem, else with 0.",
        """
sloth doctor
sloth doctor --quick
sloth doctor --json --db /var/lib/app/jobs.db
""",
    )


def doctor_command(session: Session, options: Any) -> int:
    from ..onlooking import Onlooker

    with closing(Onlooker(session.path(), allow_unsafe_fs=True, say=session.note)) as sloth:
        found = Counter(_show(session, mark) for mark in _marks(session, sloth, options.quick))
    if not session.json:
        session.say("", _sum(found))
    return 1 if found["problem"] else 0


def _marks(session: Session, sloth: Onlooker, quick: bool) -> Iterator[Mark]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield Mark("version", "ok", f"slothqueue {__version__}, Python {python} on {sys.platform}")
    if session.by_default and not os.path.lexists(sloth.path):
        yield Mark("file", "note", f"{sloth.path} does not exist yet", "`sloth add` makes it.")
        return
    yield from _surely("file", sloth.examine(quick=quick))
    try:
        sloth.store.read(lambda tx: None)
    except SlothError:  # it was told why; of what is in it nothing can be
        return
    for name, look in LOOKS.items():
        yield from _surely(name, look(session, sloth))


def _surely(check: str, found: Iterator[Mark]) -> Iterator[Mark]:
    """The same marks; what cannot be looked at is one, too."""
    try:
        yield from found
    except (SlothError, OSError, ValueError) as error:
        told = f"{type(error).__name__}: {error}"
        yield Mark(check, "problem", f"it could not be looked at: {told}")


# ---- showing ------------------------------------------------------------------------------------


def _show(session: Session, mark: Mark) -> str:
    """Tell one mark; its level."""
    if session.json:
        session.tell(mark._asdict())
        return mark.level
    level = session.screen.paint(f"{mark.level:<8}", COLORS[mark.level])
    width = session.screen.width and min(session.screen.width, WIDTH)
    session.say(*_folded(f"{level} {mark.check}: {one_line(mark.found)}", width, len(level) - 8))
    if mark.remedy:
        session.say(*_folded(INDENT + one_line(mark.remedy), width, 0))
    sys.stdout.flush()  # what follows may take a while
    return mark.level


def _folded(line: str, width: int | None, unseen: int) -> list[str]:
    """The line in as many as it takes on a terminal; `unseen` of its characters take no column."""
    if width is None:
        return [line]
    first, *rest = folded(line, width + unseen)
    more = folded(INDENT + " ".join(part.strip() for part in rest), width) if rest else []
    return [first, *more]


def _sum(found: Counter[str]) -> str:
    bad = [
        f"{found[level]} {level}{'s' * (found[level] > 1)}"
        for level in ("problem", "warning")
        if found[level]
    ]
    return ", ".join(bad) if bad else "All is well."


# ---- who is there -------------------------------------------------------------------------------


def _workers(session: Session, sloth: Onlooker) -> Iterator[Mark]:
    rows = sloth.store.read(sloth.store.names.live_holders)
    holders = [Holder(*row[: len(Holder._fields)]) for row in rows]
    said = [(one, verdict(one, sloth.presence.place, sloth.store.live)) for one in holders]
    alive = [one.label for one in crew(sloth).workers]
    yield Mark("workers", "ok", f"alive: {', '.join(alive)}" if alive else "none is running")
    dead = [one.label for one, word in said if word in REASONS and one.kind == "worker"]
    if dead:
        yield Mark(
            "workers",
            "note",
            f"gone without a word: {_some(dead)}",
            "What they held is taken back, and the rest tidied up, by the next worker.",
        )
    far = [one.label for one, word in said if word in ("foreign", "unknown")]
    if far:
        yield Mark(
            "workers",
            "warning",
            f"registered where nobody here can tell whether they live: {_some(far)}",
            "What they hold is left to them. If they are gone for good, `sloth backup` makes a "
            "copy in which it is queued again.",
        )


def _leases(session: Session, sloth: Onlooker) -> Iterator[Mark]:
    jobs, place = sloth.store.jobs, sloth.presence.place
    seen = sloth.store.read(
        lambda tx: [(one, len(jobs.leases_of(tx, one.id))) for one in jobs.holders(tx)]
    )
    words = [(verdict(one, place, sloth.store.live), number) for one, number in seen]
    dead = sum(number for word, number in words if word in REASONS)
    if dead:
        yield Mark(
            "leases",
            "warning",
            f"{_jobs(dead)} held by processes that are gone",
            f"The next worker takes them back at once: {session.command('worker')}",
        )
    else:
        held = sum(number for _, number in words)
        yield Mark("leases", "ok", f"{_jobs(held)} held, none by a process that is gone")


def _stuck(session: Session, sloth: Onlooker) -> Iterator[Mark]:
    living = crew(sloth)
    waiting = stuck(sloth, living.servers, by_hand=living.by_hand)
    for each in waiting:
        line, _, command = each.told(session).partition(": ")
        yield Mark("jobs", "warning", line, f"Start one: {command}" if command else None)
    if not waiting:
        yield Mark("jobs", "ok", "none waits for a worker that is not there")


def _queues(session: Session, sloth: Onlooker) -> Iterator[Mark]:
    rows, counts = queue_rows(sloth), sloth.verbs.counts_by_queue()
    seen = 0
    for row in rows:
        count = counts.get(row.name, {})
        for mark in (
            _paused(session, row, _due(count)),
            _limited(session, sloth, row, _due(count)),
        ):
            if mark is not None:
                yield mark
                seen += 1
    if held := sum(each["held"] for each in counts.values()):
        yield Mark(
            "queues",
            "note",
            f"{_jobs(held)} {'is' if held == 1 else 'are'} held",
            f"They stay until somebody lets them go: {session.command('unhold ID')}. "
            f"All of them: {session.command('list --state held')}",
        )
    if not seen and not held:
        yield Mark("queues", "ok", "none is paused or at a limit, and no job is held")


def _due(count: dict[str, int]) -> int:
    """How many jobs could start, but for the queue."""
    return count["queued"] - count["scheduled"] - count["blocked"] - count["held"] if count else 0


def _paused(session: Session, row: QueueRow, due: int) -> Mark | None:
    if row.paused is None:
        return None
    waiting = f"; {_jobs(due)} {'waits' if due == 1 else 'wait'}" if due else ""
    return Mark(
        "queues",
        "note",
        f"{row.name} is paused, {paused_since(session, row)}{waiting}",
        f"Its jobs start again after {session.command(f'resume {quoted(row.name)}')}.",
    )


def _limited(session: Session, sloth: Onlooker, row: QueueRow, due: int) -> Mark | None:
    policy = row.policy
    if not due or row.paused is not None or (policy.concurrency is None and policy.rate is None):
        return None
    room = sloth.store.read(lambda tx: sloth.store.waits.room(tx, row.id, sloth.clock.wall()))
    if room.running is not None and room.running <= 0:
        full, option = f"at its limit of {_jobs(policy.concurrency or 0)} at once", "concurrency N"
    elif room.starts is not None and room.starts <= 0:
        full = f"at its limit of {policy.rate} starts in {spoken(policy.per or 0)}"
        option = "rate N/T"
    else:
        return None
    change = session.command(f"queue {quoted(row.name)} --{option}")
    return Mark(
        "queues",
        "note",
        f"{row.name} is {full}; {_jobs(due)} {'waits' if due == 1 else 'wait'}",
        f"That is as it was asked for. Another limit: {change}",
    )


# ---- time and wake-ups --------------------------------------------------------------------------


def _clock(session: Session, sloth: Onlooker) -> Iterator[Mark]:
    clock = sloth.clock
    noted, newest = sloth.store.read(sloth.clock_notes)
    if newest is not None and newest > clock.wall() + A_MOMENT:
        yield Mark(
            "clock",
            "warning",
            f"the newest job was made {spoken(newest - clock.wall())} from now: the clock was set "
            "back, or this file comes from a machine whose clock is ahead",
            "Look at the clock of this machine. Leases do not go by it; what is due does.",
        )
    elif noted is not None and base(clock) < int(noted) - NOTICED:
        yield Mark(
            "clock",
            "note",
            f"it was set back by {spoken(int(noted) - base(clock))} since a delay was asked for",
            "The next worker moves the delays, so that none grows by it.",
        )
    else:
        asleep = clock.elapsed() - clock.awake()
        slept = f", {spoken(asleep)} of it asleep" if asleep >= 1_000 else ""
        yield Mark("clock", "ok", f"up for {spoken(clock.elapsed() // 1000 * 1000)}{slept}")


def _wake_ups(session: Session, sloth: Onlooker) -> Iterator[Mark]:
    from ..kernel import IN_CLOSE_WRITE, Inotify, supported, why_not_watched

    if not supported():
        yield Mark(
            "wake-ups", "note", "this system tells nobody of changes, so they are looked for"
        )
        return
    folder = sloth.store.live
    folder = folder if os.path.isdir(folder) else os.path.dirname(folder)
    try:
        ear = Inotify()
        try:
            ear.watch(folder, IN_CLOSE_WRITE)
        finally:
            ear.close()
    except OSError as error:
        found, _, remedy = why_not_watched(error, folder).partition("; ")
        yield Mark("wake-ups", "warning", found, remedy and f"{remedy[:1].upper()}{remedy[1:]}.")
        return
    yield Mark("wake-ups", "ok", "changes are told by the system at once")


LOOKS = {
    "workers": _workers,
    "leases": _leases,
    "jobs": _stuck,
    "queues": _queues,
    "clock": _clock,
    "wake-ups": _wake_ups,
}


def _some(labels: list[str]) -> str:
    more = f" and {len(labels) - 5} more" if len(labels) > 5 else ""
    return ", ".join(labels[:5]) + more


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{number} jobs"
