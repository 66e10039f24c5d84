"""Waits for the next commit, the next due moment or the next death, whichever is first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from .clock import ManualClock, Millis
from .storage.base import Store
from .waiting import Bell

FALLBACK: Millis = 30_000
"""A lost wake-up costs at most this long."""

POLLED: Millis = 1_000
"""The same where the system cannot tell us of deaths and jumps of the clock."""


class Watching(Protocol):
    """What an engine offers to be woken by."""

    @property
    def polling(self) -> bool: ...
    def take_deaths(self) -> bool: ...
    def start(self) -> None: ...
    def close(self) -> None: ...


class Waker:
    """One per handle. Starts the watcher when somebody waits for the first time."""

    def __init__(self, store: Store) -> None:
        self._store, self.clock = store, store.clock
        self._lock = threading.Lock()
        self._watcher: Watching | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._resume = self._locked = False

    @property
    def bell(self) -> Bell:
        return self._store.bell

    def start(self) -> None:
        """Watch from now on. Call it before the look that the wait follows."""
        if self._watcher is None:
            with self._lock:
                if self._watcher is None:
                    watcher = self._store.watch()
                    watcher.start()
                    self._unsubscribe = self.clock.subscribe(self._store.bell.ring)
                    self._watcher = watcher

    def mark(self) -> int:
        """Say that we are about to sleep unless the look that follows finds something."""
        mark = self._store.bell.mark()
        self._store.want()
        return mark

    def take_deaths(self) -> bool:
        """Whether anybody may have died since the last time: then look at what they held."""
        watcher = self._watcher
        return watcher is not None and watcher.take_deaths()

    def patience(self, wait: Millis | None) -> float:
        """How many real seconds to wait at most when nothing rings."""
        polled = self._watcher is None or self._watcher.polling
        longest = POLLED if polled else FALLBACK
        if wait is None or isinstance(self.clock, ManualClock):  # its moves ring the bell
            return longest / 1000
        return min(longest, max(wait, 0)) / 1000

    def wait(self, mark: int, wait: Millis | None) -> bool:
        """Wait for a ring after the mark, for `wait` ms of this clock or the fallback interval."""
        return self.bell.wait(mark, self.patience(wait))

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        watcher, self._watcher = self._watcher, None
        unsubscribe, self._unsubscribe = self._unsubscribe, None
        if unsubscribe is not None:
            unsubscribe()
        if watcher is not None:
            watcher.close()

    def before_fork(self) -> None:
        """Its thread and its connections cannot cross a fork, nor may one begin meanwhile."""
        self._locked = self._lock.acquire(timeout=10)
        self._resume = self._watcher is not None
        self._close()

    def after_fork(self, child: bool) -> None:
        """The parent watches again, and looks for what it may have missed."""
        if child:
            self._lock = threading.Lock()
        elif self._locked:
            self._lock.release()
        if self._resume and not child:
            self.start()
            self.bell.ring()


def soonest(*waits: Any) -> Millis | None:
    """The shortest of these waits; None stands for no end."""
    return min((wait for wait in waits if wait is not None), default=None)
