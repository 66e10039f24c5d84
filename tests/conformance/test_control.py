"""What can be done to a job from outside: cancel, hold, revive, edit; and to a queue: pause."""

from __future__ import annotations

import contextlib
import re
import threading
from typing import Any

import pytest

from slothqueue import (
    JobCancelled,
    JobNotFound,
    LeaseLost,
    ManualClock,
    Sloth,
    WrongState,
    current_job,
)
from slothqueue.liveness import whoever

from .keeping import check_filing, rows, take
from .running import SOON, Aside, Gate, OpenSloth, idle
from .telling import kinds, reasons, story

# ---- cancel a job that waits --------------------------------------------------------------------


def waiting(sloth: Sloth) -> dict[str, Any]:
    """A job for each reason to wait."""
    queue = sloth.queue("q")
    first = queue.enqueue("first", priority=9, concurrency_key="g")
    take(sloth, first)
    gated = queue.enqueue("gated", concurrency_key="g")
    assert queue.claim() is None
    retried = queue.enqueue("retried", priority=8)
    take(sloth, retried).fail("no")
    return {
        "queued": queue.enqueue("queued"),
        "scheduled": queue.enqueue("scheduled", delay="1h"),
        "held": queue.enqueue("held", hold=True),
        "blocked": queue.enqueue("blocked", after=first),
        "held and blocked": queue.enqueue("both", after=first, hold=True),
        "gated": gated,
        "retried": retried,
    }


WAITS = ["queued", "scheduled", "held", "blocked", "held and blocked", "gated", "retried"]


@pytest.mark.parametrize("wait", WAITS)
def test_a_job_that_waits_is_cancelled_at_once_and_its_history_says_by_whom(
    sloth: Sloth, wait: str
):
    job = waiting(sloth)[wait]
    assert job.cancel("not needed").state == "cancelled"
    check_filing(sloth)
    told = f"by {whoever()}: not needed"
    assert (job.refresh().message, reasons(job, "cancelled")) == (told, [told])
    assert not job.refresh().held
    with pytest.raises(JobCancelled, match="not needed"):
        job.result(timeout=0)
    again = job.cancel("again")
    assert (again.message, kinds(job).count("cancelled")) == (told, 1)


@pytest.mark.parametrize("end", ["complete", "discard", "cancel"])
def test_to_cancel_what_has_ended_changes_nothing(sloth: Sloth, end: str):
    job = sloth.queue("q").enqueue(1)
    if end == "cancel":
        job.cancel()
    else:
        lease = take(sloth, job)
        lease.complete() if end == "complete" else lease.discard("no")
    before = (story(job), job.refresh().state)
    job.cancel("too late")
    assert (story(job), job.refresh().state) == before


def test_an_unknown_id_is_said_to_be_unknown_and_nothing_is_remembered(sloth: Sloth):
    job = sloth.queue("q").enqueue(1)
    other = sloth.queue("q").enqueue(2)
    rows(sloth, "delete from _sloth_job where id = ?", other.id)
    for act in (other.cancel, other.hold, other.unhold, other.revive, other.edit, other.why):
        with pytest.raises(JobNotFound, match=f"no job {other.id}"):
            act()
    with pytest.raises(JobNotFound):
        other.send("text")
    again = sloth.queue("q").enqueue(3)
    assert again.id == other.id
    assert rows(sloth, "select * from _sloth_ask") == []
    for one in (job, again):
        take(sloth, one).complete()


@pytest.mark.parametrize("grace", [-1, "soon", None, float("nan"), True])
def test_a_grace_that_makes_no_sense_is_refused(sloth: Sloth, grace: Any):
    job = sloth.queue("q").enqueue(1)
    with pytest.raises(ValueError, match="grace"):
        job.cancel(grace=grace)
    assert job.refresh().state == "queued"


# ---- cancel a job that runs ---------------------------------------------------------------------


@pytest.mark.parametrize("how", ["fail", "retry", "snooze", "release", "discard"])
def test_who_works_by_hand_sees_it_and_ends_the_job_however_it_gives_up(sloth: Sloth, how: str):
    job = sloth.queue("q").enqueue(1)
    child = sloth.queue("q").enqueue(2, after=job)
    lease = take(sloth, job)
    assert not lease.stopping
    job.cancel("enough")
    job.cancel("more than enough")
    assert (lease.stopping, job.refresh().state) == (True, "running")
    {
        "fail": lambda: lease.fail("no"),
        "retry": lambda: lease.retry(0),
        "snooze": lambda: lease.snooze(60),
        "release": lease.release,
        "discard": lambda: lease.discard("no"),
    }[how]()
    told = f"by {whoever()}: enough"
    assert (job.refresh().state, job.refresh().message) == ("cancelled", told)
    assert kinds(job) == ["enqueued", "claimed", "cancelled"]
    assert job.refresh().attempts == 1
    assert child.refresh().state == "cancelled"
    assert rows(sloth, "select * from _sloth_ask") == []
    check_filing(sloth)


def test_who_completes_a_cancelled_job_has_done_it(sloth: Sloth):
    job = sloth.queue("q").enqueue(1)
    lease = take(sloth, job)
    job.cancel()
    lease.complete("done after all")
    assert job.result(timeout=0) == "done after all"
    assert rows(sloth, "select * from _sloth_ask") == []


def test_a_cancelled_job_whose_holder_dies_is_not_tried_again(open_sloth: OpenSloth):
    dead, sloth = open_sloth(), open_sloth()
    job = sloth.queue("q").enqueue(1)
    take(dead, job)
    job.cancel("enough")
    dead.close()
    assert sloth.queue("q").claim() is None
    assert job.refresh().state == "cancelled"
    assert job.events()[-1].detail is not None, "how it ended"
    check_filing(sloth)


def test_a_job_that_is_cancelled_when_its_holder_is_dead_already_ends_at_once(
    open_sloth: OpenSloth,
):
    dead, sloth = open_sloth(), open_sloth()
    job = sloth.queue("q").enqueue(1)
    take(dead, job)
    dead.close()
    assert job.cancel().state == "cancelled"


def test_a_silent_holder_of_a_cancelled_job_loses_it(sloth: Sloth, clock: ManualClock):
    job = sloth.queue("q").enqueue(1)
    lease = take(sloth, job)
    job.cancel()
    clock.advance(61)
    assert sloth.queue("q").claim() is None
    assert job.refresh().state == "cancelled"
    with pytest.raises(LeaseLost):
        lease.complete()


def test_what_is_asked_of_one_attempt_is_not_asked_of_the_next(sloth: Sloth):
    job = sloth.queue("q").enqueue(1)
    lease = take(sloth, job)
    sloth.store.write(lambda tx: sloth.store.waits.ask(tx, job.id, "send", 0, "by me", "text"))
    lease.release()
    assert rows(sloth, "select * from _sloth_ask") == []
    job.cancel()
    job.revive()
    assert not take(sloth, job).stopping


def test_a_function_in_a_thread_is_told_and_may_end_as_it_likes(
    sloth: Sloth, gate: Gate, aside: Aside
):
    @sloth.task()
    def work() -> str:
        gate.entered.release()
        while not current_job().stopping:
            gate.opened.wait(0.01)
        return "stopped"

    job = work.enqueue()
    worker = aside(lambda: idle(sloth))
    gate.wait_for()
    job.cancel("enough")
    assert worker.value() == 1
    assert job.refresh().state in ("done", "cancelled")
    assert rows(sloth, "select * from _sloth_ask") == []


def test_a_coroutine_is_told_and_may_end_as_it_likes(sloth: Sloth, gate: Gate, aside: Aside):
    @sloth.task()
    async def work() -> None:
        import asyncio

        gate.entered.release()
        while not current_job().stopping:
            await asyncio.to_thread(gate.opened.wait, 0.01)
        raise RuntimeError("gave up")

    job = work.enqueue()
    worker = aside(lambda: idle(sloth))
    gate.wait_for()
    job.cancel("enough")
    assert worker.value() == 1
    assert job.refresh().state == "cancelled"
    assert reasons(job, "cancelled") == [f"by {whoever()}: enough"]


def test_a_job_may_cancel_itself(sloth: Sloth):
    @sloth.task()
    def work() -> None:
        sloth.job(current_job().id).cancel("I have seen enough")
        raise RuntimeError("gave up")

    job = work.enqueue()
    idle(sloth)
    assert job.refresh().state == "cancelled"


def test_to_cancel_a_running_job_inside_a_transaction_waits_for_nobody(sloth: Sloth):
    job = sloth.queue("q").enqueue(1, unique="k")
    lease = take(sloth, job)
    with sloth.transaction() as tx:
        tx.queue("q").enqueue(1, unique="k").cancel("inside")
    assert lease.stopping
    with contextlib.suppress(ZeroDivisionError), sloth.transaction() as tx:
        waits = tx.queue("q").enqueue(2)
        waits.cancel()
        raise ZeroDivisionError
    lease.fail("no")
    assert job.refresh().state == "cancelled"


def test_to_cancel_inside_a_transaction_does_not_wait_for_the_transaction(open_sloth: OpenSloth):
    """The rota, which a cancel asks to look at once, cannot take back anything before its end."""
    dead, sloth = open_sloth(), open_sloth(busy_timeout=0.5)
    job = sloth.queue("q").enqueue(1, unique="k")
    take(dead, job)
    dead.close()
    with sloth.transaction() as tx:
        tx.queue("q").enqueue(1, unique="k").cancel()
    sloth.verbs.upkeep.run()
    assert job.refresh().state == "cancelled"


# ---- hold ---------------------------------------------------------------------------------------


def test_a_held_job_runs_once_it_is_let_go(sloth: Sloth):
    queue = sloth.queue("q")
    job = queue.enqueue(1, hold=True)
    assert (job.held, job.state, queue.claim(), queue.stats()["held"]) == (True, "queued", None, 1)
    assert not job.unhold().held
    take(sloth, job).complete()
    assert kinds(job) == ["enqueued", "held", "unheld", "claimed", "completed"]


@pytest.mark.parametrize("wait", WAITS)
def test_whatever_waits_can_be_held_and_goes_back_to_its_place(sloth: Sloth, wait: str):
    job = waiting(sloth)[wait]
    before = job.refresh()
    assert job.hold().held
    assert job.hold().held
    check_filing(sloth)
    assert job.id not in [lease.id for lease in sloth.queue("q").claim_many(9)]
    after = job.unhold()
    assert (after.held, after.run_at, after.blocked) == (False, before.run_at, before.blocked)
    job.unhold()
    assert kinds(job).count("unheld") == 1
    check_filing(sloth)


def test_a_parent_that_ends_does_not_let_go_of_a_child_that_is_held(sloth: Sloth):
    parent = sloth.queue("q").enqueue(1)
    child = sloth.queue("q").enqueue(2, after=parent, hold=True)
    take(sloth, parent).complete()
    assert sloth.queue("q").claim() is None
    assert (child.refresh().blocked, child.refresh().held) == (False, True)
    child.unhold()
    take(sloth, child)


@pytest.mark.parametrize("act", ["hold", "unhold"])
def test_only_what_is_queued_is_held(sloth: Sloth, act: str):
    job = sloth.queue("q").enqueue(1)
    lease = take(sloth, job)
    with pytest.raises(WrongState, match=f"job {job.id} is running: only a queued job can be held"):
        getattr(job, act)()
    lease.complete()
    with pytest.raises(WrongState, match="is done"):
        getattr(job, act)()


def test_a_held_job_is_due_when_it_is_let_go_late(sloth: Sloth, clock: ManualClock):
    job = sloth.queue("q").enqueue(1, delay=60, hold=True)
    clock.advance(3600)
    assert sloth.queue("q").claim() is None
    job.unhold()
    take(sloth, job)


# ---- revive -------------------------------------------------------------------------------------


def test_a_revived_job_has_a_fresh_budget_each_time_and_no_token_comes_twice(
    sloth: Sloth, clock: ManualClock
):
    queue = sloth.queue("q", max_attempts=2, backoff=(0, 0))
    for own in (None, 3):
        budget = own or 2
        job = queue.enqueue(1, max_attempts=own)
        tokens, fences = [], []
        for _ in range(3):
            for _ in range(budget):
                lease = take(sloth, job)
                tokens.append(lease.token)
                fences.append(lease.fence)
                lease.fail("no")
            assert job.refresh().state == "failed"
            job.revive()
            assert job.refresh().message is None
        assert len(set(tokens)) == len(tokens) == 3 * budget
        assert fences == sorted(set(fences))
        assert job.refresh().attempts == 3 * budget
        job.cancel()


def test_a_cancelled_attempt_is_spent_so_its_token_does_not_come_again(sloth: Sloth):
    job = sloth.queue("q").enqueue(1)
    lease = take(sloth, job)
    job.cancel()
    lease.release()
    job.revive()
    assert take(sloth, job).token != lease.token


def test_only_what_failed_or_was_cancelled_is_put_back(sloth: Sloth):
    job = sloth.queue("q").enqueue(1)
    with pytest.raises(WrongState, match="is queued"):
        job.revive()
    lease = take(sloth, job)
    with pytest.raises(WrongState, match="is running"):
        job.revive()
    lease.complete()
    with pytest.raises(WrongState, match="is done"):
        job.revive()


def test_a_revived_job_is_due_now_and_not_held(sloth: Sloth):
    job = sloth.queue("q").enqueue(1, delay="1h", hold=True)
    job.cancel()
    assert (job.revive().held, job.refresh().finished_at) == (False, None)
    take(sloth, job).complete()
    assert kinds(job) == ["enqueued", "held", "cancelled", "revived", "claimed", "completed"]
    check_filing(sloth)


def test_a_budget_that_was_edited_below_what_is_spent_leaves_one_attempt(sloth: Sloth):
    job = sloth.queue("q", backoff=(0, 0)).enqueue(1, max_attempts=3)
    for _ in range(3):
        take(sloth, job).fail("no")
    job.revive()
    job.edit(max_attempts=1)
    take(sloth, job).fail("no")
    assert job.refresh().state == "failed"
    job.revive()
    assert job.refresh().max_attempts == job.refresh().attempts + 1
    take(sloth, job).complete()


# ---- edit ---------------------------------------------------------------------------------------


def test_a_job_is_changed_before_it_runs_and_its_history_says_what(sloth: Sloth):
    queue = sloth.queue("q")
    job, other = queue.enqueue("old"), queue.enqueue("other")
    job.edit(payload="new", priority=-1, max_attempts=7, timeout=5)
    now = job.refresh()
    assert (now.payload, now.priority, now.max_attempts, now.timeout) == ("new", -1, 7, 5)
    assert kinds(job) == ["enqueued", "edited"]
    assert job.events()[-1].detail == "payload, priority -1, max_attempts 7, timeout 5"
    take(sloth, other)
    assert take(sloth, job).payload == "new"
    check_filing(sloth)


@pytest.mark.parametrize("wait", WAITS)
def test_whatever_waits_can_be_moved(sloth: Sloth, clock: ManualClock, wait: str):
    job = waiting(sloth)[wait]
    job.edit(delay="2h", priority=3)
    check_filing(sloth)
    assert (job.refresh().run_at.timestamp(), job.refresh().priority) == (
        clock.wall() / 1000 + 7200,
        3,
    )
    job.edit(delay=0, priority=0)
    check_filing(sloth)
    assert (job.refresh().run_at.timestamp(), job.refresh().priority) == (clock.wall() / 1000, 0)


@pytest.mark.parametrize("wait", ["held", "blocked"])
def test_a_delay_of_one_that_is_kept_back_does_not_grow_when_the_clock_is_set_back(
    sloth: Sloth, clock: ManualClock, wait: str
):
    queue = sloth.queue("q")
    first = queue.enqueue("first", hold=True)
    job = queue.enqueue("job", delay=60, hold=wait == "held", after=[first] * (wait == "blocked"))
    clock.step_wall(-3600)
    clock.advance(59)
    assert queue.claim() is None
    job.unhold() if wait == "held" else take(sloth, first.unhold()).complete()
    assert queue.claim() is None
    clock.advance(1)
    assert take(sloth, job).id == job.id


@pytest.mark.parametrize("how", ["hold", "edit", "after", "interrupt"])
def test_whose_moment_has_come_does_not_wait_for_it_again_when_the_clock_is_set_back(
    open_sloth: OpenSloth, clock: ManualClock, how: str
):
    sloth, other = open_sloth(), open_sloth()
    queue = sloth.queue("q")
    first = queue.enqueue("first", hold=True)
    after = [first] if how == "after" else []
    job = queue.enqueue("job", after=after, on_interrupt="hold")
    if how == "interrupt":
        assert other.queue("q").claim() is not None
        other.close()
    clock.step_wall(-3600)
    if how == "after":
        take(sloth, first.unhold()).complete()
    elif how == "edit":
        job.edit(priority=1)
    else:
        assert how == "hold" or queue.claim() is None
        job.refresh().hold().unhold()
    assert take(sloth, job).id == job.id


def test_an_edited_delay_does_not_grow_when_the_clock_is_set_back(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q")
    job = queue.enqueue(1).edit(delay=60)
    clock.step_wall(-12 * 3600)
    assert queue.claim() is None
    clock.advance(60)
    take(sloth, job)


def test_zero_and_none_mean_what_they_say_in_an_edit(sloth: Sloth):
    job = sloth.queue("q").enqueue({"x": 1}, delay="1h", priority=2, timeout=5)
    job.edit(payload=None, delay=0, priority=0, timeout=None)
    now = job.refresh()
    assert (now.payload, now.priority, now.timeout) == (None, 0, None)
    take(sloth, job)


def test_an_edit_of_nothing_writes_nothing(sloth: Sloth):
    job = sloth.queue("q").enqueue(1)
    job.edit()
    job.edit(priority=0, payload=1)
    assert kinds(job) == ["enqueued"]


@pytest.mark.parametrize(
    "change",
    [
        {"delay": -1},
        {"delay": 1, "run_at": "2030-01-01T00:00:00Z"},
        {"priority": 1.5},
        {"priority": 2**63},
        {"max_attempts": 0},
        {"timeout": 0},
        {"timeout": "x"},
    ],
    ids=repr,
)
def test_an_edit_that_makes_no_sense_is_refused(sloth: Sloth, change: dict[str, Any]):
    job = sloth.queue("q").enqueue(1)
    with pytest.raises(ValueError, match=next(iter(change))):
        job.edit(**change)
    assert kinds(job) == ["enqueued"]


def test_what_runs_or_is_done_is_not_changed(sloth: Sloth):
    job = sloth.queue("q").enqueue(1)
    lease = take(sloth, job)
    with pytest.raises(WrongState, match="is running"):
        job.edit(priority=1)
    lease.complete()
    with pytest.raises(WrongState, match="is done"):
        job.edit(priority=1)


def test_a_failed_job_is_changed_and_put_back_but_its_moment_comes_when_it_is(
    sloth: Sloth, clock: ManualClock
):
    job = sloth.queue("q", max_attempts=1).enqueue("old")
    take(sloth, job).fail("no")
    ended = job.refresh().finished_at
    with pytest.raises(WrongState, match="is failed"):
        job.edit(delay="1h")
    clock.advance(5)
    job.edit(payload="new", priority=4)
    assert (job.refresh().state, job.refresh().finished_at) == ("failed", ended)
    job.revive()
    lease = take(sloth, job)
    assert (lease.payload, job.refresh().priority) == ("new", 4)
    check_filing(sloth)


# ---- pause, drain -------------------------------------------------------------------------------


def test_a_paused_queue_starts_nothing_and_stays_paused_across_restarts(open_sloth: OpenSloth):
    with open_sloth() as sloth:
        queue = sloth.queue("q")
        queue.enqueue_many([1, 2])
        lease = queue.claim()
        assert lease is not None
        queue.pause()
        queue.pause()
        assert (queue.paused, queue.claim()) == (True, None)
        lease.complete()
    sloth = open_sloth()
    assert (sloth.queue("q").paused, sloth.queue("q").claim()) == (True, None)
    job = sloth.queue("q").enqueue(3, priority=1)
    assert sloth.queue("other").enqueue(4).id == job.id + 1
    assert sloth.queue("other").claim() is not None
    sloth.queue("q").resume()
    sloth.queue("q").resume()
    assert not open_sloth().queue("q").paused
    take(sloth, job)


def test_a_queue_that_nobody_has_used_can_be_paused(sloth: Sloth):
    sloth.queue("q").pause()
    job = sloth.queue("q").enqueue(1)
    assert sloth.queue("q").claim() is None
    sloth.queue("q").resume()
    take(sloth, job)


def test_workers_leave_a_paused_queue_alone(sloth: Sloth):
    done: list[str] = []

    @sloth.task()
    def note(name: str) -> None:
        done.append(name)

    for name in ("a", "b"):
        note.using(queue=name).enqueue(name)
    sloth.queue("a").pause()
    assert (idle(sloth), done) == (1, ["b"])
    sloth.queue("a").resume()
    assert (idle(sloth), done) == (1, ["b", "a"])


def test_resume_wakes_whoever_waits_to_claim(open_sloth: OpenSloth, aside: Aside):
    sloth, other = open_sloth(), open_sloth()
    job = sloth.queue("q").enqueue(1)
    sloth.queue("q").pause()
    waits = [aside(lambda one=one: one.queue("q").wait(timeout="1h")) for one in (sloth, other)]
    assert not waits[0].over(0.1)
    assert not waits[1].over(0.1)
    sloth.queue("q").enqueue(2)
    assert not waits[0].over(0.1)
    other.queue("q").resume()
    assert sorted(wait.value(SOON).id for wait in waits) == [job.id, job.id + 1]


@pytest.mark.parametrize("act", ["unhold", "cancel parent", "replace"])
def test_what_comes_free_wakes_whoever_waits_to_claim(
    open_sloth: OpenSloth, aside: Aside, act: str
):
    sloth, other = open_sloth(), open_sloth()
    parent = sloth.queue("p").enqueue(0, unique="k")
    options: Any = {"hold": True}
    if act == "cancel parent":
        options = {"after": parent, "after_failed": "run"}
    job = sloth.queue("q").enqueue(1, unique="k", **options)
    wait = aside(lambda: other.queue("q").wait(timeout="1h"))
    assert not wait.over(0.1)
    if act == "unhold":
        job.unhold()
    elif act == "cancel parent":
        parent.cancel()
    else:
        job = sloth.queue("q").enqueue(2, unique="k", on_conflict="replace")
    assert wait.value(SOON).id == job.id


def test_drain_waits_for_what_runs_and_starts_nothing(sloth: Sloth, aside: Aside):
    queue = sloth.queue("q")
    queue.enqueue_many([1, 2])
    lease = queue.claim()
    assert lease is not None
    with pytest.raises(TimeoutError, match="still run"):
        queue.drain(timeout=0)
    assert queue.paused
    call = aside(lambda: queue.drain())
    assert not call.over(0.1)
    lease.complete()
    call.value()
    assert queue.stats()["queued"] == 1
    sloth.queue("unheard of").drain(timeout=0)


def test_drain_does_not_wait_for_the_dead(open_sloth: OpenSloth, aside: Aside):
    dead, sloth = open_sloth(), open_sloth()
    take(dead, sloth.queue("q").enqueue(1))
    call = aside(lambda: sloth.queue("q").drain())
    dead.close()
    call.value()


# ---- on_interrupt -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "state", "held"),
    [("retry", "queued", False), ("hold", "queued", True), ("fail", "failed", False)],
)
def test_a_job_whose_process_died_does_as_it_was_told(
    open_sloth: OpenSloth, wish: str, state: str, held: bool
):
    dead, sloth = open_sloth(), open_sloth()
    job = sloth.queue("q").enqueue(1, on_interrupt=wish, concurrency_key="g")
    other = sloth.queue("q").enqueue(2, concurrency_key="g")
    child = sloth.queue("c").enqueue(3, after=job)
    take(dead, job)
    assert dead.queue("q").claim() is None
    dead.close()
    sloth.verbs.upkeep.run()
    now = job.refresh()
    assert (now.state, now.held, now.attempts, now.on_interrupt) == (state, held, 1, wish)
    check_filing(sloth)
    assert child.refresh().state == ("cancelled" if wish == "fail" else "queued")
    if wish == "hold":
        assert re.search(r"is held since .* because it was interrupted; `sloth unhold", job.why())
        take(sloth, other).complete()
        job.unhold()
        assert take(sloth, job).attempt == 2
    elif wish == "fail":
        assert reasons(job, "failed") == ["it was interrupted"]
        take(sloth, other)
    else:
        assert take(sloth, job).attempt == 2


def test_a_reboot_interrupts_too(sloth: Sloth, clock: ManualClock):
    job = sloth.queue("q").enqueue(1, on_interrupt="hold")
    take(sloth, job)
    clock.reboot()
    assert sloth.queue("q").claim() is None
    assert (job.refresh().state, job.refresh().held) == ("queued", True)


def test_who_fails_or_gives_back_was_not_interrupted(sloth: Sloth):
    queue = sloth.queue("q", backoff=(0, 0))
    job = queue.enqueue(1, on_interrupt="hold")
    take(sloth, job).fail("no")
    take(sloth, job).release()
    take(sloth, job).snooze(0)
    take(sloth, job).complete()


def test_the_last_attempt_that_is_interrupted_is_the_last(open_sloth: OpenSloth):
    dead, sloth = open_sloth(), open_sloth()
    job = sloth.queue("q").enqueue(1, on_interrupt="hold", max_attempts=1)
    take(dead, job)
    dead.close()
    sloth.verbs.upkeep.run()
    assert job.refresh().state == "failed"


# ---- many at once -------------------------------------------------------------------------------


def test_whoever_changes_a_job_while_others_do_leaves_it_in_one_place(open_sloth: OpenSloth):
    sloths = [open_sloth() for _ in range(4)]
    queue = sloths[0].queue("q", backoff=(0, 0))
    parents = queue.enqueue_many(list(range(5)), concurrency_key=("g", 2))
    children = [queue.enqueue("child", after=parents[:n], after_failed="run") for n in range(1, 5)]
    jobs = [*parents, *children]
    start = threading.Barrier(4)
    failures: list[BaseException] = []

    def change(sloth: Sloth, seed: int) -> None:
        import random

        dice = random.Random(seed)
        start.wait()
        for _ in range(60):
            job = sloth.job(dice.choice(jobs).id)
            act = dice.choice(["hold", "unhold", "cancel", "revive", "edit", "claim", "claim"])
            try:
                with contextlib.suppress(WrongState, LeaseLost):
                    if act == "edit":
                        job.edit(priority=dice.randrange(3), delay=dice.choice([0, 0, 60]))
                    elif act == "claim":
                        if lease := sloth.queue("q").claim():
                            dice.choice([lease.complete, lease.release, lambda: lease.fail("x")])()
                    else:
                        getattr(job, act)()
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=change, args=(one, n)) for n, one in enumerate(sloths)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures, failures
    check_filing(sloths[0])


@pytest.mark.parametrize(
    "payload", [5, None, [], {"argv": ["ls"]}, {"argv": [], "cwd": "/"}, {"argv": [1], "cwd": "/"}]
)
def test_a_command_is_not_made_into_what_is_none(sloth: Sloth, payload: Any):
    job = sloth.queue("q").enqueue_command(["true"])
    with pytest.raises(ValueError, match="payload of a command is such as"):
        job.edit(payload=payload)
    assert job.edit(payload={**job.payload, "argv": ["ls"]}).command == ["ls"]


def test_a_call_is_not_made_into_what_is_none(sloth: Sloth):
    @sloth.task()
    def work(n: int) -> None: ...

    job = work.enqueue(1)
    with pytest.raises(ValueError, match="payload of a task is such as"):
        job.edit(payload=[2])
    assert job.edit(payload={"args": [2], "kwargs": {}}).payload["args"] == [2]


def test_a_drain_inside_a_transaction_is_refused_before_it_pauses(sloth: Sloth):
    with sloth.transaction() as tx:
        queue = tx.queue("q")
        with pytest.raises(WrongState, match="wait for a queue inside a transaction"):
            queue.drain()
    assert not sloth.queue("q").paused
