"""`sloth worker`: run jobs until told to stop."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..models import COMMAND
from ..queues import check_name
from ..telling import count
from ..timing import millis, spoken
from ..titles import title
from .needs import Server, crew, stuck
from .parsing import Parser, Usage, checked, duration, some_duration, whole
from .screen import one_line
from .session import VERSION, Session

if TYPE_CHECKING:
    from ..client import Sloth


USAGE = """\
[-q QUEUE]... [-j N] [--app MODULE:NAME] [--pool POOL]
                    [--grace T] [--until-idle] [--idle-exit T]"""


def worker_options(parser: Parser) -> None:
    parser.option(
        "-q",
        "--queue",
        dest="queues",
        metavar="QUEUE",
        action="append",
        type=checked(check_name),
        help="only jobs of this queue; may be given several times (default: all)",
    )
    parser.option(
        "-j",
        dest="jobs",
        metavar="N",
        type=whole(1),
        default=4,
        help="run so many jobs at once (default: 4)",
    )
    parser.option(
        "--app",
        metavar="MODULE:NAME",
        help="run the functions of this Sloth, too; found from this directory",
    )
    parser.option(
        "--pool",
        choices=("process", "thread"),
        default="process",
        metavar="POOL",
        help="where functions run: process (default) or thread",
    )
    parser.option(
        "--grace",
        metavar="T",
        type=duration,
        default="10s",
        help="when told to stop, give running jobs so long (default: 10s)",
    )
    parser.flag("--until-idle", help="end when nothing is due any more")
    parser.option(
        "--idle-exit",
        metavar="T",
        type=some_duration,
        help="end when for so long nothing has run, and nothing waits, for later either",
    )
    parser.describe(
        USAGE,
        "Runs the commands in the queues, and with --app the functions of a program. A\n"
        "line tells of each start and each end. Ctrl-C or SIGTERM: it starts nothing new,\n"
        "lets running jobs end for the grace, and gives back the rest. A second one\n"
        "hurries.",
        """
sloth worker
sloth worker -j 8 -q media -q default
sloth worker --app shop.jobs:sloth     # from shop/jobs.py: sloth = Sloth(...)
sloth worker --until-idle
sloth worker --idle-exit 10m
""",
    )


def worker_command(session: Session, options: Any) -> int:
    if options.until_idle and options.idle_exit is not None:
        raise Usage("give --until-idle or --idle-exit, not both")
    _log(session.json)
    sloth = _app(session, options.app) if options.app else session.store()
    worker = sloth.worker(
        options.queues, concurrency=options.jobs, pool=options.pool, grace=options.grace
    )
    server = Server(options.queues, sloth.tasks)
    log = logging.getLogger("slothqueue.worker")
    seen = _at_the_start(session, sloth, server)  # before it says that it is there
    for line in (_greeting(sloth, options), *seen):
        log.info("%s", line)
    if options.until_idle:
        worker.run_until_idle()
    elif options.idle_exit is not None:
        from .idling import run_until_unneeded

        run_until_unneeded(sloth, worker, millis(options.idle_exit))
    else:
        worker.run()
    later = _for_later(sloth, server) if options.until_idle else ""
    log.info("ended; %s ended here%s", count(worker.settled, "attempt"), later)
    if options.app:
        sloth.close()
    return 0


def _greeting(sloth: Sloth, options: Any) -> str:
    named = options.queues or []
    queues = f"queue{'s' * (len(named) > 1)} {', '.join(named)}" if named else "all queues"
    tasks = f", {count(len(sloth.tasks), 'function')}" if sloth.tasks else ""
    what = f"{queues}, {options.jobs} at once{tasks}"
    return f"worker {os.getpid()} on {sloth.path}: {what}; Ctrl-C ends it"


def _at_the_start(session: Session, sloth: Sloth, server: Server) -> list[str]:
    """What there is in its queues that neither it nor anybody else takes; queues not known yet."""
    known = {lane.queue for lane in sloth.store.read(sloth.verbs.lanes.all)}
    missing = sorted(set(server.queues or ()) - known)
    living = crew(sloth)
    waiting = stuck(sloth, [server, *living.servers], by_hand=living.by_hand)
    return [
        *(f"no such queue yet: {queue!r}; the first job in it makes it" for queue in missing),
        *(one.told(session) for one in waiting if one.what != "command"),
    ]


def _for_later(sloth: Sloth, server: Server) -> str:
    """How many jobs it leaves for later, and when the first is due."""
    jobs, now = sloth.store.jobs, sloth.clock.wall()

    def look(tx: Any) -> list[tuple[int, int | None]]:
        ours = [lane.id for lane in sloth.verbs.lanes.all(tx) if server.takes(lane)]
        return [
            (jobs.waiting(tx, lane, now)[1], jobs.glance(tx, lane, now).next_due) for lane in ours
        ]

    seen = sloth.store.read(look)
    later = sum(number for number, _ in seen)
    first = min((due for number, due in seen if number and due is not None), default=now)
    wait = spoken(max(0, first - now))
    if later <= 1:
        return f"; 1 job is due in {wait}" if later else ""
    return f"; {later} jobs are for later, the first is due in {wait}"


# ---- the program whose functions it runs --------------------------------------------------------


def _app(session: Session, name: str) -> Sloth:
    """The Sloth that a module made. Raises Usage."""
    from ..client import Sloth

    module, _, attribute = name.partition(":")
    if "/" in module or module.endswith(".py"):
        dotted = ".".join(part for part in module.removesuffix(".py").split("/") if part != ".")
        raise Usage(f"--app {name}: a module, not a file: write {dotted}:{attribute or 'sloth'}")
    sys.path.insert(0, os.getcwd())
    found = _sloth_in(_import(module), attribute)
    if not isinstance(found, Sloth):
        raise Usage(
            f"--app {name}: there is no Sloth named {attribute or 'sloth'!r} in {module}; write it "
            "as --app module:name"
        )
    if session.db is not None and not _same_file(session.db, found.path):
        raise Usage(f"--app {name} keeps its jobs in {found.path}, so leave --db out")
    return found


def _sloth_in(module: Any, attribute: str) -> Any:
    """What the module has under this name; without one `sloth`, or the only Sloth there is."""
    from ..client import Sloth

    if attribute or isinstance(getattr(module, "sloth", None), Sloth):
        return getattr(module, attribute or "sloth", None)
    named = {name: value for name, value in vars(module).items() if isinstance(value, Sloth)}
    if len({id(value) for value in named.values()}) > 1:
        raise Usage(f"--app {module.__name__}: which one? Write one of {_choices(module, named)}")
    return next(iter(named.values()), None)


def _choices(module: Any, names: Iterable[str]) -> str:
    return ", ".join(f"{module.__name__}:{name}" for name in names)


def _import(module: str) -> Any:
    """The module, loaded for its definitions only: what else it does with a store is left out."""
    from .. import loading

    try:
        found = loading.module(module)
    except Exception as error:  # it is the user's code, and may raise anything
        raise Usage(
            f"--app: {module!r} cannot be imported from {os.getcwd()}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if found.stopped_at is not None:
        logging.getLogger("slothqueue.worker").warning(
            "%s uses its store while it is imported (%s): what is below that line is not loaded. "
            'Put it under `if __name__ == "__main__":`',
            module,
            found.stopped_at,
        )
    return found.module


def _same_file(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


# ---- what it says -------------------------------------------------------------------------------


def _log(as_json: bool) -> None:
    handler = logging.StreamHandler(sys.stdout if as_json else sys.stderr)
    handler.setFormatter(Facts() if as_json else Line())
    root = logging.getLogger("slothqueue")
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    root.propagate = False
    logging.raiseExceptions = False  # who reads the log may go away; the work goes on


class Line(logging.Formatter):
    """One line for a person: the time, and what happened."""

    def __init__(self, time: str = "%H:%M:%S") -> None:
        super().__init__()
        self._time = time

    def format(self, record: logging.LogRecord) -> str:
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        time = self.formatTime(record, self._time)
        return f"{time} {level}{one_line(record.getMessage() + _what(record))}"


def _what(record: logging.LogRecord) -> str:
    """What a job is, for the line that tells of its start."""
    lane = getattr(record, "lane", None)
    if lane is None:
        return ""
    kind = "command" if lane.kind == COMMAND else "task"
    return ": " + title(kind, lane.task, record.payload)  # type: ignore[attr-defined]


class Facts(logging.Formatter):
    """One object for a program."""

    def format(self, record: logging.LogRecord) -> str:
        at = self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z")
        told = {
            "v": VERSION,
            "at": at,
            "level": record.levelname.lower(),
            "message": record.getMessage().strip(),
        }
        return json.dumps(told)
