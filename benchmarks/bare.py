"""The yardstick: `BEGIN IMMEDIATE; INSERT; COMMIT` through plain sqlite3 on the same file."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

PAYLOAD = {"to": "ada@example.org", "subject": "welcome", "order": 42}
TEXT = '{"to":"ada@example.org","subject":"welcome","order":42}'

_TABLE = """\
create table if not exists bare_job (
    id integer primary key, queue text not null, state integer not null, priority integer not null,
    run_at integer not null, created integer not null, attempts integer not null,
    max_attempts integer not null, payload text not null
)"""
_INSERT = """\
insert into bare_job (queue, state, priority, run_at, created, attempts, max_attempts, payload)
values (?, ?, ?, ?, ?, ?, ?, ?)"""


class Bare:
    """A table that holds the same facts as one of our jobs has, without an index; a commit per row.

    `synchronous` is "normal" beside durability="process", "full" beside durability="full". All
    else is as sqlite3 comes, the automatic checkpoints too.
    """

    def __init__(self, path: Path, synchronous: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("pragma journal_mode=wal")
        self._connection.execute(f"pragma synchronous={synchronous}")
        self._connection.execute(_TABLE)

    def insert(self, number: int) -> None:
        """This many rows, each in a transaction of its own."""
        execute = self._connection.execute
        for _ in range(number):
            now = int(time.time() * 1000)
            execute("begin immediate")
            execute(_INSERT, ("bench", 0, 0, now, now, 0, 4, TEXT))
            execute("commit")

    def checkpoint(self) -> None:
        """Start with an empty log, so that nobody pays for what others have written."""
        self._connection.execute("pragma wal_checkpoint(passive)").fetchall()

    def close(self) -> None:
        self._connection.close()
