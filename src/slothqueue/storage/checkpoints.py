"""Keeps the write-ahead log small: copies it into the file before it has grown by much.

SQLite 3.7.0 to 3.51.2 can damage a log that one connection checkpoints while another writes
(https://sqlite.org/wal.html#walresetbug). So its automatic checkpoints are off, and ours are made
while another connection of ours holds the write lock.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable

from .locking import undo

PAGES_BETWEEN = 4_000


def wal_fault(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> bool:
    """Whether this SQLite can damage its log when it checkpoints and writes at the same moment."""
    fixed = (
        version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)
    )
    return version >= (3, 7, 0) and not fixed


def log_bytes(path: str) -> int:
    """The size of the write-ahead log of this file."""
    try:
        return os.stat(path + "-wal").st_size
    except OSError:
        return 0


class Checkpoints:
    """The checkpoints of one handle, after commits of its own."""

    def __init__(self, path: str, connect: Callable[[], sqlite3.Connection]) -> None:
        self._path, self._connect = path, connect
        self._gauge = Gauge(path + "-wal")
        self._keeper: sqlite3.Connection | None = None

    def begin(self, tx: sqlite3.Cursor) -> None:
        """Count from here on, with this connection."""
        self._gauge.changes = tx.connection.total_changes

    def committed(self, tx: sqlite3.Cursor) -> bool:
        """Count a commit, and checkpoint if it is time; whether the connection is still of use."""
        if self._gauge.committed(tx.connection.total_changes) < PAGES_BETWEEN:
            return True
        return self._run(tx)

    def before_close(self, tx: sqlite3.Cursor) -> bool:
        """A handle that closes may be the last one to write for long."""
        return log_bytes(self._path) <= PAGES_BETWEEN * 4096 or self._run(tx)

    def _run(self, tx: sqlite3.Cursor) -> bool:
        """We hold the write lock meanwhile, so nobody can reset the log under the checkpoint.

        A failure loses nothing: the log stays and the next checkpoint copies it.
        """
        found, healthy = 0, True
        try:
            if self._keeper is None:
                self._keeper = self._connect()
            tx.execute("begin immediate")
            found = self._keeper.execute("pragma wal_checkpoint(passive)").fetchone()[1]
            tx.execute("rollback")
        except sqlite3.Error:
            healthy = undo(tx)
        self._gauge.read(found)
        return healthy

    def close(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.close()


class Gauge:
    """Tells how many pages the log has grown by since the last checkpoint, without asking SQLite.

    That is a guess from the number of changed rows, corrected by what every checkpoint finds. Rows
    much larger than those before are noticed by the growth of the file.
    """

    def __init__(self, log: str, page: int = 4096) -> None:
        self._log, self._page = log, page
        self._guess, self._weight = 0.0, 1.0
        self._frames = self._bytes = self._commits = 0
        self._mark = b""
        self.changes = 0

    def committed(self, changes: int) -> float:
        """Count one more commit, given the changes of its connection so far; the pages since."""
        self._guess += self._weight * (2 + (changes - self.changes) // 8)
        self.changes = changes
        self._commits += 1
        if self._commits & 15:  # a look costs some microseconds
            return self._guess
        return max(self._guess, (self._look()[0] - self._bytes) / self._page)

    def read(self, frames: int) -> None:
        """A checkpoint found so many pages in the log; 0 if it could not tell."""
        size, mark = self._look()
        grown = frames - self._frames if mark == self._mark else frames
        if grown > 0 and self._guess > 0:
            self._weight = min(max(self._weight * grown / self._guess, 0.5), 10_000.0)
        self._guess, self._frames, self._bytes, self._mark = 0.0, frames, size, mark

    def _look(self) -> tuple[int, bytes]:
        """The size of the log, and what it is marked with: another mark says it began afresh.

        The mark is its sequence and salts, https://sqlite.org/fileformat.html. Not asked by stat(),
        which makes the next flush slower, see `flushing.py`.
        """
        try:
            descriptor = os.open(self._log, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return 0, b""
        try:
            return os.lseek(descriptor, 0, os.SEEK_END), os.pread(descriptor, 12, 12)
        finally:
            os.close(descriptor)
