"""`sloth prune`: forgets jobs that ended long ago, with their history, results and output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..models import ENDED, STATES
from .family import count
from .looking import check_queue
from .parsing import Parser, Usage, duration
from .progress import Progress
from .session import NoStoreYet, Session

if TYPE_CHECKING:
    from ..client import Sloth

CHOICES = tuple(state for state in STATES if state in ENDED)


def prune_options(parser: Parser) -> None:
    parser.option(
        "--older-than", metavar="T", type=duration, help="those that ended longer ago than this"
    )
    parser.option(
        "--state",
        metavar="STATE",
        action="append",
        choices=CHOICES,
        help=f"of these only those that are {', '.join(CHOICES)}; may be given several times",
    )
    parser.option("-q", "--queue", metavar="QUEUE", help="only those of this queue")
    parser.flag("--dry-run", help="delete nothing, only tell how many it would be")
    parser.describe(
        "[--older-than T] [--state STATE]... [-q QUEUE] [--dry-run]",
        "Deletes jobs that have ended, with their history, results and output. Without\n"
        "--older-than those that are done or cancelled for longer than their queue keeps\n"
        "them (a week, see `sloth queue`); workers do that by themselves. A job that\n"
        "another one waits for stays, and so does the newest.",
        """
sloth prune --dry-run
sloth prune --older-than 30d
sloth prune --older-than 0 --state done -q media
""",
    )


def prune_command(session: Session, options: Any) -> int:
    if options.state and options.older_than is None:
        raise Usage("--state goes with --older-than, such as --older-than 7d")
    try:
        sloth = session.existing()
    except NoStoreYet as error:
        session.note(str(error))
        return 0
    check_queue(sloth, options.queue)
    deleted = _prune(sloth, options)
    if session.json:
        session.tell({"deleted": 0 if options.dry_run else deleted, "found": deleted})
    else:
        session.say(f"{count(deleted)} {'would be ' if options.dry_run else ''}deleted")
    return 0


def _prune(sloth: Sloth, options: Any) -> int:
    """Step by step; how many jobs it was."""
    highest = max(sloth.store.read(sloth.store.pruning.highest), 1)
    total = seen = 0
    steps = sloth.pruned(
        options.older_than, states=options.state, queue=options.queue, dry=options.dry_run
    )
    with Progress(highest, "looking" if options.dry_run else "deleting") as progress:
        for so_far, at in steps:
            total = so_far
            progress.advance((at or highest) - seen)
            seen = at
    return total
