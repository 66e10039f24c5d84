"""Jobs, events and workers as flat objects for programs, and as short words for people."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

from .. import titles
from ..errors import NotSerializable
from ..models import Event

if TYPE_CHECKING:
    from ..handles import Job


def job_facts(job: Job) -> dict[str, Any]:
    """Everything about a job, flat."""
    return {
        "id": job.id,
        "queue": job.queue,
        "kind": job.kind,
        "name": job.name,
        "state": job.state,
        "priority": job.priority,
        "run_at": iso(job.run_at),
        "created_at": iso(job.created_at),
        "started_at": iso(job.started_at),
        "finished_at": iso(job.finished_at),
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "timeout": job.timeout,
        "unique": job.unique,
        "concurrency_key": None if job.concurrency_key is None else job.concurrency_key[0],
        "concurrency_limit": None if job.concurrency_key is None else job.concurrency_key[1],
        "expires_at": iso(job.expires_at),
        "on_interrupt": job.on_interrupt,
        "held": job.held,
        "blocked": job.blocked,
        "worker": job.worker,
        "error": job.error,
        "message": job.message,
        "exit_code": job.exit_code,
        "result": result_of(job),
    }


def result_of(job: Job) -> Any:
    """What a finished function returned; a command has an exit code instead."""
    text = job._row[15]  # job.result() would wait
    return None if text is None or job.kind == "command" else json.loads(text)


def event_facts(job: int, event: Event) -> dict[str, Any]:
    """One thing that happened to a job, flat."""
    return {
        "job": job,
        "n": event.n,
        "event": event.kind,
        "at": iso(event.at),
        "attempt": event.attempt,
        "worker": event.worker,
        "reason": event.reason,
        "detail": event.detail,
    }


def iso(moment: dt.datetime | None) -> str | None:
    """A moment as ISO text in UTC."""
    return None if moment is None else moment.isoformat(timespec="milliseconds")


def title(job: Job) -> str:
    """What a person calls the job: a command as one would type it, a call, a payload."""
    return titles.title(job.kind, job.name, job._row[14])


def payload(job: Job) -> Any:
    """What it was enqueued with; the text of it if another program has spoilt that."""
    try:
        return job.payload
    except NotSerializable:
        return job._row[14]


def reason(job: Job) -> str | None:
    """Why it is as it is: what it said at its end, who cancelled it, or its last error."""
    return job.message if job.state in ("done", "cancelled") else job.error or job.message


def exit_code(job: Job) -> int:
    """The exit code that stands for how a job ended: its own if it has one."""
    if job.state == "done":
        return 0
    if job.state == "cancelled":  # a code that it has is that of an attempt before
        return 1
    return job.exit_code or 1
