"""A small pool of connections that only read."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import TypeVar

from .locking import undo

T = TypeVar("T")
MOST_KEPT = 4
LONGEST_SHUT = 60.0  # s; nobody waits for ever for somebody who forks or closes


def in_view(work: Callable[[sqlite3.Cursor], T], tx: sqlite3.Cursor) -> T:
    """Run work on one consistent view of the store."""
    tx.execute("begin")
    try:
        return work(tx)
    finally:
        undo(tx)


class Readers:
    """Lends each call a reader of its own, and keeps a few for the next ones."""

    def __init__(self, open: Callable[[], sqlite3.Connection]) -> None:
        self._open = open
        self._changed = threading.Condition()
        self._kept: list[sqlite3.Connection] = []
        self._lent = 0
        self._shut = False

    def use(self, work: Callable[[sqlite3.Cursor], T]) -> T:
        """Run work on a reader; one that failed is not used again."""
        connection = self._borrow()
        healthy = False
        try:
            value = work(connection.cursor())
            healthy = True
            return value
        finally:
            self._give_back(connection, healthy)

    def _borrow(self) -> sqlite3.Connection:
        with self._changed:
            self._changed.wait_for(lambda: not self._shut, timeout=LONGEST_SHUT)
            self._lent += 1
            if self._kept:
                return self._kept.pop()
        try:
            connection = self._open()
            connection.execute("pragma query_only=on")
            return connection
        except BaseException:
            self._give_back(None, False)
            raise

    def _give_back(self, connection: sqlite3.Connection | None, healthy: bool) -> None:
        with self._changed:
            self._lent -= 1
            if connection is not None and healthy and len(self._kept) < MOST_KEPT:
                self._kept.append(connection)
                connection = None
            self._changed.notify_all()
        if connection is not None:
            connection.close()

    def shut(self, patience: float) -> bool:
        """Lend no more; whether nobody reads any more, for which it waits some seconds."""
        with self._changed:
            self._shut = True
            return self._changed.wait_for(lambda: not self._lent, timeout=patience)

    def reopen(self) -> None:
        """Lend again. A new object does so too: a forked child has one of its own."""
        with self._changed:
            self._shut = False
            self._changed.notify_all()

    def drop(self) -> None:
        """Close those that are kept."""
        with self._changed:
            kept, self._kept = self._kept, []
        for connection in kept:
            connection.close()
