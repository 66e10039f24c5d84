"""Functions that tamper with their own process harm one attempt each, and never their worker."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slothqueue import ManualClock, Sloth, Worker
from slothqueue.liveness import Place, describe, end_process
from slothqueue.running import Slot
from slothqueue.spawn import Spawned
from tests.crash import pool_mischief as functions

from .pool_support import DEADLINE, Children, is_alive, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tells processes by /proc")


class Shop:
    """One store and a worker of it in a thread."""

    def __init__(self, folder: Path, clock: ManualClock | None = None) -> None:
        self.sloth = Sloth(str(folder / "work.db"), clock=clock)
        self.worker: Worker = self.sloth.worker(concurrency=2, grace=0.1)
        self._thread = threading.Thread(target=self.worker.run, daemon=True)
        self._thread.start()

    def enqueue(self, function: Any, *args: Any) -> Any:
        name = f"mischief.{function.__name__}"
        if name not in self.sloth.tasks:
            self.sloth.task(name=name, max_attempts=1)(function)
        return self.sloth.tasks[name].enqueue(*args)

    def ended(self, job: Any) -> Any:
        return until(lambda: (now := job.refresh()).ended and now)

    def works(self) -> bool:
        return bool(self.enqueue(functions.pid).result(DEADLINE))

    def close(self) -> bool:
        self.worker.stop()
        self._thread.join(DEADLINE)
        return not self._thread.is_alive()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    assert made.close()
    made.sloth.close()


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    made = Children(tmp_path)
    yield made
    made.close()


def test_a_function_that_closes_all_files_loses_its_attempt_and_nobody_else(place: Shop):
    jobs = [place.enqueue(functions.close_all) for _ in range(2)]  # all that the worker runs
    errors = [place.ended(job).error for job in jobs]
    assert all("its process is gone" in error for error in errors)
    assert place.works()


def test_a_function_that_goes_on_without_its_lock_is_ended_before_it_is_run_again(
    place: Shop, tmp_path: Path
):
    notes = tmp_path / "notes"
    assert place.ended(place.enqueue(functions.close_all_and_stay, str(notes))).state == "failed"
    assert not is_alive(int(notes.read_text()))
    assert place.works()


def test_what_a_function_opens_under_the_number_of_our_socket_stays_its_own(
    place: Shop, tmp_path: Path
):
    path = tmp_path / "theirs"
    place.ended(place.enqueue(functions.open_in_our_place, str(path)))
    assert path.read_text() == "theirs"


ODD = [
    "[]",
    "nothing",
    "[" * 100_000,
    '{"kind":"odd"}',
    '{"kind":"progress"}',
    '{"kind":"progress","fraction":"x","message":1}',
    '{"kind":"progress","fraction":1%s,"message":null}' % ("0" * 400),
    '{"kind":"ended","ending":{"bogus":1}}',
    '{"kind":"ended","ending":{"kind":"fail","error":5}}',
]


@pytest.mark.parametrize("line", ODD, ids=range(len(ODD)))
def test_a_child_that_says_what_no_child_says_is_ended(children: Children, line: str):
    child = children.new()
    until(lambda: child.receive() or child.ready)
    child._spawned.receive = lambda: [line.encode()]  # type: ignore[method-assign]
    assert child.receive() == []
    until(lambda: child.gone)


def test_a_child_whose_lock_was_deleted_is_of_no_use(tmp_path: Path):
    slot, here = Slot(str(tmp_path / "lock")), Place.here(ManualClock())
    until(lambda: slot.child.receive() or slot.child.ready)
    os.unlink(slot.child.lock)
    slot.listen(here, 1)
    assert not slot.idle
    until(lambda: slot.child.gone)
    slot.close()


def test_a_stopped_child_that_takes_no_more_holds_up_nobody(place: Shop):
    child = place.enqueue(functions.pid).result(DEADLINE)
    os.kill(child, signal.SIGSTOP)
    big = place.enqueue(functions.size, "x" * 2_000_000)
    until(lambda: big.refresh().state == "running")
    began = time.monotonic()
    assert place.sloth.queue("c").enqueue_command(["true"]).result(DEADLINE)["exit_code"] == 0
    assert time.monotonic() - began < 4
    os.kill(child, signal.SIGCONT)
    assert big.result(DEADLINE) == 2_000_000


def test_an_idle_child_of_before_a_restart_gets_no_more_work(tmp_path: Path):
    clock = ManualClock()
    place = Shop(tmp_path, clock)
    old = place.enqueue(functions.pid).result(DEADLINE)
    clock.reboot(5)
    job = place.enqueue(functions.pid)
    assert job.result(DEADLINE) != old
    assert [event.kind for event in job.events()] == ["enqueued", "claimed", "completed"]
    assert place.close()


def test_only_the_very_process_is_ended_not_a_later_one_of_that_number(children: Children):
    child = children.new()
    until(lambda: child.receive() or child.ready)
    here = Place.here(ManualClock())
    holder = describe(1, "child", child.lock, child.pid, here, 1)
    end_process(holder._replace(started=holder.started + 1), here)
    end_process(holder._replace(pidns=1), here)
    assert not child.gone
    end_process(holder, here)
    assert not is_alive(child.pid)


def test_a_fork_of_the_worker_keeps_no_link_open(tmp_path: Path):
    reads = [sys.executable, "-c", "import os, sys; os.read(int(sys.argv[1]), 1)"]
    spawned = Spawned(reads, lock=str(tmp_path / "lock"))
    fork = os.fork()
    if fork == 0:
        time.sleep(DEADLINE)
        os._exit(0)
    spawned.close()
    try:
        until(lambda: spawned.gone, 5)
    finally:
        os.kill(fork, signal.SIGKILL)
        os.waitpid(fork, 0)


def test_a_child_that_is_gone_is_closed_after_nobody_listens_to_it(place: Shop):
    assert place.works()
    slot, watched = place.worker._launcher.slots[0], place.worker._ear._watched
    seen: list[bool] = []
    close = slot.close

    def look_and_close() -> None:
        seen.append(slot.child.pidfd in watched)
        close()

    slot.close = look_and_close  # type: ignore[method-assign]
    os.kill(slot.child.pid, signal.SIGKILL)
    until(lambda: seen)
    assert seen == [False]
