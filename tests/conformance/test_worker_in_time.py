"""A worker over time: leases, limits, deaths, sleep and the end of its work."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from slothqueue import ManualClock, Sloth, StoreBusy, Worker, current_job
from slothqueue.storage.base import Terms

from .running import SOON, Aside, Gate, OpenSloth, idle
from .telling import reasons, story

# ---- time, leases, death --------------------------------------------------------------------


def test_a_worker_that_sleeps_and_whose_clock_jumps_keeps_its_jobs(
    open_sloth: OpenSloth, clock: ManualClock, gate: Gate, aside: Aside
):
    one, other = open_sloth(), open_sloth()

    @one.task()
    def wait() -> str:
        gate.pass_through()
        return "mine"

    other.tasks.update(one.tasks)
    job = wait.enqueue()
    worker = aside(lambda: idle(one))
    gate.wait_for()
    for pass_by in (clock.suspend, clock.advance, clock.step_wall):
        pass_by(100 * 24 * 3600)
        assert idle(other) == 0
    clock.step_wall(-200 * 24 * 3600)
    assert idle(other) == 0
    gate.opened.set()
    assert worker.value() == 1
    assert (job.result(), job.refresh().attempts, reasons(job)) == ("mine", 1, [])


def test_a_worker_heartbeats_for_a_lease_that_the_queue_or_the_task_asks_for(
    open_sloth: OpenSloth, clock: ManualClock, gate: Gate, aside: Aside
):
    one, other = open_sloth(), open_sloth()
    one.queue("q", lease="30s")

    @one.task(queue="q")
    def by_queue() -> None:
        gate.pass_through()

    @one.task(lease="30s")
    def by_task() -> None:
        gate.pass_through()

    jobs = [by_queue.enqueue(), by_task.enqueue()]
    worker = aside(lambda: idle(one))
    gate.wait_for(2)

    def first_end() -> int:
        return one.store.look(lambda tx: one.store.jobs.first_expiry(tx, clock.boot())) or 0

    for _ in range(4):
        before = clock.awake()
        clock.advance(11)
        for _ in range(1000):  # until the worker, which is awake by now, has sent its heartbeats
            if first_end() >= before + 11_000 + 30_000:
                break
            worker.over(0.005)
        assert idle(other) == 0
        assert reasons(jobs[0]) == reasons(jobs[1]) == []
    gate.opened.set()
    assert worker.value() == 2


def test_a_worker_that_lost_its_lease_changes_nothing(
    open_sloth: OpenSloth, clock: ManualClock, gate: Gate, aside: Aside
):
    one, other = open_sloth(), open_sloth()

    @one.task()
    def wait() -> str:
        if current_job().attempt == 1:
            gate.pass_through()
            return "stale"
        return "fresh"

    other.tasks.update(one.tasks)
    job = wait.enqueue()
    worker = aside(lambda: idle(one))
    gate.wait_for()
    clock.reboot()  # as far as anybody can tell
    idle(other)  # whoever is first
    assert job.result(timeout=SOON) == "fresh"
    gate.opened.set()
    worker.value()
    assert (job.result(), job.refresh().attempts) == ("fresh", 2)
    assert [kind for kind, _, _ in story(job)].count("completed") == 1


def test_a_worker_that_was_stopped_for_longer_than_its_lease_goes_on_with_it(
    open_sloth: OpenSloth, clock: ManualClock, gate: Gate, aside: Aside
):
    sloth = open_sloth()

    @sloth.task(lease="30s")
    def wait() -> str:
        gate.pass_through()
        return "the only run"

    job = wait.enqueue()
    worker = aside(lambda: idle(sloth))
    gate.wait_for()
    for _ in range(5):
        clock.advance(100)  # nobody else was there to take it
        assert not worker.over(0.02)
    gate.opened.set()
    assert worker.value() == 1
    assert story(job) == [("enqueued", None, None), ("claimed", 1, None), ("completed", 1, None)]


def test_jobs_of_a_dead_holder_are_run_by_a_worker_that_is_there(
    open_sloth: OpenSloth, clock: ManualClock, aside: Aside
):
    one, other = open_sloth(), open_sloth()

    @one.task()
    def note() -> int:
        return current_job().attempt

    job = note.enqueue()
    me, lane = other.presence.id, other.store.look(other.verbs.lanes.all)[0].id
    terms = Terms(me, me, None, None)
    other.store.write(
        lambda tx: other.store.jobs.claim(tx, [[lane]], 1, clock.wall(), lambda lane: terms)
    )
    worker = one.worker(pool="thread")
    running = aside(worker.run)
    assert not running.over(0.02)
    assert job.refresh().state == "running"
    other.close()
    assert job.result(timeout=SOON) == 2
    assert reasons(job) == ["gone"]
    stop(worker, running)


def test_an_attempt_on_the_loop_is_ended_at_its_time_limit(
    sloth: Sloth, clock: ManualClock, aside: Aside
):
    begun = threading.Event()

    @sloth.task(timeout="10m", max_attempts=1)
    async def forever() -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    job = forever.enqueue()
    worker = aside(lambda: idle(sloth))
    assert begun.wait(SOON)
    clock.suspend(3600)  # no time of it
    clock.advance(599)
    assert not worker.over(0.05)
    clock.advance(1)
    assert worker.value() == 1
    assert job.refresh().state == "failed"
    assert reasons(job, "failed_attempt") == ["timed out"]
    assert "10m" in (job.refresh().error or "")


# ---- running and stopping -------------------------------------------------------------------


def stop(worker: Worker, running: Any) -> None:
    worker.stop()
    running.value(within=SOON)


def test_a_worker_sleeps_until_there_is_something_to_do(
    open_sloth: OpenSloth, clock: ManualClock, aside: Aside
):
    one, other = open_sloth(), open_sloth()

    @one.task()
    def note(n: int) -> int:
        return n

    worker = one.worker(pool="thread")
    running = aside(worker.run)
    for n in range(3):
        assert note.within(other).enqueue(n).result(timeout=SOON) == n
    later = note.within(other).using(delay="1h").enqueue(9)
    assert not running.over(0.02)
    clock.advance(3600)
    for _ in range(1000):
        if later.refresh().ended or running.over(0.01):
            break
    assert later.result(timeout=0) == 9
    stop(worker, running)


def test_a_worker_that_is_told_to_stop_lets_its_functions_finish(
    sloth: Sloth, gate: Gate, aside: Aside
):
    @sloth.task()
    def wait() -> str:
        gate.pass_through()
        return "finished"

    jobs = [wait.enqueue() for _ in range(3)]
    worker = sloth.worker(pool="thread", concurrency=2)
    running = aside(worker.run)
    gate.wait_for(2)
    worker.stop()
    assert not running.over(0.02)
    gate.opened.set()
    running.value(within=SOON)
    assert [job.refresh().state for job in jobs] == ["done", "done", "queued"]


def test_a_function_can_see_that_its_worker_wants_to_stop(sloth: Sloth, aside: Aside):
    begun = threading.Event()

    @sloth.task()
    def polite() -> str:
        begun.set()
        for _ in range(2000):
            if current_job().stopping:
                return "stopped early"
            threading.Event().wait(0.005)
        return "never asked"

    job = polite.enqueue()
    worker = sloth.worker(pool="thread")
    running = aside(worker.run)
    assert begun.wait(SOON)
    stop(worker, running)
    assert job.result() == "stopped early"


@pytest.mark.parametrize("hurry", [False, True])
def test_a_coroutine_that_does_not_finish_in_the_grace_is_given_back_unspent(
    sloth: Sloth, clock: ManualClock, aside: Aside, hurry: bool
):
    begun = threading.Event()

    @sloth.task()
    async def forever() -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    job = forever.enqueue()
    worker = sloth.worker(grace="10s")
    running = aside(worker.run)
    assert begun.wait(SOON)
    worker.stop()
    assert not running.over(0.05)
    if hurry:
        worker.stop()
    else:
        clock.advance(10)
    running.value(within=SOON)
    assert (job.refresh().state, job.refresh().attempts) == ("queued", 0)
    assert story(job)[1:] == [("claimed", 1, None), ("released", 1, "its worker stops")]


def test_what_a_thread_makes_after_its_worker_gave_up_on_it_still_counts(
    sloth: Sloth, gate: Gate, aside: Aside
):
    @sloth.task()
    def slow() -> str:
        gate.pass_through()
        return "late"

    job = slow.enqueue()
    worker = sloth.worker(pool="thread", grace=0)
    running = aside(worker.run)
    gate.wait_for()
    worker.stop()
    running.value()
    assert job.refresh().state == "running"
    gate.opened.set()
    assert job.result(SOON) == "late"


def test_a_worker_told_to_stop_before_it_runs_ends_at_once_and_can_run_again(
    sloth: Sloth, aside: Aside
):
    job = sloth.task(name="f")(lambda: 1).enqueue()
    worker = sloth.worker(pool="thread")
    worker.stop()
    aside(worker.run).value()
    assert job.refresh().state == "queued"
    assert worker.run_until_idle() == 1


def test_a_call_for_which_no_thread_can_be_started_has_failed_and_never_runs(
    sloth: Sloth, monkeypatch: pytest.MonkeyPatch
):
    ran: list[int] = []
    start, failures = threading.Thread.start, [1]

    def limited(thread: threading.Thread) -> None:
        if thread.name == "slothqueue-call" and failures:
            failures.pop()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    task = sloth.task(name="note", max_attempts=1)(lambda n: ran.append(n))
    first, second = task.enqueue(1), task.enqueue(2)
    idle(sloth, concurrency=2)
    assert (first.refresh().state, second.refresh().state, ran) == ("failed", "done", [2])


def test_a_worker_bears_a_store_that_is_busy_while_it_wants_to_sleep(
    sloth: Sloth, aside: Aside, monkeypatch: pytest.MonkeyPatch
):
    want, refusals = sloth.store.want, [1]

    def busy() -> Any:
        if refusals:
            refusals.pop()
            raise StoreBusy("the store is busy")
        return want()

    monkeypatch.setattr(sloth.store, "want", busy)
    task, worker = sloth.task(name="f")(lambda: 1), sloth.worker(pool="thread")
    running = aside(worker.run)
    while refusals:
        running.over(0.005)
    assert task.enqueue().result(SOON) == 1
    worker.stop()
    running.value()


def test_a_worker_can_run_again(sloth: Sloth):
    @sloth.task()
    def note() -> int:
        return 1

    worker = sloth.worker(pool="thread")
    for _ in range(3):
        note.enqueue()
        assert worker.run_until_idle() == 1


@pytest.mark.parametrize(
    "options",
    [
        {"pool": "fork"},
        {"concurrency": 0},
        {"concurrency": 1.5},
        {"concurrency": True},
        {"grace": -1},
    ],
    ids=repr,
)
def test_a_worker_that_makes_no_sense_is_refused(sloth: Sloth, options: dict[str, Any]):
    with pytest.raises(ValueError, match=r"pool|concurrency|grace"):
        sloth.worker(**options)


def test_others_see_how_far_a_function_is_while_it_runs(
    open_sloth: OpenSloth, gate: Gate, aside: Aside
):
    one, other = open_sloth(), open_sloth()

    @one.task()
    def work() -> None:
        current_job().progress(0.4, "half")
        gate.pass_through()

    job = other.job(work.enqueue().id)
    assert job.progress is None
    worker = aside(lambda: idle(one))
    seen = other.verbs.patience.until(lambda: job.progress, SOON, "nothing was told")
    assert seen == (0.4, "half")
    gate.opened.set()
    assert worker.value() == 1
