"""Who may write now, among the threads of one process: they take turns with the one connection."""

from __future__ import annotations

import threading

from ..errors import StoreBusy, WrongState


class Turn:
    """A lock that knows its owner, so that nobody waits for himself."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._owner = 0

    def take(self, patience: float) -> None:
        """Wait for it, for `patience` seconds. Raises WrongState for the owner, else StoreBusy."""
        if self.try_for(0):
            return
        if self.is_mine:
            raise WrongState(
                "this thread is inside sloth.transaction(): use the tx that it gave, such as "
                "tx.queue(...).enqueue(...), so that all commit together"
            )
        if not self.try_for(patience):
            raise StoreBusy(
                f"another thread of this program has held a transaction on {self._path} open for "
                f"more than {patience:g} s. Nothing was changed. Commit sooner."
            )

    def try_for(self, patience: float) -> bool:
        """Take it if that can be done in so many seconds."""
        taken = self._lock.acquire(timeout=patience) if patience else self._lock.acquire(False)
        if taken:
            self._owner = threading.get_ident()
        return taken

    @property
    def is_mine(self) -> bool:
        """Whether this thread has it."""
        return self._owner == threading.get_ident()

    def give(self) -> None:
        """Let the next one have it."""
        self._owner = 0
        self._lock.release()
