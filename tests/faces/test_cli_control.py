"""What a person does to jobs from a shell: cancel, retry, hold, explain, and send input."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .cli_support import Cli, Terminal, end, until

WAITING = "touch on; while ! test -e go; do sleep 0.05; done"
STUBBORN = "trap '' TERM; touch on; while :; do sleep 0.05; done"
APP = """
from slothqueue import Sloth

queue = Sloth("work.db")

@queue.task()
def f(n):
    return n
"""


@pytest.fixture
def sloth(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def python(sloth: Cli, program: str) -> None:
    subprocess.run([sys.executable, "-c", program], cwd=sloth.folder, env=sloth.env, check=True)


def running(sloth: Cli, script: str, *options: str) -> int:
    """A job whose command runs by now."""
    (sloth.folder / "on").unlink(missing_ok=True)
    id = sloth.add(*options, "--", "sh", "-c", script)
    until((sloth.folder / "on").exists, "the command runs")
    until(lambda: sloth.job(id)["state"] == "running", "the job is running")
    return id


def failed(sloth: Cli, *options: str) -> int:
    """A job that has failed."""
    id = sloth.add("--retries", "0", *options, "--", "sh", "-c", "test -e good")
    sloth("worker", "--until-idle")
    assert sloth.job(id)["state"] == "failed"
    return id


# ---- several jobs -------------------------------------------------------------------------------


def test_each_job_has_its_line_and_the_worst_code_counts(sloth: Cli):
    sloth("run", "--", "true")
    sloth.add("--", "true")
    done = sloth("hold", "1", "2", "9", code=5)
    assert done.text == "job 2 held; `sloth unhold 2` lets it go\n"
    assert done.err.splitlines() == [
        "sloth: job 1 is done: only a queued job can be held",
        "sloth: there is no job 9 in this store. `sloth list` shows those that there are.",
    ]
    assert sloth("hold", "2", "9", code=3).text.startswith("job 2 was held already")


def test_a_range_means_those_that_are_there(sloth: Cli):
    for _ in range(3):
        sloth.add("--", "true")
    assert len(sloth("hold", "2-9").text.splitlines()) == 2
    assert [job["held"] for job in sloth("hold", "1-3", "--json").objects] == [True] * 3
    assert "there are no jobs 7-9" in sloth.refused("hold", "7-9", code=3)
    assert "'3-1' ends before it begins" in sloth.refused("hold", "3-1", code=2)
    assert "more than 10000 jobs" in sloth.refused("hold", "1-99999", code=2)
    assert "not the id of a job" in sloth.refused("hold", "1-x", code=2)


@pytest.mark.parametrize(
    "words", ["why 1", "cancel 1", "retry 1", "hold 1-3", "unhold 1", "edit 1 --in 1h", "send 1 x"]
)
def test_what_is_not_there_gives_3_and_makes_nothing(sloth: Cli, words: str):
    sloth.refused(*words.split(), code=3)
    assert not sloth.db.exists()


def test_what_is_said_to_type_next_names_the_store(sloth: Cli):
    assert sloth("--db", "a b.db", "add", "--", "true").out == b"1\n"
    told = "job 1 held; `sloth unhold 1 --db 'a b.db'` lets it go\n"
    assert sloth("hold", "1", "--db", "a b.db").text == told
    assert "`sloth unhold 1 --db 'a b.db'`" in sloth("why", "1", "--db", "a b.db").text
    assert not sloth.db.exists()


# ---- why ----------------------------------------------------------------------------------------


def test_why_tells_what_would_start_a_job(sloth: Cli):
    sloth.add("--", "true")
    sloth.add("--after", "1", "--", "true")
    sloth.add("--in", "1h", "--", "true")
    told = sloth("why", "1-3").text.splitlines()
    assert told[0] == "job 1 waits because no worker is running; `sloth worker` starts one"
    assert told[1] == "job 2 is blocked by #1 (queued); it starts when that is done"
    assert told[2].startswith("job 3 is due at ")
    object = sloth("why", "2", "--json").objects[0]
    assert (object["id"], object["why"]) == (2, told[1])
    assert sloth("show", "2", "--json").objects[0]["why"] == told[1]
    sloth("worker", "--until-idle")
    assert sloth("why", "1").text == "job 1 is done\n"


def test_why_names_a_worker_that_knows_the_function(sloth: Cli):
    (sloth.folder / "g.py").write_text(APP)
    python(sloth, "import g; g.f.enqueue(1); g.queue.close()")
    assert "no worker that knows g.f is running; `sloth worker --app g:sloth`" in (
        sloth("why", "1").text
    )


# ---- hold and unhold ----------------------------------------------------------------------------


def test_a_held_job_does_not_run_until_it_is_let_go(sloth: Cli):
    sloth.add("--hold", "--", "true")
    sloth("worker", "--until-idle")
    assert sloth.job(1)["state"] == "queued"
    assert "held" in sloth("list").text
    done = sloth("unhold", "1")
    assert done.text == "job 1 is free to run\n"
    assert "no worker is running" in done.err
    assert sloth("unhold", "1").text == "job 1 was not held\n"
    sloth("worker", "--until-idle")
    assert sloth.job(1)["state"] == "done"
    assert "job 1 is done: only a queued job" in sloth.refused("unhold", "1", code=5)


# ---- cancel -------------------------------------------------------------------------------------


def test_a_waiting_job_is_cancelled_at_once_with_those_that_wait_for_it(sloth: Cli):
    sloth.add("--", "true")
    sloth.add("--after", "1", "--", "true")
    sloth.add("--after", "2", "--", "true")
    done = sloth("cancel", "1", "--reason", "no need")
    assert done.text == "job 1 cancelled, and 2 jobs that waited for it\n"
    assert sloth.job(1)["message"].endswith(": no need")
    assert sloth.job(3)["message"] == "its parent 2 was cancelled"
    assert sloth("cancel", "1", "3").text.splitlines() == [
        "job 1 was cancelled already",
        "job 3 was cancelled already",
    ]


def test_a_job_that_has_ended_stays_what_it_is(sloth: Cli):
    sloth("run", "--", "true")
    assert sloth("cancel", "1").text == "job 1 is done already, so there is nothing to cancel\n"
    assert sloth.job(1)["state"] == "done"


def test_a_running_job_is_told_to_end(sloth: Cli):
    with sloth.worker():
        running(sloth, WAITING)
        told = "job 1 is running: it was told to end, and is ended after 10s\n"
        assert sloth("cancel", "1").text == told
        assert sloth("wait", "1", code=1).text.startswith("job 1 cancelled")
        running(sloth, WAITING)
        assert sloth("cancel", "2", "--json").objects[0]["id"] == 2


def test_a_stubborn_command_is_killed_after_its_grace(sloth: Cli):
    with sloth.worker():
        running(sloth, STUBBORN)
        told = "job 1 is running: it was told to end, and is ended after 1h\n"
        assert sloth("cancel", "1", "--grace", "1h").text == told
        done = sloth("cancel", "1", "--now", "--wait")
        assert done.text.splitlines()[0] == (
            "job 1 is running: it had been told to end already, and is ended now"
        )
        assert done.text.splitlines()[1].startswith("job 1 cancelled")
    assert "signalled: " in sloth("show", "1").text


def test_cancel_waits_for_the_end_if_asked_to(sloth: Cli):
    with sloth.worker():
        running(sloth, WAITING)
        sloth.add("--in", "1h", "--", "true")
        done = sloth("cancel", "1", "2", "--wait")
        assert [line[:15] for line in done.text.splitlines()] == [
            "job 1 is runnin",
            "job 2 cancelled",
            "job 1 cancelled",
        ]


def test_the_end_that_cancel_waits_for_is_shown_in_color(sloth: Cli):
    with sloth.worker():
        running(sloth, WAITING)
        with Terminal(sloth, "cancel", "1", "--wait") as terminal:
            assert terminal.finish() == 0
    assert "job 1 \x1b[90mcancelled\x1b[0m: by " in terminal.seen


def test_what_is_put_back_is_told_even_if_a_worker_takes_it_at_once(sloth: Cli):
    for _ in range(5):
        sloth.add("--retries", "0", "--", "sh", "-c", "sleep 0.3; exit 1")
    sloth("pause", "default")
    with sloth.worker():
        assert sloth("resume", "default").text.endswith("; 5 of its jobs are due\n")
        sloth("wait", "1", "2", "3", "4", "5", code=1)
        told = sloth("retry", "1", "2", "3", "4", "5").text.splitlines()
        assert told == [f"job {n} is queued again, for up to 1 attempt" for n in range(1, 6)]


def test_a_payload_is_ended_by_whoever_claimed_it(sloth: Cli):
    program = "from slothqueue import Sloth; q = Sloth('work.db').queue('mail'); q.enqueue(1); "
    other = subprocess.Popen(
        [sys.executable, "-c", program + "l = q.claim(); print('has it', flush=True); input()"],
        cwd=sloth.folder,
        env=sloth.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"has it\n"
        told = "job 1 is running: whoever claimed it by hand is told, and ends it\n"
        assert sloth("cancel", "1").text == told
    finally:
        other.communicate(b"\n")


FUNCTION = """
import os, time
from slothqueue import Sloth, current_job

queue = Sloth("work.db")

@queue.task()
def f():
    open("on", "w").close()
    while not (current_job().stopping and os.path.exists("go")):
        time.sleep(0.02)
"""


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        ("process", "it was told to end, and is ended after 10s"),
        ("thread", "it was told to end; in a thread it goes on until it looks"),
    ],
)
def test_a_function_is_told(sloth: Cli, pool: str, said: str):
    (sloth.folder / "g.py").write_text(FUNCTION)
    python(sloth, "import g; g.f.enqueue(); g.queue.close()")
    with sloth.worker("--app", "g:queue", "--pool", pool):
        until((sloth.folder / "on").exists, "the function runs")
        assert sloth("cancel", "1").text == f"job 1 is running: {said}\n"
        (sloth.folder / "go").touch()
        assert sloth("wait", "1").text.startswith("job 1 done")  # it was told, and came to its end
    assert sloth("cancel", "1").text.startswith("job 1 is done already")


def test_a_command_whose_worker_is_gone_is_ended_by_whoever_is_there(sloth: Cli):
    with sloth.worker() as worker:
        running(sloth, WAITING)
        worker.kill()
        worker.wait()
        done = sloth("cancel", "1", "--wait")
        assert done.text.splitlines()[1].startswith("job 1 cancelled")
    assert sloth.job(1)["state"] == "cancelled"


def test_interrupting_the_wait_of_cancel_gives_130(sloth: Cli):
    with sloth.worker():
        running(sloth, STUBBORN)
        with Terminal(sloth, "cancel", "1", "--grace", "1h", "--wait") as terminal:
            terminal.read_until("is ended after 1h")
            terminal.type("\x03")
            assert terminal.finish() == 130
        sloth("cancel", "1", "--now", "--wait")


# ---- retry --------------------------------------------------------------------------------------


def test_a_failed_job_is_put_back_with_a_fresh_budget(sloth: Cli):
    failed(sloth)
    done = sloth("retry", "1")
    assert done.text == "job 1 is queued again, for up to 1 attempt\n"
    assert "no worker is running, so nothing happens" in done.err
    (sloth.folder / "good").touch()
    sloth("worker", "--until-idle")
    assert sloth.job(1)["state"] == "done"
    assert "only a failed or cancelled job can be put back" in sloth.refused("retry", "1", code=5)


def test_what_waits_already_is_not_put_back(sloth: Cli):
    sloth.add("--", "true")
    sloth.add("--hold", "--", "true")
    assert "job 1 is queued already; `sloth edit 1 --in 0`" in sloth.refused("retry", "1", code=5)
    assert "`sloth unhold 2` lets it go" in sloth.refused("retry", "2", code=5)


def test_children_are_put_back_if_asked_for(sloth: Cli):
    sloth.add("--retries", "0", "--", "sh", "-c", "test -e good")
    sloth.add("--after", "1", "--", "true")
    sloth.add("--after", "2", "--", "true")
    sloth("worker", "--until-idle")
    told = sloth("retry", "1").text
    assert told.endswith(
        "; 2 jobs that were cancelled with it stay so, --children puts back those too\n"
    )
    sloth("worker", "--until-idle")
    told = sloth("retry", "1", "--children").text
    assert told == "job 1 is queued again, for up to 1 attempt, and 2 jobs with it\n"
    (sloth.folder / "good").touch()
    sloth("worker", "--until-idle")
    assert [job["state"] for job in sloth("list", "--json").objects] == ["done"] * 3


def test_all_that_have_failed_are_put_back(sloth: Cli):
    assert "no jobs yet" in sloth("retry", "--all-failed").err
    failed(sloth)
    failed(sloth, "-q", "media")
    failed(sloth)
    sloth.add("--in", "1h", "--", "true")
    assert sloth("retry", "--all-failed", "-q", "media").text.startswith("job 2 is queued again")
    again = sloth("retry", "--all-failed", "--json").objects
    assert [job["id"] for job in again] == [1, 3]  # as they came
    assert [job["state"] for job in sloth("list", "--json").objects] == ["queued"] * 4
    assert "no job has failed" in sloth("retry", "--all-failed").err
    assert "no queue 'oops'" in sloth.refused("retry", "--all-failed", "-q", "oops", code=2)


def test_one_whose_key_is_taken_stays_and_the_others_go_on(sloth: Cli):
    failed(sloth, "--unique", "k")
    failed(sloth)
    sloth.add("--unique", "k", "--", "true")
    done = sloth("retry", "--all-failed", code=5)
    assert done.text.startswith("job 2 is queued again")
    assert "its key 'k' belongs to job 3" in done.err
    assert sloth.job(1)["state"] == "failed"


def test_a_job_is_edited_before_it_is_put_back(sloth: Cli):
    failed(sloth)
    done = sloth("retry", "1", "--edit", EDITOR="sed -i s/good/on/")
    assert "; it: command sh -c 'test -e good' -> sh -c 'test -e on'\n" in done.text
    assert sloth.job(1)["command"] == ["sh", "-c", "test -e on"]
    sloth("worker", "--until-idle")
    assert "so job 1 stays failed" in sloth.refused("retry", "1", "--edit", code=1, EDITOR=": >")
    assert "ended with code 1" in sloth.refused("retry", "1", "--edit", code=1, EDITOR="false")
    assert sloth.job(1)["state"] == "failed"
    assert "queued again" in sloth("retry", "1", "--edit", EDITOR="true").text


# ---- send ---------------------------------------------------------------------------------------


def asks(sloth: Cli) -> list[tuple[str, str | None]]:
    import sqlite3

    with sqlite3.connect(sloth.db) as connection:
        return connection.execute("select kind, detail from _sloth_ask order by n").fetchall()


def test_input_is_left_for_the_worker_of_a_command(sloth: Cli):
    """The worker is stopped, so that what it is asked for can be seen."""
    sloth.add("--hold", "--", "sh", "-c", WAITING)
    give = "j = Sloth('work.db').job(1); j.edit(payload=j.payload | {'stdin': True}); j.unhold()"
    python(sloth, f"from slothqueue import Sloth; {give}")
    with sloth.worker() as worker:
        until((sloth.folder / "on").exists, "the command runs")
        until(lambda: sloth.job(1)["state"] == "running", "the job is running")
        worker.send_signal(signal.SIGSTOP)
        try:
            assert sloth("send", "1", "yes").text == "job 1: sent\n"
            assert sloth("send", "1", "--no-newline", "--", "-1").text == "job 1: sent\n"
            sent = sloth("send", "1", "--eof", "last").text
            assert sent == "job 1: sent, and its input closed\n"
            assert sloth("send", "1", "--eof").text == "job 1: its input was closed\n"
            assert asks(sloth) == [
                ("send", "yes\n"),
                ("send", "-1"),
                ("send", "last\n"),
                ("eof", None),
                ("eof", None),
            ]
        finally:
            worker.send_signal(signal.SIGCONT)
        (sloth.folder / "go").touch()
        sloth("wait", "1")
    assert "job 1 is done, so nobody would read that" in sloth.refused("send", "1", "x", code=5)


def test_what_is_sent_reaches_the_command(sloth: Cli):
    put = "from slothqueue import Sloth; Sloth('work.db').queue().enqueue_command"
    python(sloth, f"{put}(['cat'], stdin=True)")
    with sloth.worker():
        until(lambda: sloth.job(1)["state"] == "running", "the job is running")
        sloth("send", "1", "hello")
        sloth("send", "1", "--no-newline", "--eof", "you")
        sloth("wait", "1")
    assert sloth("log", "1").out == b"hello\nyou"


def test_what_has_no_input_is_sent_nothing(sloth: Cli):
    sloth.add("--", "true")
    assert "was added without an input" in sloth.refused("send", "1", "x", code=5)
    python(sloth, "from slothqueue import Sloth; Sloth('work.db').queue().enqueue(1)")
    assert "job 2 is no command" in sloth.refused("send", "2", "x", code=5)
    assert "nothing to send" in sloth.refused("send", "1", code=2)
    assert "goes with a text" in sloth.refused("send", "1", "--eof", "--no-newline", code=2)


# ---- what only reads ----------------------------------------------------------------------------


def test_looking_never_waits_for_a_writer(sloth: Cli):
    sloth.add("--", "true")
    sloth.add("--after", "1", "--hold", "--", "true")
    lock = "import sqlite3; c = sqlite3.connect('work.db', isolation_level=None); "
    lock += "c.execute('begin immediate'); print('locked', flush=True); input()"
    other = subprocess.Popen(
        [sys.executable, "-c", lock],
        cwd=sloth.folder,
        env=sloth.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        for words in ("why 1-2", "list", "show 2", "status", "queue", "queue default"):
            sloth(*words.split())
        sloth("list", "--state", "held")
        assert sloth("prune", "--older-than", "0", "--dry-run").text == "0 jobs would be deleted\n"
    finally:
        end(other)
