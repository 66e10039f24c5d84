"""Files that are broken, foreign, locked, full or forbidden: an error says so, nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from slothqueue import Sloth
from slothqueue.errors import (
    SchemaTooNew,
    StoreBusy,
    StoreCorrupt,
    StoreUnavailable,
)
from slothqueue.storage import filesystem

from .support import ROOT, audit, rows

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tries what Linux does")

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with three jobs, closed."""
    with Sloth(tmp_path / "work.db") as sloth:
        sloth.queue("mail").enqueue_many([1, 2, 3])
    return tmp_path / "work.db"


def python(*args: Any, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, *map(str, args)]
    return subprocess.run(
        command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=100
    )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """A plain client has the write lock."""
    stranger = sqlite3.connect(path, isolation_level=None)
    try:
        stranger.execute("begin immediate")
        yield
    finally:
        stranger.close()


# ---- what is no store ---------------------------------------------------------------------------


def garbage(path: Path) -> None:
    path.write_bytes(os.urandom(20_000))


def short_text(path: Path) -> None:
    path.write_text("dear diary\n")


def torn_header(path: Path) -> None:
    made(path)
    content = path.read_bytes()
    path.write_bytes(bytes(512) + content[512:])  # a sector that never reached the disk


def without_magic(path: Path) -> None:
    made(path)
    path.write_bytes(b"SQLite formatX3\0" + path.read_bytes()[16:])


def cut_in_half(path: Path) -> None:
    made(path)
    os.truncate(path, path.stat().st_size // 2)


def cut_inside_the_header(path: Path) -> None:
    made(path)
    os.truncate(path, 50)


def broken_pages(path: Path) -> None:
    made(path)
    content = path.read_bytes()
    path.write_bytes(content[:2048] + os.urandom(len(content) - 2048))


def made(path: Path) -> None:
    with Sloth(path) as sloth:
        sloth.queue("mail").enqueue_many(["x" * 500] * 200)


@pytest.mark.parametrize(
    "spoil",
    [
        garbage,
        short_text,
        torn_header,
        without_magic,
        cut_in_half,
        cut_inside_the_header,
        broken_pages,
    ],
)
def test_a_broken_file_is_refused_and_not_touched(tmp_path: Path, spoil: Any):
    path = tmp_path / "work.db"
    spoil(path)
    before = path.read_bytes()
    sloth = Sloth(path)
    for action in (
        lambda: sloth.queue("mail").enqueue(1),
        lambda: sloth.queue("mail").claim(),
        lambda: sloth.jobs(),
        lambda: sloth.stats(),
    ):
        with pytest.raises(StoreCorrupt) as caught:
            action()
        assert str(path) in str(caught.value) and "backup" in str(caught.value)
    sloth.close()
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_store(tmp_path: Path):
    path = tmp_path / "work.db"
    path.touch()
    with Sloth(path) as sloth:
        assert sloth.queue("mail").enqueue(1).id == 1


def test_a_store_is_set_up_beside_the_tables_of_a_user(tmp_path: Path):
    path = tmp_path / "app.db"
    connection = sqlite3.connect(path)
    connection.execute("create table orders (id integer primary key, what text)")
    connection.execute("insert into orders values (1, 'tea')")
    connection.commit()
    connection.close()
    with Sloth(path) as sloth:
        sloth.queue("mail").enqueue(1)
    assert rows(path, "select * from orders") == [(1, "tea")]
    names = {row[0] for row in rows(path, "select name from sqlite_master")} - {"orders"}
    ours = ("_sloth_", "sloth_", "sqlite_autoindex__sloth_", "sqlite_sequence")
    assert names and all(name.startswith(ours) for name in names)


def test_a_file_from_the_future_is_refused_and_not_touched(path: Path):
    connection = sqlite3.connect(path)
    connection.execute("insert into _sloth_migration values (99, 'later', 'x', 1, 0)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with Sloth(path) as sloth:
        for action in (lambda: sloth.queue("mail").enqueue(1), lambda: sloth.stats()):
            with pytest.raises(SchemaTooNew, match=r"99.*[Uu]pgrade"):
                action()
    assert path.read_bytes() == before


def test_a_file_with_a_harmless_novelty_is_used(path: Path):
    connection = sqlite3.connect(path)
    connection.execute("insert into _sloth_migration values (99, 'later', 'x', 0, 0)")
    connection.commit()
    connection.close()
    with Sloth(path) as sloth:
        assert sloth.stats()["queued"] == 3


# ---- where nothing may be written ---------------------------------------------------------------


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that everybody can reach, for the user without rights."""
    folder = Path(tempfile.mkdtemp(prefix="sloth-"))
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o700)
    for path in folder.rglob("*"):
        path.chmod(0o700)
    shutil.rmtree(folder)


def as_nobody(path: Path, verb: str) -> tuple[str, str]:
    ran = python("-m", "tests.crash.support_places", "attempt", path, verb)
    assert ran.returncode == 0, ran.stderr
    kind, message = json.loads(ran.stdout)
    return kind, message


@pytest.mark.parametrize("verb", ["write", "claim"])
def test_a_file_that_may_not_be_written_is_named(public: Path, verb: str):
    path = public / "work.db"
    made(path)
    path.chmod(0o444)
    kind, message = as_nobody(path, verb)
    assert kind == "StoreReadOnly" and str(path) in message and "permission" in message


def test_a_file_that_may_only_be_read_can_be_looked_at(public: Path):
    path = public / "work.db"
    made(path)
    path.chmod(0o444)
    kind, message = as_nobody(path, "open")
    assert kind == "fine" and "'queued': 200" in message


@pytest.mark.parametrize("verb", ["open", "write"])
@pytest.mark.parametrize("there", [False, True])
def test_a_directory_that_may_not_be_written_is_named(public: Path, verb: str, there: bool):
    path = public / "work.db"
    if there:
        made(path)
        path.chmod(0o666)
        shutil.rmtree(public / "work.db-live", ignore_errors=True)
    public.chmod(0o555)
    kind, message = as_nobody(path, verb)
    assert kind == "StoreReadOnly" and str(path) in message and "permission" in message


@pytest.mark.parametrize("verb", ["open", "write"])
def test_a_directory_that_is_missing_is_named(public: Path, verb: str):
    kind, message = as_nobody(public / "no" / "where" / "work.db", verb)
    assert kind == "StoreUnavailable" and "mkdir -p" in message
    assert not (public / "no").exists()


@pytest.mark.parametrize("verb", ["open", "write"])
def test_a_path_that_is_a_directory_is_named(public: Path, verb: str):
    (public / "work.db").mkdir(mode=0o777)
    kind, message = as_nobody(public / "work.db", verb)
    assert kind == "StoreUnavailable" and "is a directory" in message
    assert not any((public / "work.db").iterdir())


def test_a_file_that_cannot_be_read_is_named(public: Path):
    path = public / "work.db"
    made(path)
    path.chmod(0)
    kind, message = as_nobody(path, "open")
    assert kind == "StoreReadOnly" and str(path) in message


@pytest.mark.parametrize("name", ["a ?b=1&mode=memory.db", "50%25 #1.db", "ä ö.db", "file:x.db"])
def test_a_path_may_have_any_characters(tmp_path: Path, name: str):
    with Sloth(tmp_path / name) as sloth:
        job = sloth.queue("mail").enqueue(1)
        lease = sloth.queue("mail").claim()
        assert lease is not None and lease.id == job.id
        lease.complete()
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} >= {name}
    with Sloth(tmp_path / name) as sloth:
        assert sloth.stats()["done"] == 1


def test_what_is_made_is_private_whatever_the_umask(tmp_path: Path):
    before = os.umask(0)
    try:
        with Sloth(tmp_path / "work.db") as sloth:
            sloth.queue("mail").enqueue(1)
            assert sloth.queue("mail").claim()
            sloth.queue("mail").enqueue_command(["/bin/echo", "x"])
            sloth.worker(concurrency=1).run_until_idle()
            found = {path: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    finally:
        os.umask(before)
    assert len(found) > 5
    for path, mode in found.items():
        assert mode == (0o700 if path.is_dir() else 0o600), f"{path.name}: {mode:o}"


@pytest.mark.parametrize("what", ["file", "directory", "unreadable"])
def test_a_place_without_rights_is_told_by_the_doctor(public: Path, what: str):
    path = public / "work.db"
    made(path)
    path.chmod({"file": 0o444, "directory": 0o666, "unreadable": 0}[what])
    shutil.rmtree(public / "work.db-live")
    public.chmod(0o555 if what == "directory" else 0o777)
    kind, message = as_nobody(path, "examine")
    marks = {mark[0]: mark for mark in json.loads(message)} if kind == "fine" else {}
    problem = marks["file" if what == "unreadable" else "permissions"]
    assert problem[1] == "problem" and "permission" in problem[3]
    if what != "unreadable":
        assert marks["integrity"][1] == "ok"
        kind, message = as_nobody(path, "look")
        assert kind == "fine" and "'queued': 200" in message
    assert {one.name for one in public.iterdir()} == {"work.db"}


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    line = f"90 1 0:50 / {tmp_path} rw,relatime shared:1 - nfs4 server:/export rw\n"
    monkeypatch.setattr(filesystem, "_mounts", lambda: line)
    with pytest.raises(StoreUnavailable, match="nfs4"):
        Sloth(tmp_path / "work.db").stats()
    assert not list(tmp_path.iterdir())
    with Sloth(tmp_path / "work.db", allow_unsafe_fs=True) as sloth:
        assert sloth.stats()["queued"] == 0


# ---- a full disk --------------------------------------------------------------------------------


def _may_mount() -> bool:
    tried = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return (
        bool(shutil.which("unshare")) and not subprocess.run(tried, capture_output=True).returncode
    )


@pytest.mark.skipif(not _may_mount(), reason="needs the right to mount a small file system")
@pytest.mark.parametrize(
    "verb",
    [
        "enqueue_until_full",
        "end_jobs_when_full",
        "open_when_full",
        "work_when_full",
        "commands_when_full",
    ],
)
def test_a_full_disk_is_said_and_nothing_that_was_confirmed_is_lost(tmp_path: Path, verb: str):
    apart = ("unshare", "--mount", "--propagation", "private")
    ran = python("-m", "tests.crash.support_places", verb, tmp_path, before=apart)
    assert ran.returncode == 0, ran.stderr[-3000:]


# ---- the log ------------------------------------------------------------------------------------


def write_steadily(sloth: Sloth, jobs: int) -> int:
    """Enqueue and end that many jobs; the largest size of the log meanwhile."""
    mail, largest = sloth.queue("mail"), 0
    for _ in range(jobs // 100):
        mail.enqueue_many(["x" * 1_000] * 100)
        mail.complete_many(mail.claim_many(100))
        largest = max(largest, sloth.store.log_bytes())
    return largest


def test_the_log_stays_small_under_steady_writes(tmp_path: Path):
    with Sloth(tmp_path / "work.db", durability="process") as sloth:
        largest = write_steadily(sloth, 20_000)
    print("largest log:", largest)
    assert tmp_path.joinpath("work.db").stat().st_size > 20_000_000
    assert largest < 24_000_000


def test_the_log_stays_small_when_jobs_are_large(tmp_path: Path):
    with Sloth(tmp_path / "work.db", durability="process") as sloth:
        largest = 0
        for n in range(400):
            sloth.queue("mail").enqueue("x" * (300_000 if n % 100 > 50 else 1_000))
            largest = max(largest, sloth.store.log_bytes())
    print("largest log:", largest)
    assert largest < 64_000_000


def test_the_log_stays_small_under_single_writes(tmp_path: Path):
    with Sloth(tmp_path / "work.db", durability="process") as sloth:
        largest = 0
        for n in range(6_000):
            sloth.queue("mail").enqueue("x" * 1_000)
            largest = max(largest, sloth.store.log_bytes()) if n % 50 == 0 else largest
    print("largest log:", largest)
    assert largest < 24_000_000


def test_a_long_reader_lets_the_log_grow_and_it_is_used_again_after(tmp_path: Path):
    path = tmp_path / "work.db"
    with Sloth(path, durability="process") as sloth:
        alone = write_steadily(sloth, 3_000)
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("begin")
        reader.execute("select count(*) from _sloth_job").fetchone()
        with_reader = write_steadily(sloth, 10_000)
        reader.execute("rollback")
        reader.close()
        assert with_reader > 2 * alone
        assert with_reader == sloth.store.log_bytes()
        after = write_steadily(sloth, 15_000)
        print("largest log alone, beside the reader, after:", alone, with_reader, after)
        assert after < 1.3 * with_reader + 4_000_000


# ---- locks --------------------------------------------------------------------------------------


TRY_TO_WRITE = """
import sqlite3, sys
from slothqueue import Sloth
connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    connection.execute("begin immediate")
    print("in")
except sqlite3.OperationalError:
    print("out")
connection.close()
print(Sloth(sys.argv[1], busy_timeout=0.2).queue("mail").claim())
"""


def excluded(path: Path) -> bool:
    """Whether another process can neither write nor take what is held here."""
    ran = python("-c", TRY_TO_WRITE, path)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split() == ["out", "None"]


def test_other_handles_in_the_process_leave_its_locks_alone(path: Path, tmp_path: Path):
    with Sloth(path) as sloth:
        assert len(sloth.queue("mail").claim_many(3)) == 3
        with sloth.transaction() as tx:
            tx.execute("create table t (x)")
            assert excluded(path)
            other = Sloth(path)
            assert other.stats()["running"] == 3
            other.close()
            assert excluded(path)
            plain = sqlite3.connect(path)
            plain.backup(copy := sqlite3.connect(tmp_path / "copy.db"))
            copy.close()
            plain.execute("pragma integrity_check").fetchall()
            plain.close()
            assert excluded(path)
        assert sloth.stats()["running"] == 3
    assert rows(path, "select count(*) from t") == [(0,)]


def test_store_busy_comes_after_a_bounded_wait_and_means_that_nothing_was_done(path: Path):
    with Sloth(path, busy_timeout=0.3) as sloth:
        sloth.stats()
        for action in (
            lambda: sloth.queue("mail").enqueue(4),
            lambda: sloth.queue("mail").enqueue_many([4, 5]),
            lambda: sloth.queue("mail").claim(),
            lambda: sloth.queue("new").enqueue(4),
        ):
            with locked(path):
                began = time.monotonic()
                with pytest.raises(StoreBusy, match="Nothing was changed"):
                    action()
                assert 0.25 < time.monotonic() - began < 10
        assert sloth.stats() == {**dict.fromkeys(sloth.stats(), 0), "queued": 3}
        assert sloth.queue("mail").enqueue(4).id == 4
    with Sloth(path) as sloth:
        audit(sloth)


def test_a_claim_that_found_the_store_busy_leaves_nothing_behind(path: Path):
    with Sloth(path, busy_timeout=0.05) as sloth:
        sloth.stats()
        with locked(path):
            for _ in range(20):
                with pytest.raises(StoreBusy):
                    sloth.queue("mail").claim()
        open_files = [
            os.readlink(f"/proc/self/fd/{name}")
            for name in os.listdir("/proc/self/fd")
            if os.path.islink(f"/proc/self/fd/{name}")
        ]
        assert not [name for name in open_files if name.endswith(".lock")]
        assert not list(Path(sloth.store.live).glob("*.lock"))


def test_no_read_and_no_claim_on_an_empty_queue_takes_the_write_lock(path: Path):
    with Sloth(path, busy_timeout=0.2) as sloth:
        mail = sloth.queue("mail")
        mail.complete_many(mail.claim_many(3))
    with Sloth(path, busy_timeout=0.2) as sloth, locked(path):
        assert sloth.queue("mail").claim() is None
        assert sloth.queue("mail").claim_many(10) == []
        assert sloth.queue("never used").claim() is None
        assert sloth.stats()["done"] == 3
        assert [job.state for job in sloth.jobs()] == ["done"] * 3
        assert sloth.job(1).refresh().events()[-1].kind == "completed"
        assert sloth.job(1).result(timeout=1) is None
        assert sloth.queue("mail").options.max_attempts == 4
        assert sloth.queue("mail", max_attempts=4).dead_letters() == []
        with pytest.raises(TimeoutError):
            sloth.queue("mail").wait(timeout=0.05)


def test_a_first_look_at_a_new_store_takes_no_write_lock_either(path: Path):
    with Sloth(path, busy_timeout=0.2) as sloth, locked(path):
        assert sloth.queue("never used").claim() is None


def test_a_thread_that_waits_for_the_lock_lets_the_others_run(path: Path):
    with Sloth(path, busy_timeout=5) as sloth:
        sloth.stats()
        with locked(path):
            thread = threading.Thread(target=lambda: sloth.queue("mail").enqueue(4))
            thread.start()
            for _ in range(50):
                assert sloth.stats()["queued"] == 3
        thread.join(10)
        assert sloth.stats()["queued"] == 4


# ---- after the commit ---------------------------------------------------------------------------


def test_a_flush_that_fails_says_that_the_row_is_there(path: Path, monkeypatch: pytest.MonkeyPatch):
    def no(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with Sloth(path) as sloth:
        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", no)
            with pytest.raises(StoreUnavailable, match=r"is in the file.*Input/output error"):
                sloth.queue("mail").enqueue("four")
        assert [job.payload for job in sloth.jobs()] == [1, 2, 3, "four"]
        assert sloth.queue("mail").enqueue("five").id == 5
        audit(sloth)
