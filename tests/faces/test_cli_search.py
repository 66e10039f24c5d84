"""Finding text in what jobs have written."""

from __future__ import annotations

import io
import re
import tracemalloc
from pathlib import Path

import pytest

from slothqueue import ManualClock
from slothqueue.cli import searching
from slothqueue.cli.logs import written
from slothqueue.cli.progress import Progress
from slothqueue.cli.searching import Sought, lines_with

from .cli_support import Cli, Terminal


@pytest.fixture(scope="module")
def sloth(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """Three jobs that have written something, one of them twice; only looked at."""
    cli = Cli(tmp_path_factory.mktemp("searched"))
    cli.add("--", "printf", "%s\n", "one", "No space left", "three")
    cli.add("-q", "media", "--", "printf", r"a\033[31mle\033[0mft\tb\n\033]0;left\007\377 Left\n")
    cli.add("--retries", "1", "--", "sh", "-c", "echo left $SLOTH_ATTEMPT; exit 1")
    cli("worker", "--idle-exit", "300ms")
    return cli


def test_lines_are_found_with_job_attempt_and_number(sloth: Cli):
    done = sloth("search", "left")
    assert done.out == b"1:2: No space left\n2:1: aleft\tb\n3.1:1: left 1\n3.2:1: left 2\n"
    assert done.err == ""


def test_nothing_found_is_1_as_with_grep(sloth: Cli):
    assert sloth("search", "nowhere", code=1).out == b""
    assert sloth("search", "--json", "nowhere", code=1).out == b""


def test_nothing_is_found_where_there_is_no_store_yet(tmp_path: Path):
    assert "no jobs yet" in Cli(tmp_path)("search", "x", code=1).err
    assert list(tmp_path.iterdir()) == []


def test_every_option_of_search_means_what_it_says(sloth: Cli):
    def found(*words: str, code: int = 0) -> list[str]:
        lines = sloth("search", *words, code=code).text.splitlines()
        return [line.partition(":")[0] for line in lines]

    assert found("--ignore-case", "LEFT") == ["1", "2", "2", "3.1", "3.2"]
    assert found("LEFT", code=1) == []
    assert found("left", "3", "1") == ["1", "3.1", "3.2"]
    assert found("left", "-q", "media") == found("--queue", "media", "left") == ["2"]
    assert found("left", "--state", "failed") == ["3.1", "3.2"]
    assert found("--regex", r"^left \d$") == ["3.1", "3.2"]
    assert found("l.ft", code=1) == []
    assert found("-n", "2", "left") == ["1", "2"]
    assert "there is more; -n 20 shows more of it" in sloth("search", "-n", "2", "left").err
    assert sloth("search", "-n", "4", "left").err == ""


def test_a_search_tells_objects(sloth: Cli):
    first, *_, last = sloth("search", "--json", "--ignore-case", "left", "2").objects
    assert first == {
        "v": 1,
        "job": 2,
        "attempt": 1,
        "stream": "output",
        "line": 1,
        "text": "aleft\tb",
    }
    assert last["text"] == "\\xff Left"


def test_errors_that_were_kept_apart_are_searched_and_shown(sloth: Cli):
    (log,) = sloth.folder.glob("work.db-logs/1-*.log")
    errors = log.with_suffix(".err")
    errors.write_text("left over\n")
    try:
        found = sloth("search", "--json", "left", "1").objects
        assert [each["stream"] for each in found] == ["output", "errors"]
        assert sloth("log", "1", "--stderr").text == "left over\n"
    finally:
        errors.unlink()
    done = sloth("log", "2", "--stderr")
    assert done.out == b""
    assert "job 2 did not keep its errors apart" in done.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["", "1"], 2, "TEXT is to be found within a line"),
        (["a\nb"], 2, "be one line"),
        (["--regex", "("], 2, "no regular expression"),
        (["x", "99"], 3, "there is no job 99"),
        (["x", "-q", "nowhere"], 2, "there is no queue 'nowhere'"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(
    sloth: Cli, words: list[str], code: int, said: str
):
    assert said in sloth.refused("search", *words, code=code)


def test_bytes_that_are_no_text_can_be_looked_for(sloth: Cli):
    assert sloth("search", b"\xff").out == b"2:2: \\xff Left\n"


def test_matches_are_marked_on_a_terminal_and_nothing_steers_it(sloth: Cli):
    with Terminal(sloth, "search", "--ignore-case", "left") as terminal:
        assert terminal.finish() == 0
    assert "No space \x1b[31mleft\x1b[0m" in terminal.seen
    assert "\\xff \x1b[31mLeft\x1b[0m" in terminal.seen
    assert "\x1b]" not in terminal.seen
    with Terminal(sloth, "search", "left", NO_COLOR="1") as terminal:
        assert terminal.finish() == 0
    assert "\x1b[3" not in terminal.seen


# ---- large files --------------------------------------------------------------------------------


def found(path: Path, text: str, *, literal: bool = True) -> list[tuple[int, str]]:
    search = re.compile(text).search
    parts = written(str(path), chunk=searching.CHUNK)
    return [(n, line) for n, line, _ in lines_with(parts, Sought(search, literal))]


def test_lines_are_numbered_over_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "log"
    path.write_text("".join(f"line {n} {'x' * (n % 97)}\n" for n in range(1, 2001)))
    for size in (64, 1000, 1 << 20):
        monkeypatch.setattr(searching, "CHUNK", size)
        assert [n for n, _ in found(path, "line 19[0-9][0-9] ")] == list(range(1900, 2000))
        assert [n for n, _ in found(path, "^line 7 ", literal=False)] == [7]
        assert found(path, "^$", literal=False) == []


def test_a_line_longer_than_a_chunk_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(searching, "CHUNK", 100)
    monkeypatch.setattr(searching, "OVERLAP", 20)
    path = tmp_path / "log"
    for at in range(0, 400, 7):
        path.write_text("first\n" + "x" * at + "needle" + "x" * (400 - at) + "\nneedle\n")
        assert [n for n, _ in found(path, "needle")] == [2, 3]


def test_a_line_that_draws_over_itself_is_told_in_the_state_that_fits(tmp_path: Path):
    path = tmp_path / "log"
    path.write_text("1% a\r2% b\r3% b\nend b\r\n")
    assert found(path, "b") == [(1, "2% b"), (2, "end b")]
    assert found(path, "b$", literal=False) == [(1, "2% b"), (2, "end b")]


def test_memory_does_not_grow_with_the_file(tmp_path: Path):
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(64 << 20)  # one line of NUL bytes
        file.seek(0, 2)
        file.write(b"\nneedle\n")
    tracemalloc.start()
    try:
        assert [n for n, _ in found(path, "needle")] == [2]
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()


# ---- progress -----------------------------------------------------------------------------------


class Tube(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError


def test_progress_is_shown_on_a_terminal_only_and_only_for_long_work():
    for stream, shown in ((Tube(), True), (io.StringIO(), False)):
        clock = ManualClock()
        with Progress(200, "searching", stream=stream, clock=clock) as progress:
            progress.advance(50)
            assert stream.getvalue() == ""
            clock.advance(1)
            progress.advance(50)
            assert ("searching [##########..........] 50%" in stream.getvalue()) is shown
            before = len(stream.getvalue())
            progress.advance(1)
            assert len(stream.getvalue()) == before
        assert stream.getvalue().endswith("\r\x1b[K") is shown


def test_progress_is_drawn_when_it_looks_different_and_whole_at_the_end():
    stream, clock = Tube(), ManualClock()
    with Progress(soon=0, stream=stream, clock=clock) as progress:
        for fraction in (0, 0.5, 0.501, 0.9):
            progress.show("copy", fraction)
            clock.advance(0.05)
        progress.show("copy", 1.0)
    bars = stream.getvalue().split("\r\x1b[K")
    assert bars == [
        "",
        "copy [....................] 0%",
        "copy [##########..........] 50%",
        "copy [####################] 100%",
        "",
    ]
    with Progress(soon=0, stream=(stream := Tube()), clock=clock) as progress:
        progress.show("copy", 0.5)
        clock.advance(1)
        progress.show("copy", 0.501)
        progress.hide()
        clock.advance(1)
        progress.show("copy", 0.501)
    assert stream.getvalue().count("50%") == 2


def test_no_bar_is_drawn_where_it_could_not_be_taken_away(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "dumb")
    with Progress(soon=0, stream=(stream := Tube())) as progress:
        progress.show("copy", 0.5)
    assert stream.getvalue() == ""
