"""What a running function can ask and say: `current_job()`, `Retry`, `Snooze`, `Discard`."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import TypeVar

from .clock import Millis
from .codec import bounded
from .errors import WrongState
from .timing import Duration, millis

T = TypeVar("T")


class CurrentJob:
    """The job that the running function belongs to.

    `id` is the job's, `attempt` counts its runs from 1, and `token` names this attempt for ever:
    give it to the outside world as an idempotency key.
    """

    __slots__ = ("_heartbeat", "_progress", "_stopping", "attempt", "id", "token")

    def __init__(
        self,
        id: int,
        attempt: int,
        *,
        token: str,
        stopping: Callable[[], bool],
        heartbeat: Callable[[], None],
        progress: Callable[[float, str | None], None],
    ) -> None:
        self.id = id
        self.attempt = attempt
        self.token = token
        self._stopping = stopping
        self._heartbeat = heartbeat
        self._progress = progress

    @property
    def stopping(self) -> bool:
        """Whether the function is asked to come to an end soon."""
        return self._stopping()

    def heartbeat(self) -> None:
        """Say that the function makes progress: its lease, if it has a time limit, begins anew."""
        self._heartbeat()

    def progress(self, fraction: float, message: str | None = None) -> None:
        """Tell how much is done, from 0 to 1, and perhaps what is being done."""
        if not 0 <= fraction <= 1:
            raise ValueError(f"progress goes from 0 to 1, and is {fraction!r}")
        self._progress(float(fraction), None if message is None else bounded(str(message)))

    def __repr__(self) -> str:
        return f"CurrentJob(id={self.id}, attempt={self.attempt})"


_current: ContextVar[CurrentJob] = ContextVar("slothqueue_current_job")


def current_job() -> CurrentJob:
    """The job that this code runs in. Raises WrongState outside of a job."""
    job = _current.get(None)
    if job is None:
        raise WrongState(
            "there is no current job here: current_job() works inside a function that a worker "
            "runs, and in what it calls. Threads that it starts itself get it by "
            "contextvars.copy_context().run(...)."
        )
    return job


def call_within(job: CurrentJob, call: Callable[[], T]) -> T:
    """Call with `job` as the current one; context variables that the call sets end with it."""
    return copy_context().run(_enter, job, call)


def _enter(job: CurrentJob, call: Callable[[], T]) -> T:
    _current.set(job)
    return call()


class Retry(Exception):
    """Raise it to fail this attempt; the next comes after `delay`, or after the usual back-off."""

    def __init__(self, delay: Duration | None = None, error: object = None) -> None:
        super().__init__(delay, error)
        self.delay: Millis | None = None if delay is None else millis(delay, what="delay")
        self.error: str | None = None if error is None else str(error)

    def __str__(self) -> str:
        return self.error or "the function asked to be tried again"


class Snooze(Exception):
    """Raise it to give the job back until `delay` has passed; this attempt does not count."""

    def __init__(self, delay: Duration) -> None:
        super().__init__(delay)
        self.delay: Millis = millis(delay, what="delay")

    def __str__(self) -> str:
        return "the function asked to run later"


class Discard(Exception):
    """Raise it to fail the job for good, however many attempts it has left."""

    def __init__(self, reason: object) -> None:
        super().__init__(reason)
        self.reason = str(reason)

    def __str__(self) -> str:
        return self.reason


class Loading(BaseException):
    """A script that is loaded for its definitions only has touched a store: that is far enough."""


loading: bool = False
"""Whether this process is just loading the user's main script for the functions in it."""


def refuse_while_loading() -> None:
    """Raises Loading while a main script is loaded. Whatever touches a store calls this first."""
    if loading:
        raise Loading
