"""`sloth worker`: run jobs until told to stop."""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

from ..codec import decode
from ..models import COMMAND
from ..queues import check_name
from .facts import title_of
from .parsing import Parser, Usage, checked, duration, whole
from .screen import one_line
from .session import Session

if TYPE_CHECKING:
    from ..client import Sloth


USAGE = """\
[-q QUEUE]... [-j N] [--app MODULE:NAME] [--pool POOL]
                    [--grace T] [--until-idle]"""


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
""",
    )


def worker_command(session: Session, options: Any) -> int:
    _log(session.json)
    sloth = _app(session, options.app) if options.app else session.store()
    worker = sloth.worker(
        options.queues, concurrency=options.jobs, pool=options.pool, grace=options.grace
    )
    known = {lane.queue for lane in sloth.store.read(sloth.verbs.lanes.all)}
    log = logging.getLogger("slothqueue.worker")
    log.info("%s", _greeting(sloth, options))
    for queue in set(options.queues or ()) - known:
        log.info("queue %r has no jobs yet", queue)
    if options.until_idle:
        worker.run_until_idle()
    else:
        worker.run()
    log.info("ended; %d attempts ended here", worker.settled)
    if options.app:
        sloth.close()
    return 0


def _greeting(sloth: Sloth, options: Any) -> str:
    queues = "all queues" if not options.queues else "queues " + ", ".join(options.queues)
    tasks = f", {len(sloth.tasks)} functions" if sloth.tasks else ""
    what = f"{queues}, {options.jobs} at once{tasks}"
    return f"worker {os.getpid()} on {sloth.path}: {what}; Ctrl-C ends it"


# ---- the program whose functions it runs --------------------------------------------------------


def _app(session: Session, name: str) -> Sloth:
    """The Sloth that a module made. Raises Usage."""
    from ..client import Sloth

    module, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())
    found = getattr(_import(module), attribute or "sloth", None)
    if not isinstance(found, Sloth):
        raise Usage(
            f"--app {name}: there is no Sloth named {attribute or 'sloth'!r} in {module}; write it "
            "as --app module:name"
        )
    if session.db is not None and not _same_file(session.db, found.path):
        raise Usage(f"--app {name} keeps its jobs in {found.path}, so leave --db out")
    return found


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

    def format(self, record: logging.LogRecord) -> str:
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        time = self.formatTime(record, "%H:%M:%S")
        return f"{time} {level}{one_line(record.getMessage() + _what(record))}"


def _what(record: logging.LogRecord) -> str:
    """What a job is, for the line that tells of its start."""
    lane = getattr(record, "lane", None)
    if lane is None:
        return ""
    kind = "command" if lane.kind == COMMAND else "task"
    return ": " + title_of(lane.task, kind, decode(record.payload))  # type: ignore[attr-defined]


class Facts(logging.Formatter):
    """One object for a program."""

    def format(self, record: logging.LogRecord) -> str:
        at = self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z")
        told = {"at": at, "level": record.levelname.lower(), "message": record.getMessage().strip()}
        return json.dumps(told)
