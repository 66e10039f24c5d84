"""Queues, lanes and holders on SQLite."""

from __future__ import annotations

from ..clock import Millis
from ..models import Policy
from .base import Holder, QueueRow, Row, Tx
from .statements import load

SQL = load("sqlite")


class SqliteNames:
    """See `storage.base.NameVerbs`."""

    def bind(self, tx: Tx) -> str:
        """Give a new store an id of its own, or read the one that it has."""
        import os

        found = tx.execute(SQL["get_meta"], ("store",)).fetchone()
        if found:
            return str(found[0])
        made = os.urandom(8).hex()
        tx.execute(SQL["set_meta"], ("store", made))
        return made

    def meta(self, tx: Tx, key: str) -> str | None:
        found = tx.execute(SQL["get_meta"], (key,)).fetchone()
        return None if found is None else str(found[0])

    def set_meta(self, tx: Tx, key: str, value: str) -> None:
        tx.execute(SQL["set_meta"], (key, value))

    # ---- queues and lanes -----------------------------------------------------------------------

    def queue(self, tx: Tx, name: str) -> tuple[int, Policy] | None:
        row = tx.execute(SQL["queue"], (name,)).fetchone()
        return row and (row[0], Policy(*row[1:]))

    def make_queue(self, tx: Tx, name: str, policy: Policy, now: Millis) -> int:
        return int(tx.execute(SQL["insert_queue"], (name, *policy, now)).lastrowid)

    def change_queue(self, tx: Tx, queue: int, policy: Policy, now: Millis, told: str) -> None:
        tx.execute(SQL["update_queue"], (queue, *policy))
        tx.execute(SQL["record_queue_change"], (queue, now, told))

    def pause(self, tx: Tx, queue: int, since: Millis | None, who: str | None) -> None:
        """Pause a queue since then, or let it run again if that is None."""
        tx.execute(SQL["pause_queue"], (queue, since, who))

    def queues(self, tx: Tx) -> list[QueueRow]:
        rows = tx.execute(SQL["queues"]).fetchall()
        return [QueueRow(*row[:4], Policy(*row[4:])) for row in rows]  # type: ignore[call-arg]

    def queue_changes(self, tx: Tx, queue: int) -> list[Row]:
        return tx.execute(SQL["queue_changes"], (queue,)).fetchall()  # type: ignore[no-any-return]

    def lane(self, tx: Tx, queue: int, kind: int, task: str, *, make: bool) -> int | None:
        row = tx.execute(SQL["lane"], (queue, kind, task)).fetchone()
        if row is None and make:
            return int(tx.execute(SQL["insert_lane"], (queue, kind, task)).lastrowid)
        return row and int(row[0])

    def lanes(self, tx: Tx) -> list[Row]:
        return tx.execute(SQL["lanes"]).fetchall()  # type: ignore[no-any-return]

    # ---- holders --------------------------------------------------------------------------------

    def add_holder(self, tx: Tx, holder: Holder, now: Millis, tells: str | None = None) -> None:
        h = holder
        values = (h.id, h.worker, h.kind, h.label, h.lock, h.device, h.inode, h.boot, h.machine)
        tx.execute(SQL["insert_holder"], (*values, h.pid, h.started, h.pidns, now, tells))

    def tell_holder(self, tx: Tx, holder: int, tells: str | None) -> None:
        tx.execute(SQL["tell_holder"], (holder, tells))

    def live_holders(self, tx: Tx) -> list[Row]:
        """Rows of Holder, with `since` and `tells` behind."""
        return tx.execute(SQL["live_workers"]).fetchall()  # type: ignore[no-any-return]

    def end_holder(self, tx: Tx, holder: int, now: Millis) -> None:
        tx.execute(SQL["end_holder"], (holder, now))

    def drop_ended(self, tx: Tx, before: Millis) -> None:
        tx.execute(SQL["drop_ended"], (before,))

    def drop_helper(self, tx: Tx, holder: int) -> None:
        tx.execute(SQL["drop_helper"], (holder,))
