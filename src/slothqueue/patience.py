"""Waits until something has come about: looks, sleeps until a commit or a death, looks again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .clock import Millis
from .errors import WrongState
from .storage.base import Store
from .timing import Duration, millis
from .upkeep import Upkeep
from .waker import Waker, soonest

T = TypeVar("T")

ALONE: Millis = 2_000
"""Who has waited this long for jobs while no worker is running is told so."""


class Patience:
    """The waits of one handle."""

    def __init__(self, store: Store, upkeep: Upkeep, waker: Waker) -> None:
        self._store, self._upkeep, self._waker = store, upkeep, waker

    def until(
        self,
        look: Callable[[], T | None],
        timeout: Duration | None,
        what: str,
        alone: Callable[[], None] | None = None,
    ) -> T:
        """Wait until `look` finds something. `what` is said by the TimeoutError, `alone` called
        once when it takes long."""
        end, clock = self.deadline(timeout), self._store.clock
        since = clock.awake()
        self._waker.start()
        while True:
            mark = self._waker.mark()
            if (found := look()) is not None:
                return found
            if (self._waker.take_deaths() or self._upkeep.due()) and self._upkeep.run():
                continue  # a dead shim's receipt may have ended just this one
            left = self.left(end, what)
            told = None if alone is None else since + ALONE - clock.awake()
            if alone is not None and told is not None and told <= 0:
                alone()
                alone = told = None
            self._waker.wait(mark, soonest(left, told, self._upkeep.next_look()))

    def deadline(self, timeout: Duration | None) -> Millis | None:
        """When that runs out, awake time."""
        if timeout is None:
            return None
        return self._store.clock.awake() + millis(timeout, what="timeout")

    def left(self, until: Millis | None, what: str) -> Millis | None:
        """How long until then. Raises TimeoutError once it has come."""
        if until is None:
            return None
        left = until - self._store.clock.awake()
        if left <= 0:
            raise TimeoutError(f"{what} within the time given")
        return left

    def refuse_inside(self, what: str) -> None:
        """A lease must not be rolled back under its holder, and nobody waits with a lock."""
        if self._store.bound:
            raise WrongState(
                f"you cannot {what} inside a transaction: do that before it, by the Sloth itself, "
                "and settle inside it with complete_many()"
            )
