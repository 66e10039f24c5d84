"""A worker in the background, started by whoever queues a command when nobody is there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slothqueue import Sloth
from slothqueue.cli import berth, main, resident, starting
from slothqueue.cli.idling import _waits, run_until_unneeded
from slothqueue.cli.needs import Server
from slothqueue.liveness import start_time
from slothqueue.processes import look_at

from .cli_support import Cli, Terminal, until, workers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def only(found: set[int]) -> set[int]:
    """These if there is one; a process that is just being started looks like its parent."""
    return found if len(found) == 1 else set()


@pytest.fixture
def sloth(tmp_path: Path) -> Iterator[Cli]:
    """The command line with autostart; what it has started is ended."""
    cli = Cli(tmp_path)
    cli.env |= {"SLOTH_AUTOSTART": "1", "SLOTH_IDLE_EXIT": "60s"}
    yield cli
    for pid in workers(cli.db):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    until(lambda: not workers(cli.db), "the background workers have ended")


def started(told: str) -> int:
    """The pid that the one line of `add` names."""
    found = re.fullmatch(
        r"sloth: started a background worker \(pid (\d+)\), which ends itself after \w+ without "
        r"work; --no-start or SLOTH_AUTOSTART=0 turns this off\n",
        told,
    )
    assert found, told
    return int(found[1])


def one(sloth: Cli) -> int:
    """The one background worker, started by a job."""
    return started(sloth("add", "--", "true").err)


# ---- starting -----------------------------------------------------------------------------------


def test_add_starts_a_worker_and_says_so_in_one_line(sloth: Cli):
    done = sloth("add", "--", "touch", "made")
    assert done.out == b"1\n"
    until(lambda: workers(sloth.db) == {started(done.err)}, "it is the only one")
    sloth("wait", "1")
    assert (sloth.folder / "made").exists()
    assert sloth("add", "-q", "media", "--", "true").err == ""
    assert sloth("wait", "2").text == "job 2 done: " + sloth.job(2)["message"] + "\n"


def test_run_starts_one_and_leaves_it_there(sloth: Cli):
    done = sloth(
        "run", "--retries", "0", "--", "sh", "-c", "echo hi; exit 3", code=3, SLOTH_IDLE_EXIT="50s"
    )
    assert done.out.startswith(b"hi\n")
    assert "(pid" in done.err and "after 50s without work" in done.err
    until(lambda: only(workers(sloth.db)), "there is one")


@pytest.mark.parametrize("off", ["0", "no", "OFF", "false"])
def test_a_variable_turns_it_off(sloth: Cli, off: str):
    done = sloth("add", "--", "true", SLOTH_AUTOSTART=off)
    assert done.err.startswith("sloth: no worker is running, so nothing will run until you start")
    assert not workers(sloth.db)


def test_an_option_turns_it_off(sloth: Cli):
    assert "no worker is running" in sloth("add", "--no-start", "--", "true").err
    assert sloth("run", "--no-start", "--", "echo", "mine").out == b"mine\n"
    assert not workers(sloth.db)


def test_none_is_started_where_a_worker_takes_commands_of_the_queue(sloth: Cli):
    with sloth.worker("-q", "media"):
        assert sloth("add", "-q", "media", "--", "true").err == ""
        assert not workers(sloth.db)
        started(sloth("add", "--", "true").err)


def test_many_at_once_start_one(sloth: Cli):
    adds = [sloth.start("add", "--", "true") for _ in range(6)]
    told = [process.communicate(timeout=60)[1].decode() for process in adds]
    assert [process.returncode for process in adds] == [0] * 6
    assert sorted(line != "" for line in told) == [False] * 5 + [True]
    sloth("wait", *map(str, range(1, 7)))
    pid = started("".join(told))
    until(lambda: workers(sloth.db) == {pid}, "who lost has gone")


def test_a_stale_file_is_no_obstacle(sloth: Cli):
    first = one(sloth)
    os.kill(first, signal.SIGKILL)
    until(lambda: not workers(sloth.db), "it is dead")
    assert berth.signed(f"{sloth.db}-live") is not None
    assert one(sloth) != first


def test_a_worker_without_work_makes_room_when_its_file_is_removed(sloth: Cli):
    first = one(sloth)
    for ending in ("", "-wal", "-shm"):
        Path(f"{sloth.db}{ending}").unlink(missing_ok=True)
    assert started(sloth("add", "--", "touch", "made").err) != first
    sloth("wait", "1")
    assert (sloth.folder / "made").exists()


def test_who_has_the_place_but_does_not_work_is_waited_for(sloth: Cli):
    sloth("add", "--no-start", "--", "true")
    place = berth.take(f"{sloth.db}-live")
    assert place is not None
    adding = sloth.start("add", "--", "true")
    until(lambda: workers(sloth.db), "the new one is there and waits for the place")
    os.close(place)
    _, told = adding.communicate(timeout=30)
    until(lambda: workers(sloth.db) == {started(told.decode())}, "it is the only one")


def test_a_place_that_was_cleared_away_is_taken_anew(tmp_path: Path):
    first = berth.take(str(tmp_path))
    assert first is not None
    assert berth.take(str(tmp_path)) is None
    (tmp_path / berth.NAME).unlink()
    second = berth.take(str(tmp_path))
    assert second is not None
    assert berth.signed(str(tmp_path)) == (os.getpid(), start_time(os.getpid()))
    os.close(first)
    os.close(second)


# ---- what it is ---------------------------------------------------------------------------------


def test_it_is_a_process_of_its_own(sloth: Cli):
    with open(sloth.folder / "lock", "w") as file:  # as `flock 9` in a shell leaves one open
        fcntl.fcntl(file, fcntl.F_SETFD, 0)
        variables = {"SLOTH_LEASE": "x-1-2", "SLOTH_JOB": "1", "SLOTH_TOKEN": "x", "KEPT": "yes"}
        adding = sloth.start("add", "--", "true", env=sloth.env | variables, close_fds=False)
        pid = started(adding.communicate(timeout=30)[1].decode())
    process = look_at(pid)
    assert process is not None
    assert (process.session, process.group) == (pid, pid)
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    files = {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir() if each.exists()}
    assert str(sloth.folder / "lock") not in files
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    assert [os.readlink(f"/proc/{pid}/fd/{n}") for n in (1, 2)] == [
        f"{sloth.db}-logs/worker.log"
    ] * 2
    names = {
        word.partition(b"=")[0] for word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    }
    assert not names & {b"SLOTH_LEASE", b"SLOTH_JOB", b"SLOTH_TOKEN"}
    assert b"KEPT" in names


def test_its_jobs_do_not_carry_its_mark(sloth: Cli):
    sloth("add", "--", "sh", "-c", "env > seen")
    sloth("wait", "1")
    assert "SLOTH_BACKGROUND" not in (sloth.folder / "seen").read_text()


def test_a_hangup_does_not_end_it(sloth: Cli):
    pid = one(sloth)
    os.kill(pid, signal.SIGHUP)
    sloth("add", "--", "true")
    sloth("wait", "2")
    until(lambda: workers(sloth.db) == {pid}, "it is the only one")


def test_status_marks_it(sloth: Cli):
    pid = one(sloth)
    assert f":{pid} (background)" in sloth().text
    with sloth.worker() as other:
        found = {
            each["pid"]: each["background"] for each in sloth("--json").objects if "since" in each
        }
        assert found == {pid: True, other.pid: False}
    with Terminal(sloth, "status", columns=60, NO_COLOR="1") as terminal:
        assert terminal.finish() == 0
    assert max(map(len, terminal.seen.splitlines())) <= 70  # the numbers of the first table
    assert "(back" in terminal.seen


def test_its_log_tells_what_it_did(sloth: Cli):
    sloth("add", "--", "true")
    sloth("wait", "1")
    text = (sloth.folder / "work.db-logs" / "worker.log").read_text()
    assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d job 1 attempt 1: started: true$", text, re.M)


def test_its_log_is_bounded(tmp_path: Path):
    logs = tmp_path / "logs"
    program = f"""
import logging, os
from slothqueue.cli import resident, starting
resident.MOST_LOG = 1000
file = starting.open_log({str(logs)!r})
os.dup2(file, 1)
handler = resident.LogFile({str(logs)!r})
for n in range(100):
    handler.emit(logging.makeLogRecord({{"msg": f"line {{n}} " + "x" * 80}}))
os.unlink({str(logs / "worker.log")!r})
handler.emit(logging.makeLogRecord({{"msg": "after it was cleared away"}}))
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert {each.name for each in logs.iterdir()} == {"worker.log", "worker.log.1"}
    assert (logs / "worker.log").read_text() == "after it was cleared away\n"
    assert 1000 <= (logs / "worker.log.1").stat().st_size < 1200
    assert (logs / "worker.log").stat().st_mode & 0o077 == 0


# ---- ending -------------------------------------------------------------------------------------


def test_it_ends_itself_when_nothing_waits_any_more(sloth: Cli):
    sloth("add", "--in", "1s", "--", "true", SLOTH_IDLE_EXIT="200ms")
    until(lambda: not workers(sloth.db), "it has ended")
    assert sloth.job(1)["state"] == "done"
    assert sloth("--json").objects[0]["workers"] == 0


def test_a_retry_keeps_it(sloth: Cli):
    sloth("add", "--retries", "1", "--", "false", SLOTH_IDLE_EXIT="200ms")
    until(lambda: not workers(sloth.db), "it has ended")
    assert (sloth.job(1)["state"], sloth.job(1)["attempts"]) == ("failed", 2)


def test_what_runs_longer_than_it_waits_is_not_disturbed(sloth: Cli):
    sloth("add", "--", "sleep", "1", SLOTH_IDLE_EXIT="100ms")
    until(lambda: not workers(sloth.db), "it has ended")
    assert (sloth.job(1)["state"], sloth.job(1)["attempts"]) == ("done", 1)


def test_no_job_is_missed_by_a_worker_that_is_about_to_end(sloth: Cli):
    sloth.env["SLOTH_IDLE_EXIT"] = "60ms"
    ids = [sloth.add("--", "true") for _ in range(12)]  # about as often as it ends
    until(lambda: not workers(sloth.db), "it has ended")
    assert {sloth.job(id)["state"] for id in ids} == {"done"}


class Leaving:
    """A worker for which a job is queued just when it has been told to end, so that it is alone."""

    queues, settled = None, 0

    def __init__(self, store: Sloth) -> None:
        self._store, self._told, self.runs = store, threading.Event(), 0

    def stop(self) -> None:
        self._told.set()

    def run(self) -> None:
        self.runs += 1
        if self.runs == 1:
            assert self._told.wait(20)
            self._store.queue().enqueue_command(["true"])
        else:
            self._store.worker().run_until_idle()
            assert self._told.wait(20)
        self._told.clear()


def test_who_has_ended_looks_once_more(tmp_path: Path):
    with Sloth(tmp_path / "work.db", durability="process") as store:
        worker = Leaving(store)
        run_until_unneeded(store, worker, 50)  # type: ignore[arg-type]
        assert worker.runs == 2
        assert store.job(1).state == "done"


def test_what_is_held_or_paused_does_not_keep_it_and_what_is_at_a_limit_does(tmp_path: Path):
    with Sloth(tmp_path / "work.db", durability="process") as store:
        store.queue("held").enqueue_command(["true"], hold=True)
        parent = store.queue("blocked").enqueue({})
        store.queue("blocked").enqueue_command(["true"], after=[parent])
        store.queue("paused").enqueue_command(["true"])
        store.queue("paused").pause()
        assert not store.store.read(lambda tx: _waits(store, Server(None, ()), tx))
        limited = store.queue("limited", concurrency=1)
        limited.enqueue({})
        assert limited.claim()
        limited.enqueue_command(["true"])
        assert store.store.read(lambda tx: _waits(store, Server(None, ()), tx))
        assert not store.store.read(lambda tx: _waits(store, Server(["held"], ()), tx))


def test_what_waits_for_a_key_that_somebody_else_has_keeps_it(tmp_path: Path):
    with Sloth(tmp_path / "work.db", durability="process") as store:
        queue = store.queue("keys")
        queue.enqueue({}, concurrency_key="disk")
        lease = queue.claim()
        assert lease is not None
        queue.enqueue_command(["true"], concurrency_key="disk")
        assert store.worker().run_until_idle() == 0
        assert store.store.read(lambda tx: _waits(store, Server(None, ()), tx))
        lease.complete()
        assert store.worker().run_until_idle() == 1
        assert not store.store.read(lambda tx: _waits(store, Server(None, ()), tx))


def test_a_worker_that_is_told_to_stop_does_not_look_once_more(sloth: Cli):
    pid = one(sloth)
    sloth("add", "--in", "1h", "--", "true")
    os.kill(pid, signal.SIGTERM)
    until(lambda: not workers(sloth.db), "it has ended")


def test_a_worker_in_front_may_end_itself_too(sloth: Cli):
    sloth("add", "--no-start", "--", "true")
    assert "1 attempt ended here" in sloth("worker", "--idle-exit", "100ms").err
    assert sloth.job(1)["state"] == "done"
    assert "not both" in sloth.refused("worker", "--until-idle", "--idle-exit", "1m", code=2)
    assert "longer than zero" in sloth.refused("worker", "--idle-exit", "0", code=2)


# ---- started by a job ---------------------------------------------------------------------------

ADDS = f"{sys.executable} -m slothqueue add -- touch made; touch added; sleep 60"


def test_a_worker_that_a_job_has_started_outlives_the_end_of_that_job(sloth: Cli):
    """The shim of the job adopts the worker, and ends everything else below it."""
    with sloth.worker("-q", "outer"):
        sloth("add", "-q", "outer", "--retries", "0", "--timeout", "3s", "--", "sh", "-c", ADDS)
        until((sloth.folder / "made").exists, "the job of the job has run")
        (pid,) = until(lambda: only(workers(sloth.db)), "there is one")
        assert sloth("wait", "1", code=124).text == "job 1 failed: " + sloth.job(1)["error"] + "\n"
        assert "sleep" in sloth.job(1)["error"]
        assert str(pid) not in sloth.job(1)["error"]
    until(lambda: workers(sloth.db) == {pid}, "it is the only one")
    sloth("add", "--", "true")
    sloth("wait", "3")


def test_a_worker_that_a_job_has_started_is_not_swept_with_it(sloth: Cli):
    with sloth.worker("-q", "outer"):
        sloth("add", "-q", "outer", "--retries", "0", "--", "sh", "-c", ADDS)
        until((sloth.folder / "made").exists, "the job of the job has run")
        (pid,) = until(lambda: only(workers(sloth.db)), "there is one")
        facts = sloth.job(1)
        os.kill(facts["shim"], signal.SIGKILL)
        sloth("wait", "1", code=1)
        until(lambda: look_at(facts["pid"]) is None, "the command was swept")
    until(lambda: workers(sloth.db) == {pid}, "it is the only one")
    sloth("add", "--", "true")
    sloth("wait", "3")


# ---- when it cannot be --------------------------------------------------------------------------


def test_add_succeeds_where_no_worker_can_be_started(sloth: Cli):
    (sloth.folder / "work.db-logs").write_text("in the way")
    done = sloth("add", "--", "true")
    assert done.out == b"1\n"
    (line,) = done.err.splitlines()
    assert "no worker is running, and none could be started (" in line
    assert "work.db-logs" in line
    assert line.endswith("so nothing will run until you start one: sloth worker")


def test_run_works_itself_where_no_worker_can_be_started(sloth: Cli):
    (sloth.folder / "work.db-logs").mkdir()
    (sloth.folder / "work.db-logs" / "worker.log").mkdir()
    done = sloth("run", "--", "echo", "mine")
    assert done.out == b"mine\n"
    assert "none could be started" in done.err


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store that the commands of this process use, with autostart."""
    monkeypatch.setenv("SLOTH_DB", str(tmp_path / "work.db"))
    monkeypatch.setenv("SLOTH_AUTOSTART", "1")
    return tmp_path


def program(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Something else in place of our Python."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(path))


Told = pytest.CaptureFixture[str]


def test_a_python_that_is_gone_is_told(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Told):
    for name, why in (
        ("/nowhere/python", "/nowhere/python: No such file"),
        ("", "this Python does not know"),
    ):
        monkeypatch.setattr(sys, "executable", name)
        assert main(["add", "--", "true"]) == 0
        assert f"none could be started ({why}" in capsys.readouterr().err


def test_a_worker_that_dies_at_once_is_told(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Told
):
    program(here, monkeypatch, "echo broken >&2; exit 1")
    assert main(["add", "--", "true"]) == 0
    assert "it has ended at once; see " in capsys.readouterr().err
    assert (here / "work.db-logs" / "worker.log").read_text() == "broken\n"


def test_a_worker_that_says_nothing_is_not_waited_for(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Told
):
    program(here, monkeypatch, "exec sleep 60")
    monkeypatch.setattr(starting, "DEADLINE", 0.05)
    assert main(["add", "--", "true"]) == 0
    told = capsys.readouterr().err
    found = re.search(r"\(pid (\d+)\) was started, but has not said yet that it is there", told)
    assert found, told
    os.kill(int(found[1]), signal.SIGKILL)


@pytest.mark.parametrize(
    ("time", "why"), [("soon", "'soon' is not understood"), ("0", "must be longer than zero")]
)
def test_a_time_that_makes_no_sense_is_told(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Told, time: str, why: str
):
    monkeypatch.setenv("SLOTH_IDLE_EXIT", time)
    assert main(["add", "--", "true"]) == 0
    told = capsys.readouterr().err
    assert "none could be started (SLOTH_IDLE_EXIT" in told and why in told


def test_a_store_that_cannot_be_written_is_told_to_the_one_who_started_it(tmp_path: Path):
    (tmp_path / "work.db").write_bytes(b"this is no database, and that is all there is to say")
    ear, mouth = os.pipe()
    os.set_inheritable(mouth, True)
    argv = [sys.executable, "-m", "slothqueue", "__background", str(tmp_path / "work.db"), "100"]
    done = subprocess.Popen([*argv, str(mouth)], close_fds=False, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)  # fmt: skip
    os.close(mouth)
    with os.fdopen(ear) as said:
        assert said.read().startswith("error ")
    assert done.wait(30) == 1


def test_one_whose_starter_has_gone_says_it_to_nobody():
    ear, link = os.pipe()
    os.close(ear)
    mouth = resident.Mouth(link)
    mouth.say("worker 1")
    mouth.say("a second word is never said")
    with pytest.raises(OSError):
        os.fstat(link)


def test_one_who_gets_no_place_and_sees_nobody_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(resident, "PATIENCE", 50)
    with Sloth(tmp_path / "work.db") as store:
        store.stats()
        place = berth.take(store.store.live)
        ear, mouth = os.pipe()
        with pytest.raises(TimeoutError, match="neither there nor gone"):
            resident._take_place(store, resident.Mouth(mouth))
        os.close(mouth)
        os.close(ear)
        assert place is not None
        os.close(place)


def test_what_could_not_run_anyway_starts_none(sloth: Cli):
    assert sloth("add", "--hold", "--", "true").err == ""
    sloth("pause", "default")
    assert "is paused, so job 2 waits" in sloth("add", "--", "true").err
    assert not workers(sloth.db)


def test_what_waits_only_for_held_jobs_starts_none(sloth: Cli):
    sloth("add", "--hold", "--", "true")
    assert sloth("add", "--after", "1", "--", "true").err == ""
    assert sloth("add", "--after", "1,2", "--", "true").err == ""
    assert not workers(sloth.db)
    sloth("add", "--no-start", "--", "true")
    assert "started a background worker" in sloth("add", "--after", "3,4", "--", "true").err


def test_run_waits_for_what_is_kept_and_starts_none(sloth: Cli):
    sloth("pause", "default")
    with Terminal(sloth, "run", "--", "echo", "made it") as terminal:
        terminal.read_until("is paused, so job 1 waits")
        assert not workers(sloth.db)
        sloth("hold", "1")
        assert "started" not in sloth("resume", "default").err
        assert "started a background worker" in sloth("unhold", "1").err
        assert terminal.finish() == 0
    assert "made it" in terminal.seen and "started a background" not in terminal.seen


def test_a_queue_that_is_resumed_starts_one_for_what_is_due(sloth: Cli):
    assert "started" not in sloth("pause", "default").err + sloth("resume", "default").err
    sloth("pause", "default")
    assert "started" not in sloth("add", "--", "true").err
    assert "nothing happens until" in sloth("resume", "default", "--no-start").err
    sloth("pause", "default")
    assert "started a background worker" in sloth("resume", "default").err
    assert sloth("wait", "1").text.startswith("job 1 done")


@pytest.mark.parametrize(("before", "after"), [("hold", "unhold"), ("cancel", "retry")])
def test_a_job_that_comes_back_starts_one(sloth: Cli, before: str, after: str):
    sloth.add("--hold", "--", "true")
    sloth(before, "1")
    assert "no worker is running, so nothing happens" in sloth(after, "1", "--no-start").err
    sloth(before, "1")
    assert "started a background worker" in sloth(after, "1").err
    assert sloth("wait", "1").text.startswith("job 1 done")


def test_a_job_that_is_changed_starts_one(sloth: Cli):
    sloth("add", "--no-start", "--in", "1h", "--", "true")
    assert "no worker is running" in sloth("edit", "1", "--priority", "3", "--no-start").err
    assert "started a background worker" in sloth("edit", "1", "--in", "0").err
    assert sloth("wait", "1").text.startswith("job 1 done")
