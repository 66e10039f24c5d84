"""Slow is not dead, dead is not slow: suspends, restarts, jumps of the clock, holders that go."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pytest

from slothqueue import Lease, LeaseLost, ManualClock, Sloth

from .telling import HOUR, kinds, reasons, seconds_until_due, story

OpenSloth = Callable[..., Sloth]
DAY = 24 * HOUR
START = dt.datetime(2025, 1, 1, tzinfo=dt.UTC)


def take(sloth: Sloth) -> Lease:
    lease = sloth.queue("q").claim()
    assert lease is not None
    return lease


# ---- leases ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pass_by",
    [
        lambda clock: clock.suspend(60.001),
        lambda clock: clock.suspend(400 * DAY),
        lambda clock: clock.step_wall(12 * HOUR),
        lambda clock: clock.step_wall(-12 * HOUR),
        lambda clock: [clock.suspend(DAY), clock.step_wall(-3 * DAY), clock.suspend(DAY)],
    ],
    ids=["short suspend", "long suspend", "forward", "back", "all"],
)
def test_no_sleep_and_no_jump_of_the_clock_takes_a_lease(
    open_sloth: OpenSloth, clock: ManualClock, pass_by: Callable[[ManualClock], object]
):
    one, other = open_sloth(), open_sloth()
    job = one.queue("q").enqueue(1)
    lease = take(one)
    clock.advance(59)
    pass_by(clock)
    assert one.queue("q").claim() is None
    assert other.queue("q").claim() is None
    clock.advance(1)  # what was left of it
    assert other.queue("q").claim() is None
    lease.heartbeat()
    lease.complete()
    assert kinds(job) == ["enqueued", "claimed", "completed"]


@pytest.mark.parametrize("step", [12 * HOUR, -12 * HOUR])
def test_a_lease_ends_on_time_after_a_jump_of_the_clock(
    open_sloth: OpenSloth, clock: ManualClock, step: float
):
    one, other = open_sloth(), open_sloth()
    one.queue("q").enqueue(1)
    take(one)
    clock.step_wall(step)
    clock.advance(60.001)
    assert take(other).attempt == 2


def test_a_holder_that_is_gone_loses_its_jobs_at_once(open_sloth: OpenSloth, clock: ManualClock):
    one, other = open_sloth(), open_sloth()  # scenario 3
    jobs = one.queue("q", lease="9h").enqueue_many([1, 2])
    lost = one.queue("q").claim_many(2)
    one.close()
    again = other.queue("q").claim_many(2)
    assert [(lease.id, lease.attempt) for lease in again] == [(job.id, 2) for job in jobs]
    for job in (other.job(job.id) for job in jobs):
        assert story(job) == [
            ("enqueued", None, None),
            ("claimed", 1, None),
            ("reclaimed", 1, "gone"),
            ("claimed", 2, None),
        ]
        assert "process is gone" in (job.error or "")
    for lease in lost:
        with pytest.raises(LeaseLost):
            lease.complete()


def test_recovery_does_not_wait_for_the_time_limit_of_the_job(open_sloth: OpenSloth):
    one, other = open_sloth(), open_sloth()  # scenario 5
    one.queue("q", lease="30d").enqueue(1)
    take(one)
    one.close()
    assert take(other).attempt == 2


def test_a_handle_that_gave_everything_back_leaves_no_trace(open_sloth: OpenSloth):
    one, other = open_sloth(), open_sloth()
    job = one.queue("q").enqueue(1)
    take(one).complete("fine")
    one.close()
    assert other.queue("q").claim() is None
    assert kinds(other.job(job.id)) == ["enqueued", "claimed", "completed"]


def test_a_closed_handle_may_be_used_again(open_sloth: OpenSloth):
    one = open_sloth()
    job = one.queue("q").enqueue(1)
    take(one)
    one.close()
    lease = take(one)  # it is somebody else by now, and takes it from its dead self
    assert lease.attempt == 2
    lease.complete()
    assert reasons(job) == ["gone"]


def test_after_a_restart_every_running_job_is_issued_again(
    open_sloth: OpenSloth, clock: ManualClock
):
    one, other = open_sloth(), open_sloth()
    job = one.queue("q", lease="9h").enqueue(1)
    stale = take(one)
    clock.reboot()
    fresh = take(one)  # the same handle, registered anew
    assert fresh.attempt == 2
    assert reasons(job) == ["restarted"]
    assert "machine restarted" in (job.refresh().error or "")
    with pytest.raises(LeaseLost):
        stale.heartbeat()
    assert other.queue("q").claim() is None
    fresh.complete()


def test_a_lease_given_after_a_restart_counts_from_there(open_sloth: OpenSloth, clock: ManualClock):
    one, other = open_sloth(), open_sloth()
    clock.advance(30 * DAY)
    one.queue("q").enqueue(1)
    take(one)
    clock.reboot()
    take(one)
    clock.advance(60)
    assert other.queue("q").claim() is None
    clock.advance(0.001)
    assert take(other).attempt == 3


# ---- the true reason ------------------------------------------------------------------------


def test_a_restart_is_looked_at_before_death_and_death_before_silence(
    open_sloth: OpenSloth, clock: ManualClock
):
    watcher = open_sloth()
    queue = watcher.queue("q", lease="30s", max_attempts=9)
    job = queue.enqueue(1)

    victim = open_sloth()
    take(victim)
    clock.advance(31)
    victim.close()
    clock.advance(31)
    clock.reboot()  # silent, gone and restarted
    take(watcher).release()

    victim = open_sloth()
    take(victim)
    clock.advance(31)
    victim.close()  # silent and gone
    take(watcher).release()

    victim = open_sloth()
    take(victim)
    clock.advance(31)  # silent
    take(watcher).release()

    assert reasons(job) == ["restarted", "gone", "silent"]
    told = [event for event in job.events() if event.kind == "reclaimed"]
    assert [event.attempt for event in told] == [1, 2, 3]
    assert all(event.detail for event in told)


def test_only_the_attempts_of_the_dead_are_taken(open_sloth: OpenSloth, clock: ManualClock):
    living, dying = open_sloth(), open_sloth()
    jobs = living.queue("q").enqueue_many([1, 2, 3])
    mine = take(living)
    take(dying)
    last = take(living)
    dying.close()
    assert take(living).id == jobs[1].id
    assert living.queue("q").complete_many([mine, last]) == [mine, last]


def test_a_holder_on_another_machine_is_left_alone_and_keeps_nobody_awake(
    open_sloth: OpenSloth, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    elsewhere = ManualClock()
    elsewhere.reboot()
    monkeypatch.setattr("slothqueue.liveness.machine_id", lambda: "another machine")
    far = open_sloth(clock=elsewhere)
    job = far.queue("q").enqueue(1)
    lease = take(far)
    monkeypatch.undo()
    near = open_sloth()
    for _ in range(3):
        clock.advance(DAY)
        assert near.queue("q").claim() is None
        assert near.verbs.next_look([]) is None
    lease.complete("from afar")
    assert near.job(job.id).result() == "from afar"


# ---- delays and moments (scenario 30) -------------------------------------------------------


def test_a_suspended_machine_finds_its_due_jobs_when_it_wakes(
    open_sloth: OpenSloth, clock: ManualClock
):
    sloth = open_sloth()
    sloth.queue("q").enqueue("delay", delay="1h")
    sloth.queue("q").enqueue("moment", run_at=START + dt.timedelta(hours=1))
    clock.suspend(HOUR)
    assert [lease.payload for lease in sloth.queue("q").claim_many(9)] == ["delay", "moment"]


def late_delay(sloth: Sloth) -> None:
    sloth.queue("q").enqueue(1, delay=60)


def late_retry(sloth: Sloth) -> None:
    sloth.queue("q").enqueue(1)
    take(sloth).retry(60)


def late_back_off(sloth: Sloth) -> None:
    sloth.queue("q", backoff=(60, "1h")).enqueue(1)
    take(sloth).fail("no")


def late_snooze(sloth: Sloth) -> None:
    sloth.queue("q").enqueue(1)
    take(sloth).snooze(60)


def late_batch(sloth: Sloth) -> None:
    sloth.queue("q").enqueue_many([1], delay=60)


def late_transaction(sloth: Sloth) -> None:
    with sloth.transaction() as tx:
        tx.queue("q").enqueue(1, delay=60)


WAYS_TO_WAIT = [late_delay, late_retry, late_back_off, late_snooze, late_batch, late_transaction]


@pytest.mark.parametrize("wait", WAYS_TO_WAIT)
@pytest.mark.parametrize("step", [-0.5, -12 * HOUR, -400 * DAY])
def test_no_delay_grows_when_the_clock_is_set_back(
    open_sloth: OpenSloth, clock: ManualClock, wait: Callable[[Sloth], None], step: float
):
    one, other = open_sloth(), open_sloth()
    wait(one)
    clock.advance(20)
    clock.step_wall(step)
    clock.advance(39)
    assert other.queue("q").claim() is None
    clock.advance(1)
    assert take(other).payload == 1


@pytest.mark.parametrize("wait", WAYS_TO_WAIT)
def test_no_delay_grows_when_the_clock_jumps_ahead_and_back(
    open_sloth: OpenSloth, clock: ManualClock, wait: Callable[[Sloth], None]
):
    one, other = open_sloth(), open_sloth()
    other.queue("q").enqueue("first")
    take(other).complete()  # both have seen the clock as it was
    take_back = one.queue("q").claim()
    assert take_back is None
    clock.step_wall(12 * HOUR)
    wait(one)
    one.close()
    clock.step_wall(-12 * HOUR)
    clock.advance(60)
    assert take(other).payload == 1


@pytest.mark.parametrize("wait", WAYS_TO_WAIT)
def test_a_delay_is_no_longer_than_asked_for_after_a_restart_with_a_wrong_clock(
    open_sloth: OpenSloth, clock: ManualClock, wait: Callable[[Sloth], None]
):
    sloth = open_sloth()
    clock.advance(30 * DAY)
    wait(sloth)
    clock.step_wall(-90 * DAY)  # the battery of its clock was empty
    clock.reboot()
    assert sloth.queue("q").claim() is None
    clock.advance(60)
    assert take(sloth).payload == 1


def test_a_clock_set_forward_makes_a_delay_end_sooner_and_not_later(
    open_sloth: OpenSloth, clock: ManualClock
):
    sloth = open_sloth()
    sloth.queue("q").enqueue(1, delay="1h")
    clock.step_wall(2 * HOUR)
    assert take(sloth).payload == 1


def test_small_corrections_of_the_clock_do_not_add_up(open_sloth: OpenSloth, clock: ManualClock):
    sloth = open_sloth()
    sloth.queue("q").enqueue(1, delay=1000)
    for _ in range(1000):
        clock.advance(1)
        clock.step_wall(-0.05)
        sloth.queue("q").claim()
    assert seconds_until_due(sloth, sloth.jobs()[0]) < 0.2


@pytest.mark.parametrize("step", [-12 * HOUR, 12 * HOUR])
def test_a_moment_stays_where_it_is_when_the_clock_is_set(
    open_sloth: OpenSloth, clock: ManualClock, step: float
):
    sloth = open_sloth()
    moment = START + dt.timedelta(days=1)
    job = sloth.queue("q").enqueue(1, run_at=moment)
    sloth.queue("q").enqueue("beside it", delay="2d")
    clock.step_wall(step)
    assert sloth.queue("q").claim() is None
    assert job.refresh().run_at == moment
    clock.advance(DAY - step - 0.001)
    assert sloth.queue("q").claim() is None
    clock.advance(0.001)
    assert take(sloth).id == job.id


def test_the_clock_set_back_leaves_due_jobs_due(open_sloth: OpenSloth, clock: ManualClock):
    sloth = open_sloth()
    queue = sloth.queue("q")
    queue.enqueue("at once")
    queue.enqueue("given back")
    queue.claim_many(1)[0].release()
    clock.step_wall(-12 * HOUR)
    assert [lease.payload for lease in queue.claim_many(9)] == ["at once", "given back"]


def test_a_reclaimed_job_is_due_at_once_whatever_the_clock_says(
    open_sloth: OpenSloth, clock: ManualClock
):
    one, other = open_sloth(), open_sloth()
    one.queue("q").enqueue(1)
    take(one)
    clock.step_wall(-12 * HOUR)
    clock.advance(60.001)
    assert take(other).attempt == 2
    other.close()
    clock.step_wall(-12 * HOUR)
    assert take(one).attempt == 3


def test_jobs_for_later_survive_a_restart(open_sloth: OpenSloth, clock: ManualClock):
    sloth = open_sloth()
    sloth.queue("q").enqueue(1, delay="1h")
    clock.reboot(HOUR - 1)
    assert sloth.queue("q").claim() is None
    clock.advance(1)
    assert take(sloth).attempt == 1
