"""Jobs, events and workers as flat objects for programs, and as short words for people."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

from ..liveness import verdict
from ..models import Event
from ..storage.base import Holder

if TYPE_CHECKING:
    from ..client import Sloth
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
    return title_of(job.name, job.kind, job.payload)


def title_of(name: str, kind: str, payload: Any) -> str:
    """The same from its parts; `name` counts for a payload and a task."""
    if kind == "task":
        return f"{name}({_arguments(payload)})"
    if kind != "command":
        return name
    words: list[str] = payload["argv"]
    if len(words) == 1 or payload.get("shell"):
        return words[0]
    from shlex import join

    return join(words)


def _arguments(payload: dict[str, Any]) -> str:
    """The arguments of a call as one would write them."""
    named = payload["kwargs"].items()
    words = [json.dumps(value, ensure_ascii=False) for value in payload["args"]]
    words += [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in named]
    return ", ".join(words)


class Working:
    """A worker that is alive, by the kernel's word."""

    def __init__(self, row: tuple[Any, ...]) -> None:
        self.holder = Holder(*row[:12])
        self.since: int = row[12]
        told = json.loads(row[13])
        self.queues: list[str] | None = told.get("queues")
        self.concurrency: int = told.get("concurrency", 0)
        self.pool: str = told.get("pool", "")

    @property
    def label(self) -> str:
        return self.holder.label

    def serves(self, queue: str) -> bool:
        return self.queues is None or queue in self.queues


def workers(sloth: Sloth) -> list[Working]:
    """The workers that are alive. Who says so is the kernel, not the row that a worker left."""
    rows = sloth.store.read(sloth.store.names.live_holders)
    place = sloth.presence.place
    found = [Working(row) for row in rows if row[13] is not None]
    return [one for one in found if verdict(one.holder, place, sloth.store.live) == "alive"]


def nobody_serves(sloth: Sloth, queue: str) -> str | None:
    """A sentence when nobody is there to run the jobs of a queue."""
    alive = workers(sloth)
    if any(one.serves(queue) for one in alive):
        return None
    if alive:
        return f"no worker serves queue {queue!r}"
    return "no worker is running"


def exit_code(job: Job) -> int:
    """The exit code that stands for how a job ended: its own if it has one."""
    if job.state == "done":
        return 0
    return job.exit_code or 1
