"""Deliberate faults in the rules of keys, parents, expiry, holds, revival, editing, forgetting."""

from __future__ import annotations

from typing import Any

from slothqueue import control, models, pruning, settling
from slothqueue.jobs import Jobs
from slothqueue.models import CANCELLED, DONE, FAILED, Ending, Verdict
from slothqueue.storage.sqlite_pruning import SqlitePruning
from slothqueue.storage.sqlite_waits import SQL, SqliteWaits

from .faults import FAULTS, Patch, fault, judge, replace, rewrite

__all__ = ["FAULTS"]

# ---- keys -----------------------------------------------------------------------------------


@fault("a key stays taken when its job has failed")
def _(patch: Patch) -> None:
    replace(patch, "job_with_key", "state = 0", "state in (0, 3)")


@fault("a key stays taken when its job is done")
def _(patch: Patch) -> None:
    replace(patch, "job_with_key", "state = 0", "state in (0, 2)")


@fault("a key stays taken when its job is cancelled")
def _(patch: Patch) -> None:
    replace(patch, "job_with_key", "state = 0", "state in (0, 4)")


@fault("a key is free while its job runs")
def _(patch: Patch) -> None:
    rewrite(patch, "create unique index _sloth_job_key", "create index _sloth_job_key")
    running = "and id not in (select id from _sloth_running)"
    replace(patch, "job_with_key", "state = 0", f"state = 0 {running}")


@fault("a key is free while its job is held")
def _(patch: Patch) -> None:
    rewrite(patch, "create unique index _sloth_job_key", "create index _sloth_job_key")
    replace(patch, "job_with_key", "state = 0", "state = 0 and parked & 1 = 0")


@fault("a running job is replaced")
def _(patch: Patch) -> None:
    right = Jobs._meet

    def wrong(self: Any, tx: Any, there: int, job: Any, now: int, asked: int, wish: str) -> int:
        if wish != "replace":
            return right(self, tx, there, job, now, asked, wish)
        known = self.store.waits.known(tx, there)
        return int(self.store.waits.replace(tx, known, job, now, asked))

    patch.setattr(Jobs, "_meet", wrong)


@fault("a key in conflict is ignored")
def _(patch: Patch) -> None:
    patch.setattr(Jobs, "_meet", lambda self, tx, there, *rest: there)


@fault("who replaces a job does not take its children")
def _(patch: Patch) -> None:
    replace(patch, "move_edges", "parent = ?1", "parent = -?1")


@fault("what replaces a job may wait for its children")
def _(patch: Patch) -> None:
    patch.setattr(SqliteWaits, "_refuse_circle", lambda *given: None)


@fault("a revived job takes a key that another has")
def _(patch: Patch) -> None:
    rewrite(patch, "create unique index _sloth_job_key", "create index _sloth_job_key")
    patch.setattr(control.Control, "_refuse_taken", lambda self, tx, jobs: None)


# ---- parents --------------------------------------------------------------------------------


@fault("a child is free when the first of its parents has ended")
def _(patch: Patch) -> None:
    replace(patch, "free_children", "w.ended = 0 and", "w.ended = 9 and")


@fault("a child of a failed parent runs")
def _(patch: Patch) -> None:
    replace(patch, "doomed_children", "x.after_failed = 0", "x.after_failed = 9")


@fault("a child that should run anyway is cancelled")
def _(patch: Patch) -> None:
    replace(patch, "doomed_children", "x.after_failed = 0", "x.after_failed < 9")


@fault("a child of a parent that has ended badly before runs")
def _(patch: Patch) -> None:
    right = SqliteWaits._add_parents

    def wrong(self: Any, tx: Any, id: int, parents: Any, after_failed: int, now: int) -> None:
        right(self, tx, id, parents, 1, now)

    patch.setattr(SqliteWaits, "_add_parents", wrong)


@fault("a parent that has ended before is waited for")
def _(patch: Patch) -> None:
    replace(patch, "parent_states", "e.value, j.state", "e.value, j.state * (j.state <> 2)")


@fault("grandchildren are not told")
def _(patch: Patch) -> None:
    right = SqliteWaits._tell_children
    patch.setattr(SqliteWaits, "_tell_children", lambda *given: right(*given) and [])


@fault("a child is let go though it is held")
def _(patch: Patch) -> None:
    replace(patch, "free_children", "j.parked, j.lane", "j.parked & 2, j.lane")


@fault("a child waits for nothing but its parents")
def _(patch: Patch) -> None:
    replace(patch, "free_children", "j.due, j.base, j.finished", "min(j.due, 0), j.base, j.due")


@fault("nobody tells the children of a deleted parent")
def _(patch: Patch) -> None:
    replace(patch, "gone_parents", "order by job", "where job < 0 order by job")


# ---- cancel ---------------------------------------------------------------------------------


@fault("an attempt of a cancelled job that fails is tried again")
def _(patch: Patch) -> None:
    right = settling._wishes

    def wrong(*given: Any) -> Any:
        wishes = right(*given)
        return wishes and wishes._replace(cancelled=None)

    patch.setattr(settling, "_wishes", wrong)


@fault("a cancelled attempt gives its number back")
def _(patch: Patch) -> None:
    def wrong(judged: Verdict, ending: Ending, *_: object) -> Verdict:
        unspent = judged.state == CANCELLED and ending.kind in ("release", "snooze")
        return judged._replace(spent=False) if unspent else judged

    judge(patch, wrong)


@fault("to cancel again changes by whom")
def _(patch: Patch) -> None:
    replace(patch, "asked_cancel", "order by cast(detail as integer), n", "order by n desc")
    patch.setattr(control.Control, "_cancel", _always_asks(control.Control._cancel))


def _always_asks(right: Any) -> Any:
    def wrong(self: Any, tx: Any, job: Any, now: int, who: str, grace: int) -> bool:
        if job.state == 1:
            self.store.waits.ask(tx, job.id, "cancel", now, who, str(grace))
        return bool(right(self, tx, job, now, who, grace))

    return wrong


@fault("who works on a cancelled job is not told")
def _(patch: Patch) -> None:
    patch.setattr(Jobs, "cancel_asked", lambda self, id: False)


# ---- hold -----------------------------------------------------------------------------------


@fault("a held job is claimed")
def _(patch: Patch) -> None:
    right = SqliteWaits.hold

    def wrong(self: Any, tx: Any, job: Any, now: int, who: str) -> None:
        right(self, tx, job, now, who)
        if not job.parked:
            self._file(tx, (job.lane, job.priority, job.due, job.id), job.base, now)

    patch.setattr(SqliteWaits, "hold", wrong)


@fault("a job that is let go is filed nowhere")
def _(patch: Patch) -> None:
    patch.setattr(SqliteWaits, "_file", lambda *given: None)


@fault("a moment that has come goes again")
def _(patch: Patch) -> None:
    replace(patch, "was_due", "max(finished, due)", "finished")


@fault("a delay grows while its job is held")
def _(patch: Patch) -> None:
    replace(patch, "parked_behind", "parked > 0", "parked > 9")


@fault("what dies in the middle is always tried again")
def _(patch: Patch) -> None:
    patch.setattr(models, "_was_interrupted", lambda ending: False)


@fault("what is silent counts as interrupted")
def _(patch: Patch) -> None:
    patch.setattr(models, "_was_interrupted", lambda ending: ending.kind == "reclaim")


# ---- expiry ---------------------------------------------------------------------------------


@fault("an expired job starts")
def _(patch: Patch) -> None:
    replace(patch, "expired", "e.at <= ?1", "e.at + 4000000 <= ?1")
    patch.setattr(SqliteWaits, "passes", _blind_to_time(SqliteWaits.passes))


def _blind_to_time(right: Any) -> Any:
    return lambda self, tx, id, key, now, taken: right(self, tx, id, key, 0, taken)


@fault("a job expires a moment too late")
def _(patch: Patch) -> None:
    replace(patch, "expired", "e.at <= ?1", "e.at < ?1")


@fault("a retry starts after its job has expired")
def _(patch: Patch) -> None:
    tried = "exists (select 1 from _sloth_job j where j.id = e.job and j.attempts > 0)"
    replace(patch, "expired", "e.at <= ?1", f"e.at <= ?1 and not {tried}")
    patch.setattr(SqliteWaits, "passes", _blind_to_time(SqliteWaits.passes))


@fault("what runs expires")
def _(patch: Patch) -> None:
    replace(patch, "expired", "not exists", "1 or not exists")


@fault("an attempt that ends after its job has expired waits for the rota")
def _(patch: Patch) -> None:
    right = settling._wishes

    def wrong(*given: Any) -> Any:
        wishes = right(*given)
        return wishes and wishes._replace(expired=False)

    patch.setattr(settling, "_wishes", wrong)


@fault("expiry grows when the clock is set back")
def _(patch: Patch) -> None:
    replace(patch, "expiry_behind", "x.base > ?1", "x.base > ?1 + 86400000")


@fault("a revived job does not expire any more")
def _(patch: Patch) -> None:
    patch.setattr(SqliteWaits, "_expire_again", lambda self, tx, id, *_: tx and None)


@fault("who expires with a parent is cancelled twice")
def _(patch: Patch) -> None:
    def wrong(self: Any, tx: Any, now: int, limit: int) -> int:
        ids = [row[0] for row in tx.execute(SQL["expired"], (now, limit)).fetchall()]
        return len([self.expire_one(tx, id, now) for id in ids])

    patch.setattr(SqliteWaits, "expire", wrong)


# ---- revive and edit ------------------------------------------------------------------------


@fault("a revived job has no fresh budget")
def _(patch: Patch) -> None:
    replace(patch, "revive_job", "max_attempts = ?3", "max_attempts = max_attempts + 0 * ?3")


@fault("a revived job repeats a token")
def _(patch: Patch) -> None:
    replace(patch, "revive_job", "set state = 0", "set state = 0, attempts = 0")


@fault("who is revived first waits for nobody who is revived after it")
def _(patch: Patch) -> None:
    right = SqliteWaits.revive

    def wrong(self: Any, tx: Any, jobs: Any, now: int, who: str) -> None:
        for job in jobs:
            right(self, tx, [job], now, who)

    patch.setattr(SqliteWaits, "revive", wrong)


@fault("a revived job keeps its old moment")
def _(patch: Patch) -> None:
    replace(patch, "revive_job", "due = ?2", "due = due + 0 * ?2")


@fault("a revived job does not wait for its parents")
def _(patch: Patch) -> None:
    replace(patch, "wait_again", "then 0 else 1", "then 1 else 1")


@fault("children are not revived with their parent")
def _(patch: Patch) -> None:
    patch.setattr(control.Control, "_descendants", lambda self, tx, job: [])


@fault("children that were cancelled by hand are revived too")
def _(patch: Patch) -> None:
    patch.setattr(control, "went_with", lambda row, parent: row[control.STATE] == CANCELLED)


@fault("what is done is revived")
def _(patch: Patch) -> None:
    patch.setattr(control, "FAILED", DONE)


@fault("an edited job keeps its place")
def _(patch: Patch) -> None:
    right = SqliteWaits.edit

    def wrong(self: Any, tx: Any, job: Any, edit: Any, *more: Any) -> None:
        right(self, tx, job, edit._replace(priority=job.priority), *more)

    patch.setattr(SqliteWaits, "edit", wrong)


@fault("a delay that was edited grows when the clock is set back")
def _(patch: Patch) -> None:
    right = SqliteWaits.edit

    def wrong(self: Any, tx: Any, job: Any, edit: Any, *more: Any) -> None:
        right(self, tx, job, edit._replace(base=None), *more)

    patch.setattr(SqliteWaits, "edit", wrong)


# ---- forget ---------------------------------------------------------------------------------


@fault("the highest id is forgotten")
def _(patch: Patch) -> None:
    patch.setattr(SqlitePruning, "highest", lambda self, tx: 1 << 62)


@fault("what failed is forgotten by policy")
def _(patch: Patch) -> None:
    patch.setattr(pruning, "CANCELLED", FAILED)


@fault("a parent is forgotten while a child waits")
def _(patch: Patch) -> None:
    replace(patch, "is_awaited", "c.state = 0", "c.state = 9")


@fault("it is forgotten a moment too late")
def _(patch: Patch) -> None:
    replace(patch, "ended_after", "j.finished", "j.finished + 1")


@fault("what has not ended is forgotten")
def _(patch: Patch) -> None:
    replace(patch, "ended_after", "j.id, j.state,", "j.id, max(j.state, 2),")
    replace(patch, "delete_ended", "state > 1", "state > -1")
