"""The job verbs on SQLite: narrow index-organized tables beside a table of records.

A claim touches the head of a lane and one row of `running`; it never walks past jobs of another task
or of later. The shape was chosen by measurement, see docs/design.md.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

from ..clock import Millis
from ..models import QUEUED, NewJob
from .base import Claimed, Held, Holder, Row, Settlement, Terms, Tx
from .statements import load

SQL = load("sqlite")
SLICE = 1_000
"""Jobs promoted in one transaction: a million due at one instant must not hold the lock for long."""


class SqliteJobs:
    """See `storage.base.JobVerbs`."""

    # ---- enqueue ----------------------------------------------------------------------------------

    def add(self, tx: Tx, job: NewJob, now: Millis, base: Millis) -> int:
        return int(tx.execute(SQL["insert_job"], _values(job, now, base)).lastrowid)

    def add_many(self, tx: Tx, jobs: Sequence[NewJob], now: Millis, base: Millis) -> list[int]:
        first = tx.execute(SQL["last_job"]).fetchone()[0] + 1
        ids = list(range(first, first + len(jobs)))
        values = ((*_values(job, now, base), id) for job, id in zip(jobs, ids))
        tx.executemany(SQL["insert_numbered_job"], values)
        return ids

    # ---- claim --------------------------------------------------------------------------------------

    def any_due(self, tx: Tx, lanes: Iterable[int], now: Millis) -> bool:
        execute = tx.execute
        for lane in lanes:
            if execute(SQL["any_ready"], (lane,)).fetchone():
                return True
            due = execute(SQL["first_sched"], (lane,)).fetchone()
            if due and due[0] <= now:
                return True
        return False

    def next_due(self, tx: Tx, lanes: Iterable[int]) -> Millis | None:
        found = [tx.execute(SQL["first_sched"], (lane,)).fetchone() for lane in lanes]
        return min((row[0] for row in found if row), default=None)

    def promote(self, tx: Tx, lanes: Iterable[int], now: Millis) -> int:
        """File due jobs under ready, a slice per lane; how many there were."""
        moved = 0
        for lane in lanes:
            first = tx.execute(SQL["first_sched"], (lane,)).fetchone()
            if first is None or first[0] > now:
                continue
            rows = tx.execute(SQL["due_jobs"], (lane, now, SLICE)).fetchall()
            tx.executemany(SQL["insert_ready"], rows)
            tx.executemany(SQL["unsched"], rows)
            moved += len(rows)
        return moved

    def claim(
        self,
        tx: Tx,
        lanes: Sequence[int],
        limit: int,
        now: Millis,
        terms_of: Callable[[int], Terms],
    ) -> list[Claimed]:
        """Take the first jobs of these lanes in start order; `terms_of` is asked once for each."""
        self.promote(tx, lanes, now)
        heads = self._heads(tx, lanes, limit)
        if not heads:
            return []
        self._unready(tx, heads, single=len(lanes) == 1)
        floor = now * 1000  # a fence grows at every claim, whatever was restored or revived
        claimed, running = [], []
        for lane, _, _, id, attempts, fence, _, timeout, _, payload in heads:
            fence = max(fence + 1, floor)
            holder, worker, lease, until = terms_of(lane)
            key = (id, lane, attempts + 1, fence, holder, worker, now)
            running.append((*key, lease, until))
            claimed.append(Claimed(*key, lease, timeout, payload))
        tx.executemany(SQL["insert_running"], running)
        return claimed

    def _heads(self, tx: Tx, lanes: Sequence[int], limit: int) -> list[Row]:
        if len(lanes) == 1:
            return tx.execute(SQL["heads"], (lanes[0], limit)).fetchall()  # type: ignore[no-any-return]
        each = (tx.execute(SQL["heads"], (lane, limit)).fetchall() for lane in lanes)
        return heapq.nsmallest(limit, (row for rows in each for row in rows), key=_start_order)

    def _unready(self, tx: Tx, heads: Sequence[Row], *, single: bool) -> None:
        if len(heads) == 1 or not single:
            tx.executemany(SQL["unready"], [head[:4] for head in heads])
        else:
            tx.execute(SQL["unready_upto"], heads[-1][:4])

    # ---- the end of an attempt ------------------------------------------------------------------------

    def complete(
        self, tx: Tx, held: Held, now: Millis, result: str | None, message: str | None
    ) -> bool:
        if not tx.execute(SQL["end_lease"], (held.id, held.fence, held.holder)).rowcount:
            return False
        values = (held.id, held.claimed, now, held.attempt, held.fence, held.worker, result, message)
        tx.execute(SQL["end_job"], values)
        return True

    def settle(self, tx: Tx, settlement: Settlement) -> bool:
        """Carry out a verdict; False, and nothing done, if the lease is no longer the latest."""
        s, held = settlement, settlement.held
        if not tx.execute(SQL["end_lease"], (held.id, held.fence, held.holder)).rowcount:
            return False
        lane, priority, due = tx.execute(SQL["job_policy"], (held.id,)).fetchone()[:3]
        due = due if s.due is None else s.due
        values = (held.id, s.state, held.claimed, s.now, s.attempts, held.fence, held.worker)
        tx.execute(SQL["end_attempt"], (*values, s.result, s.error, due, s.base, s.message))
        if s.state == QUEUED and due > s.now:
            tx.execute(SQL["insert_sched"], (lane, priority, due, held.id, s.base))
        elif s.state == QUEUED:
            tx.execute(SQL["insert_ready"], (lane, priority, due, held.id))
        self._tell(tx, s)
        return True

    def _tell(self, tx: Tx, s: Settlement) -> None:
        held = s.held
        n = tx.execute(SQL["last_event"], (held.id,)).fetchone()[0]
        told = [("claimed", held.claimed, None, None)]
        told += [(kind, s.now, reason, detail) for kind, reason, detail in s.events]
        rows = [
            (held.id, n + i, kind, at, held.attempt, held.worker, reason, detail)
            for i, (kind, at, reason, detail) in enumerate(told, start=1)
        ]
        tx.executemany(SQL["insert_event"], rows)

    def policy(self, tx: Tx, job: int) -> Row | None:
        return tx.execute(SQL["job_policy"], (job,)).fetchone()  # type: ignore[no-any-return]

    # ---- leases -----------------------------------------------------------------------------------------

    def extend(self, tx: Tx, held: Held, until: Millis) -> bool:
        values = (held.id, held.fence, held.holder, until)
        return bool(tx.execute(SQL["extend_lease"], values).rowcount)

    def hand_over(self, tx: Tx, held: Held, holder: int) -> bool:
        values = (held.id, held.fence, held.holder, holder)
        return bool(tx.execute(SQL["hand_over"], values).rowcount)

    def holders(self, tx: Tx) -> list[Holder]:
        return [Holder(*row) for row in tx.execute(SQL["holders"]).fetchall()]

    def leases_of(self, tx: Tx, holder: int) -> list[Held]:
        return [Held(*row) for row in tx.execute(SQL["leases_of"], (holder,)).fetchall()]

    def silent(self, tx: Tx, awake: Millis, boot: str) -> list[Held]:
        return [Held(*row) for row in tx.execute(SQL["silent_leases"], (awake, boot)).fetchall()]

    def first_expiry(self, tx: Tx) -> Millis | None:
        return tx.execute(SQL["first_expiry"]).fetchone()[0]  # type: ignore[no-any-return]

    # ---- looking ------------------------------------------------------------------------------------------

    def get(self, tx: Tx, job: int) -> Row | None:
        return tx.execute(SQL["job"], (job,)).fetchone()  # type: ignore[no-any-return]

    def state(self, tx: Tx, job: int) -> int | None:
        row = tx.execute(SQL["job_state"], (job,)).fetchone()
        return None if row is None else int(row[0])

    def find(
        self, tx: Tx, lanes: Sequence[int], queue: int | None, state: str | None, limit: int
    ) -> list[Row]:
        """Rows as of get(): running first, then waiting in start order, then ended, newest first."""
        ids: list[int] = []
        if state in (None, "running"):
            ids += [row[0] for row in tx.execute(SQL["running_ids"], (queue, limit)).fetchall()]
        if state in (None, "queued"):
            ids += self._merged(tx, "ready_keys", lanes, limit - len(ids))
            ids += self._merged(tx, "sched_keys", lanes, limit - len(ids))
        if state not in ("running", "queued"):
            ids += self._ended(tx, lanes, state, limit - len(ids))
        rows = (self.get(tx, id) for id in ids)
        return [row for row in rows if row is not None]

    def _merged(self, tx: Tx, statement: str, lanes: Sequence[int], limit: int) -> list[int]:
        if limit <= 0:
            return []
        each = [tx.execute(SQL[statement], (lane, limit)).fetchall() for lane in lanes]
        return [key[-1] for key in heapq.nsmallest(limit, (key for keys in each for key in keys))]

    def _ended(self, tx: Tx, lanes: Sequence[int], state: str | None, limit: int) -> list[int]:
        if limit <= 0:
            return []
        numbers = [2, 3, 4] if state is None else [{"done": 2, "failed": 3, "cancelled": 4}[state]]
        keys = [
            key
            for lane in lanes
            for number in numbers
            for key in tx.execute(SQL["ended_keys"], (lane, number, limit)).fetchall()
        ]
        return [id for _, id in heapq.nlargest(limit, keys)]

    def counts(self, tx: Tx, lanes: Iterable[int]) -> dict[str, int]:
        """How many jobs are in each state; `scheduled` are those of queued that wait for a moment."""
        total = dict.fromkeys(("queued", "scheduled", "running", "done", "failed", "cancelled"), 0)
        for lane in lanes:
            waiting = tx.execute(SQL["count_sched"], (lane,)).fetchone()[0]
            total["scheduled"] += waiting
            total["queued"] += waiting + tx.execute(SQL["count_ready"], (lane,)).fetchone()[0]
            total["running"] += tx.execute(SQL["count_running"], (lane,)).fetchone()[0]
            for state, count in tx.execute(SQL["count_ended"], (lane,)).fetchall():
                total[("queued", "running", "done", "failed", "cancelled")[state]] += count
        return total

    def record(self, tx: Tx, job: int) -> Row | None:
        return tx.execute(SQL["record"], (job,)).fetchone()  # type: ignore[no-any-return]

    def events(self, tx: Tx, job: int) -> list[Row]:
        return tx.execute(SQL["events"], (job,)).fetchall()  # type: ignore[no-any-return]

    # ---- clocks ---------------------------------------------------------------------------------------------

    def rebase(self, tx: Tx, base: Millis) -> int:
        """The wall clock was set back: delays asked for before that must not grow by it."""
        rows = tx.execute(SQL["sched_behind"], (base + 100,)).fetchall()
        moved = [(lane, priority, due + base - old, id, base) for lane, priority, due, id, old in rows]
        tx.executemany(SQL["unsched"], [row[:4] for row in rows])
        tx.executemany(SQL["insert_sched"], moved)
        tx.executemany(SQL["rebase_job"], [(id, due, base) for _, _, due, id, _ in moved])
        return len(rows)


def _start_order(head: Row) -> tuple[int, int, int]:
    return head[1], head[2], head[3]


def _values(job: NewJob, now: Millis, base: Millis) -> tuple[object, ...]:
    asked = base if job.relative else None
    return (job.lane, job.priority, job.due, asked, now, job.max_attempts, job.timeout, job.payload)
