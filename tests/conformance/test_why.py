"""Why a job does not run: true whenever it is said, and read from what claims read."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from slothqueue import Job, ManualClock, Sloth

from .keeping import check_filing, delete_row, take
from .running import Aside, Gate, OpenSloth


def listener(sloth: Sloth) -> None:
    """Somebody who claims by hand, so that nobody is missing."""
    sloth.queue("elsewhere").enqueue(0)
    assert sloth.queue("elsewhere").claim() is not None


def test_each_reason_is_told_with_what_would_start_the_job(sloth: Sloth, clock: ManualClock):
    listener(sloth)
    queue = sloth.queue("q")
    running = queue.enqueue("running", priority=9, concurrency_key="g")
    lease = take(sloth, running)
    gated = queue.enqueue("gated", concurrency_key="g")
    assert queue.claim() is None
    for job, told in {
        running: rf"is running, attempt 1, by {re.escape(str(running.refresh().worker))}",
        queue.enqueue(1, hold=True): r"is held since .* by .*; `sloth unhold \d+` lets it go",
        queue.enqueue(1, after=running): (
            rf"is blocked by #{running.id} \(running\); it starts when that is done"
        ),
        queue.enqueue(1, after=running, after_failed="run"): "it starts when that has ended",
        queue.enqueue(1, delay=90): r"is due at 2025-01-01 .*\(in 1m 30s\)",
        gated: rf"waits because its key 'g' is at its limit of 1 by #{running.id}$",
        queue.enqueue(1): "is due, and starts when it is claimed",
        queue.enqueue(1): "is due and waits for its turn",
    }.items():
        assert re.search(rf"^job {job.id} {told}" if told[0] != "i" else told, job.why()), job.why()
    lease.complete()
    assert running.why() == f"job {running.id} is done"


def test_parents_are_named_and_the_rest_is_counted(sloth: Sloth):
    listener(sloth)
    parents = sloth.queue("p").enqueue_many([1, 2, 3, 4, 5])
    child = sloth.queue("q").enqueue(0, after=[*parents, parents[0]])
    a, b, c, *_ = (f"#{job.id} (queued)" for job in parents)
    assert f"is blocked by {a}, {b}, {c} and 2 more; it starts when all are done" in child.why()
    take(sloth, parents[0]).complete()
    delete_row(sloth, parents[1])
    assert f"#{parents[1].id} (deleted)" in child.why()


def test_a_paused_queue_is_told_with_since_when_and_by_whom(sloth: Sloth, clock: ManualClock):
    listener(sloth)
    job = sloth.queue("a queue").enqueue(1)
    sloth.queue("a queue").pause()
    clock.advance(60)
    assert re.search(
        r"queue 'a queue' is paused since 2025-01-01 .*\(1m ago\) by \S.*; "
        r"`sloth resume 'a queue'` lets it go",
        job.why(),
    ), job.why()


def test_a_queue_at_its_limit_names_those_that_run(sloth: Sloth):
    queue = sloth.queue("q", concurrency=2)
    one, two, three = queue.enqueue_many([1, 2, 3])
    queue.claim_many(3)
    told = f"queue 'q' is at its limit of 2 by #{one.id} and #{two.id}"
    assert told in three.why()


def test_a_rate_that_is_used_up_tells_when_the_next_may_start(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q", rate=(2, "1m"))
    *_, last = queue.enqueue_many([1, 2, 3])
    queue.claim_many(3)
    clock.advance(20)
    assert re.search(
        r"'q' has had its 2 starts in 1m; the next may start at .* \(in 40s\)", last.why()
    )


def test_nobody_to_run_it_is_told_with_the_command_that_helps(sloth: Sloth):
    @sloth.task(name="shop.mail.send", queue="q")
    def send() -> None: ...

    command = sloth.queue("q").enqueue_command(["true"])
    assert "no worker is running; `sloth worker` starts one" in command.why()
    assert "no worker that knows shop.mail.send is running" in send.enqueue().why()
    assert "nobody claims it by hand" in sloth.queue("q").enqueue(1).why()


def test_a_worker_that_lives_is_known_by_what_it_serves(sloth: Sloth, gate: Gate, aside: Aside):
    @sloth.task(queue="q")
    def work() -> None:
        gate.pass_through()

    work.enqueue()
    worker = aside(lambda: sloth.worker(["q"], concurrency=1, pool="thread").run_until_idle())
    gate.wait_for()
    waits, other = work.enqueue(), work.using(queue="other").enqueue()
    assert "is due, and starts as soon as a worker is free" in waits.why()
    assert "serves queue 'other'" in other.why()
    gate.opened.set()
    worker.value()


def test_what_has_expired_is_not_said_to_start(sloth: Sloth, clock: ManualClock):
    listener(sloth)
    job = sloth.queue("q").enqueue(1, expires=60)
    clock.advance(60)
    assert "has expired" in job.why()
    assert sloth.queue("q").claim() is None
    assert "it expired before it could start" in job.why()


@pytest.mark.parametrize("end", ["discard", "cancel"])
def test_an_ended_job_tells_how_and_what_puts_it_back(sloth: Sloth, end: str):
    job = sloth.queue("q").enqueue(1)
    lease = take(sloth, job)
    if end == "discard":
        lease.discard("boom\ndetails")
        assert job.why() == (
            f"job {job.id} has failed after attempt 1: boom; `sloth retry {job.id}` puts it back"
        )
    else:
        job.cancel("enough")
        lease.fail("x")
        assert "was cancelled: by " in job.why()
        assert job.why().endswith(f"enough; `sloth retry {job.id}` puts it back")


def test_the_turn_is_told_as_ageing_gives_it(sloth: Sloth, clock: ManualClock):
    listener(sloth)
    queue = sloth.queue("q", ageing=60)
    old = queue.enqueue("old")
    clock.advance(600)
    new = queue.enqueue("new", priority=5)
    assert "waits for its turn" in new.why()
    assert "starts when it is claimed" in old.why()
    take(sloth, old)
    take(sloth, new)


# ---- never guessed ------------------------------------------------------------------------------

FREE = "starts when it is claimed"
KEEPS = ("held", "blocked", "is due at", "paused", "at its limit", "has had its", "has expired")


def some_jobs(sloth: Sloth, dice: random.Random, jobs: list[Job]) -> Job:
    options: dict[str, Any] = {"priority": dice.randrange(3)}
    if dice.random() < 0.3:
        options["concurrency_key"] = (dice.choice("gh"), dice.choice([1, 2]))
    if dice.random() < 0.2:
        options["delay"] = dice.choice([0, 5, 60])
    if dice.random() < 0.2:
        options["hold"] = True
    if dice.random() < 0.2:
        options["expires"] = dice.choice([0, 10, 60])
    if jobs and dice.random() < 0.3:
        options["after"] = [dice.choice(jobs) for _ in range(dice.randrange(1, 3))]
        options["after_failed"] = dice.choice(["cancel", "run"])
    return sloth.queue("q").enqueue(len(jobs), **options)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_said_to_wait_is_not_claimed_and_what_is_said_to_be_free_is(
    open_sloth: OpenSloth, clock: ManualClock, seed: int
):
    sloth, dice = open_sloth(), random.Random(seed)
    listener(sloth)
    options: list[dict[str, Any]] = [{}, {"concurrency": 2}, {"rate": (2, 20)}, {"ageing": 30}]
    queue = sloth.queue("q", backoff=(0, 0), lease="1d", **options[seed % 4])
    jobs: list[Job] = []
    leases: list[Any] = []
    said = set()
    for _ in range(60):
        jobs.append(some_jobs(sloth, dice, jobs))
        act = dice.randrange(7)
        if act == 0 and leases:
            lease = leases.pop(dice.randrange(len(leases)))
            dice.choice([lease.complete, lease.release, lambda one=lease: one.fail("x")])()
        elif act == 1:
            clock.advance(dice.choice([1, 7, 30]))
        elif act == 2:
            queue.pause() if dice.random() < 0.5 else queue.resume()
        elif act == 3 and (held := [j for j in sloth.jobs(state="queued", queue="q") if j.held]):
            dice.choice(held).unhold()
        sloth.verbs.upkeep.run()
        waiting = sloth.jobs(state="queued", queue="q", limit=200)
        told = {job.id: job.why() for job in waiting}
        said |= {word for why in told.values() for word in (*KEEPS, FREE) if word in why}
        lease = queue.claim()
        check_filing(sloth)
        free = [id for id, why in told.items() if FREE in why]
        if lease is None:
            assert not free, [told[id] for id in free]
            continue
        leases.append(lease)
        assert not any(word in told[lease.id] for word in KEEPS), told[lease.id]
    assert len(said) > 3, said
