"""What the README, the tutorial and the guides show is what happens: every block of theirs runs.

A block is known by its fence:

* ```` ```python title="shop.py" ```` is written to that file;
* ```` ```python ```` runs in one interpreter per page, block after block;
* ```` ```console ```` runs in a shell, the lines that begin with `$`; what is exported stays so;
* ```` ```text ```` right after a python block is what that block prints; elsewhere it is only read.

What a block shows must be what it prints. Spaces count as one; `...` stands for anything within a
line, and on a line of its own for any number of lines.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "index.md",
    ROOT / "docs" / "tutorial.md",
    *sorted((ROOT / "docs" / "guides").glob("*.md")),
]
PATIENCE = 60.0
_BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')

INTERPRETER = """
import contextlib, io, json, sys, traceback
names = {"__name__": "slothqueue_page"}
for line in sys.stdin:
    code, out = json.loads(line), io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(code, "<page>", "exec"), names)
        wrong = None
    except BaseException:
        wrong = traceback.format_exc()
    print(json.dumps([out.getvalue(), wrong]), flush=True)
"""


class Block(NamedTuple):
    """One fenced block of a page."""

    language: str
    title: str | None
    text: str
    line: int
    follows: bool
    """Whether nothing stands between this block and the one before."""


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in their order."""
    end = 0
    for match in _BLOCK.finditer(text):
        language, rest, body = match.groups()
        title = _TITLE.search(rest)
        between = text[end : match.start()]
        line = text.count("\n", 0, match.start()) + 1
        yield Block(language, title and title[1], body, line, not between.strip())
        end = match.end()


def dialogue(text: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output that is shown below it."""
    parts: list[tuple[str, str]] = []
    for line in text.splitlines(keepends=True):
        if line.startswith("$ "):
            parts.append((line[2:], ""))
        elif line.startswith("> "):
            command, shown = parts[-1]
            parts[-1] = (command + line[2:], shown)
        else:
            command, shown = parts[-1]
            parts[-1] = (command, shown + line)
    return parts


def matches(shown: str, printed: str) -> bool:
    """Whether what a page shows is what was printed."""
    wanted, found = _lines(shown), _lines(printed)
    pattern = "".join(
        r"(?:.*\n)*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n"
        for line in wanted
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in found)) is not None


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.strip().splitlines()]


class Reader:
    """Somebody who types what a page shows, in a directory of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._home, self._aside = folder.parent / "home", folder.parent / "aside"
        self._home.mkdir()
        self._aside.mkdir()
        self._make_programs(folder.parent / "bin")
        self._interpreter: subprocess.Popen[str] | None = None

    def _make_programs(self, bin: Path) -> None:
        bin.mkdir()
        for name, more in (("sloth", "-m slothqueue "), ("python", "")):
            program = bin / name
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {more}"$@"\n')
            program.chmod(0o755)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLOTH_", "XDG_"))}
        self._environment = kept | {
            "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "HOME": str(self._home),
            "NO_COLOR": "1",
            "SLOTH_AUTOSTART": "0",
        }

    def read(self, page: Iterator[Block]) -> None:
        """Do what every block says. Fails at the first that shows something else."""
        printed = None
        for block in page:
            if block.language == "text" and block.follows and printed is not None:
                _compare(block.line, "the block above", block.text, printed)
            printed = self._do(block)

    def _do(self, block: Block) -> str | None:
        if block.language == "python" and block.title:
            (self.folder / block.title).write_text(block.text)
        elif block.language == "python":
            return self._execute(block)
        elif block.language == "console":
            self._converse(block)
        return None

    def _execute(self, block: Block) -> str:
        if self._interpreter is None:
            self._interpreter = self._start(
                [sys.executable, "-c", INTERPRETER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        assert self._interpreter.stdin and self._interpreter.stdout
        self._interpreter.stdin.write(json.dumps("\n" * block.line + block.text) + "\n")
        self._interpreter.stdin.flush()
        answer = self._interpreter.stdout.readline()
        assert answer, f"line {block.line}: the interpreter has ended"
        printed, wrong = json.loads(answer)
        assert wrong is None, f"line {block.line}: {wrong}"
        return str(printed)

    def _converse(self, block: Block) -> None:
        asked = dialogue(block.text)
        outputs = [self._aside / f"{block.line}-{n}" for n in range(len(asked))]
        script = "".join(
            f"{{ {command.rstrip()}\n}} >'{output}' 2>&1\n"
            for (command, _), output in zip(asked, outputs)
        )
        self._run_in_shell(script)
        for (command, shown), output in zip(asked, outputs):
            _compare(block.line, command.strip(), shown, output.read_text())

    def _run_in_shell(self, script: str) -> None:
        """Run a script that begins with what the ones before have exported."""
        exports = self._aside / "exports"
        before = f". '{exports}'\n" if exports.exists() else ""
        shell = self._start(
            ["sh", "-c", f"{before}{script}export -p >'{exports}'\n"], stdin=subprocess.DEVNULL
        )
        try:
            shell.wait(PATIENCE)
        finally:
            self._end(shell)

    def _start(self, argv: list[str], **more: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            argv,
            cwd=self.folder,
            env=self._environment,
            text=True,
            start_new_session=True,
            **more,
        )

    def _end(self, process: subprocess.Popen[str]) -> None:
        """End a process with all that it left in the background."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def close(self) -> None:
        if self._interpreter is None:
            return
        assert self._interpreter.stdin and self._interpreter.stdout
        self._interpreter.stdin.close()
        self._interpreter.stdout.close()
        self._end(self._interpreter)


def _compare(line: int, what: str, shown: str, printed: str) -> None:
    if not matches(shown, printed):
        pytest.fail(
            f"line {line}, {what}\n--- the page shows\n{shown}\n--- it prints\n{printed}",
            pytrace=False,
        )


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    (tmp_path / "work").mkdir()
    reader = Reader(tmp_path / "work")
    yield reader
    reader.close()


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_what_a_page_shows_is_what_happens(page: Path, reader: Reader):
    reader.read(blocks(page.read_text(encoding="utf-8")))


def test_every_page_that_is_read_has_something_to_run():
    runnable = {
        page.name
        for page in PAGES
        if any(b.language in ("python", "console") for b in blocks(page.read_text("utf-8")))
    }
    assert {"README.md", "tutorial.md", "jobs.md", "commands.md", "functions.md"} <= runnable


def test_a_page_that_shows_something_else_is_noticed(reader: Reader):
    page = '```python\nprint("one")\n```\n```text\ntwo\n```\n'
    with pytest.raises(pytest.fail.Exception, match="two"):
        reader.read(blocks(page))


def test_a_command_that_prints_something_else_is_noticed(reader: Reader):
    with pytest.raises(pytest.fail.Exception, match="hello"):
        reader.read(blocks("```console\n$ true\n$ echo hello\nbye\n```\n"))


def test_a_block_that_raises_is_noticed(reader: Reader):
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        reader.read(blocks("```python\n1 / 0\n```\n"))


def test_three_dots_stand_for_anything_and_nothing_else_does():
    assert matches("a ... c\n...\nz", "a  b c\nd\ne\nz\n")
    assert not matches("a ... c", "a b d")
    assert not matches("a\nb", "a")
    assert not matches("", "something")
