"""A worker whose clock is moved by hand: functions in threads and on the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from slothqueue import Discard, JobFailed, ManualClock, Retry, Sloth, Snooze, Worker, current_job
from slothqueue.storage.base import Terms

from .telling import reasons, seconds_until_due, story

OpenSloth = Callable[..., Sloth]
Aside = Callable[..., Any]
SOON = 10.0


def idle(sloth: Sloth, **options: Any) -> int:
    return sloth.worker(**{"pool": "thread", **options}).run_until_idle()


class Gate:
    """Holds functions until the test lets them go, and tells when they came."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Semaphore(0), threading.Event()

    def pass_through(self) -> None:
        self.entered.release()
        assert self.opened.wait(SOON)

    def wait_for(self, count: int = 1) -> None:
        for _ in range(count):
            assert self.entered.acquire(timeout=SOON)


@pytest.fixture
def gate() -> Gate:
    return Gate()


# ---- what becomes of a function -------------------------------------------------------------


def test_functions_run_until_there_is_nothing_due(sloth: Sloth):
    @sloth.task()
    def double(n: int) -> int:
        return 2 * n

    jobs = [double.enqueue(n) for n in range(20)]
    assert idle(sloth) == 20
    assert [job.result() for job in jobs] == [2 * n for n in range(20)]
    assert idle(sloth) == 0
    assert story(jobs[0]) == [
        ("enqueued", None, None),
        ("claimed", 1, None),
        ("completed", 1, None),
    ]


def test_coroutine_functions_run_beside_each_other_on_one_loop(sloth: Sloth):
    arrived: list[int] = []
    everybody: list[asyncio.Event] = []

    @sloth.task()
    async def meet(n: int) -> int:
        if not everybody:
            everybody.append(asyncio.Event())
        arrived.append(n)
        if len(arrived) == 4:
            everybody[0].set()
        await asyncio.wait_for(everybody[0].wait(), SOON)
        return id(asyncio.get_running_loop())

    jobs = [meet.enqueue(n) for n in range(4)]
    assert idle(sloth, concurrency=4) == 4
    assert len({job.result() for job in jobs}) == 1


def test_no_more_run_at_once_than_the_worker_may(sloth: Sloth, gate: Gate, aside: Aside):
    @sloth.task()
    def wait() -> None:
        gate.pass_through()

    for _ in range(5):
        wait.enqueue()
    worker = aside(lambda: idle(sloth, concurrency=2))
    gate.wait_for(2)
    assert sloth.stats()["running"] == 2
    gate.opened.set()
    assert worker.value() == 5


def test_they_start_by_priority_over_all_queues(sloth: Sloth):
    order: list[str] = []

    @sloth.task()
    def note(name: str) -> None:
        order.append(name)

    note.using(queue="a", priority=1).enqueue("second")
    note.using(queue="b").enqueue("third")
    note.using(queue="c", priority=2).enqueue("first")
    idle(sloth, concurrency=1)
    assert order == ["first", "second", "third"]


def test_a_worker_takes_only_from_its_queues(sloth: Sloth):
    @sloth.task(queue="mine")
    def note() -> None: ...

    mine, other, third = (
        note.enqueue(),
        note.using(queue="other").enqueue(),
        note.using(queue="x").enqueue(),
    )
    assert idle(sloth, queues="mine") == 1
    assert (mine.refresh().state, other.refresh().state) == ("done", "queued")
    assert idle(sloth, queues=["other", "not there yet"]) == 1
    assert third.refresh().state == "queued"


def test_a_function_that_fails_is_tried_again_by_the_same_rule(sloth: Sloth, clock: ManualClock):
    @sloth.task(max_attempts=3)
    def fail() -> None:
        raise OSError(f"smtp down {current_job().attempt}")

    job = fail.enqueue()
    for wait in (2, 4):
        assert idle(sloth) == 1
        assert seconds_until_due(sloth, job) == wait
        assert idle(sloth) == 0
        clock.advance(wait)
    assert idle(sloth) == 1
    assert job.refresh().state == "failed"
    with pytest.raises(JobFailed, match="OSError: smtp down 3"):
        job.result()
    assert reasons(job, "failed_attempt") == [f"OSError: smtp down {n}" for n in (1, 2, 3)]
    assert "Traceback" in (job.refresh().error or "")


def test_a_function_says_itself_what_becomes_of_it(sloth: Sloth, clock: ManualClock):
    @sloth.task(max_attempts=3)
    def decide(how: str) -> str:
        first = not clock.wall() > begun
        if first and how == "retry":
            raise Retry("30s", "busy")
        if first and how == "snooze":
            raise Snooze("1h")
        if how == "discard":
            raise Discard("bad url")
        return how

    begun = clock.wall()
    retry, snooze, discard = (decide.enqueue(how) for how in ("retry", "snooze", "discard"))
    idle(sloth)
    assert (seconds_until_due(sloth, retry), retry.refresh().attempts) == (30, 1)
    assert (seconds_until_due(sloth, snooze), snooze.refresh().attempts) == (3600, 0)
    assert (discard.refresh().state, discard.refresh().error) == ("failed", "bad url")
    clock.suspend(3600)
    assert idle(sloth) == 2
    assert (retry.result(), retry.refresh().attempts) == ("retry", 2)
    assert (snooze.result(), snooze.refresh().attempts) == ("snooze", 1)


class Unprintable(Exception):
    def __init__(self, one: object, two: object) -> None:
        super().__init__()

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_an_exception_that_cannot_be_printed_is_told_as_well_as_can_be(sloth: Sloth, kind: str):
    @sloth.task(max_attempts=1)
    def function() -> None:
        raise Unprintable(1, 2)

    @sloth.task(max_attempts=1)
    async def coroutine() -> None:
        raise Unprintable(1, 2)

    job = {"function": function, "coroutine": coroutine}[kind].enqueue()  # scenario 42
    assert idle(sloth) == 1
    assert job.refresh().state == "failed"
    assert "Unprintable" in (job.refresh().error or "")


@pytest.mark.parametrize("value", [float("nan"), b"x", lambda: None, {1: 2}], ids=repr)
def test_a_result_that_is_not_json_is_a_clear_failure(sloth: Sloth, value: object):
    @sloth.task(max_attempts=1)
    def give() -> object:
        return value

    job = give.enqueue()
    idle(sloth)
    assert job.refresh().state == "failed"
    assert "NotSerializable" in (job.refresh().error or "")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_what_would_end_a_program_ends_only_the_attempt(
    sloth: Sloth, error: BaseException, kind: str
):
    @sloth.task(max_attempts=1)
    def function() -> None:
        raise error

    @sloth.task(max_attempts=1)
    async def coroutine() -> None:
        raise error

    @sloth.task()
    def other() -> str:
        return "fine"

    job = {"function": function, "coroutine": coroutine}[kind].enqueue()
    after = other.using(priority=-1).enqueue()
    assert idle(sloth, concurrency=1) == 2
    assert job.refresh().state == "failed"
    assert after.result() == "fine"


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
        return one.store.look(one.store.jobs.first_expiry) or 0

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
        lambda tx: other.store.jobs.claim(tx, [lane], 1, clock.wall(), lambda lane: terms)
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
