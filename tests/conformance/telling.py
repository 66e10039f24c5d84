"""Short ways to say in a test what a store has."""

from __future__ import annotations

from typing import Any

from slothqueue import Job, Sloth

HOUR = 3600.0


def story(job: Job) -> list[tuple[str, int | None, str | None]]:
    """The history of a job as (kind, attempt, reason)."""
    return [(event.kind, event.attempt, event.reason) for event in job.events()]


def kinds(job: Job) -> list[str]:
    return [event.kind for event in job.events()]


def reasons(job: Job, kind: str = "reclaimed") -> list[str | None]:
    """The reasons of all events of one kind."""
    return [event.reason for event in job.events() if event.kind == kind]


def seconds_until_due(sloth: Sloth, job: Job) -> float:
    return job.refresh().run_at.timestamp() - sloth.clock.wall() / 1000


def every_job(sloth: Sloth) -> list[tuple[int, str, Any]]:
    """Everything that is in the store: (id, state, payload)."""
    return sorted((job.id, job.state, job.payload) for job in sloth.jobs(limit=100_000))
