"""Jobs that must not start any more after a moment."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from slothqueue import JobCancelled, ManualClock, Sloth

from .keeping import check_filing, take
from .running import Aside
from .telling import kinds, reasons

EXPIRED = "it expired before it could start"


def look(sloth: Sloth) -> None:
    """What any claim that finds nothing does."""
    assert sloth.queue("somewhere else").claim() is None
    sloth.verbs.upkeep.run()


@pytest.mark.parametrize("wait", ["queued", "scheduled", "held", "blocked", "gated", "paused"])
def test_a_job_that_has_not_started_by_then_is_cancelled(
    sloth: Sloth, clock: ManualClock, wait: str
):
    queue = sloth.queue("q")
    first = queue.enqueue("first", priority=1, concurrency_key="g")
    take(sloth, first)
    options: dict[str, dict[str, Any]] = {
        "scheduled": {"delay": "1h"},
        "held": {"hold": True},
        "blocked": {"after": first},
        "gated": {"concurrency_key": "g"},
    }
    job = queue.enqueue("late", expires=60, **options.get(wait, {}))
    if wait == "gated":
        assert queue.claim() is None
    if wait == "paused":
        queue.pause()
    clock.advance(59.999)
    look(sloth)
    assert job.refresh().state == "queued"
    clock.advance(0.001)
    look(sloth)
    assert (job.refresh().state, job.refresh().message) == ("cancelled", EXPIRED)
    assert reasons(job, "cancelled") == [EXPIRED]
    check_filing(sloth)
    with pytest.raises(JobCancelled, match="expired"):
        job.result(timeout=0)


def test_a_claim_does_not_start_what_has_expired_though_nobody_has_looked(
    sloth: Sloth, clock: ManualClock
):
    queue = sloth.queue("q")
    late, fine = queue.enqueue("late", expires=60), queue.enqueue("fine")
    sloth.verbs.upkeep.run()
    clock.advance(60)
    lane = sloth.verbs.lanes.find("q", 0)
    assert lane is not None
    assert [claimed.id for claimed in sloth.verbs._claim(lane, 5)] == [fine.id]
    assert late.refresh().state == "cancelled"
    check_filing(sloth)


def test_a_moment_does_as_well_as_a_duration(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q")
    moment = dt.datetime(2025, 1, 1, 0, 1, tzinfo=dt.UTC)
    jobs = [
        queue.enqueue(1, expires=expires)
        for expires in (60, "1m", dt.timedelta(minutes=1), moment, moment.isoformat())
    ]
    assert {job.expires_at for job in jobs} == {moment}
    clock.advance(60)
    look(sloth)
    assert {job.refresh().state for job in jobs} == {"cancelled"}


def test_to_expire_at_once_is_never_to_start(sloth: Sloth):
    job = sloth.queue("q").enqueue(1, expires=0)
    past = sloth.queue("q").enqueue(1, expires="2024-01-01T00:00:00Z")
    assert job.expires_at == job.created_at
    assert sloth.queue("q").claim() is None
    assert job.refresh().state == past.refresh().state == "cancelled"


def test_an_attempt_that_runs_at_that_moment_goes_on(sloth: Sloth, clock: ManualClock):
    job = sloth.queue("q").enqueue(1, expires=30)
    lease = take(sloth, job)
    clock.advance(31)
    look(sloth)
    assert job.refresh().state == "running"
    lease.complete("fine")
    assert job.result(timeout=0) == "fine"
    look(sloth)
    assert job.refresh().state == "done"
    check_filing(sloth)


@pytest.mark.parametrize("how", ["fail", "retry", "snooze", "release"])
def test_no_other_attempt_starts_after_it(sloth: Sloth, clock: ManualClock, how: str):
    job = sloth.queue("q", backoff=(2, "1h")).enqueue(1, expires=30)
    lease = take(sloth, job)
    clock.advance(31)
    {
        "fail": lambda: lease.fail("no"),
        "retry": lambda: lease.retry(5, "no"),
        "snooze": lambda: lease.snooze(5),
        "release": lease.release,
    }[how]()
    assert (job.refresh().state, reasons(job, "cancelled")) == ("cancelled", [EXPIRED])
    check_filing(sloth)


def test_a_retry_that_is_due_after_it_is_cancelled_at_that_moment(sloth: Sloth, clock: ManualClock):
    job = sloth.queue("q").enqueue(1, expires=30)
    take(sloth, job).retry("1h", "no")
    clock.advance(29)
    look(sloth)
    assert job.refresh().state == "queued"
    clock.advance(1)
    look(sloth)
    assert job.refresh().state == "cancelled"


def test_a_job_whose_worker_died_is_not_started_again_after_it(open_sloth: Any, clock: ManualClock):
    dead, sloth = open_sloth(), open_sloth()
    job = dead.queue("q").enqueue(1, expires=30)
    take(dead, job)
    clock.advance(31)
    dead.close()
    look(sloth)
    assert (job.id, sloth.job(job.id).state) == (job.id, "cancelled")
    assert kinds(sloth.job(job.id)) == ["enqueued", "claimed", "reclaimed", "cancelled"]


def test_a_duration_does_not_grow_when_the_clock_is_set_back(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q")
    one, *many = [queue.enqueue(1, expires=60), *queue.enqueue_many([2, 3], expires=60)]
    clock.step_wall(-12 * 3600)
    look(sloth)
    clock.advance(59)
    look(sloth)
    assert one.refresh().state == "queued"
    clock.advance(1)
    look(sloth)
    assert {job.refresh().state for job in (one, *many)} == {"cancelled"}
    check_filing(sloth)


def test_a_duration_of_many_does_not_grow_either(sloth: Sloth, clock: ManualClock):
    jobs = sloth.queue("q").enqueue_many([2, 3], expires=60)
    clock.step_wall(-12 * 3600)
    look(sloth)
    clock.advance(60)
    look(sloth)
    assert {job.refresh().state for job in jobs} == {"cancelled"}


def test_a_moment_stays_when_the_clock_is_set_back(sloth: Sloth, clock: ManualClock):
    job = sloth.queue("q").enqueue(1, expires="2025-01-01T00:01:00Z")
    sloth.queue("q").enqueue(2, expires=60)
    clock.step_wall(-3600)
    clock.advance(61)
    look(sloth)
    assert job.refresh().state == "queued"
    clock.advance(3600)
    look(sloth)
    assert job.refresh().state == "cancelled"


def test_a_revived_job_is_not_late_for_what_is_past(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q", backoff=(0, 0))
    job = queue.enqueue(1, expires=60)
    clock.advance(61)
    look(sloth)
    job.revive()
    assert job.refresh().expires_at is None
    look(sloth)
    take(sloth, job).fail("once")
    take(sloth, job).snooze(0)
    take(sloth, job).complete()
    check_filing(sloth)


def test_a_job_that_is_revived_in_time_still_expires(sloth: Sloth, clock: ManualClock):
    job = sloth.queue("q").enqueue(1, expires=60)
    job.cancel()
    job.revive()
    check_filing(sloth)
    clock.advance(60)
    look(sloth)
    assert (job.refresh().state, job.refresh().message) == ("cancelled", EXPIRED)
    check_filing(sloth)


def test_the_children_of_what_expires_are_told(sloth: Sloth, clock: ManualClock):
    job = sloth.queue("q").enqueue(1, expires=60)
    child = sloth.queue("q").enqueue(2, after=job)
    clock.advance(60)
    look(sloth)
    assert child.refresh().message == f"its parent {job.id} was cancelled"


def test_a_child_that_expires_with_its_parent_is_cancelled_once(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q")
    parent = queue.enqueue("parent", expires=60)
    child = queue.enqueue("child", after=parent, expires=60)
    clock.advance(61)
    look(sloth)
    assert kinds(parent.refresh()) == kinds(child.refresh()) == ["enqueued", "cancelled"]


def test_many_expire_in_slices_and_none_is_left(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q")
    queue.enqueue_many(list(range(1_300)), expires=60)
    clock.advance(60)
    assert queue.claim() is None
    for _ in range(3):
        sloth.verbs.upkeep.run()
    assert sloth.stats()["cancelled"] == 1_300
    check_filing(sloth)


def test_who_waits_for_a_result_learns_of_it_at_that_moment(
    sloth: Sloth, clock: ManualClock, aside: Aside, pass_time: Any
):
    job = sloth.queue("q").enqueue(1, expires=3600, hold=True)
    call = aside(lambda: job.result(timeout="2h"))
    pass_time(call, step=600)
    with pytest.raises(JobCancelled):
        call.value()


@pytest.mark.parametrize(
    ("expires", "told"),
    [
        ("soon", "or as a moment"),
        (-1, "between zero and"),
        ("2030-01-31 08:00", "has no time zone"),
        (dt.datetime(2030, 1, 31), "has no time zone"),
        ("2030-13-31T08:00Z", "expires '2030-13-31T08:00Z' is not understood"),
    ],
    ids=repr,
)
def test_an_expiry_that_makes_no_sense_is_refused_with_what_to_write(
    sloth: Sloth, expires: Any, told: str
):
    with pytest.raises(ValueError, match=told):
        sloth.queue("q").enqueue(1, expires=expires)
