"""A store that is only looked at: nothing is made, migrated or written, and nothing is left.

The files are opened by SQLite alone, as everywhere: a process that works on the store may look at
it like this and keeps its locks.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from typing import TypeVar

from ..errors import SchemaTooOld, StoreReadOnly
from . import migrate, opening
from .locking import patiently
from .readers import in_view
from .sqlite import SqliteStore
from .sqlite_errors import translate

T = TypeVar("T")


class ReadingStore(SqliteStore):
    """One file, as it is."""

    def peek(self, work: Callable[[sqlite3.Cursor], T]) -> T:
        """Run work on one view of the file, whether or not it is a store."""
        try:
            connection = self._connect()
            try:
                return patiently(lambda tx: in_view(work, tx), connection.cursor(), self.patience)
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise translate(error, self.path) from error

    def _open(self) -> sqlite3.Connection:
        self.refuse_if_broken()
        try:
            connection = self._connect()
            try:
                self._check(connection.cursor())
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        return connection

    def _check(self, tx: sqlite3.Cursor) -> None:
        if self._checked:
            return
        opening.check_whole(tx, self.path, self.patience)
        if missing := patiently(lambda tx: migrate.pending(tx, self.path), tx, self.patience):
            raise SchemaTooOld(
                f"{self.path} has not got schema {missing[-1][0]} yet. It gets it when it is next "
                "used."
            )
        self._checked = True

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            opening.uri(self.path, self._mode()),
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            connection.execute("pragma query_only=on")
        except BaseException:
            connection.close()
            raise
        return connection

    def _mode(self) -> str:
        """Who may write would copy a log that is there into the file when it closes; who may not
        would leave an empty log behind where there is none."""
        if any(os.path.exists(self.path + end) for end in ("-wal", "-journal")):
            return "mode=ro"
        if os.access(self.path, os.W_OK) and os.access(os.path.dirname(self.path), os.W_OK):
            return "mode=rw"
        return "mode=ro&immutable=1"  # nobody has it open, and we could not clear up after us

    def _take_turn(self) -> None:
        raise StoreReadOnly(f"{self.path} was opened to be looked at only.")
