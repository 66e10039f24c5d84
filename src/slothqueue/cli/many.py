"""Commands about several jobs: each by itself with a line of its own, and the worst exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import JobNotFound, WrongState
from . import facts
from .parsing import Parser, job_id
from .screen import one_line
from .session import Session

if TYPE_CHECKING:
    from ..handles import Job

FAILED, NOT_FOUND, NOT_ALLOWED = 1, 3, 5
LONGEST = 10_000
"""So many ids may be named as one range."""


class Failed(Exception):
    """It could not be done, and nothing was changed; the message says why."""


Act = Callable[["Job"], tuple["Job", str]]
"""What is done to a job: how it is then, and a sentence for people."""

More = Callable[[str], dict[str, Any]]


def _nothing(told: str) -> dict[str, Any]:
    return {}


def ids_option(parser: Parser, *, least: str = "+") -> None:
    """`ID...` of a command: numbers, and ranges such as `3-7`."""
    parser.option(
        "ids",
        metavar="ID",
        nargs=least,
        type=job_ids,
        help="a job, as `sloth add` printed it, or all of a range such as 3-7",
    )


def job_ids(text: str) -> range:
    """One id, or a range of them."""
    first, dash, last = text.partition("-")
    if not dash or not first:
        id = job_id(text)
        return range(id, id + 1)
    ids = range(job_id(first), job_id(last) + 1)
    if not ids:
        raise argparse.ArgumentTypeError(f"{text!r} ends before it begins")
    if len(ids) > LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} names more than {LONGEST} jobs")
    return ids


def id_list(text: str) -> list[int]:
    """Ids with commas between them."""
    return [job_id(word.strip()) for word in text.split(",")]


def each(session: Session, ids: Sequence[range], act: Act, *, more: More = _nothing) -> int:
    """Do this to each of these jobs; what cannot be done to one is told, and the others go on.

    `more` makes of the sentence what programs are told beside the job.
    """
    return max((_one(session, which, act, more) for which in _once(ids)), default=0)


def _once(ids: Sequence[range]) -> list[int | range]:
    """Every id once; those of a range stay together, for not all of them need be there."""
    seen: set[int] = set()
    found: list[int | range] = []
    for some in ids:
        found += [some] if len(some) > 1 else [id for id in some if id not in seen]
        seen.update(some if len(some) == 1 else ())
    return found


def _one(session: Session, which: int | range, act: Act, more: More) -> int:
    if isinstance(which, int):
        return attempt(session, lambda: session.job(which), act, more)
    jobs = [job for id in which if (job := _if_there(session, id)) is not None]
    if not jobs:
        session.note(f"there are no jobs {which[0]}-{which[-1]}")
        return NOT_FOUND
    return all_of(session, jobs, act, more)


def all_of(session: Session, jobs: Iterable[Job], act: Act, more: More = _nothing) -> int:
    """The same for jobs that were found already."""
    return max((attempt(session, partial(_same, job), act, more) for job in jobs), default=0)


def _same(job: Job) -> Job:
    return job


def _if_there(session: Session, id: int) -> Job | None:
    try:
        return session.job(id)
    except JobNotFound:
        return None


def attempt(session: Session, find: Callable[[], Job], act: Act, more: More = _nothing) -> int:
    """Do this to one job and tell what happened: the exit code."""
    try:
        job, told = act(find())
    except JobNotFound as error:
        session.note(str(error))
        return NOT_FOUND
    except WrongState as error:
        session.note(session.ours(str(error)))
        return NOT_ALLOWED
    except Failed as error:
        session.note(str(error))
        return FAILED
    tell(session, job, told, more)
    return 0


def tell(session: Session, job: Job, told: str, more: More = _nothing) -> None:
    """The job as an object for programs, the sentence for people."""
    if session.json:
        session.tell(facts.job_facts(job) | more(told))
    else:
        session.say(one_line(told))
    sys.stdout.flush()
