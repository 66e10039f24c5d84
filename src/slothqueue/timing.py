"""Rules about time: durations, moments, back-off. Pure functions; none reads a clock."""

from __future__ import annotations

import datetime as dt
import math
import re

from .clock import Millis

Duration = int | float | str | dt.timedelta
Moment = str | dt.datetime

_UNITS = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)\s*")
LONGEST: Millis = 1000 * 365 * 86_400_000
"""No duration is longer than this: a thousand years."""


def millis(duration: Duration, *, what: str = "duration") -> Millis:
    """A duration in milliseconds.

    Takes seconds, a `timedelta`, or text such as `"10m"`, `"2h30m"`, `"1.5s"`; units are ms, s, m,
    h, d, w, and text without a unit is seconds. Raises ValueError for anything else, and for what
    is negative or longer than a thousand years.
    """
    value = _millis(duration, what)
    if not 0 <= value <= LONGEST:
        raise ValueError(f"{what} must be between zero and a thousand years, and is {duration!r}")
    return round(value)


def some_millis(duration: Duration, *, what: str) -> Millis:
    """The same where nothing would make no sense, such as a time limit."""
    value = millis(duration, what=what)
    if not value:
        raise ValueError(f"{what} must be longer than zero, and is {duration!r}")
    return value


def _millis(duration: Duration, what: str) -> float:
    if isinstance(duration, bool):
        raise ValueError(f"{what} is {duration!r}; give seconds or text such as '10m'")
    if isinstance(duration, dt.timedelta):
        return duration.total_seconds() * 1000
    if isinstance(duration, int):
        return duration * 1000
    if isinstance(duration, float):
        if not math.isfinite(duration):
            raise ValueError(f"{what} must be a finite number of seconds, and is {duration!r}")
        return duration * 1000
    if isinstance(duration, str):
        return _parse(duration.strip().lower(), what)
    raise ValueError(
        f"{what} must be seconds, a timedelta or text such as '10m', not {type(duration).__name__}"
    )


def _parse(text: str, what: str) -> float:
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text) * 1000
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text):
        raise ValueError(
            f"{what} {text!r} is not understood; write it like '90s', '10m', '2h30m', '1d'"
        )
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def moment(when: Moment, *, what: str = "run_at") -> Millis:
    """A moment as milliseconds since 1970, UTC.

    Takes an aware `datetime` or ISO text with an offset. Raises ValueError for a moment without a
    zone: we do not guess whose clock was meant.
    """
    if isinstance(when, str):
        try:
            when = dt.datetime.fromisoformat(when.strip())
        except ValueError:
            raise ValueError(
                f"{what} {when!r} is not understood; write it like '2030-01-31T08:00:00+01:00'"
            ) from None
    if not isinstance(when, dt.datetime):
        raise ValueError(f"{what} must be an aware datetime or ISO text, not {type(when).__name__}")
    if when.tzinfo is None:
        raise ValueError(
            f"{what} {when.isoformat()} has no time zone; add one, such as '+00:00' or "
            "datetime(..., tzinfo=timezone.utc)"
        )
    delta = when - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return delta // dt.timedelta(milliseconds=1)


def as_datetime(wall: Millis) -> dt.datetime:
    """The moment as an aware `datetime` in UTC."""
    return dt.datetime.fromtimestamp(wall / 1000, dt.UTC)


def back_off(attempt: int, *, base: float, cap: Millis) -> Millis:
    """How long to wait after attempt n failed: `min(cap, base ** n)` seconds."""
    try:
        return min(cap, round(1000 * base**attempt))
    except OverflowError:
        return cap


def spoken(duration: Millis) -> str:
    """A duration for people: `850ms`, `3.2s`, `5m 30s`, `2h 5m`, `3d 4h`."""
    if duration < 1_000:
        return f"{duration}ms"
    if duration < 60_000:
        return f"{duration // 100 / 10}".removesuffix(".0") + "s"
    for unit, small, name, less in (
        (86_400_000, 3_600_000, "d", "h"),
        (3_600_000, 60_000, "h", "m"),
    ):
        if duration >= unit:
            rest = duration % unit // small
            return f"{duration // unit}{name}" + (f" {rest}{less}" if rest else "")
    rest = duration % 60_000 // 1_000
    return f"{duration // 60_000}m" + (f" {rest}s" if rest else "")
