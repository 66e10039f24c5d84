"""What a store says of its queues, as objects for programs and as words for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..models import Policy
from ..timing import as_datetime, spoken
from . import facts
from .screen import since
from .session import Session, quoted

if TYPE_CHECKING:
    from ..client import Sloth
    from ..storage.base import QueueRow

MANY = 1_000
"""So many running jobs are counted one by one."""


def queue_rows(sloth: Sloth) -> list[QueueRow]:
    """All queues, the default one first."""
    rows = sloth.store.read(sloth.store.names.queues)
    return sorted(rows, key=lambda row: (row.name != "default", row.name))


def queue_row(sloth: Sloth, name: str) -> QueueRow | None:
    """One queue; None if nobody has ever used it."""
    return next((row for row in queue_rows(sloth) if row.name == name), None)


def still_running(sloth: Sloth, row: QueueRow) -> int:
    """How many of its jobs run."""
    return len(sloth.store.read(lambda tx: sloth.store.waits.running_of_queue(tx, row.id, MANY)))


def queue_facts(row: QueueRow) -> dict[str, Any]:
    """A queue, flat; times in seconds."""
    policy = row.policy
    return {
        "queue": row.name,
        "paused": row.paused is not None,
        "paused_since": None if row.paused is None else facts.iso(as_datetime(row.paused)),
        "paused_by": row.paused_by,
        "concurrency": policy.concurrency,
        "rate": policy.rate,
        "rate_per": _seconds(policy.per),
        "ageing": _seconds(policy.ageing),
        "keep": _seconds(policy.keep),
        "max_attempts": policy.max_attempts,
        "backoff_base": policy.base,
        "backoff_cap": _seconds(policy.cap),
        "lease": _seconds(policy.lease),
    }


def _seconds(millis: int | None) -> float | None:
    return None if millis is None else millis / 1000


def words(policy: Policy) -> dict[str, str]:
    """The options of a queue, as one would write them."""
    return {
        "concurrency": str(policy.concurrency or "none"),
        "rate": "none" if policy.rate is None else f"{policy.rate}/{_spoken(policy.per)}",
        "ageing": _spoken(policy.ageing),
        "keep": _spoken(policy.keep),
        "max-attempts": str(policy.max_attempts),
        "backoff": f"{policy.base:g},{_spoken(policy.cap)}",
    }


def _spoken(millis: int | None) -> str:
    return "none" if millis is None else spoken(millis).replace(" ", "")


def paused_since(session: Session, row: QueueRow) -> str:
    """`since 3m ago by ada (pid 7)`."""
    when = since(as_datetime(row.paused or 0), session.now())
    return f"{when} by {row.paused_by}" if row.paused_by else when


def notices(session: Session, rows: list[QueueRow]) -> list[tuple[str, str]]:
    """Lines for the status, each with its color: which queues are paused, which have limits."""
    lines = []
    for row in rows:
        if row.paused is not None:
            start = session.command(f"resume {quoted(row.name)}")
            told = f"Queue {row.name} was paused {paused_since(session, row)}: {start}"
            lines.append((told, "yellow"))
        if limit := _limit(row.policy):
            lines.append((f"Queue {row.name} {limit}.", ""))
    return lines


def _limit(policy: Policy) -> str:
    """`runs at most 2 jobs at once and starts at most 10 in 1m`; empty without limits."""
    parts = []
    if policy.concurrency is not None:
        jobs = "job" if policy.concurrency == 1 else "jobs"
        parts.append(f"runs at most {policy.concurrency} {jobs} at once")
    if policy.rate is not None:
        parts.append(f"starts at most {policy.rate} in {spoken(policy.per or 0)}")
    return " and ".join(parts)
