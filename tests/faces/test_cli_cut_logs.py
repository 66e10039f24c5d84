"""Output of which the middle was cut: how it is shown, searched and counted."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slothqueue import caps
from slothqueue.caps import Cap
from slothqueue.cli import status
from slothqueue.cli.logs import written
from slothqueue.outputs import Cut

from .cli_support import Cli, Terminal, until

MOST = 40
LINES = b"".join(b"line %03d\n" % n for n in range(100))  # of 9 bytes


@pytest.fixture(params=["holes", "no holes"])
def sloth(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cli]:
    """Job 1 has written a hundred lines of which 40 bytes are kept; job 2 two."""
    if request.param == "no holes":
        monkeypatch.setattr(caps, "_free", lambda *_: False)
    cli = Cli(tmp_path)
    cli.add("--", "true")
    cli.add("--", "printf", "%s\n", "one", "line 050")
    cli("worker", "--until-idle")
    write(log_of(cli), LINES[:-20], LINES[-20:])
    yield cli


def log_of(cli: Cli) -> Path:
    (path,) = cli.folder.glob("work.db-logs/1-*.log")
    return path


def write(path: Path, data: bytes, behind: bytes) -> None:
    """Write to a log, and cut it, as a command and its shim do; and write on."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(file, data)
    Cap(file, str(path), MOST).cut()
    os.write(file, behind)
    os.close(file)


def shown(cli: Cli, *words: str) -> bytes:
    return cli("log", "1", *words).out


def lost(cli: Cli) -> int:
    """How many bytes are missing: without holes, all that was behind the head."""
    (cut,) = [part.length for part in written(str(log_of(cli))) if isinstance(part, Cut)]
    assert cut in (840, 860)
    return cut


def test_a_cut_is_shown_in_its_place(sloth: Cli):
    head, told, tail = shown(sloth).partition(f"\n... {lost(sloth)} B cut ...\n".encode())
    assert told and LINES.startswith(head) and LINES.endswith(tail)
    assert len(head) + len(tail) + lost(sloth) == len(LINES)
    with Terminal(sloth, "log", "1") as terminal:
        assert terminal.finish() == 0
    assert f"... {lost(sloth)} B cut ..." in terminal.seen and "\0" not in terminal.seen


def test_a_cut_is_an_object_for_programs(sloth: Cli):
    objects = sloth("log", "1", "--json").objects
    (cut,) = [one for one in objects if "cut" in one]
    assert cut["cut"] == lost(sloth) and cut["text"] == f"... {lost(sloth)} B cut ..."
    lines = shown(sloth).decode().splitlines()
    assert [one["text"] for one in objects] == lines
    assert [one["line"] for one in objects] == list(range(1, len(lines) + 1))


def test_the_last_lines_are_counted_over_a_cut(sloth: Cli):
    lines = shown(sloth).splitlines(keepends=True)
    mark = lines.index(f"... {lost(sloth)} B cut ...\n".encode())
    behind = len(lines) - mark - 1
    for n in range(1, behind):
        assert shown(sloth, "-n", str(n)) == b"".join(lines[-n:])
    assert shown(sloth, "-n", str(behind)) == b"\n" + b"".join(lines[mark:])
    assert shown(sloth, "-n", str(behind + 1)) == b"".join(lines[mark - 1 :])
    assert shown(sloth, "-n", "1000") == b"".join(lines)
    assert shown(sloth, "-n", "0") == b""


def test_what_was_cut_is_not_searched_and_that_is_told(sloth: Cli):
    done = sloth("search", "line 0")
    numbered = list(enumerate(shown(sloth).decode().splitlines(), 1))
    assert done.text.splitlines() == [
        *(f"1:{n}: {line}" for n, line in numbered if "line 0" in line),
        "2:2: line 050",
    ]
    assert (
        f"... {lost(sloth)} B cut ... of this output was not kept, so it was not searched"
        in done.err
    )
    assert sloth("search", "line", "2").err == ""


def test_status_counts_what_is_on_the_disk(tmp_path: Path):
    with open(tmp_path / "1-1-1.log", "wb") as file:
        file.truncate(1 << 30)
    (tmp_path / "1-1-1.err").write_bytes(b"x" * 10)
    assert status._output(str(tmp_path)) == (2, (1 << 30) + 10)
    (tmp_path / "1-1-1.log.cut").write_bytes(b"1 2 3\n")
    assert status._output(str(tmp_path)) == (2, 10)
    assert status._output(str(tmp_path / "none")) == (0, 0)


WRITER = """
import sys
for n in range(int(sys.argv[1])):
    sys.stdout.write(f"{n:063d}\\n")
"""


def test_a_log_that_is_being_cut_never_shows_zeros(tmp_path: Path):
    """The follower may keep up or not: what it shows are whole pieces of what was written."""
    cli = Cli(tmp_path)
    (tmp_path / "writer.py").write_text(WRITER)
    words = ("--max-output", "64kB", "--", sys.executable, "writer.py", "200000")
    done = cli("run", "--no-start", *words)
    assert b"\0" not in done.out
    last = -1
    for line in done.out.splitlines():
        if len(line) == 63 and line.isdigit():
            assert int(line) > last
            last = int(line)
    assert last == 199_999
    kept = cli("log", "1").out
    assert b" cut ...\n" in kept and b"\0" not in kept
    assert cli("log", "1", "-n", "1").out == b"%063d\n" % last


def test_the_end_of_a_log_is_found_while_it_is_cut(tmp_path: Path):
    cli = Cli(tmp_path)
    (tmp_path / "writer.py").write_text("while True: print('x' * 99)\n")
    cli.add("--max-output", "64kB", "--", sys.executable, "writer.py")
    with cli.worker():
        until(lambda: [*tmp_path.glob("work.db-logs/*.cut")], "it was cut")
        with Terminal(cli, "follow", "1") as terminal:
            terminal.read_until(" cut ...")
            for _ in range(10):
                found = cli("log", "1", "-n", "3").out
                assert b"\0" not in found and b"x" in found
                assert b"\0" not in cli("log", "1").out
            terminal.type("\x03")
            terminal.finish()
        assert "\0" not in terminal.seen
