"""The command line as programs meet it: real processes, pipes, exit codes, JSON."""

from __future__ import annotations

import datetime as dt
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slothqueue import Sloth
from slothqueue.cli import COMMANDS, overview

from .cli_support import Cli, end, until


@pytest.fixture
def sloth(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def shell(script: str) -> tuple[str, ...]:
    return ("--", "sh", "-c", script)


# ---- help ---------------------------------------------------------------------------------------


def test_the_version_is_told(sloth: Cli):
    assert sloth("--version").text.startswith("sloth 0.")
    assert sloth("--db", "x.db", "--version").text.startswith("sloth 0.")


@pytest.mark.parametrize("words", [("--help",), ("-h",), ("help",)])
def test_the_help_names_every_command_and_where_to_start(sloth: Cli, words: tuple[str, ...]):
    text = sloth(*words).text
    assert text == overview()
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert "sloth add -- " in text
    assert max(len(line) for line in text.splitlines()) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_has_examples_and_fits(sloth: Cli, command: str):
    text = sloth(command, "--help").text
    assert text == sloth("help", command).text
    assert text.startswith(f"usage: sloth {command}")
    assert f"\nexamples:\n  sloth{'' if command == 'status' else ' ' + command}" in text
    assert "--json" in text
    assert "--db" in text
    assert max(len(line) for line in text.splitlines()) <= 80


# ---- add ----------------------------------------------------------------------------------------


def test_add_prints_the_id_and_says_when_nobody_works(sloth: Cli):
    done = sloth("add", "--", "true")
    assert done.out == b"1\n"
    assert done.err.splitlines() == [
        "sloth: no worker is running, so nothing will run until you start one: sloth worker"
    ]


def test_add_says_nothing_when_a_worker_is_there(sloth: Cli):
    with sloth.worker():
        assert sloth("add", "--", "true").err == ""


def test_add_says_when_the_workers_serve_other_queues(sloth: Cli):
    with sloth.worker("-q", "media"):
        assert sloth("add", "-q", "media", "--", "true").err == ""
        assert "no worker serves queue 'default'" in sloth("add", "--", "true").err


def test_a_dead_worker_is_not_taken_for_a_living_one(sloth: Cli):
    with sloth.worker() as worker:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        assert "no worker is running" in sloth("add", "--", "true").err
        assert sloth("status", "--json").objects[0]["workers"] == 0
        assert "No worker is running" in sloth("status").text


def test_add_tells_the_job_as_json(sloth: Cli):
    first = sloth("add", "--json", "--", "echo", "hi").objects[0]
    assert first["id"] == 1
    assert first["state"] == "queued"
    assert first["name"] == "echo hi"


def test_every_option_of_add_means_what_it_says(sloth: Cli):
    folder = sloth.folder / "sub"
    folder.mkdir()
    words = ["-q", "media", "--in", "10m", "--priority", "-5", "--retries", "2"]
    words += ["--timeout", "90s", "--cwd", "sub", "--shell", "--", "echo a | cat"]
    job = sloth.job(sloth.add(*words))
    assert (job["queue"], job["priority"], job["max_attempts"]) == ("media", -5, 3)
    assert (job["timeout"], job["cwd"], job["shell"]) == (90.0, str(folder), True)
    assert job["command"] == ["echo a | cat"]
    assert moment(job["run_at"]) - moment(job["created_at"]) == dt.timedelta(minutes=10)


def moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def test_a_job_can_be_added_for_a_moment(sloth: Cli):
    job = sloth.job(sloth.add("--at", "2040-01-31T08:00+01:00", "--", "true"))
    assert moment(job["run_at"]) == dt.datetime(2040, 1, 31, 7, tzinfo=dt.UTC)
    here = dt.datetime(2040, 1, 31, 8).astimezone()
    assert moment(sloth.job(sloth.add("--at", "2040-01-31 08:00", "--", "true"))["run_at"]) == here


@pytest.mark.parametrize(
    ("zone", "name"), [("Europe/Berlin", "CET"), ("America/New_York", "EST"), ("UTC", "UTC")]
)
def test_a_moment_is_told_back_as_it_was_understood(sloth: Cli, zone: str, name: str):
    done = sloth("add", "--at", "31 jan 2040 10pm", "--", "true", TZ=zone)
    first = done.err.splitlines()[0]
    assert first.startswith(f"sloth: job 1 starts Tue 2040-01-31 22:00 {name} (in ")


def test_a_delay_is_told_back_with_its_moment(sloth: Cli):
    done = sloth("add", "--in", "2h30m", "--", "true", TZ="UTC")
    due = moment(sloth.job(1)["run_at"])
    seconds = f":{due:%S}" if due.second else ""
    assert f"starts {due:%a %Y-%m-%d %H:%M}{seconds} UTC (in 2h 30m)" in done.err
    assert "starts" not in sloth("add", "--", "true").err


def test_a_moment_that_has_passed_is_now(sloth: Cli):
    done = sloth("add", "--at", "2020-01-31 08:00", "--", "true")
    assert "--at 2020-01-31 08:00 is in the past, so the job starts at once" in done.err
    assert "job 1 starts" not in done.err
    assert "in the past" not in sloth("add", "--at", "now", "--", "true").err


def test_a_time_of_day_is_the_next_one(sloth: Cli):
    job = sloth.job(sloth.add("--at", "18:30", "--", "true"))
    wait = moment(job["run_at"]) - moment(job["created_at"])
    assert dt.timedelta(0) < wait <= dt.timedelta(hours=25)
    assert moment(job["run_at"]).astimezone().strftime("%H:%M") == "18:30"


def test_the_command_begins_at_its_first_word_and_is_left_alone(sloth: Cli):
    for words in (["ls", "-l", "--", "-q"], ["--", "ls", "-l", "--", "-q"]):
        assert sloth.job(sloth.add("-q", "media", *words))["command"] == ["ls", "-l", "--", "-q"]
    assert sloth.job(sloth.add("-qmedia", "--priority=3", "ls"))["priority"] == 3


def test_the_store_of_a_user_is_private(sloth: Cli):
    done = sloth("add", "--", "true", SLOTH_DB=None, XDG_DATA_HOME=None)
    folder = sloth.folder / ".local/share/slothqueue"
    assert done.out == b"1\n"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "sloth.db").exists()
    sloth("add", "--", "true", SLOTH_DB="", XDG_DATA_HOME=str(sloth.folder / "data"))
    assert (sloth.folder / "data/slothqueue/sloth.db").exists()


def test_the_store_may_be_named_before_and_after_the_command(sloth: Cli):
    assert sloth("--db", "a.db", "add", "--", "true").out == b"1\n"
    done = sloth("add", "--db=a.db", "--", "true")
    assert done.out == b"2\n"
    assert "sloth worker --db a.db" in done.err
    assert len(sloth("--json", "--db", "a.db", "list").objects) == 2
    assert not sloth.db.exists()


# ---- run and wait -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "code"),
    [
        pytest.param("exit 0", 0, id="success"),
        pytest.param("exit 7", 7, id="its own code"),
        pytest.param("kill -9 $$", 137, id="a signal"),
    ],
)
def test_run_ends_as_the_command_ends(sloth: Cli, script: str, code: int):
    done = sloth("run", "--retries", "0", *shell(f"printf out; {script}"), code=code)
    assert done.out == b"out"
    assert sloth("wait", "1", code=code).text.startswith(f"job 1 {'failed' if code else 'done'}")


def test_run_ends_with_124_after_our_timeout(sloth: Cli):
    sloth("run", "--retries", "0", "--timeout", "200ms", "--", "sleep", "60", code=124)
    assert sloth.job(1)["exit_code"] == 124


def test_run_does_the_work_of_its_queue_when_nobody_else_does(sloth: Cli):
    sloth.add("--", "true")
    sloth.add("-q", "other", "--", "true")
    done = sloth("run", "--", "echo", "mine")
    assert done.out == b"mine\n"
    assert "1 job comes before job 3" in done.err
    assert [job["state"] for job in sloth("list", "--json").objects] == ["queued", "done", "done"]


def test_run_leaves_the_work_to_a_worker_that_is_there(sloth: Cli):
    with sloth.worker() as worker:
        assert sloth("run", "--", "echo", "hi").out == b"hi\n"
        assert sloth.job(1)["worker"].endswith(f":{worker.pid}")


def test_run_ends_with_its_job_although_it_has_work_of_others(sloth: Cli):
    sloth.add("--", "sh", "-c", "touch on; while ! test -e go; do sleep 0.05; done")
    run = sloth.start("run", "--", "echo", "mine")
    until((sloth.folder / "on").exists, "it does what comes first")
    with sloth.worker():
        out, _ = run.communicate(timeout=30)
        assert (run.returncode, out) == (0, b"mine\n")
        (sloth.folder / "go").touch()
        sloth("wait", "1", "2")
    assert sloth.job(1)["attempts"] == 1


def test_run_goes_through_the_attempts_and_says_so(sloth: Cli):
    script = "echo try; test -e again || { touch again; exit 3; }"
    done = sloth("run", *shell(script))
    assert done.out == b"try\ntry\n"
    assert "attempt 1 of 4 failed: exited with code 3; again in 2s" in done.err
    assert "attempt 2 of job 1 begins" in done.err


def test_run_tells_objects(sloth: Cli):
    first, line, last = sloth("run", "--json", "--", "echo", "hi").objects
    assert (first["state"], line["text"], last["state"]) == ("queued", "hi", "done")


def test_wait_ends_with_the_worst_code(sloth: Cli):
    ids = [str(sloth.add("--retries", "0", *shell(f"exit {code}"))) for code in (0, 3, 1)]
    sloth("worker", "--until-idle")
    assert len(sloth("wait", *ids, code=3).text.splitlines()) == 3
    assert [job["exit_code"] for job in sloth("wait", "--json", *ids, code=3).objects] == [0, 3, 1]


def test_wait_waits_no_longer_than_it_is_told_to(sloth: Cli):
    sloth("add", "--", "true")
    sloth("worker", "--until-idle")
    sloth("add", "--", "true")
    done = sloth("wait", "1", "2", "--timeout", "0.1s", code=124)
    assert done.text.startswith("job 1 done")
    assert "job 2 has not ended in time: it is queued" in done.err


def test_wait_waits(sloth: Cli):
    id = sloth.add("--", "true")
    waiting = sloth.start("wait", str(id))
    assert waiting.stderr is not None
    assert b"nothing happens until you start one" in waiting.stderr.readline()
    sloth("worker", "--until-idle")
    out, _ = waiting.communicate(timeout=30)
    assert (waiting.returncode, out.startswith(b"job 1 done")) == (0, True)


def test_a_job_that_failed_without_a_code_gives_1(sloth: Cli):
    sloth.add("--retries", "0", "--", "true")
    with in_python(sloth) as store:
        store.queue("mail").enqueue({"to": "ada"}, max_attempts=1)
        lease = store.queue("mail").claim()
        lease.fail("smtp down")
    assert "job 2 failed: smtp down" in sloth("wait", "2", code=1).text


def in_python(sloth: Cli) -> Any:
    from slothqueue import Sloth

    return Sloth(sloth.db, durability="process")


# ---- log and follow -----------------------------------------------------------------------------

BYTES = bytes(range(256)) * 3


def test_the_log_is_bytes_as_they_were(sloth: Cli):
    (sloth.folder / "bytes").write_bytes(BYTES)
    sloth("run", "--", "cat", "bytes")
    assert sloth("log", "1").out == BYTES
    assert sloth("follow", "1").out == BYTES
    assert sloth("run", "--", "cat", "bytes").out == BYTES


@pytest.mark.parametrize(
    ("text", "lines", "last"),
    [("a\nb\nc\n", "2", "b\nc\n"), ("a\nb", "1", "b"), ("a\n", "9", "a\n"), ("a\n", "0", "")],
)
def test_the_last_lines_of_a_log(sloth: Cli, text: str, lines: str, last: str):
    (sloth.folder / "text").write_text(text)
    sloth("run", "--", "cat", "text")
    assert sloth("log", "1", "-n", lines).text == last


def test_the_last_lines_of_a_long_log_are_found(sloth: Cli):
    sloth("run", "--", "seq", "100000")
    assert sloth("log", "1", "-n", "2").text == "99999\n100000\n"
    assert len(sloth("log", "1", "-n", "50000").text.splitlines()) == 50000


def test_the_log_of_every_attempt_is_found(sloth: Cli):
    sloth("run", "--retries", "1", *shell("echo $SLOTH_ATTEMPT; exit 1"), code=1)
    done = sloth("log", "1")
    assert done.out == b"2\n"
    assert "this is attempt 2" in done.err
    assert sloth("log", "1", "--attempt", "1").out == b"1\n"
    assert "no attempt 3 of job 1" in sloth.refused("log", "1", "--attempt", "3", code=2)
    line = {"v": 1, "job": 1, "attempt": 2, "line": 1, "text": "2"}
    assert sloth("log", "1", "--json").objects == [line]


def test_a_job_without_output_has_an_empty_log(sloth: Cli):
    sloth.add("--", "true")
    done = sloth("log", "1")
    assert (done.out, done.err) == (b"", "sloth: job 1 has not started yet\n")


def test_follow_shows_a_partial_line_at_once(sloth: Cli):
    with sloth.worker():
        id = sloth.add(*shell("printf x; sleep 60"))
        follow = sloth.start("follow", str(id))
        try:
            assert follow.stdout is not None
            assert os.read(follow.stdout.fileno(), 10) == b"x"
        finally:
            end(follow)


def test_follow_goes_on_over_all_attempts_until_the_end(sloth: Cli):
    id = sloth.add("--retries", "1", *shell("echo $SLOTH_ATTEMPT; exit 1"))
    follow = sloth.start("follow", str(id))
    assert follow.stderr is not None
    assert b"so job 1 waits" in follow.stderr.readline()
    with sloth.worker():
        out, err = follow.communicate(timeout=30)
    assert (follow.returncode, out) == (0, b"1\n2\n")
    assert b"attempt 2 of job 1 begins" in err


def test_follow_sleeps_while_nothing_happens(sloth: Cli):
    with sloth.worker():
        id = sloth.add(*shell("printf x; sleep 60"))
        follow = sloth.start("follow", str(id))
        try:
            assert follow.stdout is not None
            os.read(follow.stdout.fileno(), 10)
            before = switches(follow.pid)
            until(lambda: sloth.job(id)["state"] == "running", "a while has passed")
            sloth("list")
            assert switches(follow.pid) - before < 50
        finally:
            end(follow)


def switches(pid: int) -> int:
    """How often a process gave up the processor by itself."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


# ---- status, list, show -------------------------------------------------------------------------


@pytest.fixture
def busy(sloth: Cli) -> Cli:
    """A store with a job in most states."""
    sloth.add("--retries", "0", *shell("exit 3"))
    sloth.add("--", "true")
    sloth("worker", "--until-idle")
    sloth.add("-q", "media", "--in", "1h", "--", "true")
    sloth.add("--priority", "5", "--", "true")
    return sloth


def test_status_counts(busy: Cli):
    store, default, media = busy("status", "--json").objects
    assert store | {"path": "", "log_bytes": 0} == {
        "v": 1,
        "type": "store",
        "path": "",
        "workers": 0,
        "queued": 2,
        "scheduled": 1,
        "blocked": 0,
        "held": 0,
        "running": 0,
        "done": 1,
        "failed": 1,
        "cancelled": 0,
        "log_bytes": 0,
    }
    assert (default["queue"], default["queued"], media["scheduled"]) == ("default", 1, 1)
    assert busy().text == busy("status").text
    assert "QUEUED  FOR LATER" in busy().text
    assert "work.db" in busy("status", "--verbose").text


def test_status_shows_workers_and_what_runs(sloth: Cli):
    with sloth.worker("-j", "3", "-q", "default") as worker:
        id = sloth.add("--", "sleep", "60")
        until(lambda: sloth.job(id)["state"] == "running", "the job runs")
        found = {each["type"]: each for each in sloth("--json").objects}
        assert (found["worker"]["pid"], found["worker"]["concurrency"]) == (worker.pid, 3)
        assert (found["job"]["id"], found["job"]["state"]) == (id, "running")
        text = sloth().text
        assert f":{worker.pid}" in text
        assert "sleep 60" in text


def test_list_is_in_start_order_and_takes_every_option(busy: Cli):
    def ids(*words: str) -> list[int]:
        return [job["id"] for job in busy("list", "--json", *words).objects]

    assert ids() == [4, 3, 2, 1] or ids() == [4, 3, 1, 2]
    assert ids("--state", "failed") == [1]
    assert ids("-q", "media") == ids("--queue", "media") == [3]
    assert ids("-n", "1") == [4]
    assert "there are more" in busy("list", "-n", "1").err
    assert "(exited with code 3)" in busy("list").text
    assert "there are no such jobs" in busy("list", "--state", "cancelled").err


def test_show_tells_everything_and_the_history(busy: Cli):
    text = busy("show", "1").text
    for word in ("job 1  failed", "exit code  3", "attempts   1 of 1", "enqueued", "claimed"):
        assert word in text
    job, *events = busy("show", "1", "--json").objects
    assert (job["state"], job["error"], job["exit_code"]) == ("failed", "exited with code 3", 3)
    kinds = [event["event"] for event in events]
    assert kinds == ["enqueued", "claimed", "failed_attempt", "failed"]


def test_every_object_tells_its_version_first(busy: Cli):
    several = (["list"], ["show", "1"], ["status"], ["wait", "2"], ["add", "--", "true"])
    for words in (*several, ["worker", "--until-idle"], ["log", "1"], ["list"]):
        for each in busy("--json", *words).objects:
            assert next(iter(each.items())) == ("v", 1), words


def test_every_moment_in_json_is_utc(busy: Cli):
    job = busy.job(1)
    for name in ("run_at", "created_at", "started_at", "finished_at"):
        assert moment(job[name]).utcoffset() == dt.timedelta(0)


def test_a_store_that_is_not_there_is_not_made_by_looking(sloth: Cli):
    assert "no jobs yet" in sloth().text
    assert sloth("--json").objects[0]["queued"] == 0
    assert sloth("list").out == b""
    assert "does not exist yet" in sloth.refused("show", "1", code=3)
    assert list(sloth.folder.iterdir()) == []


def test_reads_need_no_write_lock(busy: Cli):
    with in_python(busy) as store, store.transaction():
        for words in (
            ["status"],
            ["list"],
            ["show", "1"],
            ["log", "1"],
            ["follow", "1"],
            ["wait", "2"],
        ):
            busy(*words)
        busy("search", "x", code=1)


# ---- worker -------------------------------------------------------------------------------------

APP = """
import os
from slothqueue import Sloth

queue = Sloth(os.environ["SLOTH_DB"])

@queue.task()
def add(a, b):
    return a + b

@queue.task(max_attempts=1)
def bad():
    raise ValueError("no \\x1b[31m way")
"""


@pytest.mark.parametrize("pool", ["process", "thread"])
def test_a_worker_runs_the_functions_of_an_app(sloth: Cli, pool: str):
    (sloth.folder / "shop.py").write_text(APP)
    enqueue = "import shop; shop.add.enqueue(2, b=3); shop.bad.enqueue(); shop.queue.close()"
    subprocess.run([sys.executable, "-c", enqueue], cwd=sloth.folder, env=sloth.env, check=True)
    done = sloth("worker", "--app", "shop:queue", "--pool", pool, "--until-idle", "-j", "2")
    assert sloth.job(1)["result"] == 5
    assert "shop.add(2, b=3)" in sloth("list").text
    assert "no \\x1b[31m way" in sloth("show", "2").text
    assert "\x1b" not in done.err
    assert "job 1 attempt 1: done" in done.err
    assert "function" in sloth("log", "1").err or "no command" in sloth("log", "1").err


def test_a_worker_tells_of_each_start_and_end(sloth: Cli):
    sloth.add("--", "true")
    lines = sloth("worker", "--until-idle").err.splitlines()
    assert len(lines) == 4
    assert "job 1 attempt 1: started" in lines[1]
    assert "job 1 attempt 1: done" in lines[2]
    assert [line[2] + line[5] for line in lines] == ["::"] * 4
    sloth.add("--", "true")
    done = sloth("worker", "--until-idle", "--json")
    assert [each["level"] for each in done.objects] == ["info"] * 4


def test_a_worker_that_is_told_to_stop_gives_its_jobs_back(sloth: Cli):
    with sloth.worker() as worker:
        id = sloth.add("--", "sleep", "60")
        until(lambda: sloth.job(id)["state"] == "running", "the job runs")
        end(worker)
        assert worker.returncode == 0
    job = sloth.job(id)
    assert (job["state"], job["attempts"]) == ("queued", 0)


def test_a_worker_serves_the_queues_it_was_told_to(sloth: Cli):
    for queue in ("a", "b", "c"):
        sloth.add("-q", queue, "--", "true")
    sloth("worker", "-q", "a", "-q", "b", "--until-idle")
    assert [sloth.job(id)["state"] for id in (1, 2, 3)] == ["done", "done", "queued"]


@pytest.mark.parametrize(
    ("app", "said"),
    [
        ("nowhere:sloth", "cannot be imported"),
        ("broken:sloth", "ZeroDivisionError"),
        ("empty:sloth", "there is no Sloth named 'sloth' in empty"),
        ("empty", "there is no Sloth named 'sloth' in empty"),
        (":", "cannot be imported"),
    ],
)
def test_an_app_that_is_none_is_refused(sloth: Cli, app: str, said: str):
    (sloth.folder / "broken.py").write_text("1 / 0\n")
    (sloth.folder / "empty.py").write_text("")
    assert said in sloth.refused("worker", "--app", app, code=2)


def test_an_app_has_its_own_store(sloth: Cli):
    (sloth.folder / "shop.py").write_text(APP)
    refused = sloth.refused("worker", "--app", "shop:queue", "--db", "other.db", code=2)
    assert "leave --db out" in refused


@pytest.mark.parametrize("spoilt", ['{"argv": ', "null", '{"argv": 5}'])
def test_a_job_whose_payload_is_spoilt_is_shown_with_the_others(sloth: Cli, spoilt: str):
    for _ in range(2):
        sloth("add", "--", "true")
    job = Sloth(sloth.db).queue("q").enqueue("by hand")
    with sqlite3.connect(sloth.db) as foreign:
        foreign.execute("update _sloth_job set payload = ? where id in (1, 3)", (spoilt,))
    assert [one["id"] for one in sloth("list", "--json").objects] == [1, 2, job.id]
    assert sloth("list").text.count(spoilt.strip()) == 2
    for number in ("1", "3"):
        assert sloth("show", number).text.startswith(f"job {number}  queued  {spoilt.strip()}\n")
        assert sloth("show", number, "--json").objects[0]["id"] == int(number)
    sloth("cancel", "1", "3")
