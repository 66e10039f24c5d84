"""The command line as a person meets it: in a real pseudo-terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .cli_support import Cli, Terminal, until

COLOR = "\x1b["


@pytest.fixture
def sloth(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def shown(sloth: Cli, *words: str, columns: int = 80, **env: str | None) -> str:
    """What a terminal of this width has got to see in the end."""
    with Terminal(sloth, *words, columns=columns, **env) as terminal:
        assert terminal.finish() == 0, terminal.seen
        return terminal.seen


def test_there_are_colors_on_a_terminal_only(sloth: Cli):
    sloth("run", "--", "true")
    for words in (["list"], ["status"], ["show", "1"]):
        assert COLOR in shown(sloth, *words)
        assert COLOR not in sloth(*words).text


def test_what_the_user_says_of_colors_counts(sloth: Cli):
    sloth("run", "--", "true")
    assert COLOR not in shown(sloth, "list", NO_COLOR="1")
    assert COLOR not in shown(sloth, "list", NO_COLOR="1", FORCE_COLOR="1")
    assert COLOR not in shown(sloth, "list", TERM="dumb")
    assert COLOR in shown(sloth, "list", NO_COLOR="")
    assert COLOR in sloth("list", FORCE_COLOR="1").text
    assert COLOR not in sloth("list", FORCE_COLOR="0").text


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_tables_fit_the_terminal(sloth: Cli, columns: int):
    sloth.add("--", "echo", "a long word " * 20)
    sloth.add("-q", "media", "--in", "10m", "--", "echo", "寿司" * 60)
    for words in (["list"], ["status"]):
        for line in shown(sloth, *words, columns=columns, NO_COLOR="1").splitlines():
            wide = sum(1 for char in line if char in "寿司")
            assert len(line) + wide <= max(columns, 70), line
    assert "…" in shown(sloth, "list", columns=columns)
    assert "…" not in sloth("list").text
    assert "in 10m" in sloth("list").text


def test_follow_shows_a_partial_line_on_a_terminal(sloth: Cli):
    with sloth.worker():
        sloth.add("--", "sh", "-c", "printf x; sleep 60")
        with Terminal(sloth, "follow", "1") as terminal:
            assert terminal.read_until("x") == "x"
            terminal.type("\x03")
            assert terminal.finish() == 130


def test_interrupting_run_leaves_the_job_and_tells_how_to_find_it(sloth: Cli):
    script = "printf begun; while ! test -e go; do sleep 0.05; done; echo over"
    with sloth.worker():
        with Terminal(sloth, "run", "--", "sh", "-c", script) as terminal:
            terminal.read_until("begun")
            terminal.type("\x03")
            assert terminal.finish() == 130
            assert "job 1 goes on without this; sloth follow 1 shows its output" in terminal.seen
        (sloth.folder / "go").touch()
        assert sloth("wait", "1").text.startswith("job 1 done")
    assert sloth("log", "1").out == b"begunover\n"


def test_interrupting_run_that_works_itself_leaves_the_command_running(sloth: Cli):
    script = "printf begun; while ! test -e go; do sleep 0.05; done; exit 4"
    with Terminal(sloth, "run", "--retries", "0", "--", "sh", "-c", script) as terminal:
        terminal.read_until("begun")
        terminal.type("\x03")
        assert terminal.finish() == 130
        assert "job 1 goes on without this" in terminal.seen
    assert sloth.job(1)["state"] == "running"
    (sloth.folder / "go").touch()
    # Whoever waits settles it, though nobody works any more.
    sloth("wait", "1", code=4)


def test_interrupting_run_before_the_job_starts_tells_what_runs_it(sloth: Cli):
    with Terminal(sloth, "run", "--in", "1h", "--", "true", columns=120) as terminal:
        terminal.read_until("(in 1h)")
        terminal.type("\x03")
        assert terminal.finish() == 130
        assert "job 1 stays in its queue; sloth worker runs it" in terminal.seen
    assert sloth.job(1)["state"] == "queued"


def test_interrupting_wait_gives_130(sloth: Cli):
    sloth.add("--", "true")
    with Terminal(sloth, "wait", "1") as terminal:
        terminal.read_until("until you start one")
        terminal.type("\x03")
        assert terminal.finish() == 130
        assert "sloth: interrupted" in terminal.seen


def test_a_worker_ends_in_order_on_ctrl_c(sloth: Cli):
    sloth.add("--", "sh", "-c", "touch on; sleep 60")
    with Terminal(sloth, "worker", "--grace", "60s") as terminal:
        terminal.read_until("started")
        until((sloth.folder / "on").exists, "the command runs")
        terminal.type("\x03")
        terminal.read_until("stopping: 1 job is running, for up to 1m")
        terminal.type("\x03")
        assert terminal.finish() == 0
    assert sloth.job(1)["state"] == "queued"


EVIL = r"printf 'a\033]0;title\007b\033[31mred\033[0m\r\n\233\377'"


@pytest.mark.parametrize("command", ["log", "follow"])
def test_output_cannot_harm_the_terminal_but_may_have_colors(sloth: Cli, command: str):
    sloth("run", "--", "sh", "-c", EVIL)
    text = shown(sloth, command, "1")
    assert "a\\x1b]0;title\\x07b\x1b[31mred\x1b[0m" in text
    assert "\\x9b\\xff" in text


BAR = r"echo begin; for n in 1 2 3; do printf '\r\033[32m%s0%%\033[0m' $n; done; printf '\nend\n'"


def test_progress_bars_are_folded_on_a_terminal_and_kept_for_programs(sloth: Cli):
    raw = sloth("run", "--", "sh", "-c", BAR).out
    assert raw.count(b"\r") == 3
    assert shown(sloth, "log", "1") == "begin\r\n\x1b[0m\x1b[32m30%\x1b[0m\r\nend\r\n"
    assert shown(sloth, "log", "1", NO_COLOR="1") == "begin\r\n30%\r\nend\r\n"
    assert sloth("log", "1").out == raw
    for command in ("log", "follow"):  # a terminal puts a return before each line end
        assert shown(sloth, command, "1", "--raw") == raw.replace(b"\n", b"\r\n").decode()
        assert "not both" in sloth.refused(command, "1", "--raw", "--json", code=2)


def test_a_progress_bar_is_followed_as_it_moves(sloth: Cli):
    step = "until test -e go$n; do sleep 0.02; done"
    script = f"for n in 1 2; do printf '\\r%s0%%' $n; {step}; done; echo"
    with sloth.worker():
        sloth.add("--", "sh", "-c", script)
        with Terminal(sloth, "follow", "1") as terminal:
            terminal.read_until("10%")
            (sloth.folder / "go1").touch()
            terminal.read_until("\r\x1b[K20%")
            (sloth.folder / "go2").touch()
            assert terminal.finish() == 0
            assert terminal.seen == "10%\r\x1b[K20%\r\n"


def test_names_and_errors_cannot_harm_the_terminal(sloth: Cli):
    sloth("run", "--retries", "0", "--", "sh\x1b]0:x\x07", code=127)
    for words in (["list"], ["show", "1"]):
        text = shown(sloth, *words)
        assert "\x1b]" not in text
        assert "\x07" not in text


def test_the_first_screen_of_a_newcomer_says_what_to_do(sloth: Cli):
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown(sloth))
    assert "sloth add -- make all" in text
