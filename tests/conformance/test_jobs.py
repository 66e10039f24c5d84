"""Jobs by hand: enqueue, claim, and every way in which an attempt can end."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from slothqueue import Job, JobFailed, LeaseLost, ManualClock, Sloth

from .telling import seconds_until_due, story

UTC = dt.UTC
START = dt.datetime(2025, 1, 1, tzinfo=UTC)


# ---- enqueue --------------------------------------------------------------------------------


def test_an_enqueued_job_is_there_for_every_handle(open_sloth: Callable[..., Sloth]):
    job = open_sloth().queue("mail").enqueue({"to": "ada"}, priority=5, max_attempts=2)
    seen = open_sloth().job(job.id)
    assert seen == job.refresh()
    assert (seen.queue, seen.state, seen.priority) == ("mail", "queued", 5)
    assert (seen.max_attempts, seen.attempts, seen.payload) == (2, 0, {"to": "ada"})
    assert (seen.kind, seen.task, seen.error, seen.started_at) == ("payload", None, None, None)
    assert (seen.created_at, seen.run_at) == (START, START)


@pytest.mark.parametrize(
    "payload", [None, False, 0, "", [], {}, -1.5, "ä\0\U0001f9a5", [{"a": [None]}], 2**80]
)
def test_a_payload_comes_back_as_it_was(sloth: Sloth, payload: object):
    job = sloth.queue().enqueue(payload)
    lease = sloth.queue().claim()
    assert lease is not None
    assert job.refresh().payload == lease.payload == payload
    assert type(lease.payload) is type(payload)


def test_the_queue_without_a_name_is_default(sloth: Sloth):
    job = sloth.queue().enqueue(1)
    assert job.queue == "default"
    assert sloth.queue("default").claim() is not None


def test_a_job_that_was_just_enqueued_looks_like_the_stored_one(sloth: Sloth):
    queue = sloth.queue("q", max_attempts=7)
    jobs = [
        queue.enqueue(1),
        queue.enqueue(2, delay=5, priority=-3, max_attempts=9),
        queue.enqueue(3, run_at="2031-01-01T00:00:00Z"),
        *queue.enqueue_many([4, 5], delay="1m"),
    ]
    told = [(j.id, j.state, j.priority, j.run_at, j.max_attempts, j.attempts) for j in jobs]
    jobs = [job.refresh() for job in jobs]
    assert told == [(j.id, j.state, j.priority, j.run_at, j.max_attempts, j.attempts) for j in jobs]


def test_a_batch_is_enqueued_in_its_order(sloth: Sloth):
    jobs = sloth.queue().enqueue_many([{"n": n} for n in range(100)], priority=3)
    assert [job.id for job in jobs] == list(range(jobs[0].id, jobs[0].id + 100))
    assert [lease.payload["n"] for lease in sloth.queue().claim_many(1000)] == list(range(100))


def test_an_empty_batch_is_nothing(sloth: Sloth):
    assert sloth.queue().enqueue_many([]) == []
    assert sloth.jobs() == []


def test_an_id_is_never_given_twice(open_sloth: Callable[..., Sloth]):
    one, other = open_sloth(), open_sloth()
    ids = []
    for round in range(5):
        ids += [one.queue().enqueue(round).id, other.queue("b").enqueue(round).id]
        ids += [job.id for job in one.queue().enqueue_many([1, 2, 3])]
        for lease in one.queue().claim_many(100):
            lease.complete()
        one.close()
    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids)


# ---- the order of starting ------------------------------------------------------------------


def test_jobs_start_by_priority_then_by_due_moment_then_by_id(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue()
    queue.enqueue("last", priority=-1)
    queue.enqueue("due second", run_at=START - dt.timedelta(seconds=5))
    queue.enqueue("due first", run_at=START - dt.timedelta(seconds=9))
    queue.enqueue("became due third", delay=2)
    queue.enqueue("first of equals", delay=3)
    queue.enqueue("second of equals", delay=3)
    queue.enqueue("urgent, though later", priority=1, delay=3)
    clock.advance(10)
    queue.enqueue("young")
    expected = [
        "urgent, though later",
        "due first",
        "due second",
        "became due third",
        "first of equals",
        "second of equals",
        "young",
        "last",
    ]
    assert [job.payload for job in sloth.jobs()] == expected
    assert [lease.payload for lease in queue.claim_many(3)] == expected[:3]
    rest = [queue.claim_many(1)[0].payload for _ in expected[3:]]
    assert rest == expected[3:]
    assert queue.claim() is None


def test_a_job_that_was_given_back_keeps_its_place(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue()
    first, second = queue.enqueue("first"), queue.enqueue("second")
    clock.advance(5)
    lease = queue.claim()
    assert lease is not None
    lease.release()
    assert [lease.id for lease in queue.claim_many(2)] == [first.id, second.id]


def test_queues_do_not_see_each_other(sloth: Sloth):
    job = sloth.queue("a").enqueue(1)
    assert sloth.queue("b").claim() is None
    assert sloth.queue("A").claim() is None
    lease = sloth.queue("a").claim()
    assert lease is not None
    assert lease.id == job.id


def test_a_job_for_later_starts_at_its_moment_and_not_a_millisecond_sooner(
    sloth: Sloth, clock: ManualClock
):
    queue = sloth.queue()
    queue.enqueue("by delay", delay="10m")
    queue.enqueue("by moment", run_at=START + dt.timedelta(minutes=10))
    clock.advance(599.999)
    assert queue.claim() is None
    clock.advance(0.001)
    assert [lease.payload for lease in queue.claim_many(9)] == ["by delay", "by moment"]


def test_a_delay_far_longer_than_the_lease_runs_once(
    open_sloth: Callable[..., Sloth], clock: ManualClock
):
    one, other = open_sloth(), open_sloth()  # scenario 8
    one.queue("q", lease="30s").enqueue(1, delay=300)
    claimed = []
    for _ in range(400):
        for sloth in (one, other):
            if lease := sloth.queue("q").claim():
                claimed.append(lease)
                lease.complete()
        clock.advance(1)
    assert len(claimed) == 1


# ---- the ends of an attempt -----------------------------------------------------------------


def test_a_completed_job_is_done_with_its_result_and_message(sloth: Sloth, clock: ManualClock):
    job = sloth.queue().enqueue({"n": 1})
    clock.advance(5)
    lease = sloth.queue().claim()
    assert lease is not None
    assert (lease.attempt, lease.job.state, lease.job.attempts) == (1, "running", 1)
    clock.advance(2)
    lease.complete({"sum": 3}, message="sent")
    done = job.refresh()
    assert (done.state, done.message, done.error, done.ended) == ("done", "sent", None, True)
    assert (done.started_at, done.finished_at) == (
        START + dt.timedelta(seconds=5),
        START + dt.timedelta(seconds=7),
    )
    assert done.result() == {"sum": 3}
    assert story(done) == [("enqueued", None, None), ("claimed", 1, None), ("completed", 1, None)]


def test_a_job_is_tried_again_after_2_4_and_8_seconds_and_then_it_has_failed(
    sloth: Sloth, clock: ManualClock
):
    queue = sloth.queue()
    job = queue.enqueue(1)
    for attempt, wait in ((1, 2), (2, 4), (3, 8)):
        lease = queue.claim()
        assert lease is not None
        assert lease.attempt == attempt
        lease.fail(f"error {attempt}")
        assert (job.refresh().state, job.refresh().error) == ("queued", f"error {attempt}")
        assert seconds_until_due(sloth, job) == wait
        clock.advance(wait - 0.001)
        assert queue.claim() is None
        clock.advance(0.001)
    lease = queue.claim()
    assert lease is not None
    lease.fail("error 4\nwith a trace")
    assert (job.refresh().state, job.refresh().attempts) == ("failed", 4)
    assert story(job) == [
        ("enqueued", None, None),
        *[
            event
            for n, wait in ((1, "2s"), (2, "4s"), (3, "8s"))
            for event in (
                ("claimed", n, None),
                ("failed_attempt", n, f"error {n}"),
                ("retried", n, f"again in {wait}"),
            )
        ],
        ("claimed", 4, None),
        ("failed_attempt", 4, "error 4"),
        ("failed", 4, "all 4 attempts are spent"),
    ]
    errors = [event.detail for event in job.events() if event.kind == "failed_attempt"]
    assert errors == ["error 1", "error 2", "error 3", "error 4\nwith a trace"]
    assert job.refresh().error == "error 4\nwith a trace"
    with pytest.raises(JobFailed, match="after 4 attempts: error 4"):
        job.result()


def test_the_wait_between_attempts_stops_at_its_cap(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q", backoff=(10, "2m"), max_attempts=9)
    job = queue.enqueue(1)
    waits = []
    for _ in range(4):
        lease = queue.claim()
        assert lease is not None
        lease.fail("no")
        waits.append(seconds_until_due(sloth, job))
        clock.advance(waits[-1])
    assert waits == [10, 100, 120, 120]


def test_a_budget_of_one_means_one_attempt(sloth: Sloth):
    job = sloth.queue().enqueue(1, max_attempts=1)
    lease = sloth.queue().claim()
    assert lease is not None
    lease.fail("no")
    assert job.refresh().state == "failed"
    assert [dead.id for dead in sloth.queue().dead_letters()] == [job.id]


def test_retry_takes_a_delay_of_its_own_and_spends_an_attempt(sloth: Sloth, clock: ManualClock):
    job = sloth.queue().enqueue(1, max_attempts=2)
    lease = sloth.queue().claim()
    assert lease is not None
    lease.retry(delay="5m", error="busy")
    assert seconds_until_due(sloth, job) == 300
    clock.advance(300)
    lease = sloth.queue().claim()
    assert lease is not None
    lease.retry(delay="5m")
    assert (job.refresh().state, job.refresh().error) == ("failed", "busy")
    assert story(job)[1:4] == [
        ("claimed", 1, None),
        ("failed_attempt", 1, "busy"),
        ("retried", 1, "again in 5m"),
    ]


def test_a_discarded_job_fails_whatever_is_left_of_its_budget(sloth: Sloth):
    job = sloth.queue().enqueue(1)
    lease = sloth.queue().claim()
    assert lease is not None
    lease.discard("bad address")
    assert (job.refresh().state, job.refresh().error) == ("failed", "bad address")
    assert story(job)[1:] == [("claimed", 1, None), ("failed", 1, "discarded")]


@pytest.mark.parametrize("call", ["snooze", "release"])
def test_a_job_that_is_given_back_spends_no_attempt(sloth: Sloth, clock: ManualClock, call: str):
    job = sloth.queue().enqueue(1, max_attempts=1)
    fences = []
    for _ in range(5):
        lease = sloth.queue().claim()
        assert lease is not None
        assert lease.attempt == 1
        fences.append(lease.fence)
        if call == "snooze":
            lease.snooze("1h")
            assert sloth.queue().claim() is None
            assert seconds_until_due(sloth, job) == 3600
            clock.advance(3600)
        else:
            lease.release()
        assert (job.refresh().state, job.refresh().attempts) == ("queued", 0)
    assert fences == sorted(set(fences))
    assert story(job)[1:3] == [("claimed", 1, None), (f"{call}d", 1, None)]
    lease = sloth.queue().claim()
    assert lease is not None
    lease.complete()
    assert job.refresh().attempts == 1


@pytest.mark.parametrize(
    "again",
    [
        lambda lease: lease.complete(),
        lambda lease: lease.fail("x"),
        lambda lease: lease.retry(),
        lambda lease: lease.discard("x"),
        lambda lease: lease.snooze(1),
        lambda lease: lease.release(),
        lambda lease: lease.heartbeat(),
    ],
    ids=["complete", "fail", "retry", "discard", "snooze", "release", "heartbeat"],
)
@pytest.mark.parametrize("first", ["complete", "fail", "snooze", "discard", "release"])
def test_an_attempt_ends_once(sloth: Sloth, first: str, again: Callable[..., None]):
    job = sloth.queue().enqueue(1)
    lease = sloth.queue().claim()
    assert lease is not None
    words: dict[str, list[Any]] = {"fail": ["x"], "snooze": [60], "discard": ["x"]}
    getattr(lease, first)(*words.get(first, []))
    before: tuple[Job, object] = (job.refresh(), story(job))
    with pytest.raises(LeaseLost, match=f"job {job.id}"):
        again(lease)
    assert (job.refresh(), story(job)) == before


def test_complete_many_returns_those_that_were_still_held(sloth: Sloth):
    queue = sloth.queue()
    jobs = queue.enqueue_many([1, 2, 3, 4])
    leases = queue.claim_many(4)
    leases[1].fail("no")
    assert queue.complete_many(leases) == [leases[0], leases[2], leases[3]]
    assert queue.complete_many(leases) == queue.complete_many([]) == []
    assert [job.refresh().state for job in jobs] == ["done", "queued", "done", "done"]
    assert story(jobs[3])[-1] == ("completed", 1, None)


def test_the_error_of_an_earlier_attempt_stays_on_a_job_that_is_done(
    sloth: Sloth, clock: ManualClock
):
    job = sloth.queue().enqueue(1)
    lease = sloth.queue().claim()
    assert lease is not None
    lease.fail("smtp down")
    clock.advance(2)
    lease = sloth.queue().claim()
    assert lease is not None
    lease.complete()
    assert (job.refresh().state, job.refresh().error) == ("done", "smtp down")
    assert [kind for kind, _, _ in story(job)] == [
        "enqueued",
        "claimed",
        "failed_attempt",
        "retried",
        "claimed",
        "completed",
    ]


def test_a_token_names_the_attempt_wherever_it_is_told_of(
    open_sloth: Callable[..., Sloth], clock: ManualClock
):
    one, other = open_sloth(), open_sloth()
    queue = one.queue()
    queue.enqueue_many([1, 2])
    first, second = queue.claim_many(2)
    assert first.token != second.token
    told = first.token
    first.release()
    same = other.queue().claim()
    assert same is not None
    assert same.token == told  # the same attempt, given back unrun
    same.fail("no")
    clock.advance(2)
    third = queue.claim()
    assert third is not None
    assert third.token not in (told, second.token)


def test_one_attempt_is_not_told_as_many(sloth: Sloth):
    job = sloth.queue("q", max_attempts=1).enqueue(1)
    lease = sloth.queue("q").claim()
    assert lease is not None
    lease.fail("no")
    with pytest.raises(JobFailed, match="failed after 1 attempt: no"):
        job.result()
