"""What other people's programs, threads and forks do to a store that is in use."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slothqueue import (
    JobNotFound,
    NotSerializable,
    Sloth,
    StoreUnavailable,
    WrongState,
    current_job,
)
from slothqueue.storage import sqlite as engine

SEED = 12
"""Forks in each of the tests below: before they were mended, one in eight went wrong."""


def forks_beside(sloth: Sloth, busy: Callable[[], object], forks: int = SEED) -> list[int]:
    """Fork while two threads are busy; the numbers that the children enqueued."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            try:
                busy()
            except TimeoutError:
                continue

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        return [forked_enqueue(sloth) for _ in range(forks)]
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)


def forked_enqueue(sloth: Sloth) -> int:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)  # ends a child that hangs
        os.write(writing, str(sloth.queue("q").enqueue("child").id).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"a forked child ended with {status}"
    return int(told)


@pytest.mark.parametrize("what", ["flush", "read", "wait"])
def test_a_fork_beside_busy_threads_harms_neither_side(tmp_path: Path, what: str):
    with Sloth(tmp_path / "work.db") as sloth:
        sloth.queue("q").enqueue(0)
        busy = {
            "flush": lambda: sloth.queue("q").enqueue("thread"),
            "read": sloth.stats,
            "wait": lambda: sloth.queue("other").wait(timeout=0.003),
        }[what]
        ids = forks_beside(sloth, busy)
        assert len(set(ids)) == SEED
        assert all(sloth.job(id).state == "queued" for id in ids)


def test_two_threads_may_fork_at_once(tmp_path: Path):
    with Sloth(tmp_path / "work.db") as sloth:
        sloth.queue("q").enqueue(0)
        ids: list[int] = []
        threads = [
            threading.Thread(target=lambda: ids.extend(forked_enqueue(sloth) for _ in range(5)))
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(set(ids)) == 15
        assert sloth.stats()["queued"] == 16


def test_a_fork_does_not_open_the_transaction_of_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with Sloth(tmp_path / "work.db") as sloth:
        sloth.queue("q").enqueue(0)
        inside, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with pytest.raises(KeyError), sloth.transaction() as tx:
                tx.queue("q").enqueue("never")
                inside.set()
                leave.wait(60)
                raise KeyError("rolled back")

        holder = threading.Thread(target=hold)
        holder.start()
        inside.wait(30)
        monkeypatch.setattr(engine, "FORK_PATIENCE", 0.01)
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        assert not sloth.store._turn.try_for(0)
        leave.set()
        holder.join(30)
        assert sloth.stats()["queued"] == 1


def test_a_file_that_is_removed_under_a_handle_is_told(tmp_path: Path):
    with Sloth(tmp_path / "work.db") as sloth:
        sloth.queue("q").enqueue(1)
        for file in tmp_path.glob("work.db*"):
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        with pytest.raises(StoreUnavailable, match="removed or replaced"):
            sloth.queue("q").enqueue(2)


def test_a_file_that_is_replaced_is_told_and_then_used(tmp_path: Path):
    sloth = Sloth(tmp_path / "work.db", durability="process")
    job = sloth.queue("q").enqueue(1)
    with Sloth(tmp_path / "other.db") as other:
        other.queue("q").enqueue("a")
    shutil.rmtree(tmp_path / "work.db-live")
    for ending in ("", "-wal", "-shm"):
        (tmp_path / f"work.db{ending}").unlink(missing_ok=True)
    (tmp_path / "other.db").rename(tmp_path / "work.db")
    deadline = time.monotonic() + 30
    with pytest.raises(StoreUnavailable, match="removed or replaced"):
        while time.monotonic() < deadline:
            sloth.queue("q").enqueue(2)
    assert [found.payload for found in sloth.jobs()] == ["a"]
    assert job.refresh().payload == "a"  # another store, another job of that number
    sloth.close()


def test_a_bell_that_is_cut_short_kills_nobody(tmp_path: Path):
    program = (
        "import sys; from slothqueue import Sloth\n"
        "s = Sloth('work.db'); q = s.queue('q'); q.enqueue(1)\n"
        "for name in ('bell', 'bell.wanted'): open(f'work.db-live/{name}', 'w').close()\n"
        "q.enqueue(2); print(s.stats()['queued'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


def test_a_lock_directory_of_another_store_in_use_is_refused(tmp_path: Path):
    holder = Sloth(tmp_path / "work.db")
    holder.queue("q").enqueue(1)
    assert holder.queue("q").claim()
    for ending in ("", "-wal", "-shm"):
        (tmp_path / f"work.db{ending}").unlink(missing_ok=True)
    with pytest.raises(StoreUnavailable, match="belongs to another store"):
        Sloth(tmp_path / "work.db").queue("q").enqueue(2)
    holder.presence.abandon()  # nobody holds it any more
    with Sloth(tmp_path / "work.db") as sloth:
        assert sloth.queue("q").enqueue(2).id == 1


def test_jobs_that_somebody_deleted_neither_stick_nor_spin(tmp_path: Path):
    with Sloth(tmp_path / "work.db") as sloth:
        kept, gone = sloth.queue("q").enqueue("gone"), sloth.queue("q").enqueue("kept")
        lost = sloth.queue("q").enqueue_command(["true"])
        with sqlite3.connect(tmp_path / "work.db") as foreign:
            foreign.execute("delete from _sloth_job where id in (?, ?)", (kept.id, lost.id))
        lease = sloth.queue("q").claim()
        assert lease is None or lease.id == gone.id
        lease = lease or sloth.queue("q").claim()
        assert lease is not None
        lease.complete()
        assert sloth.queue("q").claim() is None
        assert sloth.worker().run_until_idle() == 0
        assert sloth.queue("q").stats()["queued"] == 0
        with pytest.raises(JobNotFound):
            sloth.job(kept.id)


@pytest.mark.parametrize("spoilt", ['{"args": [', "null", '"text"', "{}", "[" * 100_000])
def test_a_payload_that_somebody_has_spoilt_costs_nobody_else(tmp_path: Path, spoilt: str):
    with Sloth(tmp_path / "work.db") as sloth:

        @sloth.task(queue="tasks", max_attempts=1)
        def double(n: int) -> int:
            return 2 * n

        commands = sloth.queue("commands", max_attempts=1)
        jobs = [
            make()
            for make in (lambda: double.enqueue(1), lambda: commands.enqueue_command(["true"]))
            for _ in range(5)
        ]
        by_hand = sloth.queue("q").enqueue_many(list(range(5)))
        bad = [jobs[2], jobs[7], by_hand[2]]
        with sqlite3.connect(tmp_path / "work.db") as foreign:
            for job in bad:
                foreign.execute("update _sloth_job set payload = ? where id = ?", (spoilt, job.id))
        assert all(repr(job) for job in sloth.jobs())
        sloth.worker(pool="thread").run_until_idle()
        assert [job.refresh().state for job in jobs].count("done") == 8
        assert [job.refresh().state for job in bad] == ["failed", "failed", "queued"]
        assert all(job.refresh().error for job in bad[:2])
        leases = sloth.queue("q").claim_many(9)
        assert [lease.payload for lease in leases if lease.id != by_hand[2].id] == [0, 1, 3, 4]
        if spoilt.endswith("["):
            with pytest.raises(NotSerializable, match=f"job {by_hand[2].id} is not JSON any more"):
                print(leases[2].payload)


@pytest.mark.parametrize("statement", ["commit", "rollback"])
def test_a_transaction_that_a_statement_has_ended_writes_nothing_more(sloth: Sloth, statement: str):
    with pytest.raises(WrongState, match="has ended it"), sloth.transaction() as tx:
        tx.execute(statement)
        tx.queue("q").enqueue("alone")
    assert sloth.stats()["queued"] == 0


def test_set_up_by_an_autocommit_connection_is_all_or_nothing(tmp_path: Path):
    """Four at once, and each finds a whole schema."""
    program = (
        "import sqlite3; from slothqueue import Sloth\n"
        "c = sqlite3.connect('own.db', isolation_level=None, timeout=30)\n"
        "for _ in range(100):\n"
        "    try:\n"
        "        job = Sloth('own.db').within(c).queue('q').enqueue(1); break\n"
        "    except Exception as error:\n"
        "        if 'locked' not in str(error): raise\n"
        "print(job.id)\n"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    told = [process.communicate(timeout=60) for process in running]
    assert sorted(out for out, _ in told) == ["1\n", "2\n", "3\n", "4\n"], told
    with Sloth(tmp_path / "own.db") as sloth:
        assert len([sloth.queue("q").claim() for _ in range(4)]) == 4


def test_a_text_that_no_store_can_keep_is_kept_as_well_as_can_be(sloth: Sloth):
    @sloth.task()
    def tell() -> None:
        current_job().progress(0.5, "\ud800")
        time.sleep(0.3)  # or the worker may hear of the end first, and then that is news enough
        raise ValueError("\ud800")

    job = tell.using(max_attempts=1).enqueue()
    sloth.worker(pool="thread").run_until_idle()
    assert job.refresh().state == "failed"
    assert "progress" in [event.kind for event in job.events()]
    sloth.queue("q").enqueue(1)
    lease = sloth.queue("q").claim()
    assert lease is not None
    lease.fail("\ud800")
    assert lease.job.state == "queued"


def test_handles_that_nobody_has_any_more_leave_nothing_behind(tmp_path: Path):
    """Many at once in several threads, and every file stays whole."""
    import gc

    def use(n: int) -> None:
        for _ in range(40):
            sloth = Sloth(tmp_path / f"{n}.db")
            sloth.queue("q").enqueue(1)
            sloth.queue("q").claim()
            del sloth
            gc.collect()

    before = len(os.listdir("/proc/self/fd"))
    threads = [threading.Thread(target=use, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    for n in range(4):
        with sqlite3.connect(tmp_path / f"{n}.db") as check:
            assert check.execute("pragma integrity_check").fetchone() == ("ok",)
            assert check.execute("select count(*) from _sloth_job").fetchone() == (40,)
        check.close()


def test_a_file_that_is_away_for_a_moment_is_not_made_anew(tmp_path: Path):
    sloth = Sloth(tmp_path / "work.db")
    sloth.queue("q").enqueue("confirmed")
    (tmp_path / "work.db").rename(tmp_path / "away")
    deadline = time.monotonic() + 30
    with pytest.raises(StoreUnavailable):
        while time.monotonic() < deadline:
            sloth.queue("q").enqueue("lost?")
    with pytest.raises(StoreUnavailable):
        sloth.stats()
    with pytest.raises(StoreUnavailable):
        Sloth(tmp_path / "work.db").stats()
    (tmp_path / "away").rename(tmp_path / "work.db")
    with Sloth(tmp_path / "work.db") as again:
        assert "confirmed" in [job.payload for job in again.jobs()]
    sloth.close()


def test_a_half_read_cursor_does_not_keep_a_handle_from_writing(tmp_path: Path):
    with Sloth(tmp_path / "work.db", busy_timeout=2) as sloth, Sloth(tmp_path / "work.db") as other:
        with sloth.transaction() as tx:
            tx.execute("create table t (x)")
            tx.execute("insert into t values (1), (2), (3)")
        with sloth.transaction() as tx:
            cursor = tx.execute("select x from t")
            assert cursor.fetchone() == (1,)
        other.queue("q").enqueue(1)
        assert sloth.queue("q").enqueue(2).id == 2


def test_a_lock_of_others_does_not_cost_a_living_worker_its_timed_lease(tmp_path: Path):
    program = (
        "import sys, time; from slothqueue import Sloth\n"
        "sloth = Sloth('work.db')\n"
        "@sloth.task(lease=1)\n"
        "def work(): time.sleep(6)\n"
        "if __name__ == '__main__': sloth.worker(pool='thread').run_until_idle()\n"
    )
    (tmp_path / "app.py").write_text(program)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    with Sloth(tmp_path / "work.db") as sloth:
        task = sloth.task(name="app.work")(lambda: None)
        job = task.enqueue()
        worker = subprocess.Popen([sys.executable, "app.py"], cwd=tmp_path, env=environ)
        try:
            until = time.monotonic() + 30
            while job.refresh().state != "running" and time.monotonic() < until:
                time.sleep(0.02)
            with sqlite3.connect(tmp_path / "work.db", isolation_level=None) as foreign:
                foreign.execute("begin immediate")
                time.sleep(3)
                foreign.execute("rollback")
            foreign.close()
            sloth.verbs.upkeep.run()  # somebody looks right after the lock was free
            assert worker.wait(30) == 0
        finally:
            worker.kill()
            worker.wait()
        assert [event.kind for event in job.events()] == ["enqueued", "claimed", "completed"]


def test_a_lease_keeps_its_handle(tmp_path: Path):
    def take() -> object:
        return Sloth(tmp_path / "work.db").queue("q").claim()

    import gc

    with Sloth(tmp_path / "work.db") as sloth:
        job = sloth.queue("q").enqueue(1)
        lease = take()
        gc.collect()
        assert sloth.queue("q").claim() is None
        assert job.refresh().state == "running"
        lease.complete()  # type: ignore[attr-defined]
        assert job.refresh().state == "done"
