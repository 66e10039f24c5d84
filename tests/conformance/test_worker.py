"""A worker whose clock is moved by hand: functions in threads and on the event loop."""

from __future__ import annotations

import asyncio

import pytest

from slothqueue import Discard, JobFailed, ManualClock, Retry, Sloth, Snooze, current_job

from .running import SOON, Aside, Gate, idle
from .telling import reasons, seconds_until_due, story

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


@pytest.mark.parametrize(
    "value", [float("nan"), b"x", lambda: None, {1: 2}], ids=["nan", "bytes", "lambda", "odd keys"]
)
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
