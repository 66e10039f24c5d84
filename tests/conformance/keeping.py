"""What must hold of the filing of jobs at any moment, and short ways to end them in every way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slothqueue import Job, Lease, Sloth

from .. import filing


def rows(sloth: Sloth, sql: str, *parameters: Any) -> list[Any]:
    """What a plain client reads, or does."""
    return filing.rows(sloth.path, sql, *parameters)


def delete_row(sloth: Sloth, job: Job | int) -> None:
    """What a foreign program does to a job."""
    rows(sloth, "delete from _sloth_job where id = ?", job if isinstance(job, int) else job.id)


def check_filing(sloth: Sloth) -> None:
    filing.check_filing(sloth.path)


def take(sloth: Sloth, job: Job) -> Lease:
    """Claim just this job, which is the first of its queue."""
    lease = sloth.queue(job.queue).claim()
    assert lease is not None, job.why()
    assert lease.id == job.id, lease
    return lease


def fail_for_good(sloth: Sloth, job: Job) -> None:
    take(sloth, job).discard("boom")


ENDS: dict[str, Callable[[Sloth, Job], Any]] = {
    "done": lambda sloth, job: take(sloth, job).complete(),
    "failed": lambda sloth, job: take(sloth, job).fail("boom"),
    "discarded": fail_for_good,
    "cancelled": lambda sloth, job: job.cancel(),
    "cancelled while it ran": lambda sloth, job: (take(sloth, job), job.cancel()),
    "expired": lambda sloth, job: None,
    "deleted": delete_row,
}
