"""What `sloth show` tells of a job beside itself: its family, its keys, who holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..timing import as_datetime
from ..why import by_whom
from . import facts
from .family import Family
from .screen import local, since
from .session import Session

if TYPE_CHECKING:
    from ..client import Sloth
    from ..handles import Job
    from ..storage.base import Known


def fields_of(session: Session, job: Job) -> list[tuple[str, str]]:
    """Names and texts; what a job does not have is empty."""
    family, key = Family(session.store(), job), job.concurrency_key
    return [
        ("held", _held(session, job)),
        ("after", family.told(family.parents)),
        ("before", family.told(family.children)),
        ("unique key", job.unique or ""),
        ("key", "" if key is None else f"{key[0]}, {key[1]} at once"),
        ("expires", _expiry(session, job)),
        ("if killed", "" if job.on_interrupt == "retry" else job.on_interrupt),
    ]


def more_facts(sloth: Sloth, job: Job) -> dict[str, Any]:
    """The same for programs, as far as it is not told of every job."""
    family, known = Family(sloth, job), _known(sloth, job)
    held = known.held if known is not None and job.held else None
    return {
        "parents": family.parents,
        "children": family.children,
        "held_since": None if held is None else facts.iso(as_datetime(held)),
        "held_by": known.held_by if known is not None and job.held else None,
    }


def _known(sloth: Sloth, job: Job) -> Known | None:
    return sloth.store.read(lambda tx: sloth.store.waits.known(tx, job.id))


def _held(session: Session, job: Job) -> str:
    known = _known(session.store(), job) if job.held else None
    if known is None:
        return ""
    when = "" if known.held is None else since(as_datetime(known.held), session.now())
    return f"{when}{by_whom(known.held_by)}".strip()


def _expiry(session: Session, job: Job) -> str:
    if job.expires_at is None:
        return ""
    return f"{local(job.expires_at)}  ({since(job.expires_at, session.now())})"
