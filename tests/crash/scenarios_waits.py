"""Short programs about what keeps jobs waiting, killed at each of their statements.

Run by `scenarios.py`, as its own are.
"""

from __future__ import annotations

import functools
from typing import Any

from .support import EFFECTS, complete_with_effect, finish, rows
from .support_kills import Program, Stage, scenario

HOUR = 3600.0
DAY = 24 * HOUR
ANY = ("done", "failed", "cancelled")


def mail(stage: Stage, **options: Any) -> Any:
    return stage.sloth.queue("mail", **options)


def store(stage: Stage) -> None:
    with stage.sloth.transaction() as tx:
        tx.execute(EFFECTS)


def ready(stage: Stage) -> Any:
    """The store is open and its queue is known; from here every statement may be the last."""
    queue = mail(stage)
    stage.sloth.stats()
    stage.arm()
    return queue


def let_go_and_finish(stage: Stage) -> None:
    """A healthy program that lets go of everything that is held or paused."""
    stage.sloth.verbs.upkeep.run()  # which may hold some
    mail(stage).resume()
    for job in stage.sloth.jobs(state="queued"):
        if job.held:
            job.unhold()
    finish(stage.sloth, stage.clock)
    for job in stage.sloth.jobs(state="queued"):
        assert not job.held, job.why()


def states(stage: Stage, *ids: int) -> list[str]:
    return [stage.sloth.job(id).state for id in ids]


# ---- enqueue ------------------------------------------------------------------------------------


def a_parent(stage: Stage) -> None:
    store(stage)
    mail(stage).enqueue("parent")


@scenario(prepare=a_parent, rest=let_go_and_finish, ends=ANY)
def enqueue_with_everything(stage: Stage) -> None:
    queue = ready(stage)
    parent = stage.sloth.job(1)
    for options in (
        {"unique": "k"},
        {"unique": "k"},
        {"after": parent, "unique": "m", "on_interrupt": "fail"},
        {"expires": "1h", "hold": True},
        {"concurrency_key": ("g", 2), "delay": "1h"},
        {"after": [1, 2], "after_failed": "run", "hold": True, "expires": "3d", "unique": "n"},
    ):
        stage.tell("enqueued", queue.enqueue("child", **options).id)


def eleven_or_one(stage: Stage) -> None:
    assert len(stage.sloth.jobs()) in (1, 11)


@scenario(prepare=a_parent, rest=let_go_and_finish, look=eleven_or_one)
def enqueue_many_with_everything(stage: Stage) -> None:
    queue = ready(stage)
    jobs = queue.enqueue_many(
        list(range(10)), after=[1], expires="9d", concurrency_key="g", hold=True
    )
    for job in jobs:
        stage.tell("enqueued", job.id)


@scenario(prepare=a_parent)
def enqueue_a_family_in_a_transaction(stage: Stage) -> None:
    ready(stage)
    with stage.sloth.transaction() as tx:
        queue = tx.queue("mail")
        child = queue.enqueue("child", after=[1])
        grandchild = queue.enqueue("grandchild", after=child, unique="k")
    stage.tell("enqueued", child.id)
    stage.tell("enqueued", grandchild.id)


def a_bad_parent(stage: Stage) -> None:
    store(stage)
    mail(stage, max_attempts=1).enqueue("parent")
    mail(stage).claim().fail("no")


def cancelled_as_it_came(stage: Stage) -> None:
    assert {job.state for job in stage.sloth.jobs() if job.id > 1} <= {"cancelled"}


@scenario(prepare=a_bad_parent, ends=ANY, look=cancelled_as_it_came)
def enqueue_after_a_bad_parent(stage: Stage) -> None:
    queue = ready(stage)
    for _ in range(2):
        stage.tell("cancelled", queue.enqueue("child", after=[1], unique="k").id)


def one_with_a_key_and_a_child(stage: Stage) -> None:
    store(stage)
    job = mail(stage).enqueue("old", unique="k", concurrency_key="g")
    mail(stage).enqueue("child", after=job)


def replaced_or_not(stage: Stage) -> None:
    old, child = stage.sloth.job(1), stage.sloth.job(2)
    assert child.state == "done"
    if old.state == "cancelled":
        assert old.message == "it was replaced by job 3"
        assert child.parents == [3]
    else:
        assert (old.state, child.parents, len(stage.sloth.jobs())) == ("done", [1], 2)


@scenario(prepare=one_with_a_key_and_a_child, ends=ANY, look=replaced_or_not)
def replace(stage: Stage) -> None:
    queue = ready(stage)
    new = queue.enqueue("new", unique="k", on_conflict="replace", concurrency_key="g", expires="9d")
    stage.tell("enqueued", new.id)
    stage.tell("cancelled", 1)


# ---- hold, edit, pause --------------------------------------------------------------------------


def five_jobs(stage: Stage) -> None:
    store(stage)
    queue = mail(stage)
    queue.enqueue_many([1, 2, 3])
    queue.enqueue("later", delay="1h")
    queue.enqueue("child", after=[1])


@scenario(prepare=five_jobs, rest=let_go_and_finish)
def hold_and_unhold(stage: Stage) -> None:
    ready(stage)
    for id in (1, 4, 5):
        stage.sloth.job(id).hold()
    for id in (5, 1, 4):
        stage.sloth.job(id).unhold()
    stage.sloth.job(1).hold()


@scenario(prepare=five_jobs, rest=let_go_and_finish)
def edit(stage: Stage) -> None:
    ready(stage)
    stage.sloth.job(1).edit(priority=3, delay="2h")
    stage.sloth.job(4).edit(delay=0, payload="now")
    stage.sloth.job(5).edit(priority=1, max_attempts=9)


def the_clock_forward_and_the_pause_kept(stage: Stage) -> None:
    if "paused" in stage.confirmed("queue") and "resumes" not in stage.confirmed("queue"):
        assert mail(stage).paused
    let_go_and_finish(stage)


@scenario(prepare=five_jobs, rest=the_clock_forward_and_the_pause_kept)
def pause_and_resume(stage: Stage) -> None:
    queue = ready(stage)
    queue.pause()
    stage.tell("queue", "paused")
    assert queue.claim() is None
    stage.tell("queue", "resumes")
    queue.resume()


# ---- ends ---------------------------------------------------------------------------------------


def a_family(stage: Stage) -> None:
    """A diamond with a tail, and one who runs whatever happens."""
    store(stage)
    queue = mail(stage, max_attempts=1)
    top = queue.enqueue("top", concurrency_key="g")
    sides = [queue.enqueue(n, after=top, unique=f"side {n}", expires="9d") for n in (1, 2)]
    last = queue.enqueue("last", after=[*sides, top])
    queue.enqueue("tail", after=last, hold=True)
    queue.enqueue("whatever", after=[top, last], after_failed="run")


def all_alike(*ids: int) -> Program:
    """They ended together: all were cancelled, or none was."""

    def look(stage: Stage) -> None:
        assert len(set(states(stage, *ids))) == 1, states(stage, *ids)

    return look


@scenario(prepare=a_family, rest=let_go_and_finish, ends=ANY, look=all_alike(1, 2, 3, 4, 5))
def cancel_a_family(stage: Stage) -> None:
    ready(stage)
    stage.sloth.job(1).cancel("enough")
    for id in range(1, 6):
        stage.tell("cancelled", id)


@scenario(prepare=a_family, rest=let_go_and_finish, ends=ANY)
def end_a_family_well(stage: Stage) -> None:
    queue = ready(stage)
    while lease := queue.claim():
        complete_with_effect(stage.sloth, lease)
        stage.tell("done", lease.id)


def failed_with_all(stage: Stage) -> None:
    """Whoever dies in the middle has spent its only attempt, too."""
    assert states(stage, 1, 2, 3, 4, 5) in (["failed", *["cancelled"] * 4], ["done"] * 5)


@scenario(prepare=a_family, rest=let_go_and_finish, ends=ANY, look=failed_with_all)
def end_a_family_badly(stage: Stage) -> None:
    lease = ready(stage).claim()
    assert lease is not None
    lease.fail("no")
    stage.tell("failed", 1)
    for id in range(2, 6):
        stage.tell("cancelled", id)


def a_family_that_failed(stage: Stage) -> None:
    a_family(stage)
    mail(stage).claim().fail("no")
    mail(stage).claim().release()


def back_together(stage: Stage) -> None:
    assert states(stage, 1, 2, 3, 4, 5) in (["failed", *["cancelled"] * 4], ["done"] * 5)
    if 1 in stage.confirmed("revived"):
        assert states(stage, 1) == ["done"]


@scenario(prepare=a_family_that_failed, rest=let_go_and_finish, ends=ANY, look=back_together)
def revive_a_family(stage: Stage) -> None:
    ready(stage)
    stage.sloth.job(1).revive(children=True)
    stage.tell("revived", 1)


def family_that_expires(stage: Stage) -> None:
    store(stage)
    queue = mail(stage)
    for options in ({}, {"hold": True}, {"delay": "9d"}, {"concurrency_key": "g"}):
        job = queue.enqueue("late", expires="1h", **options)
        queue.enqueue("child", after=job)
    queue.enqueue("whatever", after=[1, 3, 5], after_failed="run")


def all_expired(stage: Stage) -> None:
    assert set(states(stage, *range(1, 9))) == {"cancelled"}
    assert states(stage, 9) == ["done"]


@scenario(prepare=family_that_expires, ahead=2 * HOUR, ends=ANY, look=all_expired)
def expire(stage: Stage) -> None:
    queue = ready(stage)
    lease = queue.claim()
    assert lease is not None
    assert lease.id == 9
    complete_with_effect(stage.sloth, lease)
    stage.tell("done", 9)


@scenario(prepare=family_that_expires, ahead=2 * HOUR, ends=ANY, look=all_expired)
def expire_while_claiming(stage: Stage) -> None:
    """The claim meets them before the rota does."""
    ready(stage)
    lane = stage.sloth.verbs.lanes.find("mail", 0)
    assert lane is not None
    assert stage.sloth.verbs._claim(lane, 9) == []


def parents_that_somebody_deletes(stage: Stage) -> None:
    a_family(stage)
    mail(stage).enqueue("another", unique="another")
    mail(stage).enqueue("its child", after=[7])
    rows(stage.path, "delete from _sloth_job where id in (1, 7)")


def told_of_the_deleted(stage: Stage) -> None:
    assert set(states(stage, 2, 3, 4, 5, 8)) == {"cancelled"}
    assert rows(stage.path, "select * from _sloth_gone") == []


@scenario(
    prepare=parents_that_somebody_deletes,
    rest=let_go_and_finish,
    ends=ANY,
    look=told_of_the_deleted,
)
def meet_the_deleted(stage: Stage) -> None:
    ready(stage)
    stage.sloth.verbs.upkeep.run()


# ---- asked of what runs -------------------------------------------------------------------------


def _ask(stage: Stage, job: int, kind: str, tx: Any) -> None:
    stage.sloth.store.waits.ask(tx, job, kind, stage.clock.wall(), "somebody", "text")


def _take_ask(stage: Stage, n: int, tx: Any) -> None:
    stage.sloth.store.waits.take_ask(tx, n)


@scenario(prepare=five_jobs, rest=let_go_and_finish, ends=ANY)
def ask_and_answer(stage: Stage) -> None:
    queue = ready(stage)
    one, two, three = queue.claim_many(3)
    one.job.cancel("enough", grace=5)
    one.job.cancel("sooner", grace=1)
    store, me = stage.sloth.store, stage.sloth.presence.id
    for kind in ("send", "eof"):
        store.write(functools.partial(_ask, stage, two.id, kind))
    asks = store.read(lambda tx: store.waits.asks_of(tx, me))
    for n in [ask.n for ask in asks if ask.kind != "cancel"]:
        store.write(functools.partial(_take_ask, stage, n))
    two.release()
    one.fail("stopped")
    stage.tell("cancelled", one.id)
    three.job.cancel()
    complete_with_effect(stage.sloth, three)
    stage.tell("done", three.id)


def claimed_by_one_who_dies(stage: Stage) -> None:
    store(stage)
    queue = mail(stage)
    for wish in ("retry", "hold", "fail", "retry"):
        queue.enqueue(wish, on_interrupt=wish, concurrency_key=(wish, 1))
    assert len(queue.claim_many(9)) == 3


def as_was_wished(stage: Stage) -> None:
    assert states(stage, 1, 2, 3, 4) == ["done", "done", "failed", "done"]
    kinds = [event.kind for event in stage.sloth.job(2).events()]
    assert kinds[:4] == ["enqueued", "claimed", "reclaimed", "held"], kinds


@scenario(prepare=claimed_by_one_who_dies, dies=True, rest=let_go_and_finish, look=as_was_wished)
def take_back_as_was_wished(stage: Stage) -> None:
    ready(stage)
    stage.sloth.verbs.upkeep.run()


@scenario(prepare=claimed_by_one_who_dies, dies=True, rest=let_go_and_finish, ends=ANY)
def cancel_what_the_dead_hold(stage: Stage) -> None:
    ready(stage)
    for id in (1, 2, 3):
        stage.sloth.job(id).cancel("enough")
        if stage.sloth.job(id).state == "cancelled":
            stage.tell("cancelled", id)


# ---- limits -------------------------------------------------------------------------------------


def some_of_a_key(stage: Stage) -> None:
    store(stage)
    queue = mail(stage)
    queue.enqueue_many([1, 2, 3], concurrency_key="g")
    queue.enqueue_many([4, 5], concurrency_key=("h", 2))
    queue.enqueue(6)


@scenario(prepare=some_of_a_key)
def keep_back_and_let_in(stage: Stage) -> None:
    queue = ready(stage)
    leases = queue.claim_many(2)
    while leases:
        for lease in leases:
            complete_with_effect(stage.sloth, lease)
            stage.tell("done", lease.id)
        leases = queue.claim_many(9)


@scenario(prepare=some_of_a_key, rest=let_go_and_finish, ends=ANY)
def disturb_those_that_are_kept_back(stage: Stage) -> None:
    queue = ready(stage)
    leases = queue.claim_many(9)
    stage.sloth.job(2).hold()
    stage.sloth.job(3).edit(priority=2)
    leases[0].snooze(5)
    stage.sloth.job(3).cancel()
    stage.tell("cancelled", 3)
    stage.sloth.job(2).unhold()


def limited(stage: Stage) -> None:
    store(stage)
    mail(stage, rate=(2, "1m"), concurrency=2).enqueue_many([1, 2, 3, 4, 5])


def never_too_many(stage: Stage) -> None:
    """However often a program was killed, no minute saw more than two starts."""
    starts = sorted(row[0] for row in rows(stage.path, "select at from starts"))
    for first, third in zip(starts, starts[2:]):
        assert third - first >= 60_000, starts


def at_the_rate(stage: Stage) -> None:
    """Claim on, noting down the starts of which the dead had told, too."""
    with stage.sloth.transaction() as tx:
        tx.execute("create table starts (at integer not null)")
        tx.execute("insert into starts select at from _sloth_start")
    queue = mail(stage)
    while queue.stats()["done"] < 5:
        for lease in queue.claim_many(9):
            with stage.sloth.transaction() as tx:
                tx.execute("insert into starts values (?)", (stage.clock.wall(),))
            complete_with_effect(stage.sloth, lease)
        stage.clock.advance(20)


@scenario(prepare=limited, rest=at_the_rate, look=never_too_many)
def start_at_a_rate(stage: Stage) -> None:
    queue = ready(stage)
    for lease in queue.claim_many(9):
        complete_with_effect(stage.sloth, lease)
        stage.tell("done", lease.id)
    assert queue.claim() is None


# ---- forgetting ---------------------------------------------------------------------------------


def long_ended(stage: Stage) -> None:
    a_family(stage)
    queue = mail(stage)
    while lease := queue.claim():
        complete_with_effect(stage.sloth, lease)
    stage.sloth.job(5).cancel()
    queue.enqueue("highest")


def nothing_is_left_of_the_pruned(stage: Stage) -> None:
    for table in ("extra", "event", "edge", "expiry"):
        owner = "child" if table == "edge" else "job"
        sql = f"select {owner} from _sloth_{table} where {owner} not in (select id from _sloth_job)"
        assert rows(stage.path, sql) == [], table


@scenario(
    prepare=long_ended,
    ahead=8 * DAY,
    rest=let_go_and_finish,
    ends=ANY,
    effects=False,
    look=nothing_is_left_of_the_pruned,
)
def prune(stage: Stage) -> None:
    ready(stage)
    for id, _ in stage.sloth.pruned():
        stage.tell("pruned", id)
    stage.sloth.prune(0)
