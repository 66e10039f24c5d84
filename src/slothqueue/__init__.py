"""slothqueue: background work on a machine that sleeps. One SQLite file, no broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .client import Sloth, Transaction
    from .clock import ManualClock
    from .context import CurrentJob, Discard, Retry, Snooze, current_job
    from .errors import (
        JobCancelled,
        JobFailed,
        JobNotFound,
        LeaseLost,
        NotSerializable,
        SchemaTooNew,
        SchemaTooOld,
        SlothError,
        StoreBusy,
        StoreCorrupt,
        StoreFull,
        StoreReadOnly,
        StoreUnavailable,
        WrongState,
    )
    from .groups import Group
    from .handles import Job, Lease
    from .models import Event
    from .options import JobOptions
    from .queues import Queue
    from .reports import Backup, Finding
    from .tasks import Task
    from .typed.annotations import register
    from .worker import Worker

_HOMES = {
    "client": ("Sloth", "Transaction"),
    "clock": ("ManualClock",),
    "context": ("CurrentJob", "Discard", "Retry", "Snooze", "current_job"),
    "errors": (
        "JobCancelled",
        "JobFailed",
        "JobNotFound",
        "LeaseLost",
        "NotSerializable",
        "SchemaTooNew",
        "SchemaTooOld",
        "SlothError",
        "StoreBusy",
        "StoreCorrupt",
        "StoreFull",
        "StoreReadOnly",
        "StoreUnavailable",
        "WrongState",
    ),
    "groups": ("Group",),
    "handles": ("Job", "Lease"),
    "models": ("Event",),
    "options": ("JobOptions",),
    "queues": ("Queue",),
    "reports": ("Backup", "Finding"),
    "tasks": ("Task",),
    "typed.annotations": ("register",),
    "worker": ("Worker",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Backup",
    "CurrentJob",
    "Discard",
    "Event",
    "Finding",
    "Group",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobNotFound",
    "JobOptions",
    "Lease",
    "LeaseLost",
    "ManualClock",
    "NotSerializable",
    "Queue",
    "Retry",
    "SchemaTooNew",
    "SchemaTooOld",
    "Sloth",
    "SlothError",
    "Snooze",
    "StoreBusy",
    "StoreCorrupt",
    "StoreFull",
    "StoreReadOnly",
    "StoreUnavailable",
    "Task",
    "Transaction",
    "Worker",
    "WrongState",
    "current_job",
    "register",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for, and no more: `sloth --version` must not wait for the rest."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
