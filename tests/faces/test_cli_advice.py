"""What the command line says of its own accord: who is missing, what was meant, what comes next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slothqueue.cli import main
from slothqueue.cli.needs import Need, Server, need
from slothqueue.cli.screen import Screen, folded

from .cli_support import Cli, Terminal, end, until

APP = """
from slothqueue import Sloth

queue = Sloth("work.db")

@queue.task()
def f(n):
    return n

@queue.task(max_attempts=1)
def bad():
    raise ValueError("no way")
"""


@pytest.fixture
def sloth(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def app(sloth: Cli) -> Cli:
    """A store with one call of a function that no worker knows so far."""
    (sloth.folder / "g.py").write_text(APP)
    python(sloth, "import g; g.f.enqueue(1); g.queue.close()")
    return sloth


def python(sloth: Cli, program: str) -> None:
    subprocess.run([sys.executable, "-c", program], cwd=sloth.folder, env=sloth.env, check=True)


def said(sloth: Cli, *words: str) -> str:
    """The first thing that a command says which then waits."""
    waiting = sloth.start(*words)
    try:
        assert waiting.stderr is not None
        return waiting.stderr.readline().decode()
    finally:
        end(waiting)


# ---- who is missing -----------------------------------------------------------------------------

ALL, MEDIA, SHOP = Server(None, ()), Server(["media"], ()), Server(["mail"], ["shop.f"])


@pytest.mark.parametrize(
    ("servers", "queue", "task", "found"),
    [
        ([ALL], "x", None, None),
        ([], "x", None, Need("a worker", "no worker is running", "worker")),
        (
            [MEDIA],
            "my x",
            None,
            Need("a worker of queue 'my x'", "no worker serves queue 'my x'", "worker -q 'my x'"),
        ),
        ([SHOP], "mail", "shop.f", None),
        (
            [ALL],
            "mail",
            "shop.f",
            Need(
                "a worker that knows shop.f",
                "no worker that knows shop.f is running",
                "worker --app shop:sloth",
            ),
        ),
        (
            [SHOP],
            "x",
            "shop.f",
            Need(
                "a worker that knows shop.f",
                "no worker that knows shop.f serves queue 'x'",
                "worker --app shop:sloth",
            ),
        ),
    ],
)
def test_what_a_job_needs_follows_from_what_the_workers_tell(
    servers: list[Server], queue: str, task: str | None, found: Need | None
):
    assert need(servers, queue, task) == found


@pytest.mark.parametrize(
    ("task", "program"),
    [
        ("a.b.f", "a.b:sloth"),
        ("a.Class.f", "a:sloth"),
        ("f", "MODULE:NAME"),
        ("__main__.f", "MODULE:NAME"),
        ("a.b.<locals>.f", "MODULE:NAME"),
    ],
)
def test_the_program_of_a_task_is_guessed_from_its_name(task: str, program: str):
    lacking = need([], "x", task)
    assert lacking is not None
    assert lacking.start == f"worker --app {program}"


def test_a_function_that_no_worker_knows_is_told_everywhere(app: Cli):
    wants = "waits for a worker that knows g.f: sloth worker --app g:sloth"
    assert f"No worker is running.\n1 function {wants}\n" in app("status").text
    why = "waits because no worker that knows g.f is running; `sloth worker --app g:sloth`"
    assert f"why        {why}" in app("show", "1").text
    assert "no worker that knows g.f is running, so nothing happens" in said(app, "wait", "1")
    assert "no worker that knows g.f is running, so job 1 waits" in said(app, "follow", "1")
    assert f"1 function {wants}" in app("worker", "--until-idle").err
    with app.worker():
        assert f"1 function {wants}" in app("status").text
    assert "waits for" not in app("worker", "--app", "g:queue", "--until-idle").err


def test_a_payload_waits_for_a_program_of_the_user(sloth: Cli):
    put = "from slothqueue import Sloth; q = Sloth('work.db').queue('mail'); "
    python(sloth, put + "q.enqueue_many([1, 2])")
    assert "2 payloads wait for a program that claims them by hand" in sloth("status").text
    assert "Start one" not in sloth("status").text
    assert "why        waits because nobody claims it by hand" in sloth("show", "1").text
    assert said(sloth, "wait", "1") == "sloth: job 1 waits for a program that claims it by hand\n"
    hold = "lease = q.claim(); print('has it', flush=True); input()"
    other = subprocess.Popen(
        [sys.executable, "-c", put + hold],
        cwd=sloth.folder,
        env=sloth.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"has it\n"
        assert "by hand" not in sloth("status").text
    finally:
        other.communicate(b"\n")


def test_commands_that_no_worker_serves_are_told_in_the_status(sloth: Cli):
    sloth.add("-q", "oops", "--", "true")
    with sloth.worker("-q", "media"):
        assert "1 command waits for a worker of queue 'oops': sloth worker -q oops" in (
            sloth("status").text
        )
        assert "sloth worker -q oops" in said(sloth, "wait", "1")


# ---- what was meant -----------------------------------------------------------------------------


def test_an_option_behind_the_first_word_of_the_command_is_noted(sloth: Cli):
    err = sloth("add", "ls", "-q", "media", "-l").err
    assert "-q media is part of the command" in err
    assert "write sloth add -q media -- ls -l\n" in err
    assert sloth.job(1)["command"] == ["ls", "-q", "media", "-l"]
    for words in (["--", "ls", "-q", "media"], ["ls", "-l", "--help"], ["ls", "--", "-q", "x"]):
        assert "part of the command" not in sloth("add", *words).err


def test_a_line_of_shell_is_no_program_unless_there_is_one_of_that_name(sloth: Cli):
    assert "--shell -- 'ls -la | wc'" in sloth.refused("add", "ls -la | wc", code=2)
    (sloth.folder / "my tool").write_text("#!/bin/sh\necho mine\n")
    (sloth.folder / "my tool").chmod(0o755)
    assert sloth("run", "./my tool").out == b"mine\n"
    assert sloth("add", "--shell", "--", "ls -la | wc").out == b"2\n"


def test_a_moment_that_has_passed_is_noted(sloth: Cli):
    assert "--at 2020-01-31 is in the past" in sloth("add", "--at", "2020-01-31", "true").err
    assert "in the past" not in sloth("add", "--at", "2999-01-31", "true").err


def test_a_program_that_is_not_there_is_told_with_the_path_of_who_enqueued_it(sloth: Cli):
    sloth("add", "--retries", "0", "--", "mytool", PATH="/usr/bin:/bin")
    sloth("worker", "--until-idle", PATH="/somewhere/else:/usr/bin:/bin")
    told = "there is no program 'mytool' on its PATH (/usr/bin:/bin)"
    assert sloth.job(1)["error"] == told


def test_the_only_sloth_of_a_module_need_not_be_named(app: Cli):
    app("worker", "--app", "g", "--until-idle")
    assert app.job(1)["result"] == 1
    (app.folder / "two.py").write_text(
        "from slothqueue import Sloth\na, b = Sloth('a'), Sloth('b')"
    )
    refused = app.refused("worker", "--app", "two", code=2)
    assert "which one? Write one of two:a, two:b" in refused


def test_a_queue_that_nobody_has_used_is_told(sloth: Cli):
    assert "no such queue yet: 'oops'" in sloth("worker", "-q", "oops", "--until-idle").err


# ---- how it went --------------------------------------------------------------------------------


def test_a_worker_says_what_follows_from_each_end(app: Cli):
    python(app, "import g; g.bad.enqueue(); g.queue.close()")
    app.add("--", "false")
    err = app("worker", "--app", "g:queue", "--until-idle").err
    assert "2 functions" in err
    assert "job 1 attempt 1: done\n" in err
    assert "job 2 attempt 1: failed for good: ValueError: no way (attempt 1 of 1)" in err
    assert "job 3 attempt 1: failed: exited with code 1; again in 2s (attempt 1 of 4)" in err
    assert "ended; 3 attempts ended here; 1 job is due in " in err


def test_an_error_is_shown_once(app: Cli):
    python(app, "import g; g.bad.enqueue(); g.queue.close()")
    app("worker", "--app", "g:queue", "--until-idle")
    sheet = app("show", "2").text.partition("HISTORY")[0]
    assert sheet.count("ValueError: no way") == 1
    assert "Traceback" in sheet


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--", "true"], "job 1 wrote nothing; done: exited with code 0"),
        (["--retries", "0", "--", "false"], "job 1 wrote nothing; failed: exited with code 1"),
        (["--retries", "0", "--", "./no"], "job 1 wrote nothing; failed: there is no program"),
    ],
)
def test_a_job_that_wrote_nothing_is_told(sloth: Cli, words: list[str], told: str):
    sloth.add(*words)
    sloth("worker", "--until-idle")
    for command in ("log", "follow"):
        done = sloth(command, "1")
        assert (done.out, told in done.err) == (b"", True), done.err
    assert sloth("log", "1", "-n", "0").err == ""


def test_follow_tells_how_the_job_ended(sloth: Cli):
    sloth.add("--retries", "0", "--", "sh", "-c", "echo x; exit 3")
    sloth("worker", "--until-idle")
    done = sloth("follow", "1")
    assert (done.out, done.err) == (b"x\n", "sloth: job 1 failed: exited with code 3\n")


def test_an_interrupted_run_says_that_no_worker_is_left(sloth: Cli):
    script = "printf begun; while ! test -e go; do sleep 0.05; done"
    with Terminal(sloth, "run", "--", "sh", "-c", script) as terminal:
        terminal.read_until("begun")
        terminal.type("\x03")
        assert terminal.finish() == 130
    assert "sloth follow 1 shows its output; no worker is running any more: sloth worker" in (
        terminal.seen
    )
    (sloth.folder / "go").touch()
    sloth("wait", "1")


# ---- what runs ----------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc")
def test_a_command_shows_its_process_and_that_its_worker_is_gone(sloth: Cli):
    with sloth.worker() as worker:
        sloth.add("--", "sleep", "60")
        shim = until(lambda: running(sloth)["shim"], "it has a shim")
        pid = until(lambda: running(sloth)["pid"], "it runs")
        assert f"pid {pid} (under shim {shim})" in sloth("show", "1").text
        assert f" {pid}  sleep 60" in sloth("status").text
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    assert "worker gone, runs on" in sloth("status").text
    assert f"pid {pid} (under shim {shim}), worker gone, runs on" in sloth("show", "1").text
    os.kill(shim, signal.SIGTERM)
    waiting = sloth.start("wait", "1")  # whoever waits settles it
    try:
        until(lambda: sloth.job(1)["state"] == "queued", "it has ended, and is tried again later")
    finally:
        end(waiting)
    assert "ended by SIGTERM sent to its shim" in sloth("show", "1").text


def running(sloth: Cli) -> dict[str, int | None]:
    return {"shim": None, "pid": None} | sloth.job(1)


# ---- the place ----------------------------------------------------------------------------------


def test_an_empty_store_has_no_jobs_yet(sloth: Cli):
    python(sloth, "from slothqueue import Sloth; Sloth('work.db').stats()")
    assert sloth("list").err == "sloth: there are no jobs yet\n"
    assert sloth("list", "--state", "done").err == "sloth: there are no such jobs\n"


def test_a_store_that_is_not_there_is_told_by_its_whole_path(sloth: Cli):
    whole = str(sloth.folder / "x.db")
    assert whole in sloth("list", "--db", "x.db").err
    assert whole in sloth("status", "--db", "x.db").text
    assert whole in sloth.refused("show", "1", "--db", "x.db", code=3)


def test_a_store_that_cannot_be_one_is_told_with_the_reason(sloth: Cli):
    assert "/dev/null is not a regular file" in sloth.refused("list", "--db", "/dev/null", code=75)
    told = sloth.refused("list", "--db", "no such/x.db", code=75)
    assert f"mkdir -p '{sloth.folder}/no such'" in told
    if os.path.isdir("/proc"):
        told = sloth.refused("add", "--db", "/proc/x", "--", "true", code=75)
        assert "limit of open files" not in told


def test_the_details_name_the_log_and_the_output(sloth: Cli):
    sloth("run", "--", "echo", "hello")
    text = sloth("status", "--verbose").text
    assert "write-ahead log  " in text
    assert f"output of jobs   6 B in 1 file in {sloth.db}-logs\n" in text


# ---- narrow terminals ---------------------------------------------------------------------------


class Narrow(Screen):
    def __init__(self, width: int | None) -> None:
        self.width, self.colored = width, False


def test_the_last_column_gives_way_first_and_then_the_widest():
    head, rows = ["ID", "QUEUE", "NAME"], [["123", "a-long-queue", "a very long name"]]
    assert Narrow(27).table(head, rows, right=[0])[1] == "123  a-long-queue  a very…"
    assert Narrow(22).table(head, rows, right=[0])[1] == "123  a-long…  a very…"
    assert Narrow(5).table(head, rows, right=[0])[1] == "123  a-lo…  a very…"
    assert Narrow(None).table(head, rows)[1] == "123  a-long-queue  a very long name"


def test_a_table_of_numbers_keeps_its_numbers():
    lines = Narrow(12).table(["QUEUE", "CANCELLED"], [["default", "12345"]], right=[1])
    assert lines == ["QUEUE  CANC…", "defa…  12345"]


def test_a_long_line_is_folded_between_words():
    assert folded("one two three", 7) == ["one two", "three"]
    assert folded("  one two", 5) == ["  one", "  two"]
    assert folded("incomprehensible", 5) == ["incomprehensible"]
    assert folded("short", 80) == ["short"]


def test_no_line_of_a_narrow_terminal_is_broken(sloth: Cli):
    sloth.add("-q", "a-queue-with-a-long-name", "--", "echo", "many words " * 9)
    for words in (["list"], ["status"]):
        with Terminal(sloth, *words, columns=52, NO_COLOR="1") as terminal:
            assert terminal.finish() == 0
        assert max(len(line) for line in terminal.seen.splitlines()) <= 52


def test_bad_times_make_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLOTH_DB", str(tmp_path / "work.db"))
    assert main(["add", "--timeout", "0", "--", "true"]) == 2
    assert list(tmp_path.iterdir()) == []
