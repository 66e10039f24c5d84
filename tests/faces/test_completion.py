"""What a shell offers when Tab is pressed: in real shells, and of everything that there is."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from slothqueue import Sloth
from slothqueue.cli import COMMANDS, main
from slothqueue.cli.completing import parser_of

from .cli_support import ROOT, Cli, Terminal

SHELL_DEADLINE = 60


@pytest.fixture(scope="module")
def sloth(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A job that has ended, and two that wait; only looked at."""
    cli = Cli(tmp_path_factory.mktemp("completed"))
    bin = cli.folder / "bin"
    bin.mkdir()
    program = bin / "sloth"
    program.write_text(f'#!/bin/sh\nexec "{cli.python[0]}" -m slothqueue "$@"\n')
    program.chmod(0o755)
    cli.env["PATH"] = f"{bin}{os.pathsep}{cli.env['PATH']}"
    cli("run", "--", "true")
    cli.add("-q", "media", "--", "echo", "it's", "10:30")
    cli.add("-q", "mail", "--in", "1h", "--", "true")
    return cli


def asked(sloth: Cli, *words: str, shell: str = "bash") -> list[str]:
    """The lines that a shell gets for the last of these words."""
    done = sloth("__complete", shell, str(len(words) - 1), *words)
    assert done.err == ""
    return done.text.splitlines()


# ---- what is offered ----------------------------------------------------------------------------


def test_every_command_is_offered(sloth: Cli):
    assert set(asked(sloth, "sloth", "")) == {*COMMANDS, "help"}
    assert asked(sloth, "sloth", "fo") == ["follow"]
    assert asked(sloth, "sloth", "--db", "x.db", "fo") == ["follow"]
    assert asked(sloth, "sloth", "-") == ["--db", "--json", "--help", "--version"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_offered(capsys: pytest.CaptureFixture[str], command: str):
    options = {name for one in parser_of(command)._actions for name in one.option_strings}
    assert {"--db", "--json", "--help"} < options
    assert main(["__complete", "fish", "2", "sloth", command, "-"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert {line[0] for line in lines} == options
    assert all(len(line) == 2 and line[1] for line in lines), "each with what it is"


def test_ids_are_those_that_a_command_is_for(sloth: Cli):
    assert asked(sloth, "sloth", "log", "") == ["2", "3", "1"]
    assert asked(sloth, "sloth", "follow", "") == ["2", "3"]
    assert asked(sloth, "sloth", "wait", "2", "") == ["3"]
    assert asked(sloth, "sloth", "log", "2", "") == []
    assert asked(sloth, "sloth", "search", "") == []
    assert asked(sloth, "sloth", "search", "text", "1", "") == ["2", "3"]


def test_ids_come_with_what_they_are(sloth: Cli):
    assert asked(sloth, "sloth", "log", "2", shell="fish") == ["2\tqueued: echo 'it'\"'\"'s' 10:30"]
    assert asked(sloth, "sloth", "log", "1", shell="zsh") == ["1:done: true"]


def test_values_of_options_are_offered(sloth: Cli):
    assert asked(sloth, "sloth", "list", "-q", "m") == ["mail", "media"]
    assert asked(sloth, "sloth", "add", "--queue", "") == ["default", "mail", "media"]
    assert asked(sloth, "sloth", "list", "--state", "f") == ["failed"]
    assert asked(sloth, "sloth", "list", "--state=f") == ["--state=failed"]
    assert asked(sloth, "sloth", "list", "--state", "=", "f") == ["failed"]
    assert asked(sloth, "sloth", "list", "-n", "") == []
    assert asked(sloth, "sloth", "completion", "") == ["bash", "zsh", "fish"]
    assert (
        asked(sloth, "sloth", "--db", "") == asked(sloth, "sloth", "add", "--cwd", "") == ["!files"]
    )


def test_a_command_of_its_own_is_left_to_the_shell(sloth: Cli):
    assert asked(sloth, "sloth", "add", "--", "l") == ["!command 3"]
    assert asked(sloth, "sloth", "add", "l") == ["!command 2"]
    assert asked(sloth, "sloth", "run", "-q", "media", "ls", "-") == ["!command 4"]


def test_the_store_that_is_named_is_asked(sloth: Cli):
    other = str(sloth.folder / "other.db")
    sloth("--db", other, "add", "-q", "mine", "--", "true")
    assert asked(sloth, "sloth", "--db", other, "list", "-q", "") == ["mine"]
    assert asked(sloth, "sloth", "list", "--db", other, "-q", "") == ["mine"]
    assert asked(sloth, "sloth", "list", f"--db={other}", "-q", "") == ["mine"]


@pytest.mark.parametrize(
    "words",
    [
        ["log", "", "--db", "/nowhere/x.db"],
        ["nonsense", ""],
        ["--nonsense", ""],
        ["help", "lo"],
        ["log", "--db"],
    ],
)
def test_whatever_is_wrong_is_met_with_silence(sloth: Cli, words: list[str]):
    asked(sloth, "sloth", *words)
    assert sloth("__complete").out == sloth("__complete", "bash", "x").out == b""


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path):
    assert asked(Cli(tmp_path), "sloth", "log", "") == []
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_store_is_met_with_silence(tmp_path: Path):
    (tmp_path / "work.db").write_bytes(b"this is no database, and that is all there is to say")
    assert asked(Cli(tmp_path), "sloth", "log", "") == []


def test_a_locked_store_is_only_looked_at(sloth: Cli):
    with Sloth(sloth.db) as store, store.transaction():
        assert asked(sloth, "sloth", "follow", "") == ["2", "3"]


# ---- in real shells -----------------------------------------------------------------------------

BASH = """
source <(sloth completion bash)
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_sloth "$1"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def bash(sloth: Cli, *words: str) -> list[str]:
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH, "bash", *words],
        env=sloth.env,
        cwd=sloth.folder,
        capture_output=True,
        text=True,
        timeout=SHELL_DEADLINE,
    )
    assert done.stderr == ""
    return done.stdout.split()


needs_bash = pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash here")
needs_zsh = pytest.mark.skipif(not shutil.which("zsh"), reason="there is no zsh here")
needs_fish = pytest.mark.skipif(not shutil.which("fish"), reason="there is no fish here")


@needs_bash
def test_bash_completes(sloth: Cli):
    assert bash(sloth, "sloth", "fo") == ["follow"]
    assert bash(sloth, "sloth", "log", "") == ["2", "3", "1"]
    assert bash(sloth, "sloth", "list", "--st") == ["--state"]
    assert bash(sloth, "sloth", "list", "--state", "=", "can") == ["cancelled"]
    assert "printf" in bash(sloth, "sloth", "add", "--", "print")


@needs_bash
def test_bash_completes_at_the_press_of_tab(sloth: Cli):
    shell = Cli(sloth.folder)
    shell.env, shell.python = sloth.env | {"PS1": "> "}, ("bash", "--norc", "-i")
    with Terminal(shell) as terminal:
        terminal.type("source <(sloth completion bash)\n")
        terminal.type("sloth list --db wor\t")
        terminal.read_until("k.db")  # behind a bell, or not
        terminal.type("\x15sloth list --state can\t")
        terminal.read_until("celled")
        terminal.type("\x15exit\n")
        terminal.finish()


@needs_zsh
def test_zsh_completes_at_the_press_of_tab(sloth: Cli):
    shell = Cli(sloth.folder)
    shell.env = sloth.env | {"PS1": "> ", "TERM": "dumb", "ZDOTDIR": str(sloth.folder)}
    shell.python = ("zsh", "-i")
    (sloth.folder / ".zshrc").write_text(
        "autoload -Uz compinit; compinit -u -D; source <(sloth completion zsh)\n"
    )
    with Terminal(shell) as terminal:
        terminal.read_until("> ")
        terminal.type("sloth list --state can\t")
        terminal.read_until("celled")
        terminal.type("\x15sloth log \t")
        terminal.read_until("-- done: true")
        terminal.type("\x15exit\n")
        terminal.finish()


@needs_fish
def test_fish_completes(sloth: Cli):
    script = "sloth completion fish | source; complete -C $argv[1]"

    def complete(line: str) -> list[str]:
        done = subprocess.run(
            ["fish", "--no-config", "-c", script, line],
            env=sloth.env,
            cwd=sloth.folder,
            capture_output=True,
            text=True,
            timeout=SHELL_DEADLINE,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    assert complete("sloth list --state can") == ["cancelled"]
    assert complete("sloth log 1") == ["1\tdone: true"]
    assert "work.db" in complete("sloth list --db work.d")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_says_where_to_put_it(sloth: Cli, shell: str):
    text = sloth("completion", shell).text
    assert "completion for sloth: put this into" in text
    assert f"__complete {shell} " in text


def test_another_shell_is_refused(sloth: Cli):
    assert "invalid choice" in sloth.refused("completion", "csh", code=2)
    assert str(ROOT) not in sloth("completion", "bash").text
