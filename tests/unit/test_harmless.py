"""Output of others on a terminal: what passes, what is shown instead, what is folded."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slothqueue.cli import harmless
from slothqueue.cli.harmless import Fold


def shown(*pieces: bytes | str, live: bool = False, colored: bool = True) -> str:
    """All that a terminal gets of output that comes in these pieces."""
    written: list[str] = []
    fold = Fold(written.append, live=live, colored=colored)
    for piece in pieces:
        fold.feed(piece.encode() if isinstance(piece, str) else piece)
    fold.end()
    return "".join(written)


@pytest.mark.parametrize(
    ("output", "seen"),
    [
        ("a\tb\nc\n", "a\tb\nc\n"),
        ("no end", "no end"),
        ("dos\r\nends\r\n", "dos\nends\n"),
        ("\n\n", "\n\n"),
        # drawn over
        (" 1%\r 2%\r100%\n", "100%\n"),
        ("100%\rok\n", "ok\n"),
        ("100%\r", "100%"),
        ("100%\r\x1b[K\n", "\n"),
        ("100%\r\x1b[2Kdone\n", "done\n"),
        ("1%\x1b[K\r2%\x1b[K\n", "2%\n"),
        ("\x1b[?25l1%\r2%\x1b[?25h\n", "2%\n"),
        # colors
        ("\x1b[1;31mred\x1b[0m\n", "\x1b[1;31mred\x1b[0m\n"),
        ("\x1b[38:5:1mred\x1b[m\n", "\x1b[38:5:1mred\x1b[m\n"),
        ("\x1b[31mleft so", "\x1b[31mleft so\x1b[0m"),
        ("\x1b[31m1%\x1b[0m\r2%\n", "\x1b[0m2%\n"),
        ("\x1b[31m1%\r2%\n", "\x1b[31m2%\n\x1b[0m"),
        ("\x1b[31m1%\r\x1b[0m\n", "\x1b[31m1%\x1b[31m\x1b[0m\n"),
        # what could steer
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x1b]52;c;aGk=\x1b\\", "\\x1b]52;c;aGk=\\x1b\\"),
        ("\x1b[2J\x1b[H\x1b[10A", "\\x1b[2J\\x1b[H\\x1b[10A"),
        ("\x1bP1$r\x1b\\", "\\x1bP1$r\\x1b\\"),
        ("\x9b31m\x00\x08\x0e", "\\x9b31m\\x00\\x08\\x0e"),
        ("\u202eabc", "\\u202eabc"),
        ("\x1b[", "\\x1b["),
        ("\x1b", "\\x1b"),
    ],
)
def test_what_a_terminal_gets(output: str, seen: str):
    assert shown(output) == seen


def test_bytes_that_are_no_text_are_shown():
    assert shown(b"\xff\xc3", b"\xa4\xe2") == "\\xffä\\xe2"


def test_without_colors_none_pass():
    assert shown("\x1b[31mred\x1b[0m\n", colored=False) == "red\n"


def test_what_is_live_is_seen_before_its_line_has_ended():
    written: list[str] = []
    fold = Fold(written.append, live=True, colored=True)
    seen = []
    for piece in (b"ab", b"c", b"\r", b"x", b"\r\n", b"\x1b", b"[31", b"mred", b"\n"):
        fold.feed(piece)
        seen.append("".join(written))
        written.clear()
    assert seen == ["ab", "c", "", "\r\x1b[Kx", "\n", "", "", "\x1b[31mred", "\n"]


def test_many_changes_at_once_are_drawn_once():
    assert shown("".join(f"{n}%\r" for n in range(101)), "\n", live=True) == "100%\n"


def test_a_line_without_end_is_written_as_it_comes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(harmless, "LONGEST", 10)
    assert shown("x" * 95) == "x" * 95
    assert shown("x" * 95 + "\rnew\n") == "x" * 95 + "\nnew\n"
    fold = Fold(lambda text: None, live=False, colored=True)
    for _ in range(100):
        fold.feed(b"y" * 7)
    assert fold._size <= 20


def test_colors_without_end_are_not_kept():
    fold = Fold(lambda text: None, live=False, colored=True)
    for n in range(1000):
        fold.feed(b"\x1b[3%dm%d%%\r" % (n % 8, n))
    assert len(fold._parts) <= harmless.MOST_COLORS


FRAGMENTS = st.sampled_from(
    [b"\r", b"\n", b"\x1b[", b"31m", b"\x1b[0m", b"K", b"]0;", b"\x07", b"ab", b"\xc3\xa4", b"\xff"]
)


@given(st.lists(FRAGMENTS | st.binary(max_size=6), max_size=30), st.integers(1, 7))
def test_however_it_comes_the_same_is_shown_and_nothing_that_steers(output: list[bytes], step: int):
    whole = b"".join(output)
    once = shown(whole)
    assert once == shown(*(whole[at : at + step] for at in range(0, len(whole), step)))
    left = re.sub(r"\x1b\[[0-9;:]*m|[\n\t]", "", once)
    assert left == "" or left.isprintable()
    live = shown(*output, live=True).replace("\r\x1b[K", "")
    rest = re.sub(r"\x1b\[[0-9;:]*m|[\n\t]", "", live)
    assert rest == "" or rest.isprintable()


@given(st.lists(FRAGMENTS | st.binary(max_size=6), max_size=30))
def test_what_was_live_ends_as_what_was_not(output: list[bytes]):
    live = shown(*output, live=True)
    lines = (line.rpartition("\r\x1b[K")[2] for line in live.split("\n"))
    assert [_plain(line) for line in lines] == [_plain(line) for line in shown(*output).split("\n")]


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;:]*m", "", text)
