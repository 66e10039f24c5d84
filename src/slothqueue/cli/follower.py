"""Follows a job: shows what it writes as it writes it, until the job has ended.

Nothing is looked at on a timer where the kernel tells: commits ring the bell, inotify tells of the
growing file.
"""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Callable
from typing import Any

from .. import kernel
from ..errors import StoreUnavailable
from ..handles import Job
from ..outputs import Reader
from ..waker import soonest
from .logs import CHUNK, Log, logs_of
from .session import Session
from .sinks import Sink, show

LOOK = 100
"""Where the kernel does not tell of a growing file, look at it every so many ms."""


class Ears:
    """Hears commits, and that a file grows or that one was made."""

    def __init__(self, bell: Any, logs: str) -> None:
        self._logs = logs
        self._ear, self._mouth = os.pipe()
        os.set_blocking(self._ear, False)
        os.set_blocking(self._mouth, False)
        self._poll = select.poll()
        self._poll.register(self._ear, select.POLLIN)
        self._inotify: kernel.Inotify | None = None
        self._file: int | None = None
        if kernel.supported():
            with contextlib.suppress(OSError):  # the user has too many of them: look on a timer
                self._inotify = kernel.Inotify()
                self._poll.register(self._inotify.fd, select.POLLIN)
        self._forget = bell.subscribe(self._ring)

    def _ring(self) -> None:
        with contextlib.suppress(OSError):  # full: we shall wake anyway
            os.write(self._mouth, b"!")

    def listen(self, path: str | None) -> bool:
        """Hear of this file, or of new files if it is None; False where nobody tells of that."""
        if self._inotify is None:
            return False
        if self._file is not None:
            self._inotify.unwatch(self._file)
            self._file = None
        place, mask = (self._logs, kernel.IN_CREATE) if path is None else (path, kernel.IN_MODIFY)
        try:
            self._file = self._inotify.watch(place, mask)
        except OSError:
            return False
        return True

    def wait(self, seconds: float) -> None:
        """Wait until something is heard, at most so long."""
        self._poll.poll(seconds * 1000)
        with contextlib.suppress(BlockingIOError):
            os.read(self._ear, 65536)
        if self._inotify is not None:
            self._inotify.read()

    def close(self) -> None:
        self._forget()
        if self._inotify is not None:
            self._inotify.close()
        os.close(self._ear)
        mouth, self._mouth = self._mouth, -1
        os.close(mouth)


class Follower:
    """One job under watch: its output, or its errors if they are kept apart."""

    def __init__(self, session: Session, id: int, sink: Sink, *, errors: bool = False) -> None:
        self._errors = errors
        self._session, self._id, self._sink = session, id, sink
        self._sloth = session.store()
        self._logs = self._sloth.store.logs
        self._shown: Log | None = None
        self._file: Any = None
        self._reader: Reader | None = None
        self._claimed: object = None
        self._found = self._told = False
        self.wrote = False
        """Whether there was any output to show."""

    def run(self, then: Callable[[Job], None] = lambda job: None) -> Job:
        """Show everything until the job has ended; returns it as it is then.

        `then` is called with the job after each look.
        """
        try:
            job = self._sloth.job(self._id)
            if job.ended:  # nothing to wait for, so no watcher that would
                self._move_on(job)
                self._copy()
                return job
            return self._watch(then)
        finally:
            self._sink.end()
            self._close()

    def _watch(self, then: Callable[[Job], None]) -> Job:
        self._sloth.waker.start()
        ears = Ears(self._sloth.store.bell, self._logs)
        try:
            while not (job := self._turn(ears)).ended:
                then(job)
                ears.wait(self._patience(job))
            return job
        finally:
            ears.close()

    def _turn(self, ears: Ears) -> Job:
        """Look at the job first, so that what it wrote before its end is there to be shown."""
        job = self._sloth.job(self._id)
        self._copy()
        if self._news(job):
            self._catch_up(job, ears)
        self._copy()
        self._upkeep(job)
        return job

    def _news(self, job: Job) -> bool:
        """Whether there may be another file: claimed again, or its file is not there yet."""
        claimed = job.started_at, job.attempts
        changed, self._claimed = claimed != self._claimed, claimed
        return changed or not self._found

    def _catch_up(self, job: Job, ears: Ears) -> None:
        """Find the latest file and listen to it, or for it while it is not there.

        We listen before we look, or what happens between the two is missed.
        """
        heard: object = self
        while heard != (place := self._path(self._shown) if self._shown and self._found else None):
            self._told = ears.listen(place)
            heard = place
            self._move_on(job)

    def _move_on(self, job: Job) -> None:
        logs = [log for log in logs_of(self._logs, self._id) if os.path.exists(self._path(log))]
        fresh = [log for log in logs if self._shown is None or log > self._shown]
        self._found = not _expected(job) or bool(logs and _belongs(logs[-1], job))
        for log in fresh if self._shown else fresh[-1:]:
            self._open(log)

    def _open(self, log: Log) -> None:
        self._copy()
        self._close()
        if self._shown is not None:
            self._session.note(f"attempt {log.attempt} of job {self._id} begins")
        self._shown, path = log, self._path(log)
        with contextlib.suppress(FileNotFoundError):  # it was not to be kept
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115
            self._reader = Reader(self._file.fileno(), path)

    def _path(self, log: Log) -> str:
        return log.errors if self._errors else log.path

    def _copy(self) -> None:
        while self._reader is not None and self._shown and (part := self._reader.read(CHUNK)):
            self.wrote = True
            show(self._sink, self._shown.attempt, part)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = self._reader = None

    def _upkeep(self, job: Job) -> None:
        """If whoever ran it is dead, somebody has to say so, and it may be us."""
        upkeep = self._sloth.verbs.upkeep
        if job.state == "running" and upkeep.due():
            with contextlib.suppress(StoreUnavailable):
                upkeep.run()

    def _patience(self, job: Job) -> float:
        waits = self._sloth.verbs.upkeep.next_look() if job.state == "running" else None
        blind = None if self._told or job.state != "running" else LOOK
        return self._sloth.waker.patience(soonest(waits, blind))


def _expected(job: Job) -> bool:
    """Whether there is, or will be, a file of the latest attempt."""
    return job.kind == "command" and job.attempts > 0


def _belongs(log: Log, job: Job) -> bool:
    """Whether this is of the latest attempt, not of one of that number that was given back."""
    assert job.started_at is not None
    claimed = round(job.started_at.timestamp() * 1000)
    return log.attempt == job.attempts and log.fence >= claimed * 1000  # as every claim sees to
