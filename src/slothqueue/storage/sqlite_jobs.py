"""The job verbs on SQLite: narrow index-organized tables beside a table of records.

The shape was chosen by measurement, see docs/design.md.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Mapping, Sequence

from ..clock import Millis
from ..models import (
    ASKED,
    BLOCKED,
    COUNTED,
    DONE,
    GATED,
    GATED_OUT,
    HELD,
    QUEUED,
    STATES,
    NewJob,
)
from .base import Held, Holder, Row, Settlement, Standing, Tx
from .sqlite_claims import SLICE, SqliteClaims, rank
from .statements import load

SQL = load("sqlite")

PLAIN_END = 2
"""Rows that change when a job ends from which nothing follows: its record, and its lease."""

OPEN = ("claimed", "progress")
"""If one of these is the last event of a job, the claim of its present attempt is written out."""

ANYTHING = HELD | BLOCKED | GATED_OUT
PARKED = {None: ANYTHING, "queued": ANYTHING, "held": HELD, "blocked": BLOCKED}
"""Of the jobs that are filed nowhere, those that are meant by a state."""


class SqliteJobs(SqliteClaims):
    """See `storage.base.JobVerbs`."""

    # ---- enqueue --------------------------------------------------------------------------------

    def add(self, tx: Tx, job: NewJob, now: Millis, base: Millis) -> int:
        if job.extra is not None or job.key is not None or job.env is not None:
            return self.waits.add(tx, job, now, base)
        return int(tx.execute(SQL["insert_job"], _values(job, now, base)).lastrowid)

    def add_many(
        self, tx: Tx, job: NewJob, payloads: Sequence[str], now: Millis, base: Millis
    ) -> list[int]:
        if job.extra is not None or job.env is not None:
            each = (job._replace(payload=payload) for payload in payloads)
            return [self.waits.add(tx, one, now, base) for one in each]
        first = tx.execute(SQL["last_job"]).fetchone()[0] + 1
        values = _values(job, now, base)[:-1]
        tx.execute(SQL["insert_jobs"], (*values, json.dumps(list(payloads)), first))
        return list(range(first, first + len(payloads)))

    # ---- the end of an attempt ------------------------------------------------------------------

    def complete(
        self, tx: Tx, held: Held, now: Millis, result: str | None, message: str | None
    ) -> bool:
        id, _, attempt, fence, holder, worker, claimed, _ = held
        values = (id, claimed, now, attempt, fence, worker, holder, result, message)
        before = tx.connection.total_changes
        if not tx.execute(SQL["complete"], values).rowcount:
            return False
        if tx.connection.total_changes - before > PLAIN_END:
            marks = tx.execute(SQL["marks"], (id,)).fetchone()[0]
            self.waits.ended(tx, id, DONE, marks, now)
        return True

    def complete_many(
        self, tx: Tx, holder: int, fences: Mapping[int, int], now: Millis
    ) -> set[int]:
        values = (json.dumps(fences), now, holder)
        rows = tx.execute(SQL["complete_many"], values).fetchall()
        for id, extras in rows:
            if extras:
                self.waits.ended(tx, id, DONE, extras, now)
        return {row[0] for row in rows}

    def settle(self, tx: Tx, settlement: Settlement) -> bool:
        """Carry out a verdict; False, and nothing done, if the lease is no longer the latest."""
        s, held = settlement, settlement.held
        if not tx.execute(SQL["end_lease"], (held.id, held.fence, held.holder)).rowcount:
            return False
        job = Standing(*tx.execute(SQL["job_policy"], (held.id,)).fetchone())
        due = job.due if s.due is None else s.due
        values = (held.id, s.state, held.claimed, s.now, s.attempts, held.fence, held.worker)
        tx.execute(SQL["end_attempt"], (*values, s.result, s.error, due, s.base, s.message))
        if s.state == QUEUED:
            self._put_back(tx, s, job, due)
        self._tell(tx, s)
        if s.state != QUEUED:
            self.waits.ended(tx, held.id, s.state, job.extras, s.now)
        return True

    def _put_back(self, tx: Tx, s: Settlement, job: Standing, due: Millis) -> None:
        id = s.held.id
        if s.hold is not None:
            self.waits.set_held(tx, id, s.now, s.hold)
            tx.execute(SQL["was_due"], (id,))
            tx.execute(SQL["park"], (id, HELD))
        elif s.due is not None and due > s.now:
            tx.execute(SQL["insert_sched"], (job.lane, job.priority, due, id, s.base))
        else:  # what is only given back was due, whatever the clock says by now
            tx.execute(SQL["insert_ready"], (job.lane, job.priority, due, id))
        if job.extras & ASKED:
            self.waits.drop_asks(tx, id)
        if job.extras & GATED:
            self.waits.admit(tx, str(self.waits.gate(tx, id)))

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

    def progress(self, tx: Tx, held: Held, now: Millis, part: str, message: str | None) -> bool:
        """Tell how far an attempt is; its last word replaces the one before."""
        if not tx.execute(SQL["holds"], (held.id, held.fence, held.holder)).fetchone():
            return False
        n, kind = tx.execute(SQL["last_event"], (held.id,)).fetchone() or (1, "enqueued")
        if kind == "progress":
            tx.execute(SQL["change_event"], (held.id, n, now, part, message))
        else:
            self._write_events(tx, held, [("progress", now, part, message)])
        return True

    def progress_of(self, tx: Tx, job: int) -> Row | None:
        """(fraction as `40%`, message) as it was told last."""
        return tx.execute(SQL["last_progress"], (job,)).fetchone()  # type: ignore[no-any-return]

    def forget(self, tx: Tx, held: Held) -> None:
        """End a lease without a job."""
        tx.execute(SQL["end_lease"], (held.id, held.fence, held.holder))

    def standing(self, tx: Tx, job: int) -> Standing | None:
        row = tx.execute(SQL["job_policy"], (job,)).fetchone()
        return row and Standing(*row)

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

    def states_of(self, tx: Tx, jobs: Sequence[int]) -> dict[int, int]:
        """How many of these are in each state."""
        return dict(tx.execute(SQL["states_of"], (json.dumps(jobs),)).fetchall())

    def live_of(self, tx: Tx, jobs: Sequence[int], limit: int) -> list[int]:
        """The first of these that have not ended."""
        rows = tx.execute(SQL["live_of"], (json.dumps(jobs), limit)).fetchall()
        return [row[0] for row in rows]

    def running(self, tx: Tx, job: int) -> bool:
        return tx.execute(SQL["is_running"], (job,)).fetchone() is not None

    def is_ready(self, tx: Tx, lane: int, priority: int, due: Millis, id: int) -> bool:
        """Whether the moment of this job has come, whatever the clock says by now."""
        return tx.execute(SQL["is_ready"], (lane, priority, due, id)).fetchone() is not None

    def first_of(self, tx: Tx, lane: int, now: Millis, ageing: Millis | None) -> int | None:
        """The id of the due job of this lane that starts first, by the rule of claims."""
        keys = [head[1:4] for head in self.first(tx, [lane], 1)]
        keys += [row[1:] for row in tx.execute(SQL["due_jobs"], (lane, now, SLICE)).fetchall()]
        return min(keys, key=lambda k: rank(k[0], k[1], k[2], ageing))[2] if keys else None

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
        if state in (None, "queued", "scheduled"):
            ids += self._later_ids(tx, lanes, limit - len(ids), now)
        if (why := PARKED.get(state)) is not None:
            ids += self._parked_ids(tx, lanes, why, limit - len(ids))
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

    def _parked_ids(self, tx: Tx, lanes: Sequence[int], why: int, limit: int) -> list[int]:
        each = (tx.execute(SQL["parked_keys"], (lane, limit, why)).fetchall() for lane in lanes)
        return [id for _, _, id in heapq.nsmallest(limit, (key for keys in each for key in keys))]

    def _dead(self, tx: Tx, lanes: Sequence[int], state: int, limit: int) -> list[int]:
        each = [tx.execute(SQL["dead_keys"], (lane, state, limit)).fetchall() for lane in lanes]
        return [id for _, id in heapq.nlargest(limit, (key for keys in each for key in keys))]

    def counts(self, tx: Tx, lanes: Sequence[int], now: Millis) -> dict[int, dict[str, int]]:
        """How many jobs of each lane are in each state, in one pass over those that have ended.

        Of those queued, `scheduled` are for later, `blocked` wait for others, `held` are held.
        """
        total = {lane: dict.fromkeys(COUNTED, 0) for lane in lanes}
        for lane, counts in total.items():
            due, counts["scheduled"] = self.waiting(tx, lane, now)
            counts["blocked"], counts["held"], parked = tx.execute(
                SQL["count_parked"], (lane,)
            ).fetchone()
            counts["queued"] = due + counts["scheduled"] + parked
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

    def any_gated(self, tx: Tx, lane: int) -> bool:
        """Whether a job of this lane waits for its concurrency key alone."""
        return tx.execute(SQL["any_gated"], (lane,)).fetchone() is not None

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
        self.waits.rebase(tx, base, wall)
        return len(rows)


def _values(job: NewJob, now: Millis, base: Millis) -> tuple[object, ...]:
    asked = base if job.relative else None
    return (job.lane, job.priority, job.due, asked, now, job.max_attempts, job.timeout, job.payload)
