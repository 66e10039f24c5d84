"""Moments as people write them: `18:30`, `fri 22:00`, `tomorrow noon`, `31 jan 8:00`, ISO.

A pure parser: it is given the present moment and the zone. What could mean two things, or is no
moment at all, is refused with what to write instead; nothing is guessed.
"""

from __future__ import annotations

import datetime as dt
import re
from calendar import isleap
from collections.abc import Callable
from typing import NoReturn

from ..clock import Millis
from ..timing import as_datetime

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
FULL_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
FULL_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september"),
    *("october", "november", "december"),
)
OTHER_DAYS = {"tues": 1, "weds": 2, "thur": 3, "thurs": 3}
EXAMPLES = "18:30, 'fri 22:00', 'tomorrow 8:00', '31 jan 8:00', '2030-01-31 08:00'"

_TIME = re.compile(r"(\d{1,2})(?::(\d\d)(?::(\d\d))?)? ?(am|pm)?")
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_SLASHED = re.compile(r"\d{1,4}[/.]\d{1,2}([/.]\d{1,4})?\.?")
_DURATION = re.compile(r"(in )?(\d+(\.\d+)?(ms|s|m|min|h|d|w))+")
_NUMBERED = re.compile(r"(\d{1,2})(?:st|nd|rd|th|\.)?")
_OFFSET = re.compile(r"(?<=\d)(z|[+-]\d\d:?\d\d)$", re.IGNORECASE)

LEAP_YEAR = 2000

Naive = dt.datetime
Days = Callable[[dt.date], dt.date]
"""From a day on, the first that is meant; one that is wholly named is always the same."""


def moment_of(text: str, now: Millis, zone: dt.tzinfo) -> Millis:
    """The moment that was written, in this zone unless it has an offset. Raises ValueError."""
    written = " ".join(text.lower().replace(",", " ").split())
    if written == "now":
        return now
    if exact := _exact(written):
        return _millis(exact)
    here = as_datetime(now).astimezone(zone)
    days, clock = _taken_apart(written, text)
    naive = _first(days, clock, here.replace(tzinfo=None), text)
    if not 1970 < naive.year < 9999:  # beyond them some zones cannot tell the time
        _refuse(text, "is out of range")
    return _millis(_placed(naive, zone, text))


def _millis(when: dt.datetime) -> Millis:
    return round(when.timestamp() * 1000)


def _refuse(text: str, why: str) -> NoReturn:
    raise ValueError(f"{text!r} {why}")


def _exact(written: str) -> dt.datetime | None:
    """ISO with an offset: nothing about it depends on where we are."""
    if not _OFFSET.search(written) or not _ISO_DATE.match(written):
        return None
    try:
        return dt.datetime.fromisoformat(written.upper())
    except ValueError:
        return None


# ---- the day and the time -----------------------------------------------------------------------


def _taken_apart(written: str, text: str) -> tuple[Days | None, dt.time]:
    """The day, if one is named, and the time of day, which has to be."""
    if _DURATION.fullmatch(written):
        short = written.removeprefix("in ").replace("min", "m")
        _refuse(text, f"is no time of day; for so long from now write --in {short}")
    written = re.sub(r"\b(at|on)\b ?", "", re.sub(r"(?<=\d)t(?=\d)", " ", written)).strip()
    if _ISO_DATE.fullmatch(written):  # as ISO has it, and as it is told back
        written += " 0:00"
    day, time = _split(written)
    if time is None:
        _complain_of_time(day, text)
    if time == "midnight" and day:
        _refuse(text, f"may be the night before or after; write '{day} 0:00' or '{day} 23:59'")
    return (_days(day, text) if day else None), _clock(time, text)


def _split(written: str) -> tuple[str, str | None]:
    """Day and time, whichever comes first; the time is what looks like one."""
    words = written.split()
    for size in (2, 1):
        for at in (len(words) - size, 0):
            if size <= len(words) and _is_time(piece := " ".join(words[at : at + size])):
                return " ".join(words[:at] + words[at + size :]), piece
    return written, None


def _is_time(piece: str) -> bool:
    if piece in ("noon", "midnight"):
        return True
    found = _TIME.fullmatch(piece)
    return found is not None and bool(found[2] or found[4])


def _complain_of_time(day: str, text: str) -> NoReturn:
    *rest, last = day.split() or [""]
    if last.isdigit() and len(last) <= 2 and _is_near("".join(rest) or "today"):
        _refuse(text, f"could be morning or evening; write {last}:00, or {last}am or {last}pm")
    if day in ("tonight", "morning", "evening", "afternoon"):
        _refuse(text, f"is no time of day; write it, such as {EXAMPLES}")
    _days(day, text)  # what is no day either is told as such
    _refuse(text, f"names a day; say at what time, such as '{day} 8:00'")


def _is_near(day: str) -> bool:
    return day in ("today", "tomorrow") or _weekday(day) is not None


def _clock(time: str, text: str) -> dt.time:
    if time in ("noon", "midnight"):
        return dt.time(12 if time == "noon" else 0)
    found = _TIME.fullmatch(time)
    assert found is not None
    hour, minute, second = int(found[1]), int(found[2] or 0), int(found[3] or 0)
    if found[4]:
        if not 1 <= hour <= 12:
            _refuse(text, f"is not understood: {found[4]} goes with 1 to 12; write {EXAMPLES}")
        hour = hour % 12 + (12 if found[4] == "pm" else 0)
    if (hour, minute, second) == (24, 0, 0):
        _refuse(text, "is the start of the next day; write that day and 0:00")
    try:
        return dt.time(hour, minute, second)
    except ValueError:
        _refuse(text, f"is not understood: there is no such time of day; write {EXAMPLES}")


def _days(day: str, text: str) -> Days:
    """Which day is meant, from a day on."""
    if day in ("today", "tomorrow"):
        # The first day that is asked about is today.
        return lambda since: since + dt.timedelta(days=day == "tomorrow")
    if (number := _weekday(day)) is not None:
        return lambda since: since + dt.timedelta(days=(number - since.weekday()) % 7)
    if _ISO_DATE.fullmatch(day):
        return _always(_date(text, *map(int, day.split("-"))))
    if _SLASHED.fullmatch(day):
        _refuse(text, "may be day and month or month and day; write '31 jan 8:00' or 2030-01-31")
    if day.startswith(("next ", "this ")):
        rest = day.partition(" ")[2]
        _refuse(text, f"may be one of two; '{rest} 8:00' is the first to come, or write the date")
    return _by_name(day.split(), text)


def _always(date: dt.date) -> Days:
    return lambda since: date


def _weekday(word: str) -> int | None:
    for names in (DAYS, FULL_DAYS):
        if word in names:
            return names.index(word)
    return OTHER_DAYS.get(word)


def _by_name(words: list[str], text: str) -> Days:
    """`31 jan`, `jan 31`, `31 january 2030`; a weekday before it is checked, too."""
    weekday = _weekday(words[0]) if words else None
    rest = words[1:] if weekday is not None else words
    months = [n for word in rest if (n := _month(word)) is not None]
    others = [word for word in rest if _month(word) is None]
    years = [int(word) for word in others if re.fullmatch(r"\d{4}", word)]
    numbers = [int(m[1]) for word in others if (m := _NUMBERED.fullmatch(word))]
    if (len(months), len(numbers)) != (1, 1) or len(years) > 1 or len(others) != len(years) + 1:
        _refuse(text, f"is not understood; write {EXAMPLES}, or ISO with an offset")
    month, number = months[0], numbers[0]
    _date(text, years[0] if years else LEAP_YEAR, month, number)

    def day(since: dt.date) -> dt.date:
        date = dt.date(years[0], month, number) if years else _next(since, month, number)
        if weekday is not None and date.weekday() != weekday:
            _refuse(text, f"does not exist: {date} is a {FULL_DAYS[date.weekday()].capitalize()}")
        return date

    return day


def _month(word: str) -> int | None:
    for names in (MONTHS, FULL_MONTHS):
        if word in names:
            return names.index(word) + 1
    return 9 if word == "sept" else None


def _date(text: str, year: int, month: int, day: int) -> dt.date:
    try:
        return dt.date(year, month, day)
    except ValueError:
        _refuse(text, "is not understood: there is no such day")


def _next(since: dt.date, month: int, day: int) -> dt.date:
    """The first such day from then on; 29 feb is there every four years, or eight."""
    years = range(since.year, since.year + 9)
    dates = (dt.date(year, month, day) for year in years if not _is_missing(year, month, day))
    return next(date for date in dates if date >= since)


def _is_missing(year: int, month: int, day: int) -> bool:
    return (month, day) == (2, 29) and not isleap(year)


def _first(days: Days | None, clock: dt.time, here: Naive, text: str) -> Naive:
    """The first such moment that is still to come; one that is wholly named may have passed."""
    wanted = days or (lambda since: since)
    first = dt.datetime.combine(wanted(here.date()), clock)
    if first > here:
        return first
    if "today" in text.lower().split():
        _refuse(text, f"has passed; write 'tomorrow {clock:%H:%M}', or leave it out to start now")
    return dt.datetime.combine(wanted(here.date() + dt.timedelta(days=1)), clock)


# ---- the zone -----------------------------------------------------------------------------------


def _placed(naive: Naive, zone: dt.tzinfo, text: str) -> dt.datetime:
    """The one moment at which a clock on the wall shows this.

    Raises ValueError if there is none, or if there are two.
    """
    early, late = (naive.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    if early.utcoffset() == late.utcoffset():
        return early
    if _comes_back(early):
        _refuse(
            text,
            f"is there twice, as the clocks go back; write {_iso(early)} ({early.tzname()}) or "
            f"{_iso(late)} ({late.tzname()})",
        )
    # In a gap the two folds are the offsets of before and after it, in that order.
    after = early.astimezone(dt.UTC).astimezone(zone)
    _refuse(
        text,
        f"does not exist: on {naive:%Y-%m-%d} the clocks go forward over {naive:%H:%M}; write "
        f"'{after:%Y-%m-%d %H:%M}' or an earlier time",
    )


def _comes_back(when: dt.datetime) -> bool:
    """Whether it is the same after a journey through UTC; a time that was skipped is not."""
    back = when.astimezone(dt.UTC).astimezone(when.tzinfo)
    return back.replace(tzinfo=None, fold=0) == when.replace(tzinfo=None, fold=0)


def _iso(when: dt.datetime) -> str:
    return when.isoformat(timespec="minutes" if not when.second else "seconds")


class Here(dt.tzinfo):
    """The zone of this machine, by its C library: TZ, or /etc/localtime."""

    def utcoffset(self, when: dt.datetime | None) -> dt.timedelta:
        return self._at(when).utcoffset() or dt.timedelta(0)

    def tzname(self, when: dt.datetime | None) -> str:
        return self._at(when).tzname() or ""

    def dst(self, when: dt.datetime | None) -> None:
        return None

    def fromutc(self, when: dt.datetime) -> dt.datetime:
        utc = when.replace(tzinfo=dt.UTC)
        local = utc.astimezone().replace(tzinfo=None)
        return local.replace(tzinfo=self, fold=int(local.astimezone() != utc))

    def _at(self, when: dt.datetime | None) -> dt.datetime:
        return (when or dt.datetime(1970, 1, 1)).replace(tzinfo=None).astimezone()


# ---- told back ----------------------------------------------------------------------------------


def told(when: dt.datetime) -> str:
    """A moment with its day and its zone: `Fri 2026-12-04 22:00 CET`."""
    seconds = f":{when:%S}" if when.second else ""
    return f"{DAYS[when.weekday()].capitalize()} {when:%Y-%m-%d %H:%M}{seconds} {when.tzname()}"
