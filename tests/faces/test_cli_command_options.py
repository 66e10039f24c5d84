"""What only a command can be asked for, from a shell; and how `show` tells it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from .cli_support import Cli, Terminal, until

SHOW = 'echo "A=$A MY_TOKEN=$MY_TOKEN STAGE=$STAGE HOME=$HOME"'


@pytest.fixture
def sloth(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def said(sloth: Cli, *words: str, **env: Any) -> str:
    """What a command says that is added with these words."""
    done = sloth("add", *words, **env)
    sloth("worker", "--until-idle", STAGE="of the worker", MY_TOKEN="of the worker")
    return sloth("log", done.text.strip()).text


# ---- environment --------------------------------------------------------------------------------


def test_variables_are_given_by_name(sloth: Cli):
    words = ("--env", "A=1=2", "--env", "MY_TOKEN", "--shell", "--", SHOW)
    assert said(sloth, *words, MY_TOKEN="x", STAGE="mine").startswith(
        "A=1=2 MY_TOKEN=x STAGE=mine HOME=/"
    )


def test_what_looks_like_a_secret_is_left_out_and_named_on_request(sloth: Cli):
    done = sloth("add", "--verbose", "--", "true", MY_TOKEN="x", API_KEY="y", PWD="/")
    assert "left out, for they look like secrets: API_KEY, MY_TOKEN; --env NAME" in done.err
    assert "MY_TOKEN" not in sloth("add", "--", "true", MY_TOKEN="x").err
    done = sloth("add", "--verbose", "--env", "MY_TOKEN", "--", "true", MY_TOKEN="x")
    assert "left out" not in done.err
    assert "left out" not in sloth("add", "--verbose", "--clean-env", "--", "true", A_TOKEN="x").err
    assert said(sloth, "--shell", "--", SHOW, MY_TOKEN="x").startswith("A= MY_TOKEN= ")


def test_variables_are_read_from_files(sloth: Cli):
    (sloth.folder / "one.env").write_text("export A='from the file'\nSTAGE=one # the first\n")
    (sloth.folder / "two.env").write_text("STAGE=two\nMY_TOKEN=t\n")
    files = ("--env-file", "one.env", "--env-file", "two.env")
    told = said(sloth, *files, "--env", "MY_TOKEN=u", "--shell", "--", SHOW, STAGE="mine")
    assert told.startswith("A=from the file MY_TOKEN=u STAGE=two HOME=/")


def test_a_clean_environment_has_the_few_that_all_want(sloth: Cli):
    told = said(sloth, "--clean-env", "--env", "A=1", "--shell", "--", SHOW, STAGE="mine")
    assert told == f"A=1 MY_TOKEN= STAGE= HOME={sloth.folder}\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--env", "NOWHERE"], "no such variable here; write --env NOWHERE=VALUE"),
        (["--env", "=1"], "has no name; write --env NAME=VALUE"),
        (["--env-file", "none.env"], "--env-file 'none.env' cannot be read: No such file"),
        (["--env-file", "bad.env"], "--env-file bad.env, line 2: 'A' is not NAME=VALUE"),
        (["--max-output", "1kB"], "'1kB' is less than 4096 bytes; `none` keeps all"),
        (["--max-output", "much"], "bytes or text such as '64MB'"),
        (["--retry-on", "0"], "'0' is no exit code from 1 to 255"),
        (["--retry-on", "75;signal"], "write them like 75,signal"),
        (["--nice", "20"], "20 is more than 19"),
        (["--keep-log", "sometimes"], "'always', 'failed', 'never'"),
        (["--separate", "--tty"], "give --separate or --tty, not both"),
        (["--retry-on", "1", "--no-retry"], "give --retry-on or --no-retry, not both"),
        (["--retries", "1", "--no-retry"], "give --retries or --no-retry, not both"),
    ],
)
def test_what_makes_no_sense_is_refused(sloth: Cli, words: list[str], told: str):
    (sloth.folder / "bad.env").write_text("B=1\nA\n")
    for command in ("add", "run"):
        assert told in sloth.refused(command, *words, "--", "true", code=2)
    assert not sloth.db.exists() or sloth("list").out == b""


def test_a_variable_that_is_no_text_is_refused(sloth: Cli):
    assert "not UTF-8" in sloth.refused("add", "--env", b"A=\xff", "--", "true", code=2)


# ---- output -------------------------------------------------------------------------------------


def test_so_much_of_the_output_is_kept(sloth: Cli):
    words = (sys.executable, "-c", "for n in range(30_000): print(n)")
    assert " cut ..." in said(sloth, "--max-output", "8kB", "--", *words)
    assert "of its output" in sloth("show", "1").text  # the history has it, too
    assert " cut ..." not in said(sloth, "--max-output", "NONE", "--", *words)
    assert sloth.job(2)["max_output"] is None


def test_errors_are_kept_apart(sloth: Cli):
    assert said(sloth, "--separate", "--shell", "--", "echo a; echo b >&2") == "a\n"
    assert sloth("log", "--stderr", "1").text == sloth("follow", "--stderr", "1").text == "b\n"
    assert said(sloth, "--shell", "--", "echo a; echo b >&2") == "a\nb\n"
    assert "job 2 did not keep its errors apart" in sloth("follow", "--stderr", "2").err


def test_errors_are_followed_while_they_are_written(sloth: Cli):
    script = "echo one >&2; until [ -e go ]; do sleep 0.05; done; echo two >&2; echo three"
    sloth.add("--separate", "--shell", "--", script)
    with Terminal(sloth, "follow", "--stderr", "1") as terminal, sloth.worker():
        terminal.read_until("one")
        (sloth.folder / "go").touch()
        assert terminal.finish() == 0
    assert "two" in terminal.seen and "three" not in terminal.seen


def test_run_shows_errors_that_are_kept_apart_as_errors(sloth: Cli):
    script = "echo a; echo b >&2"
    done = sloth("run", "--no-start", "--separate", "--shell", "--", script)
    assert done.out == b"a\n"
    assert done.err.splitlines()[-1] == (
        "sloth: job 1 has written to its errors, too; sloth log 1 --stderr shows that"
    )
    assert "errors" not in sloth("run", "--no-start", "--separate", "--", "echo", "a").err


def test_a_command_has_a_terminal_as_large_as_ours(sloth: Cli):
    script = "test -t 1 && stty size <&1"
    assert said(sloth, "--tty", "--shell", "--", script, COLUMNS="101", LINES="7") == "7 101\n"
    with Terminal(sloth, "add", "--tty", "--shell", "--", script, columns=91) as terminal:
        assert terminal.finish() == 0
    sloth("worker", "--until-idle")
    assert sloth("log", "2").text == "24 91\n"
    assert said(sloth, "--shell", "--", script) == ""


def test_a_log_is_kept_as_asked(sloth: Cli):
    for keep, command in (("failed", "true"), ("failed", "false"), ("never", "false")):
        sloth.add("--keep-log", keep, "--retries", "0", "--", command)
    sloth.add("--keep-log", "always", "--", "true")
    sloth("worker", "--until-idle")
    kept = {path.name.split("-")[0] for path in sloth.folder.glob("work.db-logs/*-*.log")}
    assert kept == {"2", "4"}


# ---- input, retries, priority -------------------------------------------------------------------


def test_a_command_is_sent_to(sloth: Cli):
    sloth.add("--stdin", "--", "sed", "s/^/got /")
    with sloth.worker():
        until(lambda: sloth.job(1)["state"] == "running", "it runs")
        sloth("send", "1", "hello", "--eof")
        sloth("wait", "1")
    assert sloth("log", "1").text == "got hello\n"


def test_only_some_ends_are_tried_again(sloth: Cli):
    sloth("queue", "default", "--backoff", "0,0")
    for words in (
        ("--retry-on", "75, signal", "--", "sh", "-c", "exit 3"),
        ("--retry-on", "75,signal", "--", "sh", "-c", "exit 75"),
        ("--retry-on", "signal", "--", "sh", "-c", "kill -9 $$"),
        ("--retry-on", "timeout", "--timeout", "0.1", "--retries", "1", "--", "sleep", "9"),
        ("--no-retry", "--", "false"),
    ):
        sloth.add(*words)
    sloth("worker", "--until-idle")
    assert [sloth.job(id)["attempts"] for id in range(1, 6)] == [1, 4, 4, 2, 1]
    assert {sloth.job(id)["state"] for id in range(1, 6)} == {"failed"}


def test_a_command_stands_back(sloth: Cli):
    assert said(sloth, "--nice", "7", "--", "nice") == f"{os.nice(0) + 7}\n"


# ---- show ---------------------------------------------------------------------------------------


ASKED = (
    *("--max-output", "1GB", "--separate", "--stdin", "--retry-on", "75,76,signal,timeout"),
    *("--nice", "5", "--keep-log", "failed"),
)


def test_what_was_asked_for_is_shown(sloth: Cli):
    sloth.add(*ASKED, "--", "true")
    shown = sloth("show", "1").text
    assert "  output     kept if it failed, at most 1 GB, errors apart\n" in shown
    assert "  input      open: `sloth send` writes to it\n" in shown
    assert "  retried    only after exit code 75, 76, a signal or its time limit\n" in shown
    assert "  nice       5\n" in shown
    assert "terminal" not in shown
    sloth.add("--tty", "--max-output", "none", "--keep-log", "never", "--no-retry", "--", "true")
    shown = sloth("show", "2").text
    assert "  terminal   80 columns, 24 lines\n" in shown
    assert "  output     not kept, of any size\n" in shown
    assert "  retried    never when it fails\n" in shown


def test_what_is_as_usual_is_not_shown(sloth: Cli):
    sloth.add("--", "true")
    lines = {line.split()[0] for line in sloth("show", "1").text.splitlines() if line.strip()}
    assert not lines & {"output", "input", "retried", "nice", "terminal"}


def test_programs_are_told_all_of_it(sloth: Cli):
    names = ("max_output", "separate", "tty", "stdin", "retry_on", "nice", "keep_log")
    sloth.add(*ASKED, "--", "true")
    sloth.add("--", "true")
    first, second = ([sloth.job(id)[name] for name in names] for id in (1, 2))
    assert first == [10**9, True, False, True, [75, 76, "signal", "timeout"], 5, "failed"]
    assert second == [64_000_000, False, False, False, None, 0, "always"]


def test_the_environment_is_shown_only_on_request(sloth: Cli):
    sloth.add("--clean-env", "--env", "A=1\n\x1b[31m", "--env", "MY_TOKEN=s3cret", "--", "true")
    assert "s3cret" not in sloth("show", "1").text + sloth("show", "1", "--json").text
    lines = sloth("show", "--env", "1").text.splitlines()
    assert lines == sorted(lines)
    assert "A=1\\n\\x1b[31m" in lines and "MY_TOKEN=s3cret" in lines
    (told,) = sloth("show", "--env", "1", "--json").objects
    assert (told["job"], told["env"]["A"]) == (1, "1\n\x1b[31m")
    assert set(told["env"]) == {line.partition("=")[0] for line in lines}


def test_what_has_no_environment_says_so(sloth: Cli):
    from slothqueue import Sloth

    with Sloth(sloth.db) as store:
        store.queue("mail").enqueue({"n": 1})
    assert "job 1 is no command" in sloth.refused("show", "--env", "1", code=2)


def test_a_job_of_an_older_version_says_whose_environment_it_gets(sloth: Cli):
    import sqlite3

    sloth.add("--", "true")
    with sqlite3.connect(sloth.db) as connection:
        (table,) = [
            name
            for (name,) in connection.execute("select name from sqlite_master where type='table'")
            if name.endswith("_env")
        ]
        connection.execute(f"delete from {table}")
    connection.close()
    done = sloth("show", "--env", "1")
    assert (done.out, "it gets that of its worker" in done.err) == (b"", True)
    assert sloth("show", "--env", "1", "--json").objects[0]["env"] is None
