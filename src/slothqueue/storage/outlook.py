"""A watcher for one file, with the connections that it looks through."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..liveness import free, make_private
from ..watch import Watcher
from .locking import begin, patiently

if TYPE_CHECKING:
    from .sqlite import SqliteStore


class Outlook:
    """Rings the store's bell for commits of others, deaths and jumps of the clock.

    Its two connections are opened when they are first needed: one tells that somebody has
    committed, the other waits such a commit out.
    """

    def __init__(self, store: SqliteStore, connect: Callable[[], sqlite3.Connection]) -> None:
        make_private(store.live)
        self._connect, self._patience = connect, store.patience
        self._eye: sqlite3.Connection | None = None
        self._hand: sqlite3.Connection | None = None
        self._watcher = Watcher(
            store.live,
            store.path,
            store.bell,
            self._data_version,
            self._settle,
            lambda name: free(os.path.join(store.live, name)),
            store.say,
        )

    @property
    def polling(self) -> bool:
        """Whether this system cannot tell us, so that we look from time to time."""
        return self._watcher.polling

    def take_deaths(self) -> bool:
        """Whether anybody may have died since the last time."""
        return bool(self._watcher.take_deaths()) | self._watcher.take_unsure()

    def start(self) -> None:
        self._watcher.start()

    def close(self) -> None:
        self._watcher.close()
        for connection in (self._eye, self._hand):
            if connection is not None:
                connection.close()
        self._eye = self._hand = None

    def _data_version(self) -> int:
        if self._eye is None:
            self._eye = self._connect()
        return int(self._eye.execute("pragma data_version").fetchone()[0])

    def _settle(self) -> None:
        """Return when whoever is committing now has done so, or after a bounded wait."""
        if self._hand is None:
            self._hand = self._connect()
        tx = self._hand.cursor()
        patiently(begin, tx, self._patience)
        tx.execute("rollback")
