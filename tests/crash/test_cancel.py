"""Running jobs that are cancelled: told, then ended, under real workers and without one."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slothqueue import WrongState
from slothqueue.liveness import whoever

from ..filing import check_filing
from .support import check_history, is_alive, rows, until
from .support_programs import QUEUE
from .support_workers import World

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

BY = "by " + whoever()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def cancelled(world: World, job: Any, reason: str = "enough") -> Any:
    """The job was cancelled, and its history says by whom; the event."""
    ended = world.ended(job)
    assert ended.state == "cancelled", job.events()
    event = job.events()[-1]
    assert (event.kind, event.reason, ended.message) == (
        "cancelled", f"{BY}: {reason}", f"{BY}: {reason}",
    )  # fmt: skip
    check_history(ended)
    check_filing(world.path)
    assert rows(world.path, "select * from _sloth_ask") == []
    return event


@pytest.mark.parametrize(
    ("pool", "task"),
    [
        ("process", "until_told"),
        ("thread", "until_told"),
        ("process", "until_told_on_the_loop"),
        ("thread", "until_told_on_the_loop"),
    ],
)
def test_a_function_is_told_at_once_and_ends_by_itself(world: World, pool: str, task: str):
    world.worker(pool)
    job = world.tasks[task].enqueue(world.notes, 1)
    world.wait_note(1)
    job.cancel("enough", grace=60)
    world.wait_note(-1)
    assert "I was told to stop" in str(cancelled(world, job).detail)


def test_a_function_is_told_though_its_child_has_not_begun_with_it(world: World):
    world.worker("process")
    job = world.tasks["until_told"].enqueue(world.notes, 1)
    world.runs(job)
    job.cancel("enough", grace=60)
    assert "I was told to stop" in str(cancelled(world, job).detail)


def test_what_a_child_completes_although_it_was_terminated_is_done(world: World):
    world.worker("process")
    job = world.tasks["done_when_terminated"].enqueue(world.notes, 1)
    world.wait_note(1)
    job.cancel("enough", grace=0)
    assert world.ended(job).state == "done", job.events()
    assert job.result(timeout=0) == 1


def test_a_function_in_a_child_that_does_not_listen_is_ended_after_the_grace(world: World):
    world.worker("process")
    job = world.held_up()
    world.wait_note(1)
    began = time.monotonic()
    job.cancel("enough", grace=0.5)
    event = cancelled(world, job)
    assert time.monotonic() - began >= 0.5
    assert "SIGTERM" in event.detail
    assert world.noted()[-1] == 0
    other = world.held_up(n=2)
    world.wait_note(2)
    world.open_gate()
    assert world.ended(other).state == "done", "the pool is whole again"


def test_a_function_in_a_child_that_does_not_listen_closes_what_it_has_opened(world: World):
    world.worker("process")
    job = world.tasks["tidies_up"].enqueue(world.notes, 1)
    world.wait_note(1)
    job.cancel("enough", grace=0.1)
    assert cancelled(world, job).detail.startswith("ended by SIGTERM")
    assert world.noted() == {1: 1, -1: 1}
    other = world.tasks["tidies_up"].enqueue(world.notes, 2)
    world.wait_note(2)
    other.cancel("enough", grace=0.1)
    cancelled(world, other)
    assert world.noted()[-2] == 1, "its child serves the next"


def test_a_coroutine_that_does_not_listen_is_cancelled_after_the_grace(world: World):
    world.worker("thread")
    job = world.held_up("wait_for_on_the_loop")
    world.wait_note(1)
    job.cancel("enough", grace=0.2)
    cancelled(world, job)
    assert world.noted()[-1] == 0


def test_a_thread_that_does_not_listen_goes_on_and_may_still_be_done(world: World):
    world.worker("thread", concurrency=2)
    job = world.held_up()
    world.wait_note(1)
    job.cancel("enough", grace=0.1)
    other = world.sloth.queue(QUEUE).enqueue_command(["true"])
    world.ended(other)
    assert job.refresh().state == "running"
    world.open_gate()
    assert world.ended(job).state == "done"
    assert rows(world.path, "select * from _sloth_ask") == []


def test_a_command_gets_sigterm_at_once_and_its_receipt_is_in_the_history(world: World):
    world.worker()
    job = world.held_up_command()
    world.wait_note(1)
    job.cancel("enough", grace=60)
    event = cancelled(world, job)
    assert event.detail.startswith("was cancelled; signalled: "), event
    assert " sh" in event.detail


def stubborn(world: World) -> Any:
    """A command that ignores SIGTERM, and so does what it has started."""
    script = f"trap '' TERM; echo 1 >> {world.notes}; sleep 600 & sleep 600"
    return world.sloth.queue(QUEUE).enqueue_command(["/bin/sh", "-c", script])


def test_a_command_that_ignores_sigterm_is_killed_after_the_grace(world: World):
    world.worker()
    job = stubborn(world)
    world.wait_note(1)
    began = time.monotonic()
    job.cancel("enough", grace=0.5)
    cancelled(world, job)
    assert time.monotonic() - began >= 0.5


def test_to_cancel_again_with_less_grace_is_to_cancel_sooner(world: World):
    world.worker()
    job = stubborn(world)
    world.wait_note(1)
    job.cancel("enough", grace=3600)
    job.cancel("more than enough", grace=3600)
    job.cancel("sooner", grace=0.2)
    cancelled(world, job)


@pytest.mark.parametrize("kind", ["function", "command"])
def test_a_job_of_a_worker_that_was_killed_is_cancelled_not_tried_again(world: World, kind: str):
    worker = world.worker()
    job = world.held_up() if kind == "function" else stubborn(world)
    world.wait_note(1)
    holder = world.held_by(job, "child" if kind == "function" else "shim")
    job.refresh()
    worker.kill()
    worker.wait()
    job.cancel("enough", grace=0.5)

    def ended() -> bool:
        world.sloth.verbs.upkeep.run()
        return bool(job.refresh().ended)

    until(ended, "whoever looks has ended it")
    cancelled(world, job)
    until(lambda: not is_alive(holder), "the holder is gone")
    assert world.noted()[1] == 1


def test_a_job_that_is_cancelled_before_its_worker_dies_is_not_tried_again(world: World):
    worker = world.worker("thread")
    job = world.held_up()
    world.wait_note(1)
    job.cancel("enough", grace=3600)
    worker.kill()
    worker.wait()
    world.idle_worker(pool="thread")
    cancelled(world, job)
    assert world.noted()[1] == 1


def test_children_of_a_cancelled_command_are_cancelled_with_it(world: World):
    world.worker()
    job = world.held_up_command()
    child = world.tasks["note"].using(after=job).enqueue(world.notes, 7)
    anyway = world.tasks["note"].using(after=job, after_failed="run").enqueue(world.notes, 8)
    world.wait_note(1)
    job.cancel("enough")
    cancelled(world, job)
    assert world.ended(child).message == f"its parent {job.id} was cancelled"
    assert world.ended(anyway).state == "done"
    assert world.noted()[7] == 0


# ---- interrupted --------------------------------------------------------------------------------


@pytest.mark.parametrize("wish", ["hold", "fail"])
@pytest.mark.parametrize("victim", ["child", "worker", "shim"])
def test_a_job_whose_process_is_killed_does_as_it_was_told(world: World, wish: str, victim: str):
    worker = world.worker()
    if victim == "shim":
        job = world.sloth.queue(QUEUE).enqueue_command(
            ["/bin/sh", "-c", f"echo 1 >> {world.notes}; sleep 600"], on_interrupt=wish
        )
    else:
        job = world.tasks["wait_for"].using(on_interrupt=wish).enqueue(world.notes, 1, world.gate)
    world.wait_note(1)
    kind = "shim" if victim == "shim" else "child"
    pid = world.held_by(job, kind)
    if victim == "worker":
        worker.kill()
        worker.wait()
        world.idle_worker()
    else:
        os.kill(pid, signal.SIGKILL)
    if wish == "hold":
        until(lambda: job.refresh().held, "it is held")
        assert "it was interrupted" in job.why()
        check_filing(world.path)
        job.cancel()
    assert world.ended(job).state == ("failed" if wish == "fail" else "cancelled")
    assert world.noted()[1] == 1
    check_history(job.refresh())


def test_what_nobody_would_pass_on_is_refused(world: World):
    process = world.worker()
    script = f"echo 1 >> {world.notes}; read line; echo -1 >> {world.notes}"
    job = world.sloth.queue(QUEUE).enqueue_command(["/bin/sh", "-c", script], stdin=True)
    world.wait_note(1)
    process.kill()
    process.wait()
    with pytest.raises(WrongState, match="without the worker"):
        job.send("to nobody")
    assert rows(world.path, "select * from _sloth_ask") == []
    job.cancel("enough")
    world.worker()
    cancelled(world, job)
