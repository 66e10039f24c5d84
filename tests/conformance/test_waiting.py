"""Waiting: woken by commits, by due moments, by deaths and by the clock; and it comes to an end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slothqueue import JobFailed, JobNotFound, ManualClock, Sloth

OpenSloth = Callable[..., Sloth]
Aside = Callable[..., Any]
SOON = 10.0
"""Real seconds: less than the fallback interval, so a lost wake-up is a failed test."""


def test_who_waits_gets_what_is_there_already(sloth: Sloth):
    job = sloth.queue("q").enqueue(1)
    assert sloth.queue("q").wait(timeout=0).id == job.id


@pytest.mark.parametrize("handles", [1, 2])
def test_who_waits_is_woken_by_a_commit(open_sloth: OpenSloth, aside: Aside, handles: int):
    one, *rest = [open_sloth() for _ in range(handles)]
    waiting = (rest or [one])[0]
    for n in range(5):
        waiter = aside(lambda: waiting.queue("q").wait())
        job = one.queue("q").enqueue(n)
        lease = waiter.value(within=SOON)
        assert lease.id == job.id
        lease.complete()


def test_one_batch_wakes_all_who_wait_for_it(open_sloth: OpenSloth, aside: Aside):
    one = open_sloth()
    waiters = [aside(lambda: open_sloth().queue("q").wait().id) for _ in range(4)]
    jobs = one.queue("q").enqueue_many([1, 2, 3, 4])
    assert sorted(w.value(within=SOON) for w in waiters) == [job.id for job in jobs]


def test_one_batch_is_one_wake_up_and_what_wakes_nobody_is_none(sloth: Sloth):
    bell = sloth.store.bell
    sloth.queue("q").enqueue("the queue is there")

    def rings(call: Callable[[], object]) -> int:
        before = bell.mark()
        call()
        return bell.mark() - before

    assert rings(lambda: sloth.queue("q").enqueue(1)) == 1
    assert rings(lambda: sloth.queue("q").enqueue_many(list(range(100)))) == 1
    leases: list[Any] = []
    assert rings(lambda: leases.extend(sloth.queue("q").claim_many(50))) == 0
    assert rings(leases[0].heartbeat) == 0
    assert rings(lambda: sloth.queue("q").complete_many(leases)) == 1
    assert rings(lambda: sloth.queue("q", concurrency=3)) == 1
    assert rings(lambda: sloth.queue("q", concurrency=3)) == 0


def test_a_wait_comes_to_its_end_by_its_own_clock(
    sloth: Sloth, clock: ManualClock, aside: Aside, pass_time: Callable[..., None]
):
    begun = clock.awake()
    waiter = aside(lambda: sloth.queue("q").wait(timeout="30s"))
    pass_time(waiter)
    with pytest.raises(TimeoutError, match="'q'"):
        waiter.value()
    assert clock.awake() - begun >= 30_000


def test_no_time_to_wait_is_a_look(sloth: Sloth):
    job = sloth.queue("q").enqueue(1)
    with pytest.raises(TimeoutError):
        sloth.queue("empty").wait(timeout=0)
    with pytest.raises(TimeoutError):
        job.result(timeout=0)
    assert sloth.queue("q").wait(timeout=0).id == job.id


@pytest.mark.parametrize("timeout", [-1, "soon", float("nan")])
def test_a_time_to_wait_that_makes_no_sense_is_refused(sloth: Sloth, timeout: object):
    job = sloth.queue("q").enqueue(1)
    for call in (lambda: sloth.queue("q").wait(timeout), lambda: job.result(timeout)):  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="timeout"):
            call()
    assert job.refresh().state == "queued"


def test_sleep_of_the_machine_is_not_time_to_wait(sloth: Sloth, clock: ManualClock, aside: Aside):
    waiter = aside(lambda: sloth.queue("q").wait(timeout="30s"))
    for _ in range(50):
        clock.suspend(3600)
        clock.step_wall(7200)
    assert not waiter.over(0.05)
    sloth.queue("q").enqueue(1)
    assert waiter.value(within=SOON).payload == 1


@pytest.mark.parametrize(
    "pass_by",
    [
        lambda clock: clock.advance(60),
        lambda clock: clock.suspend(60),
        lambda clock: clock.step_wall(60),
    ],
    ids=["awake", "asleep", "set forward"],
)
def test_who_waits_is_woken_when_a_job_becomes_due(
    open_sloth: OpenSloth,
    clock: ManualClock,
    aside: Aside,
    pass_by: Callable[[ManualClock], None],
):
    one, other = open_sloth(), open_sloth()
    job = one.queue("q").enqueue(1, delay=60)
    waiter = aside(lambda: other.queue("q").wait())
    assert not waiter.over(0.02)
    pass_by(clock)
    assert waiter.value(within=SOON).id == job.id


def test_who_waits_is_woken_by_the_death_of_a_holder(open_sloth: OpenSloth, aside: Aside):
    one, other = open_sloth(), open_sloth()
    job = one.queue("q").enqueue(1)
    assert one.queue("q").claim() is not None
    waiter = aside(lambda: other.queue("q").wait())
    assert not waiter.over(0.02)
    one.close()
    lease = waiter.value(within=SOON)
    assert (lease.id, lease.attempt) == (job.id, 2)


def test_who_waits_is_woken_when_a_lease_runs_out(
    open_sloth: OpenSloth, clock: ManualClock, aside: Aside
):
    one, other = open_sloth(), open_sloth()
    one.queue("q").enqueue(1)
    assert one.queue("q").claim() is not None
    waiter = aside(lambda: other.queue("q").wait())
    assert not waiter.over(0.02)
    clock.advance(60.001)
    assert waiter.value(within=SOON).attempt == 2


def test_a_restart_wakes_those_who_wait(open_sloth: OpenSloth, clock: ManualClock, aside: Aside):
    one, other = open_sloth(), open_sloth()
    one.queue("q").enqueue(1)
    assert one.queue("q").claim() is not None
    waiter = aside(lambda: other.queue("q").wait())
    assert not waiter.over(0.02)
    clock.reboot()
    assert waiter.value(within=SOON).attempt == 2


def test_a_queue_gives_its_jobs_for_ever_and_sleeps_between(open_sloth: OpenSloth, aside: Aside):
    one, other = open_sloth(), open_sloth()

    def work() -> list[str]:
        seen = []
        for lease in other.queue("q"):
            seen.append(lease.payload)
            lease.complete()
            if lease.payload == "last":
                break
        return seen

    worker = aside(work)
    one.queue("q").enqueue_many(["a", "b"])
    one.queue("q").enqueue("last", priority=-1)
    assert worker.value(within=SOON) == ["a", "b", "last"]
    assert one.stats()["done"] == 3


def test_a_result_is_waited_for(open_sloth: OpenSloth, aside: Aside):
    one, other = open_sloth(), open_sloth()
    job = one.queue("q").enqueue(1)
    result = aside(lambda: job.result())
    lease = other.queue("q").claim()
    assert lease is not None
    lease.complete([1, 2])
    assert result.value(within=SOON) == [1, 2]


def test_the_end_of_a_failed_job_is_waited_for_and_raised(
    open_sloth: OpenSloth, clock: ManualClock, aside: Aside
):
    one, other = open_sloth(), open_sloth()
    job = one.queue("q").enqueue(1, max_attempts=2)
    result = aside(lambda: job.result())
    for _ in range(2):
        lease = other.queue("q").wait(timeout=0)
        lease.fail("smtp down")
        clock.advance(2)
    with pytest.raises(JobFailed, match="smtp down"):
        result.value(within=SOON)


def test_a_job_whose_holder_dies_for_good_ends_for_those_who_wait(
    open_sloth: OpenSloth, aside: Aside
):
    one, other = open_sloth(), open_sloth()
    job = one.queue("q").enqueue(1, max_attempts=1)
    assert other.queue("q").claim() is not None
    result = aside(lambda: job.result())
    assert not result.over(0.02)
    other.close()
    with pytest.raises(JobFailed, match="process is gone"):
        result.value(within=SOON)


def test_the_wait_for_a_result_comes_to_its_end(
    sloth: Sloth, aside: Aside, pass_time: Callable[..., None]
):
    job = sloth.queue("q").enqueue(1)
    result = aside(lambda: job.result(timeout="5m"))
    pass_time(result, step=30)
    with pytest.raises(TimeoutError, match=f"job {job.id}"):
        result.value()
    assert job.refresh().state == "queued"


def test_the_result_of_a_job_of_another_store_is_not_waited_for(sloth: Sloth, tmp_path: Any):
    with Sloth(tmp_path / "other.db") as elsewhere:
        jobs = elsewhere.queue("q").enqueue_many([1, 2])
    stranger = type(jobs[1])(jobs[1]._row, sloth.verbs)
    sloth.queue("q").enqueue(1)
    with pytest.raises(JobNotFound):
        stranger.result(timeout=60)
