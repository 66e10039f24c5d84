"""What may be said of a job beside its command: whom it waits for, its keys, its end date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import WrongState
from ..models import AFTER_FAILED, ON_INTERRUPT
from ..options import LONGEST_KEY, MOST_ATTEMPTS, ON_CONFLICT, check_count
from ..timing import millis
from .many import id_list
from .parsing import Parser, Usage, checked
from .session import Session

if TYPE_CHECKING:
    from ..handles import Job

USAGE = """\
[--after ID]... [--unique KEY] [--expires T] [--key KEY[=N]]"""


def condition_options(parser: Parser) -> None:
    """For `add` and `run`."""
    parser.option(
        "--after",
        metavar="ID",
        action="append",
        type=id_list,
        help="start it when this job is done; may be given several times, or as 3,4",
    )
    parser.option(
        "--after-failed",
        choices=AFTER_FAILED,
        metavar="DO",
        default="cancel",
        help="when one of these ends otherwise: cancel (default), or run all the same",
    )
    parser.option(
        "--unique",
        metavar="KEY",
        type=checked(_text),
        help="only one live job of its queue has this key",
    )
    parser.option(
        "--on-conflict",
        choices=ON_CONFLICT,
        metavar="DO",
        help="if one has it: return that job (default), replace it, or error",
    )
    parser.option(
        "--expires",
        metavar="T",
        help="cancel it unless it has started by then: so long from now (2h), or a time",
    )
    parser.option(
        "--key",
        metavar="KEY[=N]",
        type=checked(_key),
        help="of all jobs of its queue with this key at most N (1) run at once",
    )
    parser.option(
        "--on-interrupt",
        choices=ON_INTERRUPT,
        metavar="DO",
        default="retry",
        help="when its process is killed in the middle: retry (default), hold or fail",
    )
    parser.flag("--hold", help="keep it from running until `sloth unhold`")


def conditions(session: Session, options: Any) -> dict[str, Any]:
    """What of this was given, as `enqueue` takes it. Raises Usage."""
    if options.on_conflict and options.unique is None:
        raise Usage("--on-conflict goes with --unique")
    if options.after_failed != "cancel" and not options.after:
        raise Usage("--after-failed goes with --after")
    asked = {
        "unique": options.unique,
        "on_conflict": options.on_conflict,
        "after": [id for ids in options.after or () for id in ids],
        "after_failed": options.after_failed if options.after else None,
        "expires": None if options.expires is None else _expires(session, options.expires),
        "concurrency_key": options.key,
        "on_interrupt": None if options.on_interrupt == "retry" else options.on_interrupt,
        "hold": options.hold,
    }
    # What was not said costs nothing.
    return {name: value for name, value in asked.items() if value not in (None, [], False)}


def _text(text: str) -> str:
    """A key. Raises ValueError."""
    if not 0 < len(text) <= LONGEST_KEY:
        raise ValueError(f"a key is text of 1 to {LONGEST_KEY} characters")
    return text


def _key(text: str) -> tuple[str, int]:
    """`gpu`, or `gpu=2`. Raises ValueError."""
    key, equals, number = text.rpartition("=")
    if not equals or not number.isdecimal():
        return _text(text), 1
    return _text(key), check_count(int(number), "the number behind the key", 1, MOST_ATTEMPTS)


def _expires(session: Session, text: str) -> Any:
    """A duration from now, or a moment as behind `--at`."""
    try:
        millis(text)
        return text
    except ValueError:
        pass
    from .adding import moment_at

    at = moment_at(session, text, option="--expires")
    if at <= session.now():
        raise Usage(f"--expires {text} is in the past, so it would never start")
    return at


def taken(error: WrongState) -> WrongState:
    """What the library says of a key that is taken, without what to write in Python."""
    return WrongState(str(error).partition("; ")[0] + "; `sloth add` again when it has ended")


def say_if_existed(session: Session, job: Job) -> None:
    """Tell on stderr that the job was there already."""
    if job.existed:
        session.note(
            f"job {job.id} has the key {job.unique!r} already and is {job.state}; nothing was added"
        )
