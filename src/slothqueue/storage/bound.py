"""A store inside a transaction that somebody else ends."""

from __future__ import annotations

import os
import sqlite3
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import StoreBusy, WrongState
from . import migrate
from .base import Tx
from .sqlite_errors import is_busy, raise_ours, translate

if TYPE_CHECKING:
    from .sqlite import SqliteStore

T = TypeVar("T")


class BoundStore:
    """A store inside a transaction that somebody else ends, on their connection or ours."""

    def __init__(self, store: SqliteStore, tx: Tx, *, foreign: sqlite3.Connection | None) -> None:
        self.store, self.tx, self.foreign = store, tx, foreign
        self.clock, self.bell = store.clock, store.bell
        self.jobs, self.waits, self.names = store.jobs, store.waits, store.names
        self.file, self.pruning = store.file, store.pruning
        self.bound, self.trusts_locks = True, store.trusts_locks
        self.over = self._began = False
        self._cursors: weakref.WeakSet[sqlite3.Cursor] = weakref.WeakSet()

    def write(
        self,
        work: Callable[[Tx], T],
        *,
        durable: bool = True,
        tell: bool = True,
        single: bool = False,
        lazy: bool = False,
    ) -> T:
        """Run work in the caller's transaction: all of it or nothing, and the caller commits."""
        self._refuse_if_over()
        with self._translated():
            self._join()
            self.tx.execute("savepoint _sloth")
            try:
                value = work(self.tx)
            except BaseException:
                self.tx.execute("rollback to _sloth")
                self.tx.execute("release _sloth")
                raise
            self.tx.execute("release _sloth")
            return value

    def read(self, work: Callable[[Tx], T]) -> T:
        """Run work in the caller's transaction. Sets a file up that has no tables of ours yet."""
        self.store.refuse_if_broken()
        if self.ended:  # what it wrote is there for everybody, also if its connection is closed
            return self.store.read(work)
        with self._translated():
            try:
                return work(self.tx)
            except sqlite3.OperationalError as error:
                if self.foreign is None or "no such table: _sloth" not in str(error):
                    raise
            self._join()
            return work(self.tx)

    look = read

    @property
    def ended(self) -> bool:
        """Whether the transaction that we wrote in has come to its end."""
        if self.foreign is None:
            return self.over
        return self._began and not (_is_open(self.foreign) and self.foreign.in_transaction)

    def end(self) -> None:
        """The block has ended: nothing more is written, and what was not read is not held open.

        A half-read cursor would keep the connection on its old view, and so from writing.
        """
        self.over = True
        for cursor in list(self._cursors):
            cursor.close()

    def _refuse_if_over(self) -> None:
        self.store.refuse_if_broken()
        if self.over:
            raise WrongState(
                "this transaction has ended. Write inside its `with` block, or by the Sloth itself."
            )
        if self.foreign is None and not self.tx.connection.in_transaction:
            raise ended_early(self.store.path)

    def flush(self) -> None:
        """The caller's commit decides how durable it is."""

    def ring(self) -> None:
        """Nobody is told before the caller has committed."""

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        """A statement of the caller's own, on the same connection; so are its mistakes."""
        self._refuse_if_over()
        try:
            cursor: sqlite3.Cursor = self.tx.connection.execute(sql, parameters)
            self._cursors.add(cursor)
            return cursor
        except sqlite3.Error as error:
            raise_ours(error, self.store.path)

    def _join(self) -> None:
        """Begin as Python would for this connection, and set the file up if nobody has."""
        if self.foreign is None:
            return
        if not self.foreign.in_transaction and _begins_by_itself(self.foreign):
            self.tx.execute("begin immediate")
        self._began = True
        if migrate.pending(self.tx, self.store.path):
            self._set_up()

    def _set_up(self) -> None:
        """All of the schema in the caller's transaction; in one of its own if there is none."""
        alone = not self.tx.connection.in_transaction
        self.tx.execute("begin immediate" if alone else "savepoint _sloth_set_up")
        try:
            for script in migrate.pending(self.tx, self.store.path):
                migrate.apply(self.tx, script, self.clock.wall())
            self.names.bind(self.tx)
        except BaseException:
            self.tx.execute("rollback" if alone else "rollback to _sloth_set_up")
            raise
        self.tx.execute("commit" if alone else "release _sloth_set_up")

    def check_file(self) -> None:
        with self._translated():
            rows = self.tx.execute("pragma database_list").fetchall()
        if self.tx.connection.text_factory is not str:
            raise WrongState("within() needs a connection whose text_factory is str")
        file = next((row[2] for row in rows if row[1] == "main"), "")
        if not file or os.path.realpath(file) != os.path.realpath(self.store.path):
            raise WrongState(
                f"this connection is on {file or 'a database in memory'}, the store on "
                f"{self.store.path}: only rows of one file can commit together"
            )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if is_busy(error) and self.foreign is not None:
                raise StoreBusy(
                    f"{self.store.path} is locked, or was written since your transaction began to "
                    "read. Roll back and begin again, with BEGIN IMMEDIATE."
                ) from error
            raise translate(error, self.store.path) from error


def ended_early(path: str) -> WrongState:
    """A transaction of ours that a statement of the caller has ended."""
    return WrongState(
        f"a statement in this transaction on {path} has ended it (commit, rollback, or a "
        "conflict that rolls back): nothing more is written in it. Leave that to the `with` block."
    )


class Joined:
    """The callers' own connections that we have been given, as long as somebody else holds them.

    A connection cannot be referred to weakly, so they are kept, and let go once only we hold them.
    """

    def __init__(self) -> None:
        self._kept: list[sqlite3.Connection] = []

    def add(self, connection: sqlite3.Connection) -> None:
        if not any(kept is connection for kept in self.open()):
            self._kept.append(connection)

    def open(self) -> list[sqlite3.Connection]:
        """Those that are still in use."""
        # Held by the list, the name and the call: whatever is more is somebody else's.
        self._kept = [kept for kept in self._kept if sys.getrefcount(kept) > 3 and _is_open(kept)]
        return self._kept


def _is_open(connection: sqlite3.Connection) -> bool:
    try:
        connection.in_transaction  # noqa: B018  # raises if it was closed
        return bool(connection.total_changes >= 0)
    except sqlite3.ProgrammingError as error:
        return "closed" not in str(error)


def _begins_by_itself(connection: sqlite3.Connection) -> bool:
    """Whether Python begins a transaction before a write on this connection.

    https://docs.python.org/3/library/sqlite3.html#transaction-control: `autocommit` is new in 3.12,
    and only its default leaves the word to `isolation_level`.
    """
    autocommit = getattr(connection, "autocommit", -1)
    return autocommit is not True and connection.isolation_level is not None


def own_cursor(connection: sqlite3.Connection) -> sqlite3.Cursor:
    """A cursor that gives plain tuples, whatever the connection's owner prefers."""
    cursor = connection.cursor()
    cursor.row_factory = None
    return cursor
