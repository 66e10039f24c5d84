"""The job verbs on SQLite: narrow index-organized tables beside a table of records.

A claim touches the head of a lane and one row of `running`; it never walks past jobs of another
task or of later. The shape was chosen by measurement, see docs/design.md.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from ..clock import Millis
from ..models import COUNTED, DONE, QUEUED, STATES, NewJob
from .base import Claimed, Glance, Held, Holder, Row, Settlement, Terms, Tx
from .statements import load

SQL = load("sqlite")
SLICE = 1_000
"""Jobs promoted in one transaction: a million due at once must not hold the lock for long."""


OPEN = ("claimed", "progress")
"""If one of these is the last event of a job, the claim of its present attempt is written out."""


class SqliteJobs:
    """See `storage.base.JobVerbs`."""

    # ---- enqueue --------------------------------------------------------------------------------

    def add(self, tx: Tx, job: NewJob, now: Millis, base: Millis) -> int:
        return int(tx.execute(SQL["insert_job"], _values(job, now, base)).lastrowid)

    def add_many(
        self, tx: Tx, job: NewJob, payloads: Sequence[str], now: Millis, base: Millis
    ) -> list[int]:
        first = tx.execute(SQL["last_job"]).fetchone()[0] + 1
        values = _values(job, now, base)[:-1]
        tx.execute(SQL["insert_jobs"], (*values, json.dumps(list(payloads)), first))
        return list(range(first, first + len(payloads)))

    # ---- claim ----------------------------------------------------------------------------------

    def glance(self, tx: Tx, lane: int) -> Glance:
        return Glance(*tx.execute(SQL["glance"], (lane,)).fetchone())

    def promote(self, tx: Tx, lanes: Iterable[int], now: Millis) -> int:
        """File due jobs under ready, a slice per lane; how many there were."""
        moved = 0
        for lane in lanes:
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
        heads = self._heads(tx, lanes, limit)
        if not heads:
            return self._no_heads(tx, lanes)
        floor = now * 1000  # a fence grows at every claim, whatever was restored or revived
        claimed = [_claimed(head, floor, now, terms_of(head[0])) for head in heads]
        tx.executemany(SQL["insert_running"], [one[:9] for one in claimed])
        tx.executemany(SQL["unready"], [head[:4] for head in heads])
        return claimed

    def claim_lane(
        self, tx: Tx, lane: int, limit: int, now: Millis, terms_of: Callable[[Millis | None], Terms]
    ) -> list[Claimed]:
        """Take the first jobs of one lane, all on the same terms; `terms_of` is told the queue's
        lease.

        Reads first, so that a transaction which finds nothing takes no lock.
        """
        heads = self._heads(tx, [lane], limit)
        if self._is_late(tx, lane, heads, now):
            self.promote(tx, [lane], now)
            heads = self._heads(tx, [lane], limit)
        if not heads:
            return self._no_heads(tx, [lane])
        floor, terms = now * 1000, terms_of(heads[0][-1])
        claimed = [_claimed(head, floor, now, terms) for head in heads]
        if len(heads) == 1:
            tx.execute(SQL["insert_running"], claimed[0][:9])
            tx.execute(SQL["unready"], heads[0][:4])
        else:
            tx.execute(SQL["run_heads"], (lane, limit, floor, *terms[:2], now, *terms[2:]))
            tx.execute(SQL["unready_upto"], heads[-1][:4])
        return claimed

    def _is_late(self, tx: Tx, lane: int, heads: Sequence[Row], now: Millis) -> bool:
        due = heads[0][-2] if heads else self.glance(tx, lane).next_due
        return due is not None and due <= now

    def _no_heads(self, tx: Tx, lanes: Sequence[int]) -> list[Claimed]:
        """Nothing to claim; forget what is filed without a job: somebody has deleted it."""
        for lane in lanes:
            if self.glance(tx, lane).ready is not None:
                tx.execute(SQL["drop_orphans"], (lane,))
        return []

    def _heads(self, tx: Tx, lanes: Sequence[int], limit: int) -> list[Row]:
        if len(lanes) == 1:
            return tx.execute(SQL["heads"], (lanes[0], limit)).fetchall()  # type: ignore[no-any-return]
        each = (tx.execute(SQL["heads"], (lane, limit)).fetchall() for lane in lanes)
        return heapq.nsmallest(limit, (row for rows in each for row in rows), key=_start_order)

    # ---- the end of an attempt ------------------------------------------------------------------

    def complete(
        self, tx: Tx, held: Held, now: Millis, result: str | None, message: str | None
    ) -> bool:
        id, _, attempt, fence, holder, worker, claimed, _ = held
        values = (id, claimed, now, attempt, fence, worker, holder, result, message)
        return bool(tx.execute(SQL["complete"], values).rowcount)

    def complete_many(
        self, tx: Tx, holder: int, fences: Mapping[int, int], now: Millis
    ) -> set[int]:
        values = (json.dumps(fences), now, holder)
        return {row[0] for row in tx.execute(SQL["complete_many"], values).fetchall()}

    def settle(self, tx: Tx, settlement: Settlement) -> bool:
        """Carry out a verdict; False, and nothing done, if the lease is no longer the latest."""
        s, held = settlement, settlement.held
        if not tx.execute(SQL["end_lease"], (held.id, held.fence, held.holder)).rowcount:
            return False
        lane, priority, due = tx.execute(SQL["job_policy"], (held.id,)).fetchone()[:3]
        due = due if s.due is None else s.due
        values = (held.id, s.state, held.claimed, s.now, s.attempts, held.fence, held.worker)
        tx.execute(SQL["end_attempt"], (*values, s.result, s.error, due, s.base, s.message))
        if s.state == QUEUED and s.due is not None and due > s.now:
            tx.execute(SQL["insert_sched"], (lane, priority, due, held.id, s.base))
        elif s.state == QUEUED:  # what is only given back was due, whatever the clock says by now
            tx.execute(SQL["insert_ready"], (lane, priority, due, held.id))
        self._tell(tx, s)
        return True

    def _tell(self, tx: Tx, s: Settlement) -> None:
        told = [(kind, s.now, reason, detail) for kind, reason, detail in s.events]
        self._write_events(tx, s.held, told)

    def _write_events(
        self, tx: Tx, held: Held, told: list[tuple[str, Millis, str | None, str | None]]
    ) -> None:
        """The claim is written out with the first event that follows it, and not before."""
        n, kind = tx.execute(SQL["last_event"], (held.id,)).fetchone() or (1, "enqueued")
        if kind not in OPEN:
            told = [("claimed", held.claimed, None, None), *told]
        rows = [
            (held.id, n + i, kind, at, held.attempt, held.worker, reason, detail)
            for i, (kind, at, reason, detail) in enumerate(told, start=1)
        ]
        tx.executemany(SQL["insert_event"], rows)

    def progress(self, tx: Tx, held: Held, now: Millis, fraction: str, message: str | None) -> bool:
        """Tell how far an attempt is; its last word replaces the one before."""
        if not tx.execute(SQL["holds"], (held.id, held.fence, held.holder)).fetchone():
            return False
        n, kind = tx.execute(SQL["last_event"], (held.id,)).fetchone() or (1, "enqueued")
        if kind == "progress":
            tx.execute(SQL["change_event"], (held.id, n, now, fraction, message))
        else:
            self._write_events(tx, held, [("progress", now, fraction, message)])
        return True

    def forget(self, tx: Tx, held: Held) -> None:
        """End a lease without a job."""
        tx.execute(SQL["end_lease"], (held.id, held.fence, held.holder))

    def policy(self, tx: Tx, job: int) -> Row | None:
        return tx.execute(SQL["job_policy"], (job,)).fetchone()  # type: ignore[no-any-return]

    # ---- leases ---------------------------------------------------------------------------------

    def extend(self, tx: Tx, held: Held, until: Millis) -> bool:
        values = (held.id, held.fence, held.holder, until)
        return bool(tx.execute(SQL["extend_lease"], values).rowcount)

    def hand_over(self, tx: Tx, held: Held, holder: int) -> bool:
        values = (held.id, held.fence, held.holder, holder)
        return bool(tx.execute(SQL["hand_over"], values).rowcount)

    def holders(self, tx: Tx) -> list[Holder]:
        return [Holder(*row) for row in tx.execute(SQL["holders"]).fetchall()]

    def leases_of(self, tx: Tx, holder: int | None) -> list[Held]:
        """The leases of one holder; of None, all."""
        return [Held(*row) for row in tx.execute(SQL["leases_of"], (holder,)).fetchall()]

    def silent(self, tx: Tx, awake: Millis, boot: str) -> list[Held]:
        return [Held(*row) for row in tx.execute(SQL["silent_leases"], (awake, boot)).fetchall()]

    def first_expiry(self, tx: Tx, boot: str) -> Millis | None:
        return tx.execute(SQL["first_expiry"], (boot,)).fetchone()[0]  # type: ignore[no-any-return]

    # ---- looking --------------------------------------------------------------------------------

    def get(self, tx: Tx, job: int) -> Row | None:
        return tx.execute(SQL["job"], (job,)).fetchone()  # type: ignore[no-any-return]

    def state(self, tx: Tx, job: int) -> int | None:
        row = tx.execute(SQL["job_state"], (job,)).fetchone()
        return None if row is None else int(row[0])

    def running(self, tx: Tx, job: int) -> bool:
        return tx.execute(SQL["is_running"], (job,)).fetchone() is not None

    def find(
        self,
        tx: Tx,
        lanes: Sequence[int],
        queue: int | None,
        state: str | None,
        limit: int,
        now: Millis,
    ) -> list[Row]:
        """Rows as of get(): running, then waiting in start order, then ended, newest first."""
        ids: list[int] = []
        if state in (None, "running"):
            ids += [row[0] for row in tx.execute(SQL["running_ids"], (queue, limit)).fetchall()]
        if state in (None, "queued"):
            ids += self._due_ids(tx, lanes, limit - len(ids), now)
            ids += self._later_ids(tx, lanes, limit - len(ids), now)
        if state in ("failed", "cancelled"):
            ids += self._dead(tx, lanes, STATES.index(state), limit)
        elif state in (None, "done"):
            number = None if state is None else DONE
            found = tx.execute(SQL["ended_ids"], (number, queue, limit - len(ids))).fetchall()
            ids += [row[0] for row in found]
        rows = (self.get(tx, id) for id in ids)
        return [row for row in rows if row is not None]

    def _due_ids(self, tx: Tx, lanes: Sequence[int], limit: int, now: Millis) -> list[int]:
        """Start order, those that the next claim will file under ready included."""
        keys: list[Row] = []
        for lane in lanes:
            keys += tx.execute(SQL["ready_keys"], (lane, limit)).fetchall()
            keys += [row[1:] for row in tx.execute(SQL["due_jobs"], (lane, now, SLICE)).fetchall()]
        return [id for _, _, id in heapq.nsmallest(limit, keys)]

    def _later_ids(self, tx: Tx, lanes: Sequence[int], limit: int, now: Millis) -> list[int]:
        each = (tx.execute(SQL["later_keys"], (lane, now, limit)).fetchall() for lane in lanes)
        return [id for _, _, id in heapq.nsmallest(limit, (key for keys in each for key in keys))]

    def _dead(self, tx: Tx, lanes: Sequence[int], state: int, limit: int) -> list[int]:
        each = [tx.execute(SQL["dead_keys"], (lane, state, limit)).fetchall() for lane in lanes]
        return [id for _, id in heapq.nlargest(limit, (key for keys in each for key in keys))]

    def counts(self, tx: Tx, lanes: Sequence[int], now: Millis) -> dict[int, dict[str, int]]:
        """How many jobs of each lane are in each state, in one pass over those that have ended.

        `scheduled` are those of queued that are for later.
        """
        total = {lane: dict.fromkeys(COUNTED, 0) for lane in lanes}
        for lane, counts in total.items():
            due, counts["scheduled"] = self.waiting(tx, lane, now)
            counts["queued"] = due + counts["scheduled"]
        ended = tx.execute(SQL["count_ended"]).fetchall()
        running = tx.execute(SQL["count_running"]).fetchall()
        for lane, state, count in ended + running:
            if lane in total:
                total[lane][STATES[state]] += count
        return total

    def waiting(self, tx: Tx, lane: int, now: Millis) -> tuple[int, int]:
        """How many of a lane are due, and how many are for later. Looks at no other job."""
        waiting, later = tx.execute(SQL["count_sched"], (lane, now)).fetchone()
        ready = tx.execute(SQL["count_ready"], (lane,)).fetchone()[0]
        return ready + waiting - later, later

    def record(self, tx: Tx, job: int) -> Row | None:
        return tx.execute(SQL["record"], (job,)).fetchone()  # type: ignore[no-any-return]

    def events(self, tx: Tx, job: int) -> list[Row]:
        return tx.execute(SQL["events"], (job,)).fetchall()  # type: ignore[no-any-return]

    # ---- clocks ---------------------------------------------------------------------------------

    def rebase(self, tx: Tx, base: Millis, wall: Millis) -> int:
        """The wall clock was set back: delays asked for before that must not grow by it."""
        rows = tx.execute(SQL["sched_behind"], (base, wall)).fetchall()
        moved = []
        for lane, priority, due, id, old, asked in rows:
            later = min(due + min(base - old, 0), wall + due - asked)
            moved.append((lane, priority, later, id, base, later - (due - asked)))
        tx.executemany(SQL["unsched"], [row[:4] for row in rows])
        tx.executemany(SQL["insert_sched"], [row[:5] for row in moved])
        tx.executemany(
            SQL["rebase_job"], [(id, due, base, at) for _, _, due, id, base, at in moved]
        )
        return len(rows)


def _start_order(head: Row) -> tuple[int, int, int]:
    return head[1], head[2], head[3]


def _claimed(head: Row, floor: int, now: Millis, terms: Terms) -> Claimed:
    lane, _, _, id, attempts, fence, timeout, payload, _, _ = head
    holder, worker, lease, until = terms
    fence = max(fence + 1, floor)
    return Claimed(
        id, lane, attempts + 1, fence, holder, worker, now, lease, until, timeout, payload
    )


def _values(job: NewJob, now: Millis, base: Millis) -> tuple[object, ...]:
    asked = base if job.relative else None
    return (job.lane, job.priority, job.due, asked, now, job.max_attempts, job.timeout, job.payload)
