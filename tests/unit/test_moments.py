"""Moments as people write them, in several zones: what is meant; what is refused, with advice."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from zoneinfo import ZoneInfo

import pytest

from slothqueue.cli.moments import Here, moment_of, told
from slothqueue.timing import as_datetime

BERLIN = ZoneInfo("Europe/Berlin")
NOW = dt.datetime(2026, 11, 30, 19, 28, tzinfo=BERLIN)  # a Monday


def read(text: str, now: dt.datetime = NOW) -> str:
    """What was understood, as it is told back."""
    zone = now.tzinfo
    assert zone is not None
    moment = moment_of(text, round(now.timestamp() * 1000), zone)
    return told(as_datetime(moment).astimezone(zone))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("now", "Mon 2026-11-30 19:28 CET"),
        ("19:29", "Mon 2026-11-30 19:29 CET"),
        ("19:28", "Tue 2026-12-01 19:28 CET"),
        ("8:00", "Tue 2026-12-01 08:00 CET"),
        ("8:00:15", "Tue 2026-12-01 08:00:15 CET"),
        ("8am", "Tue 2026-12-01 08:00 CET"),
        ("8 PM", "Mon 2026-11-30 20:00 CET"),
        ("12am", "Tue 2026-12-01 00:00 CET"),
        ("12:30pm", "Tue 2026-12-01 12:30 CET"),
        ("noon", "Tue 2026-12-01 12:00 CET"),
        ("midnight", "Tue 2026-12-01 00:00 CET"),
        ("today 20:00", "Mon 2026-11-30 20:00 CET"),
        ("tomorrow 8:00", "Tue 2026-12-01 08:00 CET"),
        ("noon tomorrow", "Tue 2026-12-01 12:00 CET"),
        ("fri 22:00", "Fri 2026-12-04 22:00 CET"),
        ("on Friday, at 22:00", "Fri 2026-12-04 22:00 CET"),
        ("thurs 0:00", "Thu 2026-12-03 00:00 CET"),
        ("mon 20:00", "Mon 2026-11-30 20:00 CET"),
        ("mon 19:28", "Mon 2026-12-07 19:28 CET"),
        ("31 jan 8:00", "Sun 2027-01-31 08:00 CET"),
        ("30 nov 19:28", "Tue 2027-11-30 19:28 CET"),
        ("Jan 31st, 2030, 8pm", "Thu 2030-01-31 20:00 CET"),
        ("thu 31. january 2030 8:00", "Thu 2030-01-31 08:00 CET"),
        ("29 feb 8:00", "Tue 2028-02-29 08:00 CET"),
        ("3 sept 8:00", "Fri 2027-09-03 08:00 CEST"),
        ("2030-01-31 08:00", "Thu 2030-01-31 08:00 CET"),
        ("2030-01-31T08:00:30", "Thu 2030-01-31 08:00:30 CET"),
        ("2030-07-31T08:00", "Wed 2030-07-31 08:00 CEST"),
        ("2030-01-31T08:00+05:30", "Thu 2030-01-31 03:30 CET"),
        ("2030-01-31 08:00Z", "Thu 2030-01-31 09:00 CET"),
        ("2030-01-31", "Thu 2030-01-31 00:00 CET"),
        ("2020-01-31 08:00", "Fri 2020-01-31 08:00 CET"),
    ],
)
def test_what_people_write_is_understood(text: str, meant: str):
    assert read(text) == meant


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("6", "could be morning or evening; write 6:00, or 6am or 6pm"),
        ("fri 6", "could be morning or evening; write 6:00"),
        ("1/2 8:00", "may be day and month or month and day; write '31 jan 8:00'"),
        ("31.1. 8:00", "may be day and month or month and day"),
        ("next fri 8:00", "may be one of two; 'fri 8:00' is the first to come"),
        ("fri midnight", "may be the night before or after; write 'fri 0:00' or 'fri 23:59'"),
        ("tonight", "is no time of day"),
        ("tomorrow", "names a day; say at what time, such as 'tomorrow 8:00'"),
        ("31 jan", "names a day"),
        ("today 8:00", "has passed; write 'tomorrow 08:00'"),
        ("10m", "for so long from now write --in 10m"),
        ("in 2h 30m", "is not understood"),
        ("in 5min", "write --in 5m"),
        ("soon", "is not understood"),
        ("", "is not understood"),
        ("25:00", "there is no such time of day"),
        ("8:60", "there is no such time of day"),
        ("24:00", "is the start of the next day"),
        ("13pm", "pm goes with 1 to 12"),
        ("0am", "am goes with 1 to 12"),
        ("30 feb 8:00", "there is no such day"),
        ("feb 29 2027 8:00", "there is no such day"),
        ("2030-13-01 8:00", "there is no such day"),
        ("fri 31 jan 8:00", "does not exist: 2027-01-31 is a Sunday"),
        ("fri sat 8:00", "is not understood"),
        ("jan feb 8:00", "is not understood"),
        ("31 jan 2030 2031 8:00", "is not understood"),
        ("1700000000", "is not understood"),
        ("0001-01-01 00:00", "is out of range"),
        ("9999-12-31 23:59", "is out of range"),
        ("2030-01-31T08:00+99:00", "is not understood"),
    ],
)
def test_what_is_ambiguous_or_impossible_is_refused_with_advice(text: str, said: str):
    with pytest.raises(ValueError) as error:
        read(text)
    assert said in str(error.value)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize(
    ("zone", "text", "said"),
    [
        ("Europe/Berlin", "2027-03-28 02:30", "write '2027-03-28 03:30' or an earlier time"),
        ("America/New_York", "14 mar 2027 2:00", "write '2027-03-14 03:00'"),
        ("Australia/Lord_Howe", "2026-10-04 02:15", "write '2026-10-04 02:45'"),
        ("Pacific/Apia", "2011-12-30 12:00", "does not exist"),
    ],
)
def test_a_time_that_is_skipped_is_refused(zone: str, text: str, said: str):
    with pytest.raises(ValueError, match="does not exist") as error:
        read(text, NOW.astimezone(ZoneInfo(zone)))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("zone", "text", "one", "other"),
    [
        ("Europe/Berlin", "2026-10-25 02:30", "+02:00 (CEST)", "+01:00 (CET)"),
        ("America/New_York", "nov 1 2026 1:30am", "-04:00 (EDT)", "-05:00 (EST)"),
        ("Australia/Lord_Howe", "2026-04-05 01:45", "+11:00 (+11)", "+10:30 (+1030)"),
    ],
)
def test_a_time_that_is_there_twice_is_refused_and_can_be_told(
    zone: str, text: str, one: str, other: str
):
    now = NOW.astimezone(ZoneInfo(zone))
    with pytest.raises(ValueError, match="is there twice") as error:
        read(text, now)
    advice = str(error.value).partition("write ")[2]
    assert one in advice and other in advice
    first, second = (part.split(" ")[0] for part in advice.split(" or "))
    assert read(first, now) != read(second, now)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Apia"])
def test_the_day_is_that_of_the_zone(zone: str):
    now = NOW.astimezone(ZoneInfo(zone))
    assert read("tomorrow 0:30", now).split()[1] == str(now.date() + dt.timedelta(days=1))


HERE = """
import datetime as dt
from slothqueue.cli.moments import Here, told
from zoneinfo import ZoneInfo
for month, day, hour in ((1, 1, 0), (7, 1, 0), (10, 25, 0), (10, 25, 1), (3, 29, 0), (3, 29, 1)):
    when = dt.datetime(2026, month, day, hour, 30, tzinfo=dt.UTC)
    ours, known = when.astimezone(Here()), when.astimezone(ZoneInfo("Europe/Berlin"))
    assert ours.timestamp() == when.timestamp() and ours.fold == known.fold, (ours, known)
    assert told(ours) == told(known), (told(ours), told(known))
    assert ours.utcoffset() == known.utcoffset()
"""


@pytest.mark.parametrize("zone", ["Europe/Berlin", ":Europe/Berlin", "CET-1CEST,M3.5.0,M10.5.0/3"])
def test_the_zone_of_this_machine_is_that_of_its_library(zone: str):
    subprocess.run([sys.executable, "-c", HERE], env={**os.environ, "TZ": zone}, check=True)


def test_a_moment_is_placed_here():
    now = round(NOW.timestamp() * 1000)
    here = as_datetime(moment_of("2030-01-31 08:00", now, Here()))
    assert here == dt.datetime(2030, 1, 31, 8).astimezone()
