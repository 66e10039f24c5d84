"""Real workers that are killed, stopped, continued and told to end, with work in their hands."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from .support import (
    EFFECTS,
    audit,
    check_effects,
    check_history,
    end,
    is_alive,
    marked,
    rows,
    until,
)
from .support_programs import QUEUE
from .support_workers import World

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def kill(process: subprocess.Popen[Any]) -> None:
    process.kill()
    process.wait()


def settled(world: World, job: Any, state: str = "done") -> Any:
    """The job has ended like this and its history holds water."""
    found = world.ended(job)
    told = [f"{event.kind} {event.reason or ''}" for event in found.events()]
    assert found.state == state, (found.error, told, world.log[-4000:])
    check_history(found)
    return found


# ---- killed -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "task, pool",
    [("wait_for", "process"), ("wait_for", "thread"), ("wait_for_on_the_loop", "process")],
)
def test_a_function_of_a_killed_worker_runs_again(world: World, task: str, pool: str):
    first = world.worker(pool=pool)
    job = world.held_up(task)
    world.wait_note(1)
    kill(first)
    world.worker(pool=pool)
    world.wait_note(1, times=2)
    world.open_gate()
    found = settled(world, job)
    assert found.attempts == 2
    [taken] = world.events(found, "reclaimed")
    assert taken.reason == "gone"


def test_a_function_that_is_killed_says_by_which_signal_and_the_pool_is_whole_again(world: World):
    world.idle_worker(concurrency=2)
    job = world.held_up()
    child = world.held_by(job, "child")
    world.wait_note(1)
    os.kill(child, signal.SIGKILL)
    world.wait_note(1, times=2)
    other = world.held_up(n=2)
    world.wait_note(2)
    assert {world.runs(job).state, world.runs(other).state} == {"running"}
    world.open_gate()
    found = settled(world, job)
    settled(world, other)
    [taken] = world.events(found, "reclaimed")
    assert "signal 9" in taken.detail and taken.reason == "gone"


def test_a_function_that_kills_its_own_process_fails_with_the_signal(world: World):
    job = world.tasks["kill_me"].using(max_attempts=2).enqueue(world.notes, 1)
    after = world.tasks["note"].enqueue(world.notes, 2)
    world.worker()
    found = settled(world, job, "failed")
    assert "killed by signal 9" in found.error
    assert world.noted()[1] == 2
    settled(world, after)


def has_come_to_an_end(process: subprocess.Popen[Any], job: Any) -> bool:
    return process.poll() is not None or job.refresh().ended


def test_a_function_that_always_kills_its_worker_does_not_go_round_for_ever(world: World):
    job = world.tasks["kill_my_worker"].using(max_attempts=3).enqueue(world.notes, 1)
    others = [world.tasks["note"].enqueue(world.notes, n) for n in range(10, 20)]
    while not job.refresh().ended:  # an init that starts workers again
        process = world.worker(concurrency=2)
        until(partial(has_come_to_an_end, process, job), "it is killed, or all is over")
    found = settled(world, job, "failed")
    assert world.noted()[1] == 3
    assert [event.reason for event in world.events(found, "reclaimed")] == ["gone"] * 3
    assert any("all 3 attempts" in event.reason for event in world.events(found, "failed"))
    if process.poll() is not None:
        world.worker()
    for other in others:
        settled(world, other)


def test_a_hundred_jobs_survive_workers_that_are_killed_at_random(world: World):
    chance = random.Random(6)
    nap = world.tasks["nap"].using(max_attempts=99)
    commands = world.sloth.queue(QUEUE)
    jobs = [nap.enqueue(world.notes, n, 0.02) for n in range(1, 61)]
    jobs += [
        commands.enqueue_command(["/bin/sh", "-c", f"echo {n} >> {world.notes}"], max_attempts=99)
        for n in range(61, 101)
    ]
    workers = [world.worker(concurrency=3) for _ in range(2)]
    limit = time.monotonic() + 90
    kills = 0
    while any(not job.refresh().ended for job in jobs):
        assert time.monotonic() < limit, (world.sloth.stats(), world.log[-3000:])
        time.sleep(chance.uniform(0.1, 0.5))
        if kills < 12:
            victim = chance.randrange(len(workers))
            kill(workers[victim])
            workers[victim] = world.worker(concurrency=3)
            kills += 1
    states = {job.refresh().state for job in jobs}
    assert states == {"done"}
    assert set(world.noted()) >= set(range(1, 101))
    again = {n for n in range(61, 101) if world.noted()[n] != 1}
    assert not again, f"a command needs no second run when only workers die: {again}"


def several(world: World, processes: int, jobs: int) -> None:
    mail = world.sloth.queue("mail")
    mail.enqueue_many(list(range(jobs)))
    with world.sloth.transaction() as tx:
        tx.execute(EFFECTS)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    takers = [world.program("take", world.gate, **pipes) for _ in range(processes)]
    for taker in takers:
        assert taker.stdout is not None and taker.stdout.readline() == "ready\n"
    for taker in takers:
        assert taker.stdin is not None
        taker.stdin.write("go\n")
        taker.stdin.flush()
    for taker in takers:
        assert taker.wait(100) == 0
    found = audit(world.sloth)
    assert len(found) == jobs and {job.state for job in found.values()} == {"done"}
    assert {job.attempts for job in found.values()} == {1}
    check_effects(world.path, found)


def test_eight_processes_claim_each_job_once(world: World):
    several(world, processes=8, jobs=1_000)


@pytest.mark.slow(reason="five thousand durable jobs")
@pytest.mark.timeout(300)
def test_eight_processes_claim_each_of_many_jobs_once(world: World):
    several(world, processes=8, jobs=5_000)


def test_nothing_that_a_killed_worker_leaves_stops_the_next(world: World):
    first = world.idle_worker()
    kill(first)
    names = {path.name for path in world.folder.iterdir()}
    assert not [name for name in names if "pid" in name]
    again = world.idle_worker()
    assert again.poll() is None


def test_an_idle_worker_takes_over_at_once_when_another_is_killed(world: World):
    took, taken = [], []
    for n in range(1, 6):
        first = world.idle_worker()
        job = world.held_up(n=n)
        world.held_by(job, "child")
        world.wait_note(n)
        second = world.idle_worker()
        began, killed = time.monotonic(), time.time()
        kill(first)
        world.wait_note(n, times=2)
        took.append(round(1000 * (time.monotonic() - began)))
        world.open_gate()
        [event] = world.events(settled(world, job), "reclaimed")
        taken.append(round(1000 * (event.at.timestamp() - killed)))
        os.unlink(world.gate)
        second.terminate()
        second.wait()
    print("ms from the kill to the re-issue, and to the next run:", taken, took)
    assert sorted(took)[2] < 5_000


# ---- commands -----------------------------------------------------------------------------------


@pytest.mark.parametrize("code, state", [(0, "done"), (3, "failed")])
def test_a_command_outlives_its_worker_and_is_settled_by_its_own_exit_code(
    world: World, code: int, state: str
):
    world.sloth.queue(QUEUE, max_attempts=1)
    first = world.worker()
    job = world.held_up_command(code=code)
    world.held_by(job, "shim")
    world.wait_note(1)
    kill(first)
    world.idle_worker()
    assert world.runs(job).attempts == 1
    world.open_gate()
    found = settled(world, job, state)
    assert (found.exit_code, found.attempts) == (code, 1)
    assert world.noted() == {1: 1, -1: 1}


def test_a_command_that_ends_while_no_worker_is_there_is_settled_later(world: World):
    first = world.worker()
    job = world.held_up_command()
    shim = world.held_by(job, "shim")
    world.wait_note(1)
    kill(first)
    world.open_gate()
    until(lambda: not is_alive(shim), "the shim ends")
    world.worker()
    assert settled(world, job).exit_code == 0
    assert world.noted() == {1: 1, -1: 1}


@pytest.mark.parametrize("worker_too", [False, True])
def test_a_command_whose_shim_is_killed_is_ended_and_runs_again(world: World, worker_too: bool):
    first = world.worker()
    job = world.held_up_command()
    shim = world.held_by(job, "shim")
    world.wait_note(1)
    lease = Path(f"/proc/{shim}/environ").read_bytes().partition(b"SLOTH_LEASE=")[2]
    cookie = "SLOTH_LEASE=" + lease.partition(b"\0")[0].decode()
    left = [pid for pid in marked(cookie) if pid != shim]
    assert left
    if worker_too:
        kill(first)
        world.idle_worker()
    os.kill(shim, signal.SIGKILL)
    world.wait_note(1, times=2)
    assert not [pid for pid in left if is_alive(pid)]
    world.open_gate()
    found = settled(world, job)
    assert world.noted() == {1: 2, -1: 1}
    [taken] = world.events(found, "reclaimed")
    assert taken.reason == "gone"
    assert world.held_up_command(n=2).id


def test_when_everything_is_killed_everything_runs_again(world: World):
    first = world.worker(concurrency=3)
    jobs = [
        world.held_up(n=1),
        world.held_up_command(n=2),
        world.held_up("wait_for_on_the_loop", 3),
    ]
    for n in (1, 2, 3):
        world.wait_note(n)
    while left := marked(world.mark):  # again, for one may have been born meanwhile
        end(left)
    first.wait()
    world.worker(concurrency=3)
    for n in (1, 2, 3):
        world.wait_note(n, times=2)
    world.open_gate()
    for job in jobs:
        assert settled(world, job).attempts == 2
    assert world.noted() == {1: 2, 2: 2, 3: 2, -1: 1, -2: 1, -3: 1}


def test_no_command_leaves_a_zombie(world: World):
    run = world.sloth.queue(QUEUE, max_attempts=1).enqueue_command
    ends = ("exit 0", "exit 3", "kill -9 $$", "(sleep 0.1 &) ; (exec sleep 0.05) & wait")
    jobs = [run(["/bin/sh", "-c", ends[n % len(ends)]]) for n in range(100)]
    worker = world.worker(concurrency=4)
    until(lambda: all(job.refresh().ended for job in jobs), "all have ended", seconds=90)
    assert world.sloth.stats()["done"] == world.sloth.stats()["failed"] == 50
    until(lambda: not below(worker.pid), "nobody is left below the worker")


def below(parent: int) -> list[str]:
    """The children of a process, with their states."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(f"{name} {fields[0]}")
    return found


# ---- told to stop -------------------------------------------------------------------------------


def in_flight(world: World, what: str) -> Any:
    job = world.held_up_command() if what == "command" else world.held_up(what)
    world.wait_note(1)
    return job


WORK = ("command", "wait_for", "wait_for_on_the_loop")


@pytest.mark.parametrize("what", WORK)
def test_a_worker_that_is_told_to_stop_lets_its_work_end(world: World, what: str):
    worker = world.worker()
    job = in_flight(world, what)
    later = world.tasks["note"].enqueue(world.notes, 7)
    worker.terminate()
    until(lambda: "stopping" in world.log, "it has heard")
    world.open_gate()
    assert worker.wait(30) == 0
    assert settled(world, job).attempts == 1
    assert later.refresh().state == "queued"
    assert world.noted() == {1: 1, -1: 1}


@pytest.mark.parametrize("what", WORK)
def test_a_second_signal_hurries_and_the_work_is_given_back(world: World, what: str):
    worker = world.worker(grace=600)
    job = in_flight(world, what)
    worker.terminate()
    until(lambda: "stopping" in world.log, "it has heard")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    given_back = job.refresh()
    assert (given_back.state, given_back.attempts) == ("queued", 0)
    [event] = world.events(given_back, "released")
    assert "stops" in event.reason
    world.worker()
    world.wait_note(1, times=2)
    world.open_gate()
    assert settled(world, job).attempts == 1
    assert world.noted()[-1] == 1


def test_a_thread_that_does_not_listen_loses_its_job_when_its_worker_goes(world: World):
    worker = world.worker(pool="thread", grace=0)
    job = in_flight(world, "wait_for")
    worker.terminate()
    world.worker(pool="thread")
    world.wait_note(1, times=2)
    world.open_gate()
    worker.wait(30)
    assert settled(world, job).state == "done"


# ---- stopped and continued ----------------------------------------------------------------------


def freeze(process: subprocess.Popen[Any]) -> list[int]:
    """Stop a worker and its children, as a debugger or a full machine does."""
    pids = [process.pid, *(int(line.split()[0]) for line in below(process.pid))]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    return pids


def thaw(pids: list[int]) -> None:
    for pid in reversed(pids):
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("task", ["wait_for", "wait_for_on_the_loop"])
def test_a_worker_that_was_stopped_past_its_timed_lease_finds_it_lost(world: World, task: str):
    first = world.idle_worker(lease="1s")
    job = world.held_up(task)
    world.wait_note(1)
    if task == "wait_for":
        world.held_by(job, "child")
    frozen = freeze(first)
    second = world.idle_worker(lease="1s")
    world.wait_note(1, times=2)
    thaw(frozen)
    until(lambda: "its lease was lost" in world.log, "the first finds its lease lost")
    world.open_gate()
    found = settled(world, job)
    assert found.attempts == 2
    assert [event.reason for event in world.events(found, "reclaimed")] == ["silent"]
    assert second.poll() is None and first.poll() is None
    after = world.tasks["note"].enqueue(world.notes, 9)
    settled(world, after)


def test_a_worker_that_was_stopped_keeps_a_lease_without_end(world: World):
    first = world.idle_worker()
    job = world.held_up()
    world.held_by(job, "child")
    world.wait_note(1)
    frozen = freeze(first)
    world.idle_worker()
    other = world.held_up(n=2)  # the second is awake, looks, and takes nothing but its own
    world.wait_note(2)
    time.sleep(2.5)
    assert world.runs(job).attempts == 1
    thaw(frozen)
    world.open_gate()
    assert settled(world, job).attempts == 1
    settled(world, other)
    assert world.noted() == {1: 1, -1: 1, 2: 1, -2: 1}


def test_a_command_that_ends_while_its_worker_is_stopped_is_settled_by_another(world: World):
    first = world.idle_worker()
    job = world.held_up_command(code=3)
    world.sloth.queue(QUEUE, max_attempts=1)
    world.held_by(job, "shim")
    world.wait_note(1)
    first.send_signal(signal.SIGSTOP)
    world.idle_worker()
    world.open_gate()
    found = settled(world, job, "failed")
    first.send_signal(signal.SIGCONT)
    after = [world.tasks["note"].enqueue(world.notes, n) for n in range(10, 20)]
    for other in after:
        settled(world, other)
    assert job.refresh() == found and found.exit_code == 3
    assert world.noted()[1] == 1


@pytest.mark.parametrize("what", ["stopped", "killed"])
def test_a_command_runs_on_however_long_its_worker_is_silent(world: World, what: str):
    """Its holder is the shim, which lives; a queue's lease is about those who must say so."""
    world.sloth.queue(QUEUE, lease="1s")
    first = world.idle_worker()
    job = world.held_up_command()
    world.held_by(job, "shim")
    world.wait_note(1)
    first.send_signal(signal.SIGSTOP if what == "stopped" else signal.SIGKILL)
    world.idle_worker()
    time.sleep(3)
    assert world.noted() == {1: 1}
    world.open_gate()
    assert settled(world, job).attempts == 1
    assert world.noted() == {1: 1, -1: 1}


def test_a_function_whose_child_dies_while_its_worker_is_stopped_runs_elsewhere(world: World):
    first = world.idle_worker()
    job = world.held_up()
    child = world.held_by(job, "child")
    world.wait_note(1)
    first.send_signal(signal.SIGSTOP)
    world.idle_worker()
    os.kill(child, signal.SIGKILL)
    world.wait_note(1, times=2)
    first.send_signal(signal.SIGCONT)
    world.open_gate()
    assert settled(world, job).attempts == 2
    assert world.noted() == {1: 2, -1: 1}
    after = [world.held_up(n=n) for n in range(2, 6)]
    for other in after:
        settled(world, other)


# ---- a file that others use ---------------------------------------------------------------------


def locked_by_a_stranger(world: World, seconds: float, patience: float = 30) -> None:
    world.idle_worker(concurrency=2, patience=patience)
    world.idle_worker(pool="thread", concurrency=2, patience=patience)
    jobs = [world.tasks["nap"].enqueue(world.notes, n, 0.3) for n in range(1, 9)]
    jobs += [world.held_up_command(n) for n in range(9, 17)]
    world.open_gate()
    world.wait_note(1)
    stranger = sqlite3.connect(world.path, timeout=10, isolation_level=None)
    try:
        stranger.execute("begin immediate")
        time.sleep(seconds)
        stranger.execute("rollback")
    finally:
        stranger.close()
    for job in jobs:
        assert settled(world, job).attempts == 1
    assert set(world.noted().values()) == {1}
    assert "Traceback" not in world.log


def test_a_stranger_who_holds_the_write_lock_harms_nothing(world: World):
    locked_by_a_stranger(world, 5)


def test_a_worker_outlasts_a_lock_that_is_held_for_longer_than_it_waits(world: World):
    locked_by_a_stranger(world, 4, patience=0.5)
    assert "trying again" in world.log


@pytest.mark.slow(reason="holds the lock for twenty seconds")
def test_a_stranger_who_holds_the_write_lock_for_long_harms_nothing(world: World):
    locked_by_a_stranger(world, 20)


def test_thirty_processes_open_the_store_right_after_a_kill(world: World):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writer = world.program("enqueue_for_ever", stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    written = [int(writer.stdout.readline()) for _ in range(200)]
    world.sloth.close()  # so that the last connection dies and the log must be recovered
    openers = [world.program("open_it", **pipes) for _ in range(30)]
    for opener in openers:
        assert opener.stdout is not None and opener.stdout.readline() == "ready\n"
    kill(writer)
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write("go\n")
        opener.stdin.flush()
    answers = {int(opener.communicate(timeout=60)[0]) for opener in openers}
    assert all(opener.returncode == 0 for opener in openers) and len(answers) == 30
    written += [int(line) for line in writer.stdout.read().split("\n")[:-1]]
    kept = {row[0] for row in rows(world.path, "select id from _sloth_job")}
    assert kept >= {*written, *answers}
