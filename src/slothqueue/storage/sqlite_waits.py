"""What keeps queued jobs from running on SQLite: holds, parents, keys, expiry; and what ends bring.

A queued job is filed under ready or sched, or it is parked for a reason and filed nowhere. Whatever
changes that goes through `_unfile` and `_file`. What follows from the end of a job is done in the
transaction that ends it, by `ended`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..clock import Millis
from ..errors import JobNotFound, WrongState
from ..models import (
    ASKED,
    BLOCKED,
    CANCELLED,
    DONE,
    EXPIRED,
    EXPIRES,
    EXTRA,
    FAILED,
    GATED,
    GATED_OUT,
    HELD,
    PARENT,
    QUEUED,
    Extra,
    NewJob,
)
from .base import Edit, Known, Row, Tx
from .sqlite_limits import SqliteLimits
from .statements import load

SQL = load("sqlite")

Place = tuple[int, int, Millis, int]
"""Of a job that is filed: lane, priority, due, id."""

End = tuple[int, int, int]
"""A job that has ended: its id, its state, its extras."""


class SqliteWaits(SqliteLimits):
    """See `storage.base.WaitVerbs`."""

    # ---- enqueue --------------------------------------------------------------------------------

    def add(self, tx: Tx, job: NewJob, now: Millis, base: Millis, marks: int = 0) -> int:
        """Write a job that has something special about it. Raises JobNotFound for a parent.

        `marks` are more bits of its extras.
        """
        extra = job.extra or Extra()
        parents = self._parent_states(tx, extra.after)
        blocked = any(state == QUEUED for _, state in parents)
        parked = HELD * (extra.held is not None) | BLOCKED * blocked
        asked = base if job.relative else None
        env = None if job.env is None else self.keep_env(tx, job.env)
        values = (job.lane, job.priority, job.due, asked, now, job.max_attempts, job.timeout)
        more = (job.payload, parked, _extras(extra) | marks, job.key, env)
        id = int(tx.execute(SQL["insert_job_with"], (*values, *more)).lastrowid)
        if extra != Extra():
            self._add_extra(tx, id, extra, now)
        if parents:
            self._add_parents(tx, id, parents, extra.after_failed, now)
        return id

    def _add_extra(self, tx: Tx, id: int, extra: Extra, now: Millis) -> None:
        held = None if extra.held is None else now
        values = (extra.on_interrupt, extra.after_failed, extra.takes, extra.gate, extra.gate_limit)
        tx.execute(SQL["insert_extra"], (id, extra.expires, extra.base, *values, held, extra.held))
        if extra.expires is not None:
            tx.execute(SQL["insert_expiry"], (extra.expires, id))
        if extra.held is not None:
            self.note(tx, id, "held", now, extra.held)

    def _parent_states(self, tx: Tx, after: tuple[int, ...]) -> list[tuple[int, int]]:
        if not after:
            return []
        rows = tx.execute(SQL["parent_states"], (json.dumps(after),)).fetchall()
        if (missing := next((id for id, state in rows if state is None), None)) is not None:
            raise JobNotFound.of(missing)
        return rows  # type: ignore[no-any-return]

    def _add_parents(
        self, tx: Tx, id: int, parents: list[tuple[int, int]], after_failed: int, now: Millis
    ) -> None:
        """Tie the knots; a parent that has already ended badly cancels the child here and now."""
        edges = [(id, n, parent, int(state != QUEUED)) for n, (parent, state) in enumerate(parents)]
        tx.executemany(SQL["insert_edge"], edges)
        tx.execute(SQL["mark_parents"], (json.dumps([parent for parent, _ in parents]),))
        bad = next((one for one in parents if one[1] in (FAILED, CANCELLED)), None)
        if bad is not None and not after_failed:
            self.cancel(tx, self._sure(tx, id), now, _parent_ended(*bad))

    def replace(self, tx: Tx, old: Known, job: NewJob, now: Millis, base: Millis) -> int:
        """Write a job in the place of a queued one, for which others may wait. Raises WrongState
        if it would wait for those."""
        if job.extra is not None:
            self._refuse_circle(tx, old.id, job.extra.after)
        new = tx.execute(SQL["last_job"]).fetchone()[0] + 1
        moved = tx.execute(SQL["move_edges"], (old.id, new)).rowcount
        self.cancel(tx, old, now, f"it was replaced by job {new}")
        id = self.add(tx, job, now, base, PARENT if moved else 0)
        assert id == new
        return id

    def _refuse_circle(self, tx: Tx, old: int, after: tuple[int, ...]) -> None:
        row = tx.execute(SQL["waits_for"], (json.dumps(after), old)).fetchone() if after else None
        if row is not None:
            raise WrongState(
                f"job {old} cannot be replaced by one that runs after it, or after a job that "
                "waits for it: they would wait for each other"
            )

    # ---- filing ---------------------------------------------------------------------------------

    def known(self, tx: Tx, job: int) -> Known | None:
        row = tx.execute(SQL["known"], (job,)).fetchone()
        return row and Known(*row)

    def _sure(self, tx: Tx, job: int) -> Known:
        known = self.known(tx, job)
        assert known is not None
        return known

    def with_key(self, tx: Tx, key: str) -> int | None:
        """The live job that has this unique key."""
        row = tx.execute(SQL["job_with_key"], (key,)).fetchone()
        return row and int(row[0])

    def _file(self, tx: Tx, key: Place, base: Millis | None, now: Millis) -> None:
        """Under ready if its moment has come; it has too if it was past when it was asked for."""
        if key[2] > now:
            tx.execute(SQL["insert_sched"], (*key, base))
        else:
            tx.execute(SQL["insert_ready"], key)

    def _unfile(self, tx: Tx, job: Known) -> None:
        """Take it from wherever it is filed; another of its concurrency key takes its place."""
        key = (job.lane, job.priority, job.due, job.id)
        was_due = bool(job.parked & GATED_OUT)
        if was_due:
            tx.execute(SQL["drop_gated"], (job.gate, *key))
        elif not job.parked:
            was_due = bool(tx.execute(SQL["unready"], key).rowcount)
            if not was_due:
                tx.execute(SQL["unsched"], key)
        if was_due and job.due > job.asked:
            tx.execute(SQL["was_due"], (job.id,))
        if job.gate is not None and not job.parked:
            self.admit(tx, job.gate)

    def _park(self, tx: Tx, job: Known, parked: int, now: Millis) -> None:
        """Have it wait for these reasons; for none, it is filed."""
        tx.execute(SQL["park"], (job.id, parked))
        if not parked:
            place = (job.lane, job.priority, job.due, job.id)
            self._file(tx, place, job.base, max(now, job.asked))

    # ---- hold, cancel, revive -------------------------------------------------------------------

    def hold(self, tx: Tx, job: Known, now: Millis, who: str) -> None:
        self._unfile(tx, job)
        self.set_held(tx, job.id, now, who)
        tx.execute(SQL["park"], (job.id, (job.parked | HELD) & ~GATED_OUT))
        self.note(tx, job.id, "held", now, who)

    def set_held(self, tx: Tx, id: int, now: Millis | None, who: str | None) -> None:
        self._with_extra(tx, id)
        tx.execute(SQL["set_held"], (id, now, who))

    def _with_extra(self, tx: Tx, id: int) -> None:
        blank = (id, None, None, 0, 0, 0, None, None, None, None)
        tx.execute(SQL["insert_extra"], blank)
        tx.execute(SQL["mark"], (id, EXTRA))

    def unhold(self, tx: Tx, job: Known, now: Millis, who: str) -> None:
        tx.execute(SQL["set_held"], (job.id, None, None))
        self._park(tx, job, job.parked & ~HELD, now)
        self.note(tx, job.id, "unheld", now, who)

    def cancel(self, tx: Tx, job: Known, now: Millis, reason: str) -> None:
        """End a job that does not run."""
        self._cancel_one(tx, job, now, reason)
        self.ended(tx, job.id, CANCELLED, job.extras, now)

    def _cancel_one(self, tx: Tx, job: Known, now: Millis, reason: str) -> None:
        self._unfile(tx, job)
        tx.execute(SQL["end_queued"], (job.id, CANCELLED, now, reason))
        self.note(tx, job.id, "cancelled", now, reason)

    def revive(self, tx: Tx, jobs: Sequence[Known], now: Millis, who: str) -> None:
        """Put ended jobs back, with as many attempts as they had at first.

        All of them live again before any is filed, because some may wait for others.
        """
        for job in jobs:
            budget = (
                job.queue_max_attempts if job.max_attempts is None else job.max_attempts - job.spent
            )
            self._with_extra(tx, job.id)
            tx.execute(SQL["set_spent"], (job.id, job.attempts))
            tx.execute(SQL["revive_job"], (job.id, now, job.attempts + max(budget, 1)))
            self.note(tx, job.id, "revived", now, who)
        for job in jobs:
            self._file_revived(tx, job._replace(parked=0, due=now, base=None), now)

    def _file_revived(self, tx: Tx, job: Known, now: Millis) -> None:
        tx.execute(SQL["wait_again"], (job.id,))
        waits = tx.execute(SQL["still_waits"], (job.id,)).fetchone() is not None
        self._park(tx, job, BLOCKED if waits else 0, now)
        if job.expires is not None:
            self._expire_again(tx, job.id, job.expires, now)

    def _expire_again(self, tx: Tx, id: int, expires: Millis, now: Millis) -> None:
        """Whoever puts back what has expired wants it to run; before that it expires as asked."""
        if expires <= now:
            tx.execute(SQL["rebase_expiry"], (id, None, None))
            return
        tx.execute(SQL["insert_expiry"], (expires, id))
        tx.execute(SQL["mark"], (id, EXPIRES))

    # ---- change ---------------------------------------------------------------------------------

    def editable(self, tx: Tx, job: int) -> Edit:
        return Edit(*tx.execute(SQL["editable"], (job,)).fetchone())

    def edit(self, tx: Tx, job: Known, edit: Edit, now: Millis, who: str, what: str) -> None:
        """Give a job that does not run other columns, and file it by them."""
        queued = job.state == QUEUED
        if queued:
            self._unfile(tx, job)
            if edit.due == job.due:  # and has come, perhaps
                kept = self.editable(tx, job.id)
                edit = edit._replace(base=kept.base, asked=kept.asked)
        parked = job.parked & ~GATED_OUT
        values = (job.id, *edit[:-1], parked, edit.asked)
        tx.execute(SQL["edit_job"], values)
        if queued and not parked:
            self._file(tx, (*edit[:3], job.id), edit.base, max(now, edit.asked))
        self.note(tx, job.id, "edited", now, who, what)

    # ---- what follows from an end ---------------------------------------------------------------

    def ended(self, tx: Tx, id: int, state: int, extras: int, now: Millis) -> None:
        """Free its key, tell its children, and theirs in turn."""
        ends: list[End] = [(id, state, extras)] if extras else []
        while ends:
            id, state, extras = ends.pop()
            self._leave(tx, id, extras)
            if extras & PARENT:
                ends += self._tell_children(tx, id, state, now)

    def _leave(self, tx: Tx, id: int, extras: int) -> None:
        if extras & ASKED:
            self.drop_asks(tx, id)
        if not extras & (EXPIRES | GATED):
            return
        job = self._sure(tx, id)
        if job.expires is not None:
            tx.execute(SQL["drop_expiry"], (job.expires, id))
            tx.execute(SQL["unmark"], (id, EXPIRES))
        if job.gate is not None:
            self.admit(tx, job.gate)

    def _tell_children(self, tx: Tx, parent: int, state: int, now: Millis) -> list[End]:
        """Cancel those that cannot do without it, free the others; returns those that ended."""
        doomed = []
        if state != DONE:
            doomed = tx.execute(SQL["doomed_children"], (parent,)).fetchall()
        for id, _ in doomed:
            self._cancel_one(tx, self._sure(tx, id), now, _parent_ended(parent, state))
        free = tx.execute(SQL["free_children"], (parent,)).fetchall()
        tx.execute(SQL["end_edges"], (parent,))
        for id, parked, lane, priority, due, base, asked in free:
            parked &= ~BLOCKED
            tx.execute(SQL["park"], (id, parked))
            if not parked:
                self._file(tx, (lane, priority, due, id), base, max(now, asked))
        return [(id, CANCELLED, extras) for id, extras in doomed]

    def gone_parents(self, tx: Tx, limit: int) -> list[int]:
        """Parents that somebody deleted while others waited for them."""
        return [row[0] for row in tx.execute(SQL["gone_parents"], (limit,)).fetchall()]

    def meet_gone(self, tx: Tx, job: int, now: Millis) -> None:
        self.ended(tx, job, _DELETED, PARENT, now)
        tx.execute(SQL["forget_gone"], (job,))

    def parents(self, tx: Tx, job: int) -> list[int]:
        return [row[0] for row in tx.execute(SQL["parents_of"], (job,)).fetchall()]

    def children(self, tx: Tx, job: int) -> list[int]:
        return [row[0] for row in tx.execute(SQL["children_of"], (job,)).fetchall()]

    def results_of_parents(self, tx: Tx, job: int) -> list[Row] | None:
        """(id, state, result) of each parent, in order, if this job takes them as arguments."""
        known = self.known(tx, job)
        if known is None or not known.takes:
            return None
        return tx.execute(SQL["results_of_parents"], (job,)).fetchall()  # type: ignore[no-any-return]

    def pending(self, tx: Tx, job: int, limit: int) -> tuple[int, list[Row]]:
        """How many parents have not ended, and the first of them: (id, state, running id)."""
        count = tx.execute(SQL["count_pending_parents"], (job,)).fetchone()[0]
        return count, tx.execute(SQL["pending_parents"], (job, limit)).fetchall()

    # ---- expiry ---------------------------------------------------------------------------------

    def next_expiry(self, tx: Tx) -> Millis | None:
        """When the next job that does not run expires."""
        row = tx.execute(SQL["next_expiry"]).fetchone()
        return row and int(row[0])

    def expire(self, tx: Tx, now: Millis, limit: int) -> int:
        """Cancel jobs that have not started in time; how many there were."""
        ids = [row[0] for row in tx.execute(SQL["expired"], (now, limit)).fetchall()]
        for id in ids:
            if self._sure(tx, id).state == QUEUED:  # else it went with a parent, just now
                self.expire_one(tx, id, now)
        return len(ids)

    def expire_one(self, tx: Tx, id: int, now: Millis) -> None:
        self.cancel(tx, self._sure(tx, id), now, EXPIRED[1])

    # ---- limits ---------------------------------------------------------------------------------

    def gate(self, tx: Tx, job: int) -> str | None:
        """The concurrency key of a job."""
        return self._sure(tx, job).gate

    def passes(
        self, tx: Tx, id: int, key: tuple[int, ...], now: Millis, taken: dict[str, int]
    ) -> bool:
        """Whether this due job may start; else it is filed away. `key`: lane, priority, due.

        `taken` counts for each concurrency key the jobs that run, those of this claim included.
        """
        job = self._sure(tx, id)
        if job.extras & EXPIRES and job.expires is not None and job.expires <= now:
            self.expire_one(tx, id, now)
            return False
        if job.gate is None:
            return True
        if job.gate not in taken:
            taken[job.gate] = len(self.running_of_gate(tx, job.gate))
        if taken[job.gate] < (job.gate_limit or 1):
            taken[job.gate] += 1
            return True
        tx.execute(SQL["unready"], (*key, id))
        tx.execute(SQL["insert_gated"], (job.gate, *key, id))
        tx.execute(SQL["park"], (id, GATED_OUT))
        return False

    # ---- clocks and history ---------------------------------------------------------------------

    def rebase(self, tx: Tx, base: Millis, wall: Millis) -> None:
        """The wall clock was set back: what was asked for as a duration must not grow by it."""
        for job, expires, old, at in tx.execute(SQL["expiry_behind"], (base,)).fetchall():
            sooner = expires + base - old
            tx.execute(SQL["drop_expiry"], (at, job))
            tx.execute(SQL["insert_expiry"], (sooner, job))
            tx.execute(SQL["rebase_expiry"], (job, sooner, base))
        for job, due, old, asked in tx.execute(SQL["parked_behind"], (base, wall)).fetchall():
            later = min(due + min(base - old, 0), wall + due - asked)
            tx.execute(SQL["rebase_job"], (job, later, base, later - (due - asked)))
        tx.execute(SQL["future_starts"], (wall,))

    def note(
        self,
        tx: Tx,
        id: int,
        kind: str,
        now: Millis,
        reason: str | None,
        detail: str | None = None,
    ) -> None:
        """Write an event of a job that does not run."""
        n, _ = tx.execute(SQL["last_event"], (id,)).fetchone() or (1, "enqueued")
        tx.execute(SQL["insert_event"], (id, n + 1, kind, now, None, None, reason, detail))


_DELETED = 5  # no state of a job: there is none any more


def _extras(extra: Extra) -> int:
    bits = EXTRA if extra != Extra() else 0
    bits |= GATED if extra.gate is not None else 0
    return bits | (EXPIRES if extra.expires is not None else 0)


def _parent_ended(parent: int, state: int) -> str:
    how = {FAILED: "failed", CANCELLED: "was cancelled"}.get(state, "was deleted")
    return f"its parent {parent} {how}"
