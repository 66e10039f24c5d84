"""Whatever is wrong ends as one line and the right exit code, and never as a traceback."""

from __future__ import annotations

import sqlite3
import subprocess
from pathlib import Path

import pytest

from slothqueue.cli import main

from .cli_support import Cli


@pytest.fixture
def sloth(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("lst", "did you mean `sloth list`"),
        ("frobnicate", "`sloth --help`"),
        ("--frob", "'--frob' is not understood"),
        ("add", "no command to run"),
        ("run", "no command to run"),
        ("cancel", "required: ID"),
        ("cancel 1 --now --grace 1s", "not both"),
        ("hold", "required: ID"),
        ("why x", "'x' is not the id of a job"),
        ("retry", "name the jobs to put back, or give --all-failed"),
        ("retry 1 --all-failed", "name the jobs to put back, or give --all-failed"),
        ("retry 1 -q media", "-q goes with --all-failed"),
        ("edit", "required: ID"),
        ("edit 1 2", "'2' is not understood"),
        ("pause", "required: QUEUE"),
        ("resume", "required: QUEUE"),
        ("queue --concurrency 2", "name the queue whose options are to be set"),
        ("queue q --concurrency 0", "0 is less than 1"),
        ("queue q --rate 10", "rate is so many starts in a time"),
        ("queue q --rate 0/1m", "must be a whole number from 1"),
        ("queue q --ageing 0", "must be longer than zero"),
        ("queue q --backoff x", "--backoff is such as 2 or 3,10m"),
        ("queue q --backoff 2,x", "--backoff is such as 2 or 3,10m"),
        ("queue q --max-attempts none", "not a whole number"),
        ("prune --state done", "goes with --older-than"),
        ("send 1", "nothing to send"),
        ("add --key= -- true", "a key is text of 1 to 1000 characters"),
        ("add --key k=0 -- true", "the number behind the key must be a whole number from 1"),
        ("add --unique= -- true", "a key is text of 1 to 1000 characters"),
        ("add --retries x -- true", "'x' is not a whole number"),
        ("add --retries -1 -- true", "-1 is less than 0"),
        ("add --priority x -- true", "not a whole number"),
        ("add --priority 99999999 -- true", "is more than 1000000"),
        ("add --in 5x -- true", "'5x' is not understood"),
        ("add --in -5m -- true", "expected one argument"),
        ("add --in=-5m -- true", "'-5m' is not understood"),
        ("add --in 9999999999999d -- true", "thousand years"),
        ("add --timeout nan -- true", "'nan' is not understood"),
        ("add --timeout 0 -- true", "must be longer than zero"),
        ("run --timeout 0.0001s -- true", "must be longer than zero"),
        ("add --no-such -- true", "'--no-such' is not understood"),
        ("add a|b", "for a line of shell write `sloth add --shell -- 'a|b'`"),
        ("run $HOME", "there is no program '$HOME'"),
        ("worker --app pkg/jobs.py:app", "write pkg.jobs:app"),
        ("worker --app ./jobs.py", "write jobs:sloth"),
        ("add --at 25:00 -- true", "'25:00' is not understood"),
        ("add --at soon -- true", "--at 'soon' is not understood"),
        ("add --at 10m -- true", "write --in 10m"),
        ("add --at 1/2 -- true", "may be day and month"),
        ("add --in 1m --at 10:00 -- true", "not both"),
        ("add --cwd nowhere -- true", "is not a directory"),
        ("add --shell -- a b", "one text"),
        ("add -q", "expected one argument"),
        ("list --state odd", "invalid choice"),
        ("list -n 0", "0 is less than 1"),
        ("show", "required: ID"),
        ("show x", "'x' is not the id of a job"),
        ("show 1 2", "'2' is not understood"),
        ("show -1", "see `sloth show --help`"),
        ("show 99999999999999999999", "not the id of a job"),
        ("log x", "not the id of a job"),
        ("log 1 -n x", "not a whole number"),
        ("follow 1.5", "not the id of a job"),
        ("wait", "required: ID"),
        ("worker -j 0", "0 is less than 1"),
        ("worker --pool fork", "invalid choice"),
        ("worker --grace x", "'x' is not understood"),
        ("worker now", "'now' is not understood"),
        ("--db", "expected one argument"),
        ("status --db=", "--db is empty"),
    ],
)
def test_bad_usage_gives_2_and_makes_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    said: str,
):
    monkeypatch.setenv("SLOTH_DB", str(tmp_path / "work.db"))
    assert main(words.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sloth: ")
    assert err.count("\n") == 1
    assert said in err
    assert list(tmp_path.iterdir()) == []


def test_words_that_are_not_utf8_are_refused(sloth: Cli):
    assert "not UTF-8" in sloth.refused("add", "--", "echo", b"\xff", code=2)
    sloth.refused("add", "-q", b"\xff", "--", "true", code=2)
    sloth.refused("show", b"\xff", code=2)
    sloth.refused(b"\xff\x1b[31m\n", code=2)


def test_what_the_user_typed_cannot_steer_the_terminal(sloth: Cli):
    assert "\x1b" not in sloth.refused("show", "\x1b[31m", code=2)
    assert "\x1b" not in sloth.refused("\x1b[31m", code=2)


@pytest.mark.parametrize("words", ["show 9", "log 9", "follow 9", "wait 1 9"])
def test_a_job_that_is_not_there_gives_3(sloth: Cli, words: str):
    sloth.add("--", "true")
    assert "there is no job 9" in sloth.refused(*words.split(), code=3)


def test_a_queue_that_is_not_there_is_told(sloth: Cli):
    sloth.add("--", "true")
    assert "there is no queue 'nope'" in sloth.refused("list", "-q", "nope", code=2)


COMMANDS = [
    *(["status"], ["list"], ["show", "1"], ["add", "--", "true"], ["worker", "--until-idle"]),
    ["backup", "copy.db"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_store_that_cannot_be_used_gives_75(sloth: Cli, words: list[str]):
    (sloth.folder / "garbage").write_bytes(b"this is no database, and that is all there is to say")
    for db in ("nowhere/x.db", ".", "garbage"):
        sloth.refused(*words[:1], "--db", db, *words[1:], code=75)


def test_a_store_from_the_future_gives_75(sloth: Cli):
    sloth.add("--", "true")
    with sqlite3.connect(sloth.db) as connection:
        connection.execute("update _sloth_migration set version = version + 998, breaking = 1")
    connection.close()
    for words in COMMANDS:
        sloth.refused(*words, code=75)


def test_a_data_directory_that_cannot_be_made_gives_75(sloth: Cli):
    (sloth.folder / "file").write_text("")
    home = str(sloth.folder / "file")
    refused = sloth.refused("add", "--", "true", SLOTH_DB=None, XDG_DATA_HOME=home, code=75)
    assert "cannot be created" in refused


def test_a_directory_that_is_gone_is_told(sloth: Cli):
    gone = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", gone, "sh", *sloth.python, "add", "--", "true"],
        cwd=sloth.folder,
        env=sloth.env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("sloth: this directory is gone")


def test_a_reader_that_goes_away_is_no_fault(sloth: Cli):
    for _ in range(3):
        sloth.add("--", "true")
    for words in ("list", "list --json", "show 1", "status"):
        code, said = through("true", sloth, words)
        assert (code in (0, 141), said) == (True, "")  # a short text may go before the reader does
    sloth("run", "--", "seq", "200000")
    assert through("head -1", sloth, "log 4") == (141, "")


def through(reader: str, sloth: Cli, words: str) -> tuple[int, str]:
    """The exit code and the complaints of a command whose reader goes away."""
    script = f'{{ {{ "$@"; echo $? >code; }} | {{ {reader} >/dev/null; }}; }} 2>said'
    subprocess.run(
        ["sh", "-c", script, "sh", *sloth.python, *words.split()],
        cwd=sloth.folder,
        env=sloth.env,
        check=True,
    )
    return int((sloth.folder / "code").read_text()), (sloth.folder / "said").read_text()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
def test_an_output_that_cannot_be_written_is_told(sloth: Cli):
    sloth.add("--", "true")
    for words in (["list"], ["show", "1"], ["--version"], ["add", "--", "true"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [*sloth.python, *words],
                env=sloth.env,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
            )
        assert done.returncode == 75, done.stderr
        assert done.stderr.startswith("sloth: the output could not be written: No space left"), (
            done.stderr
        )
        assert len(done.stderr.splitlines()) == 1


def test_closed_streams_are_no_fault(sloth: Cli):
    sloth.add("--", "true")
    for closing in (">&-", "2>&-", "<&-", ">&- 2>&- <&-"):
        script = f'"$@" {closing}'
        done = subprocess.run(
            ["sh", "-c", script, "sh", *sloth.python, "list"], env=sloth.env, capture_output=True
        )
        assert (done.returncode, done.stderr) == (0, b"")
