"""History: every transition is an event, and nothing is told that did not happen."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pytest

from slothqueue import Event, JobNotFound, Lease, ManualClock, Sloth

from .telling import story

START = dt.datetime(2025, 1, 1, tzinfo=dt.UTC)


def take(sloth: Sloth) -> Lease:
    lease = sloth.queue("q").claim()
    assert lease is not None
    return lease


def test_a_whole_life_is_told_in_order(open_sloth: Callable[..., Sloth], clock: ManualClock):
    one, other = open_sloth(), open_sloth()
    job = one.queue("q", lease="30s").enqueue(1)
    take(one).snooze(10)
    clock.advance(10)
    take(one).release()
    take(one).fail("smtp down\nTraceback")
    clock.advance(2)
    take(other)
    other.close()
    take(one)
    clock.advance(31)
    take(one).complete("r", "sent")
    events = job.events()
    assert [event.n for event in events] == list(range(1, len(events) + 1))
    assert [(e.kind, (e.at - START).seconds, e.attempt, e.reason, e.detail) for e in events] == [
        ("enqueued", 0, None, None, None),
        ("claimed", 0, 1, None, None),
        ("snoozed", 0, 1, None, None),
        ("claimed", 10, 1, None, None),
        ("released", 10, 1, None, None),
        ("claimed", 10, 1, None, None),
        ("failed_attempt", 10, 1, "smtp down", "smtp down\nTraceback"),
        ("retried", 10, 1, "again in 2s", None),
        ("claimed", 12, 2, None, None),
        ("reclaimed", 12, 2, "gone", events[9].detail),
        ("claimed", 12, 3, None, None),
        ("reclaimed", 43, 3, "silent", events[11].detail),
        ("claimed", 43, 4, None, None),
        ("completed", 43, 4, None, "sent"),
    ]


def test_every_event_of_an_attempt_names_its_worker(
    open_sloth: Callable[..., Sloth], clock: ManualClock
):
    sloth = open_sloth()
    job = sloth.queue("q").enqueue(1)
    take(sloth).fail("no")
    clock.advance(2)
    take(sloth)
    host, _, pid = (job.refresh().worker or "").rpartition(":")
    assert host
    assert pid.isdigit()
    first, *rest = job.events()
    assert first.worker is None
    assert {event.worker for event in rest} == {job.refresh().worker}


def test_each_step_adds_to_the_story_and_changes_nothing_of_it(sloth: Sloth, clock: ManualClock):
    job = sloth.queue("q").enqueue(1)
    told: list[Event] = []

    def goes_on() -> None:
        nonlocal told
        now = job.events()
        assert now[: len(told)] == told
        assert len(now) > len(told)
        told = now

    goes_on()
    lease = take(sloth)
    goes_on()
    lease.fail("no")
    goes_on()
    clock.advance(2)
    lease = take(sloth)
    goes_on()
    lease.snooze(5)
    goes_on()
    clock.advance(5)
    lease = take(sloth)
    goes_on()
    lease.complete(message="at last")
    goes_on()


def test_a_heartbeat_and_a_look_are_no_events(sloth: Sloth):
    job = sloth.queue("q").enqueue(1)
    lease = take(sloth)
    before = story(job)
    lease.heartbeat()
    sloth.jobs()
    assert sloth.queue("q").claim() is None
    assert story(job) == before


def test_a_failed_job_tells_its_whole_error_and_its_reason_in_one_line(sloth: Sloth):
    job = sloth.queue("q").enqueue(1, max_attempts=1)
    take(sloth).fail("line one\nline two")
    assert job.refresh().error == "line one\nline two"
    assert story(job)[-2:] == [
        ("failed_attempt", 1, "line one"),
        ("failed", 1, "its only attempt is spent"),
    ]


def test_an_unknown_job_has_no_history(sloth: Sloth):
    job = sloth.queue("q").enqueue(1)
    for id in (job.id + 1, 2**70):
        with pytest.raises(JobNotFound):
            sloth.verbs.history(id)


def test_moments_are_aware_and_in_utc(sloth: Sloth, clock: ManualClock):
    clock.advance(0.123)
    job = sloth.queue("q").enqueue(1)
    take(sloth).complete()
    done = job.refresh()
    for moment in (done.created_at, done.run_at, done.started_at, done.finished_at):
        assert moment == START + dt.timedelta(milliseconds=123)
        assert moment.tzinfo is dt.UTC
