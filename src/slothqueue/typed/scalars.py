"""Types whose JSON is one number or one text: what JSON has itself, moments, paths, enums."""

from __future__ import annotations

import datetime as dt
import enum
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from .. import codec
from ..errors import NotSerializable
from .fitting import (
    EVERYTHING,
    EXACT,
    NARROW,
    NULL,
    OWN,
    UNKNOWN,
    WIDE,
    Converter,
    Unfit,
    broken,
    told,
    unfit,
)

TEXT: frozenset[type] = frozenset({str})


class Plain:
    """What JSON has itself: None, bool, int, float, str, or one of several of them."""

    same = True

    def __init__(self, name: str, *kinds: type, rank: int = OWN) -> None:
        self.name, self.rank = name, rank
        self.kinds = frozenset(kinds)
        self._accepted = kinds

    def dump(self, value: Any) -> Any:
        if isinstance(value, self._accepted):
            return value
        raise unfit(value, self.name)

    load = dump


def plain(kind: Any) -> Plain | None:
    """Of a type that JSON has itself. As in Python, an int may stand for a float."""
    return _PLAIN.get(kind)


_PLAIN: dict[Any, Plain] = {
    NULL: Plain("None", NULL),
    bool: Plain("bool", bool),
    int: Plain("int", int, bool, rank=OWN + 1),
    float: Plain("float", float, int, bool, rank=OWN + 2),
    str: Plain("str", str),
}


class Text:
    """A type with a text form."""

    same = False
    kinds = TEXT

    def __init__(
        self,
        kind: type,
        rank: int,
        write: Callable[[Any], str],
        read: Callable[[str], Any],
        form: str,
    ) -> None:
        self.name, self.rank = kind.__name__, rank
        self._kind, self._write, self._read, self._form = kind, write, read, form

    def dump(self, value: Any) -> str:
        if not isinstance(value, self._kind):
            raise unfit(value, self.name)
        text = self._write(value)
        if type(value) is not self._kind and not self._comes_back(value, text):
            raise Unfit(f"is {told(value)}, which would not come back from its {self.name} form")
        return text

    def _comes_back(self, value: Any, text: str) -> bool:
        try:
            return bool(self._read(text) == value)
        except (ValueError, ArithmeticError):
            return False

    def load(self, data: Any) -> Any:
        if type(data) is not str:
            raise unfit(data, self.name)
        try:
            return self._read(data)
        except (ValueError, ArithmeticError):
            raise unfit(data, self.name, f"its form is {self._form}") from None


def text(kind: Any) -> Text | None:
    """Of a type of the standard library that has a text form."""
    if form := _MOMENTS.get(kind):
        return form
    for module, name, make in _ELSEWHERE:
        # Whoever has such a type has its module: importing it for others would cost them time.
        known = getattr(sys.modules.get(module), name, None)
        if known is not None and make is _path and issubclass(kind, known):
            return _path(kind)
        if known is kind:
            return make(kind)
    return None


def _datetime(data: str) -> dt.datetime:
    if data[10:11] not in ("T", " "):  # else it would read a date alone
        raise ValueError(data)
    return dt.datetime.fromisoformat(data)


def _date(data: str) -> dt.date:
    if len(data) != 10 or data[7] != "-":  # else it would read the number of a week
        raise ValueError(data)
    return dt.date.fromisoformat(data)


def _time(data: str) -> dt.time:
    if data[2:3] != ":":
        raise ValueError(data)
    return dt.time.fromisoformat(data)


def _spell(value: dt.timedelta) -> str:
    """As ISO 8601 has it, such as P1DT2H30M0.5S."""
    sign, value = ("-", -value) if value < dt.timedelta(0) else ("", value)
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{value.microseconds:06}".rstrip("0") if value.microseconds else ""
    days = f"{value.days}D" if value.days else ""
    clock = [f"{n}{unit}" for n, unit in ((hours, "H"), (minutes, "M")) if n]
    if seconds or fraction or not (days or clock):
        clock.append(f"{seconds}{fraction}S")
    return f"{sign}P{days}" + (f"T{''.join(clock)}" if clock else "")


_DURATION = re.compile(
    r"(-?)P(?=.)(?:(\d+)W)?(?:(\d+)D)?"
    r"(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,6}))?S)?)?",
    re.ASCII,
)


def _duration(data: str) -> dt.timedelta:
    found = _DURATION.fullmatch(data)
    if found is None:
        raise ValueError(data)
    sign, *parts, fraction = found.groups()
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in parts)
    value = dt.timedelta(
        weeks=weeks,
        days=days,
        hours=hours,
        minutes=minutes,
        seconds=seconds,
        microseconds=int((fraction or "").ljust(6, "0")),
    )
    return -value if sign else value


_MOMENTS: dict[Any, Text] = {
    dt.datetime: Text(
        dt.datetime, NARROW + 1, lambda value: value.isoformat(), _datetime, "2030-01-31T12:30:00"
    ),
    dt.date: Text(dt.date, NARROW + 2, lambda value: value.isoformat(), _date, "2030-01-31"),
    dt.time: Text(dt.time, NARROW + 3, lambda value: value.isoformat(), _time, "12:30:00"),
    dt.timedelta: Text(dt.timedelta, NARROW + 4, _spell, _duration, "PT1H30M"),
}

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:E[+-]?\d+)?", re.ASCII)


def _matching(form: re.Pattern[str], make: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(data: str) -> Any:
        if form.fullmatch(data) is None:
            raise ValueError(data)
        return make(data)

    return read


def _uuid(kind: Any) -> Text:
    form = "12345678-1234-5678-1234-567812345678"
    return Text(kind, NARROW, str, _matching(_ID, kind), form)


def _decimal(kind: Any) -> Text:
    def write(value: Any) -> str:
        if not value.is_finite():
            raise Unfit(f"is {value}, a number that JSON does not have; give None")
        return str(value)

    return Text(kind, NARROW + 5, write, _matching(_NUMBER, kind), "12.50")


def _bytes(kind: Any) -> Text:
    from base64 import b64decode, b64encode

    def read(data: str) -> Any:
        return kind(b64decode(data, validate=True))

    return Text(kind, WIDE, lambda value: b64encode(value).decode(), read, "base64")


def _path(kind: Any) -> Text:
    return Text(kind, WIDE + 1, str, kind, "text")


def _any_path(kind: Any) -> Text:
    from pathlib import Path

    return _path(Path)


_ELSEWHERE: tuple[tuple[str, str, Callable[[Any], Text]], ...] = (
    ("builtins", "bytes", _bytes),
    ("builtins", "bytearray", _bytes),
    ("uuid", "UUID", _uuid),
    ("decimal", "Decimal", _decimal),
    ("pathlib", "PurePath", _path),
    ("os", "PathLike", _any_path),
)


class OneOf:
    """A fixed set of values, each with JSON of its own: an enum, or a Literal."""

    same = False
    rank = EXACT

    def __init__(self, name: str, pairs: Sequence[tuple[Any, Any]], kind: Any = None) -> None:
        self.name, self._kind = name, kind
        self._values = {(type(data), data): value for value, data in pairs}
        self._data = {(type(value), value): data for value, data in pairs}
        self.kinds = frozenset(type(data) for _, data in pairs)
        self.same = all(value is data for value, data in pairs)

    def dump(self, value: Any) -> Any:
        try:
            return self._data[type(value), value]
        except (KeyError, TypeError):
            raise self._wrong(value) from None

    def load(self, data: Any) -> Any:
        try:
            return self._values[type(data), data]
        except (KeyError, TypeError):
            raise self._wrong(data) from None

    def _wrong(self, value: Any) -> Unfit:
        known = ", ".join(told(data) for _, data in list(self._values)[:8])
        more = ", ..." if len(self._values) > 8 else ""
        return unfit(value, self.name, f"those are {known}{more}")


def members_of(kind: Any) -> Converter:
    """Of an enum: by the values of its members if all are text or whole numbers, else by names."""
    members = list(kind.__members__.values())
    by_value = all(type(member.value) in (str, int) for member in members)
    if issubclass(kind, enum.Flag):
        return Flags(kind)
    pairs = [(member, member.value if by_value else member.name) for member in members]
    return OneOf(kind.__name__, pairs)


class Flags:
    """Members of an enum that may be joined: by their number."""

    same = False
    rank = EXACT
    kinds: frozenset[type] = frozenset({int})

    def __init__(self, kind: Any) -> None:
        self.name, self._kind = kind.__name__, kind

    def dump(self, value: Any) -> int:
        if type(value) is not self._kind:
            raise unfit(value, self.name)
        return int(value.value)

    def load(self, data: Any) -> Any:
        if type(data) is not int:
            raise unfit(data, self.name)
        try:
            return self._kind(data)
        except ValueError:
            raise unfit(data, self.name) from None


class Registered:
    """A type of the user's own, by the two functions that they have given us."""

    same = False
    rank = NARROW + 6
    kinds = EVERYTHING

    def __init__(self, kind: type, to: Callable[[Any], Any], back: Callable[[Any], Any]) -> None:
        self.name, self._kind, self._to, self._back = kind.__name__, kind, to, back

    def dump(self, value: Any) -> Any:
        if not isinstance(value, self._kind):
            raise unfit(value, self.name)
        try:
            return self._to(value)
        except Exception as error:
            raise broken("written as", self.name, error) from None

    def load(self, data: Any) -> Any:
        try:
            return self._back(data)
        except Exception as error:
            raise broken("read as", self.name, error) from None


class Anything:
    """No annotation, or one that says nothing: JSON as it is. The encoder refuses the rest."""

    same = True
    rank = UNKNOWN + 10
    kinds = EVERYTHING
    name = "value"

    def dump(self, value: Any) -> Any:
        return value

    load = dump


ANY = Anything()


class Unread:
    """An annotation that cannot be evaluated where its function is: only JSON passes."""

    same = True
    rank = UNKNOWN
    kinds = EVERYTHING

    def __init__(self, name: str, error: Exception) -> None:
        self.name, self._error = name, f"{type(error).__name__}: {error}"

    def dump(self, value: Any) -> Any:
        try:
            codec.encode(value, "it")
        except NotSerializable as error:
            raise Unfit(
                f"has an annotation that cannot be read here, {self.name!r} ({self._error}), so "
                f"that only JSON passes; but {error}"
            ) from None
        return value

    def load(self, data: Any) -> Any:
        return data


class Opaque:
    """A class that nobody has told us how to write: of its values only those that are JSON pass."""

    same = True
    rank = UNKNOWN
    kinds = EVERYTHING

    def __init__(self, name: str, fits: Callable[[Any], bool], advice: str) -> None:
        self.name, self._fits, self._advice = name, fits, advice

    def dump(self, value: Any) -> Any:
        if type(value) in EVERYTHING and self._fits(value):
            return value
        if self._fits(value):
            raise Unfit(f"is {told(value)}, which has no JSON form; {self._advice}")
        raise unfit(value, self.name)

    def load(self, data: Any) -> Any:
        if self._fits(data):
            return data
        raise unfit(data, self.name, self._advice)
