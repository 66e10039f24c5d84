"""Leases: one holder at a time, counted in awake time, proved by fence and holder."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from slothqueue import JobFailed, Lease, LeaseLost, ManualClock, Sloth

from .telling import HOUR, kinds, reasons, story

OpenSloth = Callable[..., Sloth]


def take(sloth: Sloth, queue: str = "q") -> Lease:
    lease = sloth.queue(queue).claim()
    assert lease is not None
    return lease


def test_a_claimed_job_is_given_to_nobody_else(open_sloth: OpenSloth):
    one, other = open_sloth(), open_sloth()
    one.queue("q").enqueue(1)
    take(one)
    assert one.queue("q").claim() is None
    assert other.queue("q").claim() is None
    assert other.queue("q").claim_many(10) == []


def test_two_handles_that_claim_in_turns_share_the_jobs(open_sloth: OpenSloth):
    handles = [open_sloth() for _ in range(3)]
    ids = [job.id for job in handles[0].queue("q").enqueue_many(list(range(30)))]
    taken = [lease.id for _ in range(4) for h in handles for lease in h.queue("q").claim_many(3)]
    assert taken == ids


def test_threads_of_one_handle_and_of_several_never_share_a_job(
    open_sloth: OpenSloth, aside: Callable[..., Any]
):
    handles = [open_sloth() for _ in range(2)]
    ids = [job.id for job in handles[0].queue("q").enqueue_many(list(range(120)))]

    def work(sloth: Sloth) -> list[int]:
        done = []
        while lease := sloth.queue("q").claim():
            lease.complete()
            done.append(lease.id)
        return done

    workers = [aside(partial(work, sloth)) for sloth in handles * 3]
    done = [id for worker in workers for id in worker.value()]
    assert sorted(done) == ids
    assert handles[0].stats()["done"] == len(ids)


def test_a_lease_taken_by_hand_lasts_sixty_seconds(open_sloth: OpenSloth, clock: ManualClock):
    one, other = open_sloth(), open_sloth()
    job = one.queue("q").enqueue(1)
    stale = take(one)
    clock.advance(60)
    assert other.queue("q").claim() is None
    clock.advance(0.001)
    fresh = take(other)
    assert (fresh.id, fresh.attempt) == (job.id, 2)
    assert fresh.fence > stale.fence
    assert story(job) == [
        ("enqueued", None, None),
        ("claimed", 1, None),
        ("reclaimed", 1, "silent"),
        ("claimed", 2, None),
    ]
    assert "heartbeat" in (job.refresh().error or "")


@pytest.mark.parametrize("length", [1, "90s", "2h"])
def test_a_queue_says_how_long_its_leases_last(
    open_sloth: OpenSloth, clock: ManualClock, length: int | str
):
    one, other = open_sloth(), open_sloth()
    one.queue("q", lease=length).enqueue(1)
    milliseconds = take(one).length
    assert milliseconds == {1: 1_000, "90s": 90_000, "2h": 7_200_000}[length]
    clock.advance(milliseconds / 1000)
    assert other.queue("q").claim() is None
    clock.advance(0.001)
    assert take(other).attempt == 2


def test_a_silent_holder_is_noticed_while_there_is_other_work(
    open_sloth: OpenSloth, clock: ManualClock
):
    sloth = open_sloth()
    queue = sloth.queue("q")
    lost = queue.enqueue("lost", priority=1)
    take(sloth)
    queue.enqueue_many(["other"] * 5)
    clock.advance(60.001)
    assert take(sloth).id == lost.id


def test_a_heartbeat_moves_the_end_out_by_the_whole_length(
    open_sloth: OpenSloth, clock: ManualClock
):
    one, other = open_sloth(), open_sloth()
    job = one.queue("q", lease="30s").enqueue(1)
    lease = take(one)
    for _ in range(10):
        clock.advance(30)
        assert other.queue("q").claim() is None
        lease.heartbeat()
    clock.advance(30)
    assert other.queue("q").claim() is None
    lease.complete()
    assert kinds(job) == ["enqueued", "claimed", "completed"]


@pytest.mark.parametrize(
    "call",
    [
        lambda lease: lease.complete("late"),
        lambda lease: lease.fail("late"),
        lambda lease: lease.retry(1, "late"),
        lambda lease: lease.discard("late"),
        lambda lease: lease.snooze(1),
        lambda lease: lease.release(),
        lambda lease: lease.heartbeat(),
    ],
    ids=["complete", "fail", "retry", "discard", "snooze", "release", "heartbeat"],
)
def test_a_lease_that_was_lost_changes_nothing(
    open_sloth: OpenSloth, clock: ManualClock, call: Callable[[Lease], None]
):
    one, other = open_sloth(), open_sloth()
    job = one.queue("q", lease="30s").enqueue(1)
    stale = take(one)
    clock.advance(30.001)
    fresh = take(other)
    before = (job.refresh(), story(job))

    with pytest.raises(LeaseLost, match=f"job {job.id} "):
        call(stale)
    assert one.queue("q").complete_many([stale]) == []

    assert (job.refresh(), story(job)) == before
    clock.advance(30)
    assert one.queue("q").claim() is None  # the heartbeat of the stale one has moved nothing
    fresh.complete("in time")
    assert job.result() == "in time"


def test_a_job_has_one_end_however_its_two_holders_hurry(open_sloth: OpenSloth, clock: ManualClock):
    one, other = open_sloth(), open_sloth()  # scenario 2
    job = one.queue("q", lease="30s").enqueue(1)
    stale = take(one)
    clock.advance(31)
    take(other).complete("second")
    with pytest.raises(LeaseLost):
        stale.fail("first")
    assert job.result() == "second"
    assert kinds(job).count("completed") == 1
    assert "failed_attempt" not in kinds(job)


def test_the_same_handle_cannot_use_its_older_lease_on_a_job(sloth: Sloth, clock: ManualClock):
    job = sloth.queue("q").enqueue(1)
    stale = take(sloth)
    clock.advance(61)
    fresh = take(sloth)  # the holder is the same, the fence is not
    with pytest.raises(LeaseLost):
        stale.complete()
    fresh.complete()
    assert job.refresh().state == "done"


def test_a_fence_from_elsewhere_does_not_help(open_sloth: OpenSloth):
    one, other = open_sloth(), open_sloth()
    one.queue("q").enqueue_many([1, 2])
    mine, yours = take(one), take(other)
    forged = Lease(mine._claimed._replace(holder=yours._claimed.holder), "q", other.verbs)
    with pytest.raises(LeaseLost):  # the right fence, another holder: as after a restored backup
        forged.complete()
    mine.complete()


def test_who_is_late_but_not_replaced_may_still_complete(sloth: Sloth, clock: ManualClock):
    job = sloth.queue("q").enqueue(1)
    lease = take(sloth)
    clock.advance(10 * HOUR)
    lease.complete("late, and welcome")
    assert job.result() == "late, and welcome"


def test_who_is_late_but_not_replaced_may_still_extend(sloth: Sloth, clock: ManualClock):
    sloth.queue("q").enqueue(1)
    lease = take(sloth)
    clock.advance(HOUR)
    lease.heartbeat()
    clock.advance(60)
    assert sloth.queue("q").claim() is None


def test_silence_and_failure_share_one_budget(open_sloth: OpenSloth, clock: ManualClock):
    one, other = open_sloth(), open_sloth()
    job = one.queue("q").enqueue(1, max_attempts=3)
    take(one).fail("no")
    clock.advance(2)
    take(one)
    clock.advance(60.001)
    last = take(other)  # at once, without back-off
    assert last.attempt == 3
    clock.advance(60.001)
    assert one.queue("q").claim() is None
    assert (job.refresh().state, job.refresh().attempts) == ("failed", 3)
    assert story(job)[-2:] == [
        ("reclaimed", 3, "silent"),
        ("failed", 3, "all 3 attempts are spent"),
    ]
    with pytest.raises(JobFailed, match="heartbeat"):
        job.result()
    with pytest.raises(LeaseLost):
        last.complete()


def test_a_job_that_always_loses_its_holder_does_not_block_its_queue(
    open_sloth: OpenSloth, clock: ManualClock
):
    one = open_sloth()  # scenario 10
    poison, good = one.queue("q").enqueue_many(["poison", "good"], max_attempts=2)
    for _ in range(2):
        victim = open_sloth()
        assert take(victim).id == poison.id
        victim.close()
        clock.advance(1)
    assert take(one).id == good.id
    assert (poison.refresh().state, reasons(poison)) == ("failed", ["gone", "gone"])
    assert one.queue("q").claim() is None


def test_a_fence_grows_at_every_claim_even_when_the_wall_clock_falls(
    open_sloth: OpenSloth, clock: ManualClock
):
    sloth = open_sloth()
    sloth.queue("q").enqueue(1)
    fences = []
    for _ in range(6):
        lease = take(sloth)
        fences.append(lease.fence)
        lease.release()
        clock.step_wall(-HOUR)
    assert fences == sorted(set(fences))


def test_a_batch_of_leases_ends_one_by_one(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q")
    queue.enqueue_many([1, 2, 3])
    leases = queue.claim_many(3)
    clock.advance(40)
    leases[1].heartbeat()
    clock.advance(20.001)
    again = queue.claim_many(3)
    assert [lease.id for lease in again] == [leases[0].id, leases[2].id]
    assert queue.complete_many([*leases, *again]) == [leases[1], *again]


def test_what_is_done_stays_done(open_sloth: OpenSloth, clock: ManualClock):
    sloth = open_sloth()  # scenario 20
    queue = sloth.queue("q")
    done, failed = queue.enqueue("done"), queue.enqueue("failed", max_attempts=1)
    take(sloth).complete()
    take(sloth).fail("no")
    told = [(job.refresh(), story(job)) for job in (done, failed)]
    sloth.close()
    for pass_by in (
        lambda: clock.advance(10 * HOUR),
        lambda: clock.suspend(10 * HOUR),
        lambda: clock.step_wall(-20 * HOUR),
        lambda: clock.reboot(),
    ):
        pass_by()
        with open_sloth() as other:
            assert other.queue("q").claim() is None
            assert [(other.job(job.id), story(job)) for job in (done, failed)] == told


def test_the_history_of_a_running_job_shows_its_claim(sloth: Sloth, clock: ManualClock):
    job = sloth.queue("q").enqueue(1)
    clock.advance(3)
    take(sloth)
    first, claimed = job.events()
    assert [first.n, claimed.n] == [1, 2]
    assert (claimed.kind, claimed.attempt, claimed.worker) == ("claimed", 1, job.refresh().worker)
    assert (claimed.at - first.at).total_seconds() == 3


def test_a_look_is_due_when_the_next_lease_runs_out_and_not_before(
    open_sloth: OpenSloth, clock: ManualClock
):
    # Or who waits for that moment finds that it is too early to look, and asks again and again.
    holder, waiter = open_sloth(), open_sloth()
    holder.queue("q", lease=1.5).enqueue(1)
    take(holder)
    upkeep = waiter.verbs.upkeep
    clock.advance(1.2)
    assert upkeep.run() == 0
    wait = upkeep.next_look()
    assert wait is not None
    clock.advance((wait - 1) / 1000)
    assert not upkeep.due()
    clock.advance(0.001)
    assert upkeep.due()
    assert upkeep.run() == 1
    assert upkeep.next_look() is None
