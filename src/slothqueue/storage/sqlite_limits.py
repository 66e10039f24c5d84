"""Limits of queues and of concurrency keys, environments, and what is asked of running attempts."""

from __future__ import annotations

from collections.abc import Iterable

from ..clock import Millis
from ..models import ASKED, Room
from .base import Ask, Row, Tx
from .statements import load

SQL = load("sqlite")


class SqliteLimits:
    """The part of `storage.base.WaitVerbs` that needs to know nothing else of a job."""

    # ---- environments ---------------------------------------------------------------------------

    def keep_env(self, tx: Tx, text: str) -> int:
        tx.execute(SQL["insert_env"], (text,))
        return int(tx.execute(SQL["env_id"], (text,)).fetchone()[0])

    def environment(self, tx: Tx, env: int) -> str | None:
        row = tx.execute(SQL["env_text"], (env,)).fetchone()
        return row and str(row[0])

    def environment_of(self, tx: Tx, job: int) -> str | None:
        row = tx.execute(SQL["env_of"], (job,)).fetchone()
        return row and str(row[0])

    # ---- limits ---------------------------------------------------------------------------------

    def room(self, tx: Tx, queue: int, now: Millis) -> Room:
        """How many more jobs of this queue may start now."""
        running, starts, rate, per = tx.execute(SQL["room"], (queue, now)).fetchone()
        if starts is None or starts > 0:
            return Room(running, starts)
        oldest = tx.execute(SQL["nth_start"], (queue, rate - 1)).fetchone()
        return Room(running, starts, None if oldest is None else oldest[0] + per)

    def started(self, tx: Tx, queue: int, jobs: Iterable[tuple[int, int]], now: Millis) -> None:
        """Count these starts, as (job, fence), if the queue has a rate; forget old ones."""
        rate, per = tx.execute(SQL["room"], (queue, now)).fetchone()[2:]
        if rate is not None:
            tx.executemany(SQL["insert_start"], [(queue, now, *job) for job in jobs])
            tx.execute(SQL["drop_starts"], (queue, now - per))

    def starts_ahead(self, tx: Tx, moment: Millis) -> bool:
        """Whether there were starts later than this, as there are once the clock is set back."""
        return tx.execute(SQL["starts_ahead"], (moment,)).fetchone() is not None

    def running_of_queue(self, tx: Tx, queue: int, limit: int) -> list[int]:
        return [row[0] for row in tx.execute(SQL["queue_running"], (queue, limit)).fetchall()]

    def running_of_gate(self, tx: Tx, gate: str, limit: int = -1) -> list[int]:
        return [row[0] for row in tx.execute(SQL["gate_running"], (gate, limit)).fetchall()]

    def admit(self, tx: Tx, gate: str) -> None:
        """One of a concurrency key is gone: let the first that waits in each lane try again."""
        lane = -1
        while (row := tx.execute(SQL["next_gated_lane"], (gate, lane)).fetchone())[0] is not None:
            lane = row[0]
            first = tx.execute(SQL["next_gated"], (gate, lane, 1)).fetchone()
            tx.execute(SQL["drop_gated"], (gate, *first))
            tx.execute(SQL["park"], (first[-1], 0))
            tx.execute(SQL["insert_ready"], first)

    # ---- asked of a running attempt -------------------------------------------------------------

    def ask(self, tx: Tx, job: int, kind: str, now: Millis, who: str, detail: str | None) -> None:
        tx.execute(SQL["insert_ask"], (job, kind, now, who, detail))
        tx.execute(SQL["mark"], (job, ASKED))

    def cancel_asked(self, tx: Tx, job: int) -> Row | None:
        """(who, detail) if somebody wants it cancelled."""
        return tx.execute(SQL["asked_cancel"], (job,)).fetchone()  # type: ignore[no-any-return]

    def asks_of(self, tx: Tx, worker: int) -> list[Ask]:
        return [Ask(*row) for row in tx.execute(SQL["asks_of"], (worker,)).fetchall()]

    def orphan_asks(self, tx: Tx) -> list[Row]:
        """(job, holder, worker) of those that are to be cancelled."""
        return tx.execute(SQL["orphan_asks"]).fetchall()  # type: ignore[no-any-return]

    def take_ask(self, tx: Tx, n: int) -> None:
        tx.execute(SQL["take_ask"], (n,))

    def drop_asks(self, tx: Tx, job: int) -> None:
        tx.execute(SQL["drop_asks"], (job,))
        tx.execute(SQL["unmark"], (job, ASKED))
