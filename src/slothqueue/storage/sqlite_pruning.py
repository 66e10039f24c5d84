"""Deletes ended jobs on SQLite. What belongs to a job goes with it, by triggers."""

from __future__ import annotations

from collections.abc import Iterable

from .base import EndedJob, Tx
from .statements import load

SQL = load("sqlite")
KEPT_CHANGES = 10_000


class SqlitePruning:
    """See `storage.base.PruneVerbs`."""

    def ended_after(self, tx: Tx, id: int, limit: int) -> list[EndedJob]:
        rows = tx.execute(SQL["ended_after"], (id, limit)).fetchall()
        return [EndedJob(*row) for row in rows]

    def delete(self, tx: Tx, ids: Iterable[int], *, dry: bool = False) -> list[int]:
        """Delete those that have ended and that nobody waits for; returns their ids.

        The highest id stays, for ids are never given again. `dry` deletes nothing.
        """
        highest = tx.execute(SQL["last_job"]).fetchone()[0]
        free = [id for id in ids if id < highest and not self._is_awaited(tx, id)]
        return free if dry else [id for id in free if self._delete(tx, id)]

    def _is_awaited(self, tx: Tx, id: int) -> bool:
        return tx.execute(SQL["is_awaited"], (id,)).fetchone() is not None

    def _delete(self, tx: Tx, id: int) -> bool:
        return bool(tx.execute(SQL["delete_ended"], (id,)).rowcount)

    def tidy(self, tx: Tx) -> None:
        """Drop what no job needs any more."""
        tx.execute(SQL["drop_envs"])
        tx.execute(SQL["drop_queue_changes"], (KEPT_CHANGES,))
