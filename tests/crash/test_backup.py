"""Backups of stores in use: of one moment, whole or not there, and stores of their own."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from slothqueue import Sloth, StoreCorrupt, StoreUnavailable, WrongState
from slothqueue.storage import backup

from .support import ROOT, audit, is_alive, rows, until
from .test_files import _may_mount, as_nobody, made, public, python

__all__ = ["public"]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tries what Linux does")

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with three jobs, closed."""
    with Sloth(tmp_path / "work.db") as sloth:
        sloth.queue("mail").enqueue_many([1, 2, 3])
    return tmp_path / "work.db"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# ---- what a copy is -----------------------------------------------------------------------------


def test_a_copy_has_everything_and_is_one_private_file(path: Path, tmp_path: Path):
    old = os.umask(0)
    try:
        with Sloth(path) as sloth:
            made = sloth.backup(tmp_path / "copy.db")
            there = names(tmp_path)
    finally:
        os.umask(old)
    assert made.path == str(tmp_path / "copy.db") and made.reissued == 0
    assert made.bytes == os.stat(made.path).st_size
    assert {name for name in there if not name.startswith("work.db")} == {"copy.db"}
    assert stat.S_IMODE(os.stat(made.path).st_mode) == 0o600
    with Sloth(made.path) as copy, Sloth(path) as sloth:
        assert [job.payload for job in copy.jobs()] == [1, 2, 3]
        assert copy.queue("mail").enqueue(4).id == 4 and len(sloth.jobs()) == 3
        ids = [one.verbs.store_id() for one in (copy, sloth)]
        assert ids[0] != ids[1] and all(ids)


def test_the_rows_of_the_user_are_in_it_with_their_ids(path: Path, tmp_path: Path):
    connection = sqlite3.connect(path)
    connection.execute("create table notes (what text)")
    connection.executemany("insert into notes values (?)", [("a",), ("b",), ("c",)])
    connection.execute("delete from notes where what = 'a'")
    connection.commit()
    connection.close()
    with Sloth(path) as sloth:
        sloth.backup(tmp_path / "copy.db")
    assert rows(tmp_path / "copy.db", "select rowid, what from notes") == [(2, "b"), (3, "c")]


def test_jobs_that_run_are_queued_again_in_the_copy_and_run_on_here(path: Path, tmp_path: Path):
    with Sloth(path) as sloth:
        sloth.queue("once", max_attempts=1).enqueue("x")
        by_hand, once = sloth.queue("mail").claim(), sloth.queue("once").claim()
        assert by_hand and once
        assert sloth.backup(tmp_path / "copy.db").reissued == 2
        with Sloth(tmp_path / "copy.db") as copy:
            job = copy.job(by_hand.id)
            last = job.events()[-1]
            assert (job.state, last.kind, last.reason) == ("queued", "reclaimed", "copied")
            assert "copied" in str(last.detail) and last.worker == job.events()[-2].worker
            assert copy.job(once.id).state == "failed"  # its only attempt may have done its work
            assert copy.store.read(copy.store.names.live_holders) == []
            again = copy.queue("mail").claim_many(3)
            assert by_hand.id in {lease.id for lease in again}
        by_hand.complete(), once.complete()
        assert sloth.stats()["done"] == 2
    for store in (path, tmp_path / "copy.db"):
        with Sloth(store) as one:
            one.queue("mail").claim()
            audit(one)


def test_what_a_copy_does_is_no_business_of_the_original(tmp_path: Path):
    """A command runs here while the copy, opened on the same machine, runs its own."""
    ran = tmp_path / "ran"
    script = f"echo $$ >> {ran}; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"
    with Sloth(tmp_path / "work.db") as sloth:
        job = sloth.queue("work").enqueue_command(["/bin/sh", "-c", script])
        worker = sloth.worker(concurrency=1, pool="thread")
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            first = int(until(lambda: ran.exists() and ran.read_text().split(), "it runs")[0])
            assert sloth.backup(tmp_path / "copy.db").reissued == 1
            with Sloth(tmp_path / "copy.db") as copy:
                other = copy.worker(concurrency=1, pool="thread")
                beside = threading.Thread(target=other.run_until_idle)
                beside.start()
                until(lambda: len(ran.read_text().split()) == 2, "it runs in the copy, too")
                assert is_alive(first) and sloth.job(job.id).state == "running"
                (tmp_path / "go").touch()
                beside.join(30)
                assert copy.job(job.id).state == "done" and copy.job(job.id).attempts == 2
            until(lambda: sloth.job(job.id).state == "done", "it has ended here")
            assert sloth.job(job.id).attempts == 1
        finally:
            (tmp_path / "go").touch()
            worker.stop()
            thread.join(30)


ORDERS = """
import sys
from slothqueue import Sloth
sloth = Sloth(sys.argv[1], durability="process")
print("ready", flush=True)
n = 0
while True:
    n += 1
    with sloth.transaction() as tx:
        job = tx.queue("mail").enqueue({"filler": "x" * 300}).id
        tx.execute("insert into orders values (?)", (job,))
    if n % 2:
        lease = sloth.queue("mail").claim()
        lease.complete() if n % 3 else lease.fail("boom")
"""


def test_a_backup_ends_under_steady_writers_and_is_of_one_moment(tmp_path: Path):
    path = tmp_path / "work.db"
    with Sloth(path) as sloth:
        with sloth.transaction() as tx:
            tx.execute("create table orders (job integer primary key)")
        for _ in range(20):
            sloth.queue("bulk").enqueue_many(["y" * 1_000] * 1_000)
        writers = [
            subprocess.Popen([sys.executable, "-c", ORDERS, path], stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        counts: list[int] = []

        def look(what: str, fraction: float) -> None:
            counts.append(sloth.job(1).id and rows(path, "select count(*) from orders")[0][0])

        try:
            for writer in writers:
                assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
            sloth.backup(tmp_path / "copy.db", progress=look)
        finally:
            for writer in writers:
                writer.kill()
                writer.communicate()
    assert counts[-1] > counts[0], "nobody wrote meanwhile"
    copied = rows(tmp_path / "copy.db", "select count(*) from orders")[0][0]
    assert copied <= counts[1]
    with Sloth(tmp_path / "copy.db") as copy:
        jobs = {job.id for job in copy.jobs(queue="mail", limit=1_000_000)}
        assert jobs == {row[0] for row in rows(copy.path, "select job from orders")}
        assert copy.check() == []


# ---- where it may go ----------------------------------------------------------------------------


def refused(path: Path, target: Any, error: type[Exception], *, force: bool = False) -> str:
    folder = path.parent
    with Sloth(path) as sloth:
        sloth.stats()
        before = names(folder)
        with pytest.raises(error) as caught:
            sloth.backup(target, force=force)
        assert names(folder) == before
    return str(caught.value)


def test_what_is_there_is_kept_unless_it_may_be_replaced(path: Path, tmp_path: Path):
    target = tmp_path / "copy.db"
    target.write_text("dear diary")
    told = refused(path, target, WrongState)
    assert str(target) in told and "--force" in told
    assert target.read_text() == "dear diary"
    with Sloth(path) as sloth:
        sloth.backup(target, force=True)
    with Sloth(target) as copy:
        assert len(copy.jobs()) == 3


@pytest.mark.parametrize("force", [False, True])
def test_the_store_itself_is_refused_under_any_name(path: Path, tmp_path: Path, force: bool):
    (tmp_path / "link.db").symlink_to(path)
    os.link(path, tmp_path / "twin.db")
    for name in ("work.db", "link.db", "twin.db", "work.db-wal", "work.db-journal", "work.db-live"):
        assert "itself" in refused(path, tmp_path / name, WrongState, force=force)


@pytest.mark.parametrize("force", [False, True])
def test_a_bad_place_is_named_with_the_way_out(path: Path, tmp_path: Path, force: bool):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, way_out in (("nowhere/copy.db", "mkdir -p"), ("folder", "Name a file in it")):
        assert way_out in refused(path, tmp_path / name, StoreUnavailable, force=force)
    assert "regular" in refused(path, tmp_path / "pipe", StoreUnavailable, force=force)


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
def test_nothing_is_put_beside_the_log_of_something_else(path: Path, tmp_path: Path, end: str):
    """SQLite would play it back into the copy."""
    (tmp_path / f"copy.db{end}").touch()
    for force in (False, True):
        assert end in refused(path, tmp_path / "copy.db", WrongState, force=force)


def test_a_store_in_use_is_not_replaced(path: Path, tmp_path: Path):
    with Sloth(path) as sloth:
        sloth.backup(tmp_path / "copy.db")
    life = tmp_path / "copy.db-live"
    life.mkdir()
    with open(life / "somebody.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "uses now" in refused(path, tmp_path / "copy.db", WrongState, force=True)
    with Sloth(path) as sloth:
        sloth.backup(tmp_path / "copy.db", force=True)


def test_a_link_is_followed(path: Path, tmp_path: Path):
    (tmp_path / "far").mkdir()
    (tmp_path / "copy.db").symlink_to(tmp_path / "far" / "real.db")
    with Sloth(path) as sloth:
        assert sloth.backup(tmp_path / "copy.db").path == str(tmp_path / "far" / "real.db")
    assert (tmp_path / "copy.db").is_symlink()


def test_who_comes_first_keeps_the_name(path: Path, tmp_path: Path):
    target = tmp_path / "copy.db"

    def meanwhile(what: str, fraction: float) -> None:
        target.write_text("mine")

    with Sloth(path) as sloth, pytest.raises(WrongState, match="somebody else"):
        sloth.backup(target, progress=meanwhile)
    assert target.read_text() == "mine"


def test_a_place_without_links_is_good_enough(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def none(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", none)
    with Sloth(path) as sloth:
        sloth.backup(tmp_path / "copy.db")
    with Sloth(tmp_path / "copy.db") as copy:
        assert len(copy.jobs()) == 3


def test_a_place_without_locks_is_good_enough(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with Sloth(path) as sloth:
        sloth.stats()

        def none(*_: Any) -> None:
            raise OSError(95, "Operation not supported")

        monkeypatch.setattr(fcntl, "flock", none)
        sloth.backup(tmp_path / "copy.db")
    assert (tmp_path / "copy.db").exists()


# ---- when it fails ------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["copy", "check"])
def test_who_interrupts_it_leaves_nothing(path: Path, tmp_path: Path, what: str):
    def interrupt(doing: str, fraction: float) -> None:
        if doing == what:
            raise KeyboardInterrupt

    with Sloth(path) as sloth:
        with pytest.raises(KeyboardInterrupt):
            sloth.backup(tmp_path / "copy.db", progress=interrupt)
        assert all(name.startswith("work.db") for name in names(tmp_path))
        assert sloth.queue("mail").enqueue(4).id == 4


def test_a_damaged_store_is_not_copied(tmp_path: Path):
    path = tmp_path / "work.db"
    with Sloth(path) as sloth:
        sloth.queue("mail").enqueue_many(["x" * 3_000] * 200)
    content = bytearray(path.read_bytes())
    content[300_000:310_000] = b"\xa5" * 10_000
    path.write_bytes(content)
    with Sloth(path) as sloth, pytest.raises(StoreCorrupt, match="no backup of it was made"):
        sloth.backup(tmp_path / "copy.db")
    assert all(name.startswith("work.db") for name in names(tmp_path))


def test_a_directory_that_may_not_be_written_is_named(public: Path):
    (public / "in").mkdir(mode=0o777)
    (public / "in").chmod(0o777)
    path = public / "in" / "work.db"
    made(path)
    path.chmod(0o666)
    shutil.rmtree(public / "in" / "work.db-live")
    public.chmod(0o755)
    kind, message = as_nobody(path, "backup")
    assert kind == "StoreReadOnly" and str(public) in message and "permission" in message


@pytest.mark.skipif(not _may_mount(), reason="needs the right to mount a small file system")
def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path):
    apart = ("unshare", "--mount", "--propagation", "private")
    ran = python("-m", "tests.crash.support_places", "backup_when_full", tmp_path, before=apart)
    assert ran.returncode == 0, ran.stderr[-3000:]


# ---- when it is killed --------------------------------------------------------------------------


@pytest.mark.parametrize(("force", "step"), [("new", 2), ("force", 1)])
def test_a_backup_may_be_killed_at_any_call(tmp_path: Path, force: str, step: int):
    ran = subprocess.run(
        [sys.executable, "-m", "tests.crash.support_backup", tmp_path, force, str(step)],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert int(ran.stdout) > 20


STOPPED = """
import os, sys
from slothqueue import Sloth
def stop(what, fraction):
    print("stopped", flush=True)
    sys.stdin.readline()
print(Sloth(sys.argv[1]).backup(sys.argv[2], progress=stop).bytes)
"""


def test_leftovers_of_the_dead_are_removed_and_work_of_the_living_is_not(
    path: Path, tmp_path: Path
):
    made: list[subprocess.Popen[bytes]] = []
    for name in ("dead.db", "alive.db"):
        command = [sys.executable, "-c", STOPPED, str(path), str(tmp_path / name)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT
        )
        assert process.stdout is not None and process.stdout.readline() == b"stopped\n"
        made.append(process)
    dead, alive = made
    dead.send_signal(signal.SIGKILL)
    dead.communicate()

    def drafts() -> int:
        return sum(name.startswith(backup.PREFIX) for name in names(tmp_path))

    assert drafts() == 2
    with Sloth(path) as sloth:
        sloth.backup(tmp_path / "copy.db")
    assert drafts() == 1
    out, _ = alive.communicate(b"\n" * 100)
    assert alive.returncode == 0 and int(out.split()[-1]) > 0
    assert drafts() == 0 and not (tmp_path / "dead.db").exists()
    with Sloth(tmp_path / "alive.db") as copy:
        assert json.dumps([job.payload for job in copy.jobs()]) == "[1, 2, 3]"
