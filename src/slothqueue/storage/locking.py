"""Waits for the write lock. SQLite's own waiting sleeps long (up to 100 ms) and is unfair."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

from .sqlite_errors import is_busy

T = TypeVar("T")
Action = Callable[[sqlite3.Cursor], T]


def begin(tx: sqlite3.Cursor) -> None:
    tx.execute("begin immediate")


def patiently(action: Action[T], tx: sqlite3.Cursor, patience: float) -> T:
    """Do it as soon as the lock is free, for `patience` seconds; then SQLite's own error stands."""
    try:
        return action(tx)
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise
    until, pause = time.monotonic() + patience, 0.00005
    while True:
        time.sleep(pause)
        try:
            return action(tx)
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > until:
                raise
        pause = min(pause * 1.3, 0.005)


def lazily(action: Action[T], tx: sqlite3.Cursor, patience: float) -> T:
    """A transaction that begins by reading; starts over with the lock if others write."""
    try:
        tx.execute("begin")
        value = action(tx)
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise
        undo(tx)
        patiently(begin, tx, patience)
        value = action(tx)
    tx.execute("commit")
    return value


def undo(tx: sqlite3.Cursor) -> bool:
    """Roll back; whether the connection is still of use.

    SQLite may have rolled back by itself, and that must not hide the first error.
    """
    try:
        if tx.connection.in_transaction:
            tx.execute("rollback")
    except sqlite3.Error:
        return False
    return True
