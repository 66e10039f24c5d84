"""The tour is a transcript: here it is done once more, in a real terminal.

A shell sits in a pseudo-terminal and is typed to what the page shows behind `$` and `>`. What the
page shows below is what must be on the screen then, as in `test_readme.py`; `^C` is typed, too.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cli_support import ROOT, Cli, Terminal, until, workers
from .test_readme import blocks, dialogue, matches

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
    pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here"),
]

TOUR = ROOT / "docs" / "tour.md"
READY, MORE = "\x1b]7;ready\x07", "\x1b]7;more\x07"
"""Nothing that is seen: what the prompts of the shell have in them, for us."""

CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\))")
INTERRUPT = "^C"


class Newcomer:
    """Somebody at a terminal of their own, with `sloth` and nothing else of ours."""

    def __init__(self, folder: Path) -> None:
        self.cli = cli = Cli(folder / "home")
        bin = folder / "bin"
        for place in (cli.folder, bin):
            place.mkdir()
        program = bin / "sloth"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m slothqueue "$@"\n')
        program.chmod(0o755)
        self.db = cli.folder / "data" / "slothqueue" / "sloth.db"
        del cli.env["SLOTH_DB"], cli.env["SLOTH_AUTOSTART"]
        cli.env |= {
            "PATH": f"{bin}{os.pathsep}{cli.env['PATH']}",
            "XDG_DATA_HOME": str(cli.folder / "data"),
            "PS1": f"{READY}$ ",
            "PS2": f"{MORE}> ",
            "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
            "HISTFILE": "",
        }
        cli.python = ("bash", "--norc", "--noprofile", "--noediting", "-i")
        self.terminal = Terminal(cli, columns=80)
        self.terminal.read_until(READY)

    def type(self, command: str, shown: str) -> str:
        """What is on the screen below a command once it has ended."""
        *first, last = command.rstrip("\n").split("\n")
        for line in first:
            self._enter(line, MORE)
        before, interrupted, _ = shown.partition(INTERRUPT)
        self._enter(last, "\n")
        self.terminal.seen = self._taken().partition("\n")[2]  # without what was typed
        if interrupted:
            self.terminal.read_until(before.strip().splitlines()[-1])
            self.terminal.type("\x03")
        self.terminal.read_until(READY)
        return rendered(self._taken().removesuffix("$ "))

    def _enter(self, line: str, then: str) -> None:
        self._taken()
        self.terminal.type(f"{line}\n")
        self.terminal.read_until(then)

    def _taken(self) -> str:
        """What has appeared since we were asked last."""
        seen, self.terminal.seen = self.terminal.seen, ""
        return seen

    def leave(self) -> None:
        self.terminal.__exit__()
        for pid in workers(self.db):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        until(lambda: not workers(self.db), "the background workers have ended")


def rendered(text: str) -> str:
    """What a terminal shows of this: lines that were drawn over as they are in the end."""
    return "\n".join(_drawn(line) for line in text.replace("\r\n", "\n").split("\n"))


def _drawn(line: str) -> str:
    shown = ""
    for part in line.split("\r"):
        if "\x1b[K" in part:
            shown = ""
        part = CONTROL.sub("", part)
        shown = part + shown[len(part) :]
    return shown


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    newcomer = Newcomer(tmp_path)
    yield newcomer
    newcomer.leave()


def test_the_tour_is_what_happens(newcomer: Newcomer):
    done: list[str] = []
    for block in blocks(TOUR.read_text(encoding="utf-8")):
        if block.language != "console":
            continue
        for command, shown in dialogue(block.text):
            screen = newcomer.type(command, shown)
            done.append(f"$ {command.rstrip()}\n{screen}")
            if not matches(shown, screen):
                tale = "".join(done[-4:])
                pytest.fail(
                    f"line {block.line}\n--- the page shows\n{shown}\n--- the screen\n{tale}",
                    pytrace=False,
                )
    assert len(done) > 30


def test_a_screen_is_read_as_a_person_sees_it():
    assert rendered("a\r\n 1%\r 50%\r100%\r\n\x1b[31mred\x1b[0m\r\n") == "a\n100%\nred\n"
    assert rendered("working [##]\r\x1b[Kdone\r\n") == "done\n"
    assert rendered(f"{READY}x\x1b]0;title\x1b\\y") == "xy"


def test_what_is_typed_and_interrupted_is_seen(newcomer: Newcomer):
    assert newcomer.type("cat <<END\n> one\n> END\n".replace("> ", ""), "one\n") == "one\n"
    # One program, for a shell between two of its own is deaf for a moment.
    assert newcomer.type("sh -c 'echo on; exec sleep 60'\n", "on\n^C\n") == "on\n^C\n"
    assert newcomer.type("stty size\n", "24 80\n") == "24 80\n"
