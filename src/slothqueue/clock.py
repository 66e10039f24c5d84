"""What time it is: wall, awake, elapsed, boot. Nothing else in slothqueue reads a clock.

* **wall** is the time of day in UTC; it jumps when somebody sets it.
* **awake** counts while the machine runs and stands still while it is suspended; leases use it.
* **elapsed** counts through suspends and is not set by anybody; it tells that the wall jumped.
* **boot** names one start of the machine; awake and elapsed mean nothing outside of theirs.

All are integers of milliseconds. Sources: `clock_gettime(2)` for CLOCK_REALTIME, CLOCK_MONOTONIC
and CLOCK_BOOTTIME, `random(4)` for the boot id.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Protocol

Millis = int


class Clock(Protocol):
    """Where a store gets its time from."""

    def wall(self) -> Millis:
        """Milliseconds since 1970, UTC."""
        ...

    def awake(self) -> Millis:
        """Milliseconds that this machine has run since its boot, without its sleep."""
        ...

    def elapsed(self) -> Millis:
        """Milliseconds since this machine's boot, its sleep included."""
        ...

    def boot(self) -> str:
        """The name of this boot of this machine."""
        ...

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call the listener whenever this clock is moved by hand; returns the way to end that."""
        ...


def _elapsed() -> Millis:
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    if sys.platform == "darwin":  # CLOCK_MONOTONIC goes on through sleep there
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000_000
    return time.monotonic_ns() // 1_000_000


def _read_boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        # Elsewhere the moment of the boot stands for it, rounded so that a small correction of the
        # clock does not look like a restart.
        return f"boot-{round((time.time() - _elapsed() / 1000) / 60)}"


class SystemClock:
    """The clocks of this machine."""

    def __init__(self) -> None:
        self._boot: str | None = None

    def wall(self) -> Millis:
        return time.time_ns() // 1_000_000

    def awake(self) -> Millis:
        return time.monotonic_ns() // 1_000_000

    def elapsed(self) -> Millis:
        return _elapsed()

    def boot(self) -> str:
        if self._boot is None:
            self._boot = _read_boot()
        return self._boot

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    def __repr__(self) -> str:
        return "SystemClock()"


class ManualClock:
    """A clock that moves when told, for tests. One may be shared by several stores.

    It starts at 2025-01-01 00:00:00 UTC unless told otherwise. Whoever waits by this clock is woken
    by every move.
    """

    def __init__(self, wall: Millis = 1_735_689_600_000) -> None:
        self._lock = threading.Lock()
        self._wall = wall
        self._awake = 1_000_000
        self._elapsed = 1_000_000
        self._boots = 1
        self._listeners: dict[int, Callable[[], None]] = {}
        self._next = 0

    def wall(self) -> Millis:
        """Milliseconds since 1970, UTC."""
        return self._wall

    def awake(self) -> Millis:
        """Milliseconds that this machine has run since its boot, without its sleep."""
        return self._awake

    def elapsed(self) -> Millis:
        """Milliseconds since this machine's boot, its sleep included."""
        return self._elapsed

    def boot(self) -> str:
        """The name of this boot; another one after `reboot`."""
        return f"manual-{self._boots}"

    def advance(self, seconds: float) -> None:
        """Time passes while the machine is awake."""
        self._move(wall=seconds, awake=seconds, elapsed=seconds)

    def suspend(self, seconds: float) -> None:
        """The machine sleeps for this long and wakes up again."""
        self._move(wall=seconds, elapsed=seconds)

    def step_wall(self, seconds: float) -> None:
        """Somebody sets the time of day forward, or back with a negative number."""
        self._move(wall=seconds)

    def reboot(self, seconds: float = 30) -> None:
        """The machine restarts and is back after this long."""
        with self._lock:
            self._boots += 1
            self._wall += round(1000 * seconds)
            self._awake = self._elapsed = 1_000
        self._tell()

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call the listener after every move; returns the way to end that."""
        with self._lock:
            key = self._next
            self._next += 1
            self._listeners[key] = listener
        return lambda: self._forget(key)

    def _forget(self, key: int) -> None:
        with self._lock:
            self._listeners.pop(key, None)

    def _move(self, *, wall: float = 0, awake: float = 0, elapsed: float = 0) -> None:
        with self._lock:
            self._wall += round(1000 * wall)
            self._awake += round(1000 * awake)
            self._elapsed += round(1000 * elapsed)
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            listeners = list(self._listeners.values())
        for listener in listeners:
            listener()

    def __repr__(self) -> str:
        return f"ManualClock(wall={self._wall}, awake={self._awake}, boot={self.boot()!r})"
