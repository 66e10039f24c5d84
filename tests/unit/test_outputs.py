"""A log that is cut: what is kept of it, and how it is read while that goes on."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slothqueue import caps
from slothqueue.caps import Cap
from slothqueue.outputs import Cut, Kept, Reader, pieces

MOST = 100


class Log:
    """One log: it is written here as a command does, cut as a shim does, read as others do."""

    def __init__(self, path: Path, holes: bool = True) -> None:
        self.path, self.holes = str(path), holes
        self.written = b""
        self.ours = os.open(self.path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self.theirs = os.open(self.path, os.O_RDONLY)
        self.cap = Cap(self.ours, self.path, MOST)
        self.reader = Reader(self.theirs, self.path)

    def write(self, count: int) -> None:
        data = os.urandom(count)
        self.written += data
        os.write(self.ours, data)

    def read(self) -> list[bytes | Cut]:
        found: list[bytes | Cut] = []
        while piece := self.reader.read(40):
            if found and isinstance(piece, bytes) and isinstance(found[-1], bytes):
                found[-1] += piece
            else:
                found.append(piece)
        return found

    def close(self) -> None:
        os.close(self.ours)
        os.close(self.theirs)


@pytest.fixture(params=["holes", "no holes"])
def log(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Log]:
    if request.param == "no holes":
        monkeypatch.setattr(caps, "_free", lambda *_: False)
    made = Log(tmp_path / "1-1-1.log", holes=request.param == "holes")
    yield made
    made.close()


def test_an_empty_log_has_no_pieces(log: Log):
    assert pieces(log.path) == log.read() == []


def test_what_fits_is_not_cut(log: Log):
    log.write(MOST)
    log.cap.cut()
    assert pieces(log.path) == [Kept(0, MOST)]
    assert log.read() == [log.written]
    assert os.listdir(os.path.dirname(log.path)) == ["1-1-1.log"]


def test_head_and_cut_are_told_and_what_comes_after(log: Log):
    log.write(300)
    log.cap.cut()
    log.write(7)
    head, cut, tail = log.read()
    assert isinstance(cut, Cut) and isinstance(tail, bytes)
    assert head == log.written[:50]
    assert log.written.endswith(tail)
    assert cut.length + 50 + len(tail) == 307
    assert cut.length == log.cap.lost
    assert [piece.length for piece in pieces(log.path)] == [50, cut.length, len(tail)]


def test_where_there_are_holes_exactly_so_much_is_kept(tmp_path: Path):
    log = Log(tmp_path / "1-1-1.log")
    for _ in range(20):
        log.write(37)
        log.cap.cut()
    assert pieces(log.path) == [Kept(0, 50), Cut(640), Kept(690, 50)]
    assert log.read() == [log.written[:50], Cut(640), log.written[-50:]]
    assert Path(log.path).read_bytes()[50:690] == bytes(640)
    log.close()


def test_a_reader_that_keeps_up_misses_only_what_is_cut_before_it_comes(log: Log):
    seen, lost = b"", 0
    for count in (30, 60, 500, 10, 10, 200, 3):
        log.write(count)
        log.cap.cut()
        for piece in log.read():
            if isinstance(piece, Cut):
                lost += piece.length
            else:
                assert piece in log.written
                seen += piece
    assert len(seen) + lost >= len(log.written)  # without holes some are both seen and lost
    if log.holes:
        assert len(seen) + lost == len(log.written)
        assert log.written.endswith(seen[-3:])


def test_a_cut_is_known_to_a_reader_after_the_log_is_deleted(log: Log):
    log.write(60)
    assert b"".join(part for part in [log.reader.read(20)] if isinstance(part, bytes))
    log.write(600)
    log.cap.cut()
    log.reader.read(20)  # it has seen that it was cut
    for path in (log.path, log.path + caps.SUFFIX):
        os.unlink(path)
    rest = log.read()
    assert [type(part) for part in rest] == ([bytes, Cut, bytes] if log.holes else [bytes, Cut])
    if log.holes:
        assert isinstance(rest[-1], bytes) and log.written.endswith(rest[-1])


def test_zeros_that_a_command_has_written_are_no_cut(log: Log):
    os.write(log.ours, bytes(MOST))
    assert log.read() == [bytes(MOST)]


def test_a_log_that_its_command_empties_begins_anew(log: Log):
    log.write(300)
    log.cap.cut()
    os.truncate(log.path, 0)
    log.write(20)
    log.cap.cut()
    assert pieces(log.path) == [Kept(0, 20)]
    log.write(400)
    log.cap.cut()
    assert pieces(log.path)[0] == Kept(0, 50)
    assert log.cap.lost >= 320


def test_a_reader_may_begin_behind_the_cut(tmp_path: Path):
    log = Log(tmp_path / "1-1-1.log")
    log.write(300)
    log.cap.cut()
    reader = Reader(log.theirs, log.path, 290)
    assert (reader.read(), reader.offset) == (log.written[290:], 300)
    log.close()


def test_there_is_a_quarter_of_room_before_it_is_cut(log: Log):
    log.write(125)
    log.cap.look()
    assert log.cap.lost == 0
    log.write(1)
    assert log.cap.look() == caps.SHORTEST_PAUSE
    assert log.cap.lost > 0


def test_the_next_look_is_before_the_log_can_be_full(log: Log, monkeypatch: pytest.MonkeyPatch):
    now = log.cap._looked
    monkeypatch.setattr(time, "monotonic", lambda: now)
    now += 0.1
    log.write(25)  # in 0.1 s, and there is room for four times as much
    assert log.cap.look() == pytest.approx(0.2)
    now += 10
    log.write(1)
    assert log.cap.look() == caps.LONGEST_PAUSE
    now += 0.001
    log.write(60)
    assert log.cap.look() == caps.SHORTEST_PAUSE


@pytest.mark.parametrize("text", ["", "1 2", "a b c", "50 0 50"])
def test_a_note_that_says_nothing_is_none(log: Log, text: str):
    Path(log.path + caps.SUFFIX).write_text(text)
    log.write(10)
    assert pieces(log.path) == [Kept(0, 10)]


def test_a_log_that_is_not_there_says_so(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        pieces(str(tmp_path / "none"))


class Ears:
    """What a shim offers to its caps, played by hand."""

    def __init__(self) -> None:
        self.watched: dict[int, Callable[[], object]] = {}
        self.alarm: tuple[float, Callable[[], object]] | None = None

    def caps(self, log: Log) -> caps.Caps:
        return caps.Caps([log.cap], watch=self.watch, ignore=self.ignore, later=self.later)

    def watch(self, file: int, call: Callable[[], object]) -> None:
        self.watched[file] = call

    def ignore(self, file: int) -> None:
        del self.watched[file]

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        self.alarm = (seconds, call)

    def ring(self) -> float:
        """Let the time come for which something is due; how long that was."""
        assert self.alarm is not None
        (seconds, call), self.alarm = self.alarm, None
        call()
        return seconds

    def ring_until_quiet(self) -> None:
        for _ in range(caps.QUIET_LOOKS):
            self.ring()

    def hear(self) -> bool:
        """Whether there was something to hear."""
        ready, _, _ = select.select(list(self.watched), [], [], 0)
        for file in ready:
            self.watched[file]()
        return bool(ready)


@pytest.mark.skipif(sys.platform != "linux", reason="inotify")
def test_who_is_quiet_is_looked_at_when_it_writes_again(log: Log):
    ears = Ears()
    made = ears.caps(log)
    log.write(10)
    ears.ring()
    ears.ring_until_quiet()
    for _ in range(3):
        assert ears.alarm is None  # nobody is woken for it
        assert not ears.hear()
        log.write(1000)
        log.write(1000)
        assert ears.hear()
        assert log.cap.lost > 0
        assert ears.watched == {}
        ears.ring_until_quiet()
    assert made.finish() == log.cap.lost


@pytest.mark.skipif(sys.platform != "linux", reason="inotify")
def test_what_is_written_while_the_watch_is_set_is_seen(log: Log, monkeypatch: pytest.MonkeyPatch):
    ears, real = Ears(), caps._watches
    monkeypatch.setattr(caps, "_watches", lambda *given: log.write(1000) or real(*given))
    ears.caps(log)
    ears.ring_until_quiet()
    assert log.cap.lost > 0


def test_where_nobody_tells_of_growth_a_quiet_log_is_looked_at_once_a_second(
    log: Log, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(caps, "_watcher", lambda: None)
    ears = Ears()
    ears.caps(log)
    ears.ring_until_quiet()
    assert ears.ring() == ears.ring() == caps.BLIND_PAUSE
    log.write(1000)
    assert ears.ring() == caps.BLIND_PAUSE
    assert log.cap.lost > 0
    assert ears.ring() == caps.SHORTEST_PAUSE
    assert ears.watched == {}


def test_a_command_that_was_never_looked_at_is_cut_at_its_end(log: Log):
    made = Ears().caps(log)
    log.write(1000)
    assert made.finish() == log.cap.lost >= 900
