"""`sloth doctor` and `sloth backup`: what they say, how they end, and what they leave alone."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slothqueue import ManualClock, Sloth, StoreReadOnly, kernel
from slothqueue.cli import doctor, main
from slothqueue.onlooking import Onlooker
from slothqueue.reports import LEVELS, Mark
from slothqueue.storage import filesystem, health, migrate
from slothqueue.storage.log_readers import log_readers, parse

from .cli_support import ROOT, Cli, Terminal, until


@pytest.fixture
def sloth(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def marks(sloth: Cli, *words: str, code: int = 0) -> dict[str, list[Mark]]:
    """What the doctor says, by what it looked at."""
    found: dict[str, list[Mark]] = {}
    for each in sloth("doctor", "--json", *words, code=code).objects:
        assert each.pop("v") == 1
        assert set(each) == set(Mark._fields) and each["level"] in LEVELS
        found.setdefault(each["check"], []).append(Mark(**each))
    return found


def state(folder: Path) -> dict[str, Any]:
    """Every file with its bytes and the time of its last change."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in folder.rglob("*")
    }


CHECKS = {
    *("version", "sqlite", "file system", "file", "permissions", "schema", "integrity", "log"),
    *("disk", "locks", "workers", "leases", "jobs", "queues", "clock", "wake-ups"),
}


# ---- a healthy store ----------------------------------------------------------------------------


def test_the_doctor_looks_at_everything_and_finds_a_healthy_store_well(sloth: Cli):
    sloth.add("--", "true")
    with sloth.worker():
        until(lambda: sloth.job(1)["state"] == "done", "it has run")
        found = marks(sloth)
        assert set(found) == CHECKS
        assert {mark.level for each in found.values() for mark in each} <= {"ok", "note"}
        assert "alive" in found["workers"][0].found
        done = sloth("doctor")
        assert done.text.splitlines()[-1] == "All is well." and done.err == ""
        lines = [line for line in done.text.splitlines()[:-2] if not line.startswith(" ")]
        assert len(lines) == sum(map(len, found.values())), "a line for each, however long"


def test_the_quick_look_leaves_out_what_takes_long(sloth: Cli):
    sloth.add("--", "true")
    with sqlite3.connect(sloth.db) as connection:
        connection.execute("update _sloth_job set payload = '{'")
    connection.close()
    assert marks(sloth, "--quick")["integrity"][0].level == "ok"
    assert "JSON" in marks(sloth, code=1)["integrity"][0].found


def test_there_are_colors_and_narrow_lines_on_a_terminal(sloth: Cli):
    sloth.add("--", "true")
    with Terminal(sloth, "doctor", columns=60) as terminal:
        assert terminal.finish() == 0
    assert "\x1b[33mwarning \x1b[0m" in terminal.seen and "\x1b[32mok" in terminal.seen
    plain = terminal.seen.replace("\x1b[0m", "")
    for color in ("31", "32", "33", "34"):
        plain = plain.replace(f"\x1b[{color}m", "")
    prose = [line for line in plain.splitlines() if str(sloth.folder) not in line]
    assert max(len(line) for line in prose) <= 60


# ---- what it leaves alone -----------------------------------------------------------------------


def at_rest(sloth: Cli) -> None:
    sloth.add("--", "true")


def after_a_crash(sloth: Cli) -> None:
    program = "import os, sys; from slothqueue import Sloth; s = Sloth(sys.argv[1])\n"
    program += "s.queue('mail').enqueue(1); s.queue('mail').claim(); os._exit(0)"
    subprocess.run([sys.executable, "-c", program, str(sloth.db)], check=True)
    assert sloth.db.with_name("work.db-wal").stat().st_size


def a_backup(sloth: Cli) -> None:
    at_rest(sloth)
    sloth("backup", "copy.db")
    os.replace(sloth.folder / "copy.db", sloth.db)


def nothing(sloth: Cli) -> None:
    return


def an_empty_file(sloth: Cli) -> None:
    sloth.db.touch(0o600)


def somebody_elses(sloth: Cli) -> None:
    with sqlite3.connect(sloth.db) as connection:
        connection.execute("create table orders (id)")
    connection.close()
    sloth.db.chmod(0o600)


@pytest.mark.parametrize(
    "prepare", [at_rest, after_a_crash, a_backup, nothing, an_empty_file, somebody_elses]
)
def test_the_doctor_changes_nothing(sloth: Cli, prepare: Any):
    prepare(sloth)
    before = state(sloth.folder)
    found = marks(sloth)
    after = state(sloth.folder)
    for path in (str(sloth.db) + "-shm", str(sloth.folder)):  # SQLite's own notes for readers
        before.pop(path, None), after.pop(path, None)
    assert after == before
    assert "problem" not in {mark.level for each in found.values() for mark in each}


def test_a_handle_that_looks_refuses_to_write(tmp_path: Path):
    with Sloth(tmp_path / "work.db") as sloth:
        sloth.queue("mail").enqueue(1)
    looker = Onlooker(tmp_path / "work.db")
    assert looker.stats()["queued"] == 1
    for action in (lambda: looker.queue("mail").enqueue(2), lambda: looker.queue("mail").claim()):
        with pytest.raises(StoreReadOnly, match="looked at only"):
            action()
    looker.close()


# ---- what it finds ------------------------------------------------------------------------------


def garbage(path: Path) -> None:
    path.write_bytes(os.urandom(20_000))


def short_text(path: Path) -> None:
    path.write_text("dear diary\n")


def torn_header(path: Path) -> None:
    path.write_bytes(bytes(512) + path.read_bytes()[512:])


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def broken_pages(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:30_000] + os.urandom(len(content) - 30_000))


def from_the_future(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("insert into _sloth_migration values (99, 'later', 'x', 1, 0)")
    connection.close()


def without_a_file(path: Path) -> None:
    path.unlink()
    path.with_name("work.db-wal").write_bytes(b"x" * 5_000)


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "check"),
    [
        (garbage, "integrity"),
        (short_text, "file"),
        (torn_header, "integrity"),
        (cut_short, "integrity"),
        (broken_pages, "integrity"),
        (from_the_future, "schema"),
        (without_a_file, "file"),
        (a_directory, "file"),
    ],
)
def test_a_broken_store_is_a_problem_with_a_remedy(sloth: Cli, spoil: Any, check: str):
    with Sloth(sloth.db) as store:
        store.queue("mail").enqueue_many(["x" * 500] * 200)
    spoil(sloth.db)
    before = state(sloth.folder)
    found = marks(sloth, code=1)
    assert state(sloth.folder) == before
    (problem,) = [mark for mark in found[check] if mark.level == "problem"][:1]
    assert problem.remedy and problem.remedy[0].isupper()
    bad = {name for name, each in found.items() if any(mark.level == "problem" for mark in each)}
    assert bad == {check}


def test_a_store_that_does_not_exist_yet_is_no_problem(sloth: Cli):
    found = marks(sloth)
    assert found["file"][0].level == "note" and "sloth add" in str(found["file"][0].remedy)
    assert marks(sloth, "--db", "nowhere/x.db", code=1)["file"][0].level == "problem"
    home = str(sloth.folder / "home")
    done = sloth("doctor", "--json", SLOTH_DB=None, XDG_DATA_HOME=home)
    assert [each["level"] for each in done.objects if each["check"] == "file"] == ["note"]
    assert not os.path.exists(home)


def test_an_address_of_another_engine_is_refused(sloth: Cli):
    assert "postgresql" not in sloth.refused("doctor", "--db", "postgresql://x/y", code=75)[:7]


def test_what_a_stranger_did_to_the_tables_is_told(sloth: Cli):
    sloth.add("--", "true")
    with sqlite3.connect(sloth.db) as connection:
        connection.execute("delete from _sloth_ready")
    connection.close()
    (mark,) = marks(sloth, code=1)["integrity"]
    assert "job 1" in mark.found and "1 problem" in sloth("doctor", code=1).text


def test_what_the_dead_hold_is_told(sloth: Cli):
    after_a_crash(sloth)
    found = marks(sloth)
    assert found["leases"][0].level == "warning" and found["leases"][0].found.startswith("1 job ")
    assert "gone without a word" in found["workers"][1].found


def test_jobs_that_nobody_runs_are_told_with_the_way_out(sloth: Cli):
    sloth.add("-q", "media", "--", "true")
    (mark,) = marks(sloth)["jobs"]
    assert mark.level == "warning" and mark.remedy == "Start one: sloth worker"
    with sloth.worker("-q", "other"):
        (mark,) = marks(sloth)["jobs"]
        assert mark.remedy == "Start one: sloth worker -q media"


def test_what_others_may_read_is_told(sloth: Cli):
    sloth.add("--", "true")
    sloth.db.chmod(0o644)
    (mark,) = marks(sloth)["permissions"]
    assert mark.level == "warning" and f"chmod go= {sloth.db}" in str(mark.remedy)


def test_a_file_put_in_the_place_of_one_in_use_is_told(sloth: Cli):
    sloth.add("--", "true")
    sloth("backup", "copy.db")
    with sloth.worker():
        with Sloth(sloth.folder / "copy.db") as copy:
            assert copy.stats()["queued"] == 1
        os.replace(sloth.db, sloth.folder / "old.db")
        for end in ("-wal", "-shm"):
            (sloth.folder / f"work.db{end}").unlink(missing_ok=True)
        (sloth.folder / "copy.db").rename(sloth.db)
        (mark,) = marks(sloth, code=1)["live directory"]
        assert mark.level == "problem" and "End that process" in str(mark.remedy)


def test_what_cannot_be_looked_at_is_told(sloth: Cli):
    sloth.add("--", "true")
    with sloth.worker():
        with sqlite3.connect(sloth.db) as connection:
            connection.execute("update _sloth_holder set tells = 'rubbish'")
        connection.close()
        found = marks(sloth, code=1)
        assert found["workers"][0].level == "problem" and found["clock"][0].level == "ok"


# ---- what cannot be had here: told by the machine's word ----------------------------------------


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Sloth]:
    with Sloth(tmp_path / "work.db", durability="process") as sloth:
        sloth.queue("mail").enqueue(1)
        yield sloth


def told(capsys: pytest.CaptureFixture[str], sloth: Sloth, check: str, code: int = 0) -> Mark:
    """What the doctor says of one thing, run in this very process."""
    assert main(["doctor", "--json", "--db", sloth.path]) == code
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(each.pop("v") == 1 for each in objects)
    return next(Mark(**each) for each in objects if each["check"] == check)


READER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("begin")
connection.execute("select count(*) from _sloth_job").fetchone()
print("reading", flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="the system does not tell")
def test_a_log_that_grows_is_told_with_who_keeps_it(
    work: Sloth, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(health, "MUCH_LOG", 10_000)
    command = [sys.executable, "-c", READER, work.path]
    reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert reader.stdout is not None and reader.stdout.readline() == b"reading\n"
        work.queue("mail").enqueue_many(["x" * 500] * 100)
        assert {pid for pid, _ in log_readers(work.path)} == {reader.pid}
        mark = told(capsys, work, "log")
        assert mark.level == "warning" and f"process {reader.pid} (python" in str(mark.remedy)
    finally:
        reader.communicate(b"\n")
    mark = told(capsys, work, "log")
    assert mark.level == "warning" and "Nobody reads for long" in str(mark.remedy)


def test_readers_are_known_by_the_bytes_that_they_lock():
    text = """\
1: POSIX  ADVISORY  READ 11 08:01:77 124 124
2: POSIX  ADVISORY  READ 12 08:01:77 128 128
3: POSIX  ADVISORY  WRITE 13 08:01:77 120 120
4: FLOCK  ADVISORY  WRITE 14 08:01:77 0 EOF
5: POSIX  ADVISORY  READ 15 08:01:78 124 124
5: -> POSIX  ADVISORY  READ 16 08:01:77 124 124
6: POSIX  ADVISORY  READ -1 08:01:77 124 124
7: POSIX  ADVISORY  READ 17 00:2d:77 123 123
"""
    assert parse(text, 77) == {(11, 124), (17, 123)}


def test_a_network_file_system_is_a_problem(
    work: Sloth, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    folder = os.path.dirname(work.path)
    line = f"90 1 0:50 / {folder} rw shared:1 - nfs4 server:/export rw\n"
    monkeypatch.setattr(filesystem, "_mounts", lambda: line)
    mark = told(capsys, work, "file system", code=1)
    assert mark.level == "problem" and "nfs4" in mark.found and "this machine" in str(mark.remedy)


def test_locks_that_do_not_work_are_a_problem(
    work: Sloth, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(filesystem, "_refused", lambda descriptor: False)
    assert told(capsys, work, "locks", code=1).level == "problem"


@pytest.mark.parametrize(
    ("bytes", "level", "code"), [(5_000_000, "problem", 1), (50_000_000, "warning", 0)]
)
def test_a_disk_that_is_nearly_full_is_told(
    work: Sloth,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    bytes: int,
    level: str,
    code: int,
):
    real = os.statvfs(work.path)
    free = [*real[:3], bytes // real.f_frsize, bytes // real.f_frsize, *real[5:]]
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(free))
    assert told(capsys, work, "disk", code=code).level == level


def test_a_schema_that_will_be_changed_is_noted(
    work: Sloth, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    newer = [*migrate.scripts(), (99, "later", "select 1;")]
    monkeypatch.setattr(migrate, "scripts", lambda: newer)
    mark = told(capsys, work, "schema")
    assert mark.level == "note" and "99" in mark.found and "back it up" in str(mark.remedy)


def test_a_system_that_has_run_out_of_watches_is_told(
    work: Sloth, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def none() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(kernel, "Inotify", none)
    mark = told(capsys, work, "wake-ups")
    assert mark.level == "warning" and "max_user_instances" in str(mark.remedy)


def test_a_faulty_sqlite_is_noted_and_a_good_one_is_well(
    work: Sloth, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for fault, level in ((True, "note"), (False, "ok")):
        monkeypatch.setattr(health, "wal_fault", lambda fault=fault: fault)
        assert told(capsys, work, "sqlite").level == level
    monkeypatch.setattr(health, "FLOOR", (99, 0, 0))
    assert told(capsys, work, "sqlite", code=1).level == "problem"


def test_a_clock_that_was_set_back_is_told(tmp_path: Path):
    clock = ManualClock()
    with Sloth(tmp_path / "work.db", clock=clock) as sloth:
        sloth.queue("mail").enqueue(1, delay="1h")
        looker = Onlooker(tmp_path / "work.db", clock=clock)

        def mark() -> Mark:
            (found,) = doctor._clock(None, looker)  # type: ignore[arg-type]
            return found

        clock.suspend(3_600)
        assert (mark().level, "1h of it asleep" in mark().found) == ("ok", True)
        clock.step_wall(-600)
        assert mark().level == "note" and "10m" in mark().found
        clock.step_wall(-7_200)
        assert mark().level == "warning" and "from now" in mark().found
        looker.close()


# ---- backup -------------------------------------------------------------------------------------


def test_a_backup_tells_where_it_is_and_what_is_not_in_it(sloth: Cli):
    sloth("run", "--", "true")
    done = sloth("backup", "copy.db")
    assert done.text.startswith(f"{sloth.folder}/copy.db, ") and "work.db-logs" in done.err
    assert sloth("list", "--db", "copy.db", "--json").objects[0]["state"] == "done"
    (told,) = sloth("backup", "other.db", "--json").objects
    size = (sloth.folder / "other.db").stat().st_size
    assert told == {"v": 1, "path": f"{sloth.folder}/other.db", "bytes": size, "reissued": 0}


def test_a_backup_tells_what_runs(sloth: Cli):
    sloth.add("--", "sleep", "60")
    with sloth.worker():
        until(lambda: sloth.job(1)["state"] == "running", "it runs")
        done = sloth("backup", "copy.db")
        assert "1 job that runs now is queued again in the copy" in done.err
        assert marks(sloth, "--db", "copy.db")["workers"][0].found == "none is running"
    reasons = [
        each["reason"] for each in sloth("show", "1", "--db", "copy.db", "--json").objects[1:]
    ]
    assert reasons[-1] == "copied"


def test_a_backup_replaces_a_file_only_if_told_to(sloth: Cli):
    sloth.add("--", "true")
    (sloth.folder / "copy.db").write_text("mine")
    assert "--force" in sloth.refused("backup", "copy.db", code=5)
    sloth("backup", "--force", "copy.db")
    assert sloth("list", "--db", "copy.db", "--json").objects[0]["id"] == 1
    assert "itself" in sloth.refused("backup", "--force", "work.db", code=5)
    assert "mkdir -p" in sloth.refused("backup", "no/copy.db", code=75)
    assert "FILE" in sloth.refused("backup", code=2)


def test_a_backup_of_nothing_gives_3(sloth: Cli):
    assert "no jobs yet" in sloth.refused("backup", "copy.db", code=3)
    assert not (sloth.folder / "copy.db").exists() and not sloth.db.exists()


def test_a_bar_is_shown_on_a_terminal_and_ctrl_c_leaves_nothing(sloth: Cli):
    with Sloth(sloth.db, durability="process") as store:
        for _ in range(60):
            store.queue("mail").enqueue_many(["x" * 1_000] * 1_000)
    with Terminal(sloth, "backup", "copy.db") as terminal:
        terminal.read_until("copy [")
        terminal.process.send_signal(signal.SIGSTOP)
        terminal.type("\x03")
        terminal.process.send_signal(signal.SIGCONT)
        assert terminal.finish() == 130
    assert all(path.name.startswith("work.db") for path in sloth.folder.iterdir())
    with Terminal(sloth, "backup", "copy.db") as terminal:
        assert terminal.finish() == 0
    assert "100%" in terminal.seen and terminal.seen.endswith(" MB\r\n")
    assert "\r" not in sloth("backup", "other.db").err


# ---- in a process that works --------------------------------------------------------------------


ELSEWHERE = """
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


def test_a_process_that_works_keeps_its_locks(
    work: Sloth, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    def excluded() -> bool:
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, "-c", ELSEWHERE, work.path]
        ran = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        return ran.stdout.split() == ["out", "None"]

    lease = work.queue("mail").claim()
    assert lease is not None
    with work.transaction() as tx:
        tx.execute("create table t (x)")
        assert excluded()
        for look in (
            lambda: main(["doctor", "--db", work.path]) == 0,
            lambda: main(["backup", "--db", work.path, str(tmp_path / "one.db")]) == 0,
            lambda: work.check() == [],
            lambda: work.backup(tmp_path / "two.db"),
            lambda: main(["status", "--db", work.path]) == 0,
        ):
            assert look()
            assert excluded()
        tx.execute("insert into t values (1)")
    lease.complete()
    assert work.stats()["done"] == 1 and work.check() == []
    capsys.readouterr()


def test_a_worker_keeps_its_job_while_its_process_is_looked_at(
    work: Sloth, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    import threading

    job = work.queue("work").enqueue_command(["/bin/sh", "-c", "sleep 1.5"])
    worker = work.worker(concurrency=1, pool="thread")
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        until(lambda: work.job(job.id).state == "running", "it runs")
        for n in range(3):
            assert main(["doctor", "--db", work.path]) == 0
            assert work.check() == [] and work.backup(tmp_path / f"{n}.db").reissued == 1
        with Sloth(work.path) as other:
            assert other.queue("work").claim() is None
        until(lambda: work.job(job.id).ended, "it has ended")
        assert [event.kind for event in work.job(job.id).events()][1:] == ["claimed", "completed"]
    finally:
        worker.stop()
        thread.join(30)
    capsys.readouterr()
