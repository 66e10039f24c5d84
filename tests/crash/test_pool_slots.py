"""Threads and the event loop run functions too, and each call has exactly one ending."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from slothqueue.codec import decode
from slothqueue.context import CurrentJob, current_job
from slothqueue.models import Ending
from slothqueue.pool import LoopThread, ThreadSlots

from .pool_support import (
    DEADLINE,
    until,
)


class Outcomes:
    """Collects endings, and waits for them."""

    def __init__(self) -> None:
        self.endings: list[Ending] = []
        self._changed = threading.Condition()

    def __call__(self, ending: Ending) -> None:
        with self._changed:
            self.endings.append(ending)
            self._changed.notify_all()

    def wait(self, count: int = 1) -> list[Ending]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.endings) >= count, DEADLINE)
            return self.endings


def job(stopping: Callable[[], bool] = lambda: False, number: int = 1) -> CurrentJob:
    nothing: Any = lambda *_: None  # noqa: E731
    return CurrentJob(
        number, 1, token=f"t{number}", stopping=stopping, heartbeat=nothing, progress=nothing
    )


def test_threads_are_kept_for_the_next_call():
    slots, done = ThreadSlots(), Outcomes()
    for n in range(20):
        slots.start(lambda: threading.get_ident() and current_job().id, job(number=n), done)
        assert done.wait(n + 1)[-1].result == str(n)
        until(lambda: "idle=1" in repr(slots))
    assert repr(slots) == "ThreadSlots(threads=1, idle=1)"
    slots.close()


def test_calls_in_threads_run_side_by_side_and_may_end_the_thread_they_are_in():
    slots, done, together = ThreadSlots(), Outcomes(), threading.Barrier(3)
    for _ in range(3):
        slots.start(lambda: together.wait(DEADLINE) * 0, job(), done)
    assert done.wait(3) == [Ending("complete", result="0")] * 3
    slots.start(sys.exit, job(), done)
    assert (done.wait(4)[-1].error or "").startswith("SystemExit")
    slots.close()


def test_a_thread_learns_that_it_should_stop():
    slots, done, told = ThreadSlots(), Outcomes(), threading.Event()

    def wait() -> bool:
        return bool(until(lambda: current_job().stopping))

    slots.start(wait, job(told.is_set), done)
    told.set()
    assert done.wait()[0].result == "true"
    slots.close()


# ---- the event loop ------------------------------------------------------------------------------


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


async def told_its_job(n: int) -> list[int]:
    await asyncio.sleep(0)
    return [n, current_job().id]


def test_coroutines_run_side_by_side_each_within_its_job(loop: LoopThread):
    done = Outcomes()
    for n in range(50):
        loop.start(partial(told_its_job, n), current=job(number=n), done=done)
    assert sorted(decode(e.result or "") for e in done.wait(50)) == [[n, n] for n in range(50)]


def test_a_cancelled_coroutine_ends_as_it_was_told(loop: LoopThread):
    done, started = Outcomes(), threading.Event()

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    call = loop.start(hang, current=job(), done=done)
    assert started.wait(DEADLINE)
    call.cancel(Ending("fail", error="timed out"))
    assert done.wait() == [Ending("fail", error="timed out")]


def test_a_coroutine_cancelled_before_its_first_step_has_an_ending(loop: LoopThread):
    done = Outcomes()
    for _ in range(50):
        loop.start(lambda: told_its_job(1), current=job(), done=done).cancel(Ending("release"))
    kinds = {ending.kind for ending in done.wait(50)}
    assert kinds <= {"release", "complete"}


def test_a_coroutine_that_completes_while_it_is_cancelled_has_completed(loop: LoopThread):
    done, started = Outcomes(), threading.Event()

    async def stubborn() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "saved"
        return "never"

    call = loop.start(stubborn, current=job(), done=done)
    assert started.wait(DEADLINE)
    call.cancel(Ending("fail", error="timed out"))
    assert done.wait() == [Ending("complete", result='"saved"')]


def test_the_loop_outlives_whatever_a_coroutine_raises(loop: LoopThread):
    done = Outcomes()

    async def leave() -> None:
        sys.exit(3)

    async def leave_by_a_task() -> None:
        await asyncio.ensure_future(leave())

    async def cancel_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    for n, each in enumerate((leave, leave_by_a_task, cancel_itself)):
        loop.start(each, current=job(), done=done)
        assert done.wait(n + 1)[-1].kind == "fail"
    loop.start(lambda: told_its_job(1), current=job(), done=done)
    assert done.wait(4)[-1].kind == "complete"


def test_closing_the_loop_gives_back_what_runs_on_it(loop: LoopThread):
    done, started = Outcomes(), threading.Event()

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    loop.start(hang, current=job(), done=done)
    assert started.wait(DEADLINE)
    loop.close()
    assert [ending.kind for ending in done.wait()] == ["release"]
    assert "slothqueue-loop" not in [thread.name for thread in threading.enumerate()]
