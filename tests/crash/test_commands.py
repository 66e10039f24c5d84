"""Commands under real workers: what they do to their shims and files, and what is known of them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slothqueue import processes

from .support import check_history, until
from .support_programs import QUEUE
from .support_workers import World

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def enqueue(world: World, *argv: str, **options: Any) -> Any:
    """A command, of which a single word is a text for the shell."""
    command: Any = argv[0] if len(argv) == 1 else list(argv)
    return world.sloth.queue(QUEUE).enqueue_command(command, shell=len(argv) == 1, **options)


def kinds(job: Any) -> list[str]:
    return [event.kind for event in job.refresh().events()]


def under(shim: int) -> processes.Process:
    """The one process below this shim, once it is the sleep that it is to become."""

    def look() -> processes.Process | None:
        tree = processes.below(processes.look_around(), shim)
        return tree[0] if [process.name for process in tree] == ["sleep"] else None

    found: processes.Process = until(look, "it sleeps")
    return found


def lives(process: processes.Process) -> bool:
    again = processes.look_at(process.pid)
    return again is not None and again.start == process.start and processes.lives(again)


@pytest.mark.parametrize("worker_too", [False, True])
def test_a_command_that_cleared_its_environment_never_runs_beside_its_next_attempt(
    world: World, worker_too: bool
):
    first = world.worker(grace=0.1)
    job = enqueue(world, "env", "-i", "sleep", "77")
    shim = world.held_by(job, "shim")
    before = under(shim)
    if worker_too:
        first.kill()
        first.wait()
        world.idle_worker(grace=0.1)
    os.kill(shim, signal.SIGKILL)
    world.runs(job, attempt=2)
    assert not lives(before)
    assert kinds(job)[:4] == ["enqueued", "claimed", "reclaimed", "claimed"]


def test_a_command_that_ends_its_shim_uses_up_its_attempts(world: World):
    world.sloth.queue(QUEUE, max_attempts=2, backoff=0.01)
    world.worker()
    job = enqueue(world, "kill $PPID; exec sleep 77")
    found = world.ended(job)
    assert (found.state, found.attempts, found.exit_code) == ("failed", 2, 143)
    assert found.error.startswith("ended by SIGTERM sent to its shim")
    assert "released" not in kinds(job)


@pytest.mark.parametrize("what", ["work.db-logs/*", "work.db-logs", "work.db-live"])
def test_a_command_that_deletes_what_is_ours_runs_once(world: World, what: str):
    world.worker()
    job = enqueue(world, f"echo 1 >> {world.notes}; rm -rf {world.folder}/{what}")
    assert world.ended(job).exit_code == 0
    assert world.noted() == {1: 1}


def test_commands_whose_worker_is_hurried_away_spend_no_attempt(world: World):
    """Some have begun by then, some have not, and some have not even said that they are ready."""
    jobs = [enqueue(world, "exec sleep 77", max_attempts=1) for _ in range(6)]
    worker = world.worker(concurrency=6)
    for job in jobs:
        world.runs(job)
    worker.terminate()
    until(lambda: "stop" in world.log or worker.poll() is not None, "it has heard that")
    worker.terminate()
    worker.wait(20)
    for job in jobs:
        found = job.refresh()
        check_history(found)
        assert (found.state, kinds(job)) == ("queued", ["enqueued", "claimed", "released"])


def test_a_command_that_is_too_long_says_what_is(world: World):
    world.worker()
    found = world.ended(enqueue(world, "true", "x" * 200_000, max_attempts=1))
    assert "argv[1] is 200001 bytes long" in found.error
    assert "python" not in found.error
