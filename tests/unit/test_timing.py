"""The rules about time: pure functions of numbers and text."""

from __future__ import annotations

import datetime as dt

import pytest

from slothqueue.timing import LONGEST, as_datetime, back_off, millis, moment, some_millis, spoken

UTC = dt.UTC


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (0, 0),
        (0.0, 0),
        (1, 1_000),
        (0.25, 250),
        (1e-9, 0),
        ("0", 0),
        ("90", 90_000),
        ("1.5", 1_500),
        ("250ms", 250),
        ("1.5s", 1_500),
        ("10m", 600_000),
        ("2h30m", 9_000_000),
        (" 2h 30m ", 9_000_000),
        ("1D", 86_400_000),
        ("1w", 604_800_000),
        ("1d12h", 129_600_000),
        (dt.timedelta(minutes=2, milliseconds=3), 120_003),
    ],
)
def test_a_duration_is_seconds_or_a_timedelta_or_text(duration: object, expected: int):
    assert millis(duration) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "duration",
    [
        -1,
        -0.001,
        "-1s",
        "",
        " ",
        "soon",
        "10 minutes",
        "1m!",
        "m",
        "1h-2m",
        "1e3",
        "nan",
        "inf",
        "1.2.3s",
        float("nan"),
        float("inf"),
        10**30,
        10**400,
        "9" * 400,
        True,
        False,
        None,
        b"1",
        [1],
        1j,
        dt.timedelta(microseconds=-1000),
        dt.timedelta.max,
        dt.datetime(2025, 1, 1),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_duration_that_makes_no_sense_is_refused_by_name(duration: object):
    with pytest.raises(ValueError, match="delay"):
        millis(duration, what="delay")  # type: ignore[arg-type]


def test_a_thousand_years_is_the_longest_duration():
    assert millis(LONGEST / 1000) == LONGEST
    with pytest.raises(ValueError, match="thousand years"):
        millis(LONGEST / 1000 + 1)


def test_a_moment_is_an_aware_datetime_or_iso_text():
    at = dt.datetime(2030, 1, 31, 8, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    assert moment(at) == 1_896_073_200_000
    assert moment("2030-01-31T08:00:00+01:00") == moment(" 2030-01-31 07:00Z ") == moment(at)
    assert moment("1970-01-01T00:00:00Z") == 0
    assert moment("1969-12-31T23:59:59Z") == -1_000
    assert as_datetime(moment(at)) == at
    assert as_datetime(moment(at)).tzinfo is UTC


@pytest.mark.parametrize(
    "when",
    [
        dt.datetime(2030, 1, 1),
        "2030-01-01T00:00:00",
        "2030-01-01",
        "tomorrow",
        "",
        dt.date(2030, 1, 1),
        0,
        None,
    ],
    ids=repr,
)
def test_a_moment_without_a_zone_is_not_guessed_at(when: object):
    with pytest.raises(ValueError, match="run_at"):
        moment(when)  # type: ignore[arg-type]


def test_back_off_is_the_base_to_the_power_of_the_attempt():
    assert [back_off(n, base=2, cap=3_600_000) for n in (1, 2, 3, 4)] == [2000, 4000, 8000, 16000]
    assert [back_off(n, base=1.5, cap=3_600_000) for n in (1, 2)] == [1500, 2250]


def test_back_off_stops_at_the_cap():
    assert [back_off(n, base=2, cap=5_000) for n in (1, 2, 3, 4)] == [2000, 4000, 5000, 5000]
    assert back_off(12, base=2, cap=3_600_000) == 3_600_000
    assert back_off(1_000_000, base=2.0, cap=3_600_000) == 3_600_000
    assert back_off(1_000_000, base=1e6, cap=7) == 7


def test_a_base_of_zero_or_one_means_a_constant_wait():
    assert [back_off(n, base=0, cap=5_000) for n in (1, 2, 99)] == [0, 0, 0]
    assert [back_off(n, base=1, cap=5_000) for n in (1, 2, 99)] == [1000, 1000, 1000]


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (0, "0ms"),
        (850, "850ms"),
        (2_000, "2s"),
        (3_200, "3.2s"),
        (59_949, "59.9s"),
        (60_000, "1m"),
        (330_000, "5m 30s"),
        (7_500_000, "2h 5m"),
        (3_600_000, "1h"),
        (273_600_000, "3d 4h"),
    ],
)
def test_a_duration_is_told_the_way_people_say_it(duration: int, expected: str):
    assert spoken(duration) == expected


def test_no_duration_is_told_as_sixty_of_a_unit():
    told = {spoken(duration) for duration in range(59_000, 62_000)}
    assert not {text for text in told if text.startswith("60")}


def test_where_nothing_makes_no_sense_it_is_refused():
    assert some_millis("1ms", what="timeout") == 1
    for nothing in (0, "0s", 0.0001):
        with pytest.raises(ValueError, match="timeout must be longer than zero"):
            some_millis(nothing, what="timeout")
