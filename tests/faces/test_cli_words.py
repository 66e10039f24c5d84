"""The words that the command line makes of what it is given: times, widths, harmless text."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from slothqueue.cli import main
from slothqueue.cli.screen import columns_of, cut, one_line, rough, safe, since
from slothqueue.storage.sqlite import SqliteStore

NOON = dt.datetime(2030, 6, 1, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0s"), (59, "59s"), (60, "1m"), (599, "10m"), (3599, "1h"), (7200, "2h"), (200_000, "2d")],
)
def test_a_span_is_told_in_its_largest_unit(seconds: int, said: str):
    assert rough(dt.timedelta(seconds=seconds)) == said


def test_a_moment_is_told_from_now():
    assert since(NOON + dt.timedelta(minutes=10), NOON) == "in 10m"
    assert since(NOON - dt.timedelta(hours=3), NOON) == "3h ago"
    assert since(NOON, NOON) == "just now"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("héllo 寿司", "héllo 寿司"),
        ("a\x1b[2Jb\x07", "a\\x1b[2Jb\\x07"),
        ("\u202eabc", "\\u202eabc"),
        ("\udcff", "\\xff"),
        ("\x9b", "\\x9b"),
    ],
)
def test_control_characters_are_shown_instead_of_obeyed(text: str, shown: str):
    assert safe(text) == shown


def test_a_text_of_many_lines_becomes_one():
    assert one_line(" a\n\tb\r\n") == "a b"


def test_a_text_is_cut_by_the_columns_that_it_takes():
    assert (columns_of("寿司"), columns_of("e\u0301")) == (4, 1)
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdef", 4) == "abc…"
    assert columns_of(cut("寿司寿司", 5)) <= 5
    assert cut("abc", 0) == ""


def test_status_warns_of_a_log_that_cannot_be_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    db = str(tmp_path / "work.db")
    assert main(["add", "--db", db, "--", "true"]) == 0
    monkeypatch.setattr(SqliteStore, "log_bytes", lambda self: 70_000_000)
    assert main(["--db", db]) == 0
    assert "has grown to 70 MB: a reader keeps the log from being reused" in capsys.readouterr().err
