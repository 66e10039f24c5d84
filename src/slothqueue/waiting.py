"""How a thread waits for the next commit: by a bell that counts its rings.

Whoever waits takes the mark of the bell, looks, and waits for a ring *after that mark*; so a commit
between the look and the wait is not slept through. A ring means "something was committed, look
again": it may be false, and several may be one.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

BELL = "bell"
"""The name of the file in the live directory that is written to wake every process."""

_BETWEEN_CHECKS = 1.0  # s, between looks whether the open file is still the one there


class Bell:
    """The bell of one process: many may wait for it, anybody may ring."""

    def __init__(self) -> None:
        # Condition's own lock is re-entrant: a signal handler may ring while its thread waits.
        self._rung = threading.Condition()
        self._count = 0
        self._waiting = 0
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._next = 0

    def mark(self) -> int:
        """The place to wait from. Take it before you look."""
        return self._count

    def ring(self) -> None:
        """Wake everybody who waits, then call those who subscribed, in this thread."""
        # Counted first and looked at second, and who waits does it the other way round: so one of
        # the two sees the other, and a ring that nobody waits for needs no lock.
        self._count += 1
        if not (self._waiting or self._callbacks):
            return
        with self._rung:
            self._rung.notify_all()
            callbacks = list(self._callbacks.values())
        for callback in callbacks:
            _call(callback)

    def wait(self, mark: int, timeout: float | None) -> bool:
        """Wait for a ring after the mark: True as soon as there is one, False after the timeout."""
        with self._rung:
            self._waiting += 1
            try:
                return self._rung.wait_for(lambda: self._count != mark, timeout)
            finally:
                self._waiting -= 1

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call this on every ring; returns the way to end that.

        It is called from whichever thread rings and must not block. What it raises is dropped: one
        broken listener must not keep the others asleep.
        """
        with self._rung:
            key = self._next
            self._next += 1
            self._callbacks[key] = callback
        return lambda: self._forget(key)

    def _forget(self, key: int) -> None:
        with self._rung:
            self._callbacks.pop(key, None)

    def __repr__(self) -> str:
        return f"Bell(rung={self._count}, subscribers={len(self._callbacks)})"


def _call(callback: Callable[[], None]) -> None:
    try:
        callback()
    except Exception:
        pass


class BellFile:
    """The bell between processes: a file in the live directory; one byte written rings it.

    Ringing never raises. What was committed stays committed, and a lost ring costs the others one
    fallback interval; `error` keeps what went wrong the last time, for whoever looks into it.

    Beside it lies a byte that says whether somebody wants to be rung for: who is about to sleep
    sets it and *then* looks once more; who has committed rings only if it is set, and clears it
    before. So a commit that nobody waits for costs one read, and none is slept through: either the
    sleeper's last look comes after the commit, or the commit's look at the byte after the sleeper
    has set it. (Not mapped into memory: a file that somebody cuts short would kill whoever looks.)
    """

    def __init__(self, live: str) -> None:
        self.path = os.path.join(live, BELL)
        self.error: OSError | None = None
        self._turn = threading.Lock()
        self._fd = -1
        self._wanted = -1
        self._identity = (0, 0)
        self._checked = 0.0
        self._process = 0

    def want(self) -> None:
        """Somebody here is about to sleep: ring for the next commit. Look once more after this."""
        with self._turn:
            try:
                os.pwrite(self._flag(), b"1", 0)
            except OSError as error:
                self.error = error

    def ring_if_wanted(self) -> None:
        """Wake every process that watches this store, if anybody in any of them sleeps."""
        with self._turn:
            try:
                flag = self._flag()
                if os.pread(flag, 1, 0) == b"0":
                    return
                os.pwrite(flag, b"0", 0)  # before the ring: who sets it after this is woken by it
            except OSError as error:
                self.error = error
        self.ring()

    def _flag(self) -> int:
        now = time.monotonic()
        if self._wanted >= 0 and now - self._checked < _BETWEEN_CHECKS:
            return self._wanted
        self._checked = now
        if self._fd >= 0 and self._replaced():
            self._drop()
        if self._fd < 0:
            self._open()
        return self._wanted

    def ring(self) -> bool:
        """Wake every process that watches this store; whether that worked."""
        with self._turn:
            try:
                self._ring()
            except OSError as error:
                self.error = error
                self._drop()
                return False
        return True

    def _ring(self) -> None:
        if self._fd >= 0 and self._replaced():
            self._drop()
        if self._fd < 0:
            self._open()
        os.pwrite(self._fd, b"\n", 0)

    def _replaced(self) -> bool:
        # By path, because a directory that was moved away takes a healthy-looking file along.
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return True
        return (status.st_dev, status.st_ino) != self._identity

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        self._fd = os.open(self.path, flags, 0o600)
        status = os.fstat(self._fd)
        self._identity = (status.st_dev, status.st_ino)
        self._process = os.getpid()
        self._wanted = os.open(self.path + ".wanted", flags, 0o600)

    def _drop(self) -> None:
        descriptors, self._fd, self._wanted = (self._fd, self._wanted), -1, -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)

    def __del__(self) -> None:
        self._drop()

    def close(self) -> None:
        """Close the file; the next ring opens it again. In the child of a fork too."""
        if self._process not in (0, os.getpid()):
            # Another thread of the parent may have held the lock at the fork; nobody here will free
            # it.
            self._turn = threading.Lock()
        with self._turn:
            self._drop()

    def __repr__(self) -> str:
        return f"BellFile({self.path!r}, open={self._fd >= 0})"
