"""One set of fork hooks for all stores of a process. No SQLite connection may cross a fork."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Forkable(Protocol):
    def before_fork(self) -> None: ...
    def after_fork(self, *, child: bool) -> None: ...


class Stores:
    """The stores of this process, without keeping them alive."""

    def __init__(self) -> None:
        self._known: weakref.WeakSet[Forkable] = weakref.WeakSet()
        self._forking: list[Forkable] = []
        self._hooked = False
        self._one_at_a_time = threading.RLock()

    def add(self, store: Forkable) -> None:
        with self._one_at_a_time:  # or it would cross a fork that is under way unprepared
            self._known.add(store)
        if not self._hooked and hasattr(os, "register_at_fork"):
            self._hooked = True
            os.register_at_fork(
                before=self._before,
                after_in_parent=lambda: self._after(child=False),
                after_in_child=lambda: self._after(child=True),
            )

    def _before(self) -> None:
        self._one_at_a_time.acquire()
        self._forking = list(self._known)
        for store in self._forking:
            store.before_fork()

    def _after(self, *, child: bool) -> None:
        forking, self._forking = self._forking, []
        for store in forking:
            store.after_fork(child=child)
        if child:
            self._one_at_a_time = threading.RLock()
        else:
            self._one_at_a_time.release()


stores = Stores()
