"""Makes commits survive a power cut: one flush of the log covers every commit before it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable


class Flusher:
    """Flushes one log through a descriptor of its own.

    The log may be opened and closed freely, unlike the database and its `-shm`.
    """

    def __init__(self, log: str) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._place: object = None
        self._flushed = 0
        self._lost = 0

    def flush(self, commit: int, newest: Callable[[], int]) -> None:
        """Return when this commit is on the disk; `newest` tells the number of the latest one.

        Raises OSError if the disk did not confirm it. A failed flush is final for every commit that
        it covered: the kernel reports it once, and a second try would lie.
        """
        with self._lock:  # whoever waited here may find that its commit was covered meanwhile
            if self._flushed < commit:
                covered = newest()
                try:
                    self._sync()
                except OSError:
                    self._lost = covered
                    raise
                finally:
                    self._flushed = covered
            elif commit <= self._lost:
                raise OSError("an earlier flush of the log failed")

    def _sync(self) -> None:
        if self._descriptor is not None and _place(self._descriptor) != self._place:
            raise OSError("it was removed or replaced while it was open")
        if self._descriptor is None:
            self._descriptor = os.open(self._log, os.O_RDWR | os.O_CLOEXEC)
            self._place = _place(self._descriptor)
        if sys.platform == "darwin":
            import fcntl  # not there on Windows

            fcntl.fcntl(self._descriptor, fcntl.F_FULLFSYNC)  # fsync() stops at the drive's cache
        else:
            os.fdatasync(self._descriptor)

    def _close(self) -> None:
        # Forgotten first: a number that is closed twice is somebody else's by then.
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        self._close()

    def abandon(self) -> None:
        """In a forked child: a thread of the parent may have held the lock for good."""
        self._lock = threading.Lock()
        self._close()

    def close(self) -> None:
        """Give back the descriptor; the next flush opens it again."""
        with self._lock:
            self._close()


def _place(descriptor: int) -> object:
    """What changes when an open file is deleted, renamed or replaced.

    Linux tells it by a link. It is not asked by stat(): since 6.13 whoever asks for the times of a
    file makes the next write note them anew, and that makes the next flush half as long again.
    """
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return os.fstat(descriptor).st_nlink
