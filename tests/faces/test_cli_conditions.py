"""What may be said of a job beside its command, from a shell; how it is shown, and changed."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pytest

from .cli_support import Cli, Terminal, end, until


@pytest.fixture
def sloth(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def line_of(sloth: Cli, id: int) -> str:
    """The line of this job in the list."""
    lines = sloth("list").text.splitlines()
    return next(line for line in lines if line.split()[0] == str(id))


# ---- add ----------------------------------------------------------------------------------------


def test_a_job_runs_after_others(sloth: Cli):
    for _ in range(3):
        sloth.add("--", "true")
    done = sloth("add", "--after", "1,2", "--after", "3", "--", "true")
    assert "blocked" not in done.err  # what was asked for needs no note
    assert sloth.job(4)["parents"] == [1, 2, 3]
    assert sloth.job(1)["children"] == [4]
    assert "after #1 +2" in line_of(sloth, 4)
    shown = sloth("show", "4").text
    assert "why        is blocked by #1 (queued), #2 (queued) and #3 (queued)" in shown
    assert "after      #1 (queued), #2 (queued), #3 (queued)" in shown
    assert "before     #4 (queued)" in sloth("show", "1").text
    sloth("worker", "--until-idle")
    assert sloth.job(4)["state"] == "done"
    assert "there is no job 9" in sloth.refused("add", "--after", "9", "--", "true", code=3)
    assert "not the id of a job" in sloth.refused("add", "--after", "1,x", "--", "true", code=2)


def test_a_failed_parent_cancels_or_not(sloth: Cli):
    sloth.add("--retries", "0", "--", "false")
    sloth.add("--after", "1", "--after-failed", "run", "--", "true")
    sloth.add("--after", "1", "--after-failed", "cancel", "--", "true")
    sloth("worker", "--until-idle")
    assert [sloth.job(id)["state"] for id in (2, 3)] == ["done", "cancelled"]
    late = sloth("add", "--after", "1", "--", "true")
    assert "job 4 is cancelled: its parent 1 failed" in late.err
    wrong = sloth.refused("add", "--after-failed", "run", "--", "true", code=2)
    assert "goes with --after" in wrong


def test_a_key_is_that_of_one_live_job(sloth: Cli):
    sloth.add("--unique", "k", "--", "true")
    again = sloth("add", "--unique", "k", "--", "true")
    assert again.out == b"1\n"
    assert "job 1 has the key 'k' already and is queued; nothing was added" in again.err
    assert sloth("add", "--unique", "k", "--on-conflict", "return", "--", "true").out == b"1\n"
    error = ["add", "--unique", "k", "--on-conflict", "error", "--", "true"]
    assert "job 1 has the key 'k' and is queued; " in sloth.refused(*error, code=5)
    assert sloth.add("--unique", "k", "--on-conflict", "replace", "--", "true") == 2
    assert sloth.job(1)["message"] == "it was replaced by job 2"
    assert sloth.job(2)["unique"] == "k"
    assert "unique key k" in sloth("show", "2").text
    wrong = sloth.refused("add", "--on-conflict", "error", "--", "true", code=2)
    assert "goes with --unique" in wrong


def test_a_job_expires(sloth: Cli):
    assert sloth.add("--expires", "1ms", "--", "true") == 1
    sloth.add("--expires", "2h", "--", "true")
    sloth.add("--expires", "2040-01-31T08:00+01:00", "--", "true")
    sloth("worker", "--until-idle")
    assert sloth.job(1)["state"] == "cancelled"
    left = moment(sloth.job(2)["expires_at"]) - moment(sloth.job(2)["created_at"])
    assert left == dt.timedelta(hours=2)
    assert moment(sloth.job(3)["expires_at"]) == dt.datetime(2040, 1, 31, 7, tzinfo=dt.UTC)
    assert "expires    2040-01-31 " in sloth("show", "3").text
    past = sloth.refused("add", "--expires", "2020-01-31T08:00+00:00", "--", "true", code=2)
    assert "would never start" in past
    sloth.refused("add", "--expires", "soonish", "--", "true", code=2)


def test_jobs_of_one_key_do_not_run_at_once(sloth: Cli):
    script = "touch on; while ! test -e go; do sleep 0.05; done"
    sloth.add("--key", "gpu", "--", "sh", "-c", script)
    sloth.add("--key", "gpu", "--", "true")
    sloth.add("--key", "a=b=2", "--", "true")
    assert [sloth.job(id)["concurrency_key"] for id in (1, 3)] == ["gpu", "a=b"]
    assert [sloth.job(id)["concurrency_limit"] for id in (1, 3)] == [1, 2]
    assert "key        a=b, 2 at once" in sloth("show", "3").text
    with sloth.worker():
        sloth("wait", "3")
        until((sloth.folder / "on").exists, "the first runs")
        until(lambda: "key busy" in line_of(sloth, 2), "the second waits for it")
        assert "its key 'gpu' is at its limit of 1 by #1" in sloth("why", "2").text
        (sloth.folder / "go").touch()
        sloth("wait", "2")


def test_what_follows_a_kill_is_kept(sloth: Cli):
    sloth.add("--on-interrupt", "hold", "--", "true")
    assert sloth.job(1)["on_interrupt"] == "hold"
    assert "if killed  hold" in sloth("show", "1").text


def test_a_job_is_held_from_the_start(sloth: Cli):
    done = sloth("add", "--hold", "--", "true")
    assert (done.out, done.err) == (b"1\n", "")
    assert sloth.job(1)["held"]
    assert sloth.job(1)["held_by"]
    assert sloth.job(1)["held_since"]
    assert re.search(r"held +\S.* by \S+ \(pid \d+\)", sloth("show", "1").text)


@pytest.mark.parametrize("words", ["--after-failed x", "--on-conflict x", "--on-interrupt x"])
def test_a_word_that_there_is_not_is_refused(sloth: Cli, words: str):
    assert "invalid choice" in sloth.refused("add", *words.split(), "--", "true", code=2)
    assert not sloth.db.exists()


def test_run_tells_what_keeps_its_job(sloth: Cli):
    run = sloth.start("run", "--hold", "--", "echo", "hi")
    try:
        assert run.stderr is not None
        assert b"job 1 is held since " in run.stderr.readline()
        sloth("unhold", "1")
        assert run.communicate(timeout=30)[0] == b"hi\n"
        assert run.returncode == 0
    finally:
        end(run)


# ---- list ---------------------------------------------------------------------------------------


def test_the_list_can_be_asked_for_what_jobs_wait_for(sloth: Cli):
    sloth.add("--", "true")
    sloth.add("--in", "1h", "--", "true")
    sloth.add("--hold", "--", "true")
    sloth.add("--after", "1", "--", "true")
    for state, ids in (("scheduled", [2]), ("held", [3]), ("blocked", [4])):
        assert [job["id"] for job in sloth("list", "--state", state, "--json").objects] == ids
    queue = ["list", "--state", "held", "-q", "default"]
    assert [job["id"] for job in sloth(*queue, "--json").objects] == [3]
    assert "held" in line_of(sloth, 3)
    assert sloth("status").text.splitlines()[0].split() == [
        *("QUEUE", "QUEUED", "FOR", "LATER", "BLOCKED", "HELD"),
        *("RUNNING", "DONE", "FAILED", "CANCELLED"),
    ]
    assert sloth("status", "--json").objects[0].items() >= {"held": 1, "blocked": 1}.items()


# ---- edit ---------------------------------------------------------------------------------------


def test_every_option_of_edit_changes_a_job(sloth: Cli):
    sloth.add("--in", "1h", "--", "make", "al")
    words = ["--priority", "5", "--in", "2h", "--retries", "1", "--timeout", "90s"]
    done = sloth("edit", "1", *words, "--", "make", "all")
    assert done.text == (
        "job 1: command make al -> make all, priority 0 -> 5, due in 1h -> in 2h, "
        "retries 3 -> 1, timeout none -> 1m 30s\n"
    )
    job = sloth.job(1)
    assert (job["command"], job["priority"], job["max_attempts"]) == (["make", "all"], 5, 2)
    assert job["timeout"] == 90.0
    assert sloth("edit", "1", "--timeout", "none").text == "job 1: timeout 1m 30s -> none\n"
    assert sloth("edit", "1", "--priority", "5").text == "job 1 is as it was\n"
    sloth("edit", "1", "--at", "2040-01-31T08:00+01:00")
    assert moment(sloth.job(1)["run_at"]) == dt.datetime(2040, 1, 31, 7, tzinfo=dt.UTC)
    assert sloth("edit", "1", "--in", "0", "--json").objects[0]["id"] == 1
    assert "not both" in sloth.refused("edit", "1", "--in", "1h", "--at", "18:30", code=2)
    assert "edited" in sloth("show", "1").text


def test_a_job_that_runs_or_is_done_is_not_edited(sloth: Cli):
    sloth("run", "--", "true")
    late = "job 1 is done: it cannot be changed any more"
    assert late in sloth.refused("edit", "1", "--priority", "1", code=5)
    assert late in sloth.refused("edit", "1", code=5, EDITOR="touch opened")
    assert not (sloth.folder / "opened").exists()


def test_a_failed_job_may_be_edited_and_then_put_back(sloth: Cli):
    sloth.add("--retries", "0", "--", "false")
    sloth("worker", "--until-idle")
    told = sloth("edit", "1", "--", "true").text
    assert told == "job 1: command false -> true; `sloth retry 1` puts it back\n"


def test_the_editor_gets_the_command_as_one_would_type_it(sloth: Cli):
    sloth.add("--", "echo", "a b", "$c")
    assert sloth("edit", "1", EDITOR="cp", VISUAL="sh -c 'cp $1 seen' x").text == (
        "job 1 is as it was\n"
    )
    assert (sloth.folder / "seen").read_text() == "echo 'a b' '$c'\n"
    told = sloth("edit", "1", EDITOR="sed -i 's/$/ \\\\\\n  more/'").text
    assert told == "job 1: command echo 'a b' '$c' -> echo 'a b' '$c' more\n"
    assert sloth.job(1)["command"] == ["echo", "a b", "$c", "more"]


def test_a_line_of_shell_is_edited_as_it_is(sloth: Cli):
    sloth.add("--shell", "--", "echo '# a' | cat")
    sloth("edit", "1", EDITOR="sed -i s/cat/wc/")
    assert sloth.job(1)["command"] == ["echo '# a' | wc"]
    assert sloth.job(1)["shell"]
    assert "as one text" in sloth.refused("edit", "1", "--", "a", "b", code=2)
    sloth("edit", "1", "--", "echo a | cat")
    assert sloth.job(1)["command"] == ["echo a | cat"]


@pytest.mark.parametrize(
    ("editor", "code", "said"),
    [
        pytest.param(": >", 0, "is as it was, for its text came back empty", id="emptied"),
        pytest.param("true", 0, "job 1 is as it was", id="unchanged"),
        pytest.param("false", 1, "'false' ended with code 1, so nothing", id="a failure"),
        pytest.param("rm", 1, "cannot be read, so nothing was changed", id="gone"),
        pytest.param("no-such-editor", 1, "ended with code 127", id="no editor"),
        pytest.param("kill -9 $$ #", 1, "was ended by signal 9", id="killed"),
        pytest.param('echo "\'" >', 2, "makes no sense, so nothing", id="nonsense"),
    ],
)
def test_what_comes_back_wrong_changes_nothing(sloth: Cli, editor: str, code: int, said: str):
    sloth.add("--", "make", "all")
    done = sloth("edit", "1", code=code, EDITOR=editor)
    assert said in done.text + done.err
    assert sloth.job(1)["command"] == ["make", "all"]
    assert "edited" not in sloth("show", "1").text
    assert "no editor" in sloth.refused("edit", "1", code=2)


def test_an_editor_has_the_terminal_and_its_own_ctrl_c(sloth: Cli):
    sloth.add("--", "make", "al")
    editor = sloth.folder / "editor"
    editor.write_text(
        "#!/bin/sh\ntrap 'echo heard' INT\ntest -t 0 && echo ready\n"
        'until read line; do :; done; echo "make $line" > "$1"\n'
    )
    editor.chmod(0o755)
    with Terminal(sloth, "edit", "1", VISUAL="./editor") as terminal:
        terminal.read_until("ready")
        terminal.type("\x03")
        terminal.read_until("heard")
        terminal.type("all\n")
        assert terminal.finish() == 0, terminal.seen
        assert "job 1: command make al -> make all" in terminal.seen


def test_a_job_that_expires_before_it_may_start_is_told_of(sloth: Cli):
    told = sloth("add", "--in", "2h", "--expires", "1h", "--", "true").err
    assert "job 1 expires before it may start" in told
    assert "expires before" not in sloth("add", "--in", "1h", "--expires", "2h", "--", "true").err


def test_why_tells_of_a_missing_worker_before_the_moment_has_come(sloth: Cli):
    sloth("add", "--in", "1h", "--", "true")
    assert "but no worker is running; `sloth worker" in sloth("why", "1").text
