"""Commands under real workers: what they do to their shims and files, and what is known of them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slothqueue import WrongState, codec, outputs, processes, receipts
from slothqueue.models import COMMAND
from slothqueue.queues import enqueue as write

from .support import check_history, rows, until
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


def noted(world: World) -> tuple[int, int] | None:
    """The process that the only command is, by the draft of its receipt."""
    parts = list((world.folder / "work.db-logs").glob("*.part"))
    return receipts.began(str(parts[0]).removesuffix(".exit.part")) if parts else None


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
    until(lambda: noted(world) == (before.pid, before.start), "its shim has noted which it is")
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
    # Others are at work in there too, so rm may fail over what comes and goes meanwhile.
    job = enqueue(world, f"echo 1 >> {world.notes}; rm -rf {world.folder}/{what}; true")
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


def logs(world: World) -> list[str]:
    return sorted(os.listdir(world.folder / "work.db-logs"))


def test_a_command_runs_with_the_environment_of_who_enqueued_it(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OF_WORKER", "1")
    monkeypatch.setenv("OF_BOTH", "worker")
    world.idle_worker()
    monkeypatch.delenv("OF_WORKER")
    monkeypatch.setenv("OF_BOTH", "mine")
    monkeypatch.setenv("OF_MINE", "1")
    monkeypatch.setenv("MY_TOKEN", "secret")
    told = "echo $OF_WORKER,$OF_BOTH,$OF_MINE,$MY_TOKEN,$GIVEN_TOKEN,$PWD"
    job = enqueue(world, told, cwd="/", env={"GIVEN_TOKEN": "given"})
    clean = enqueue(world, told, cwd="/", clean_env=True)
    for one, text in ((job, ",mine,1,,given,/\n"), (clean, ",,,,,/\n")):
        assert world.ended(one).exit_code == 0
        name = next(name for name in logs(world) if name.startswith(f"{one.id}-1-"))
        assert (world.folder / "work.db-logs" / name.replace(".exit", ".log")).read_text() == text
    assert b"secret" not in b"".join(
        path.read_bytes() for path in world.folder.glob("work.db*") if path.is_file()
    )


def test_one_environment_is_stored_once_and_not_shown_with_the_job(world: World):
    jobs = [enqueue(world, "true") for _ in range(3)] + [enqueue(world, "true", env={"A": "1"})]
    assert rows(world.path, "select count(*) from _sloth_env")[0][0] == 2
    assert all("env" not in job.payload for job in jobs)
    world.worker()
    assert {world.ended(job).state for job in jobs} == {"done"}


def test_a_command_that_an_older_version_has_enqueued_runs_as_it_would_have(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OF_WORKER", "1")
    world.idle_worker()
    payload = {
        "argv": [f'echo "$OF_WORKER$MINE" > {world.folder}/out'],
        "cwd": "/",
        "env": {"MINE": "2"},
        "shell": True,
    }
    job = write(world.sloth.verbs, (QUEUE, COMMAND, ""), codec.encode(payload), {})
    assert world.ended(job).exit_code == 0
    assert (world.folder / "out").read_text() == "12\n"


@pytest.mark.parametrize("orphan", [False, True])
def test_what_was_asked_for_counts_also_when_the_worker_is_gone(world: World, orphan: bool):
    worker = world.worker()
    job = enqueue(
        world,
        f"echo 1 >> {world.notes}; while [ ! -e {world.gate} ]; do sleep 0.02; done; "
        "yes | head -c 100000; exit 3",
        retry_on=[75],
        keep_log="never",
        max_output=4096,
    )
    world.wait_note(1)
    if orphan:
        worker.kill()
        worker.wait()
    world.open_gate()
    if orphan:
        world.idle_worker()
    found = world.ended(job)
    assert (found.state, found.attempts, found.exit_code) == ("failed", 1, 3)
    assert found.error == "exited with code 3; 95.9 kB of its output was not kept"
    assert kinds(job) == ["enqueued", "claimed", "failed"]
    until(lambda: [name for name in logs(world) if ".exit" not in name] == [], "no log is left")


def test_an_exit_code_that_was_named_is_tried_again(world: World):
    world.sloth.queue(QUEUE, backoff=0.01)
    world.worker()
    text = f"echo 1 >> {world.notes}; [ $(wc -l < {world.notes}) = 2 ] || exit 75"
    found = world.ended(enqueue(world, text, retry_on=[75]))
    assert (found.state, found.attempts) == ("done", 2)


def test_a_command_without_memory_fails_and_the_next_one_runs(world: World):
    world.worker()
    text = f"ulimit -v 300000; exec {sys.executable} -c 'x = bytearray(10**9)'"
    first, second = enqueue(world, text, retry_on=[]), enqueue(world, "true")
    assert world.ended(first).state == "failed"
    assert world.ended(second).state == "done"


def test_endless_output_is_cut_and_the_history_says_so(world: World):
    world.worker()
    job = enqueue(world, "yes", timeout=1.5, max_output="100kB", retry_on=[])
    found = world.ended(job)
    assert found.error.startswith("timed out after 1.5s; signalled: ")
    assert found.error.endswith("B of its output was not kept")
    (name,) = [name for name in logs(world) if name.endswith(".log")]
    path = str(world.folder / "work.db-logs" / name)
    assert os.stat(path).st_blocks * 512 < 120_000
    assert [type(piece) for piece in outputs.pieces(path)] == [
        outputs.Kept,
        outputs.Cut,
        outputs.Kept,
    ]


def test_what_is_sent_to_a_job_reaches_its_command(world: World):
    world.worker()
    job = enqueue(world, f"cat > {world.folder}/got", stdin=True)
    world.held_by(job, "shim")
    job.send("hello ")
    job.send("there")
    job.send_eof()
    assert world.ended(job).exit_code == 0
    assert (world.folder / "got").read_text() == "hello there"


def test_a_cancelled_command_names_in_its_history_whom_that_reached(world: World):
    world.worker()
    job = enqueue(world, "exec sleep 77")
    under(world.held_by(job, "shim"))
    job.cancel("not needed", grace=5)
    assert world.ended(job).state == "cancelled"
    assert "was cancelled; signalled: " in str(world.events(job, "cancelled")[-1].detail)


def test_a_command_reads_what_is_sent_to_it(world: World):
    world.worker()
    job = enqueue(world, "cat > copied; echo bye", stdin=True, cwd=str(world.folder))
    world.runs(job)
    job.send("one ")
    job.send("two\n")
    job.send_eof()
    assert world.ended(job).state == "done"
    assert (world.folder / "copied").read_text() == "one two\n"


def test_nothing_is_sent_to_a_command_that_could_not_read_it(world: World):
    world.worker()
    job = enqueue(world, "sleep", "77")
    with pytest.raises(WrongState, match=r"queued|stdin=True"):
        job.send("x")
    world.runs(job)
    with pytest.raises(WrongState, match="stdin=True"):
        job.send("x")
    job.cancel(grace=0)
    assert world.ended(job).state == "cancelled"


@pytest.mark.parametrize("when", ["before its worker dies", "after its worker has died"])
def test_a_command_without_its_worker_is_cancelled_with_all_that_it_started(
    world: World, when: str
):
    worker = world.worker()
    job = enqueue(world, "sleep 77 & exec sleep 78")
    shim = world.held_by(job, "shim")
    tree = until(lambda: processes.below(processes.look_around(), shim)[1:], "both run")
    if when.startswith("before"):
        os.kill(worker.pid, signal.SIGSTOP)  # it hears nothing of it
        job.cancel("enough")
    worker.kill()
    worker.wait()
    if when.startswith("after"):
        job.cancel("enough")
    world.idle_worker()
    found = world.ended(job)
    assert (found.state, found.message) == ("cancelled", job.refresh().events()[-1].reason)
    assert "enough" in found.message
    assert not any(map(lives, tree))
