"""Values made of others: lists, tuples, sets, dicts, and unions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .. import codec
from ..errors import NotSerializable
from .fitting import GENERAL, NULL, SCALARS, Converter, Unfit, told, unfit
from .scalars import ANY, TEXT, Plain

LISTS: frozenset[type] = frozenset({list})
DICTS: frozenset[type] = frozenset({dict})
_NO_ITEMS = (str, bytes, bytearray, dict)


class Items:
    """Any number of values of one annotation: a list in JSON."""

    kinds = LISTS
    rank = GENERAL

    def __init__(self, name: str, item: Converter, accepted: Any, make: Callable[..., Any]) -> None:
        self.name, self._item, self._accepted, self._make = name, item, accepted, make
        self.same = make is list and item.same
        self._is_set = make in (set, frozenset)
        self._plain = _plain(item)

    def dump(self, value: Any) -> Any:
        if not isinstance(value, self._accepted) or isinstance(value, _NO_ITEMS):
            raise unfit(value, self.name)
        if self._is_set:
            return self._in_order(value)
        if self._plain is not None and self._plain.issuperset(map(type, value)):
            return list(value)
        return _each(self._item.dump, value)

    def _in_order(self, value: Any) -> list[Any]:
        done = _each(self._item.dump, value)
        if self._item is ANY and any(isinstance(each, (list, tuple, dict)) for each in done):
            raise Unfit("has more than plain values in it; annotate what is in the set")
        try:
            done.sort()
        except TypeError:  # of several types: any order will do
            pass
        return done

    def load(self, data: Any) -> Any:
        if type(data) is not list:
            raise unfit(data, self.name)
        if self._plain is not None and self._plain.issuperset(map(type, data)):
            done = data
        else:
            done = _each(self._item.load, data)
        try:
            return done if self._make is list else self._make(done)
        except TypeError as error:  # not hashable
            raise Unfit(f"is no {self.name}: {error}") from None


class _Every:
    """All types there are."""

    def issuperset(self, types: Iterable[type]) -> bool:
        return True


_EVERY = _Every()


def _plain(item: Converter) -> frozenset[type] | _Every | None:
    """The types of which alone a value may pass as it is: to look at all at once is much faster."""
    if item is ANY:
        return _EVERY
    return item.kinds if isinstance(item, Plain) else None


def _each(convert: Callable[[Any], Any], values: Any) -> list[Any]:
    done: list[Any] = []
    try:
        for each in values:
            done.append(convert(each))  # noqa: PERF401  # its length is the place
    except Unfit as wrong:
        raise wrong.under(len(done)) from None
    return done


class Row:
    """A tuple of a fixed length, each place with an annotation of its own."""

    same = False
    kinds = LISTS
    rank = GENERAL - 1
    name = "tuple"

    def __init__(self, items: Sequence[Converter]) -> None:
        self._items = items

    def dump(self, value: Any) -> list[Any]:
        if not isinstance(value, tuple):
            raise unfit(value, self.name)
        return self._converted(value, [item.dump for item in self._items])

    def load(self, data: Any) -> tuple[Any, ...]:
        if type(data) is not list:
            raise unfit(data, self.name)
        return tuple(self._converted(data, [item.load for item in self._items]))

    def _converted(self, values: Any, converts: Sequence[Callable[[Any], Any]]) -> list[Any]:
        if len(values) != len(converts):
            raise Unfit(f"has a length of {len(values)}, and not of {len(converts)}")
        ahead = iter(converts)
        return _each(lambda each: next(ahead)(each), values)


class Table:
    """Keys and values of one annotation each. In JSON a key is text."""

    kinds = DICTS
    rank = GENERAL

    def __init__(
        self, name: str, key: Converter, value: Converter, accepted: Any, make: Callable[..., Any]
    ) -> None:
        self.name, self._key, self._value = name, key, value
        self._accepted, self._make = accepted, make
        self._any_key = key is ANY
        self._text_key = key.same and key.kinds == TEXT
        self.same = make is dict and value.same and (self._any_key or self._text_key)
        self._plain = _plain(value) if self._text_key and isinstance(key, Plain) else None
        # The text of such a key might be that of another key too.
        self._checked = not self._any_key and str in key.kinds and key.kinds != TEXT

    def dump(self, value: Any) -> Any:
        if not isinstance(value, self._accepted):
            raise unfit(value, self.name)
        if self._all_plain(value):
            return dict(value)
        done: dict[Any, Any] = {}
        for key, each in value.items():
            text = key if self._any_key else self._write(key)
            if text in done:
                raise Unfit(f"has two keys that are both {codec.short(text)} in JSON")
            try:
                done[text] = each if self._value is ANY else self._value.dump(each)
            except Unfit as wrong:
                raise wrong.under(text) from None
        return done

    def _all_plain(self, value: Mapping[Any, Any]) -> bool:
        if self._plain is None or not self._plain.issuperset(map(type, value.values())):
            return False
        return TEXT.issuperset(map(type, value))

    def _write(self, key: Any) -> str:
        try:
            data = self._key.dump(key)
            text = data if isinstance(data, str) else _as_text(data)
            if self._checked and not _alike(self._read(text), key):
                raise Unfit("would come back as another one")
        except Unfit as wrong:
            raise Unfit(f"has the key {codec.short(key)}: {wrong.told('it')}") from None
        return text

    def _read(self, text: str) -> Any:
        try:
            return self._key.load(text)
        except Unfit:
            if self._text_key:
                raise
            try:
                data = codec.decode(text)
            except ValueError:
                data = None
            if type(data) not in SCALARS or _as_text(data) != text:
                raise
        return self._key.load(data)

    def load(self, data: Any) -> Any:
        if type(data) is not dict:
            raise unfit(data, self.name)
        if self._all_plain(data):
            return self._make(data)
        done = self._make()
        for text, each in data.items():
            try:
                key = text if self._any_key else self._read(text)
            except Unfit as wrong:
                raise Unfit(f"has the key {codec.short(text)}: {wrong.told('it')}") from None
            try:
                done[key] = self._value.load(each)
            except Unfit as wrong:
                raise wrong.under(text) from None
        return done


def _as_text(data: Any) -> str:
    if type(data) not in SCALARS and not isinstance(data, (int, float)):
        raise Unfit("has no text form, and keys in JSON are text")
    try:
        return codec.encode(data, "key")
    except NotSerializable as error:
        raise Unfit(str(error).removeprefix("key ")) from None


def _alike(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


class Maybe:
    """An annotation, or None."""

    def __init__(self, inner: Converter) -> None:
        self._inner = inner
        self.name, self.rank, self.same = f"{inner.name} or None", inner.rank, inner.same
        self.kinds = inner.kinds | {NULL}

    def dump(self, value: Any) -> Any:
        return None if value is None else self._inner.dump(value)

    def load(self, data: Any) -> Any:
        return None if data is None else self._inner.load(data)


class OneAmong:
    """A union. Nothing in the JSON says which member it was: the first that can read it reads it.

    First come the narrow forms, then the wide; the order in the annotation does not matter. A value
    that another member would read is refused when it is written.
    """

    def __init__(self, members: Sequence[Converter]) -> None:
        self._members = sorted(members, key=lambda member: (member.rank, member.name))
        self.name = " or ".join(member.name for member in members)
        self.rank = max(member.rank for member in members)
        self.kinds = frozenset().union(*(member.kinds for member in members))
        self.same = all(member.same for member in members)

    def dump(self, value: Any) -> Any:
        wrongs = []
        for member in self._members:
            try:
                data = member.dump(value)
            except Unfit as wrong:
                wrongs.append(wrong)
                continue
            if not self.same:
                self._check(value, data, member)
            return data
        raise self._nearest(value, wrongs)

    def _check(self, value: Any, data: Any, writer: Converter) -> None:
        rivals = [m for m in self._members if m is not writer and type(data) in m.kinds]
        if not rivals:
            return
        reader = next(m for m in self._members if m is writer or (m in rivals and _reads(m, data)))
        if reader is not writer:
            raise Unfit(
                f"is {told(value)}, whose JSON would come back as {codec.article(reader.name)} "
                f"{reader.name}; annotate it as {writer.name} alone, or give {reader.name}"
            )

    def load(self, data: Any) -> Any:
        wrongs = []
        for member in self._members:
            try:
                return member.load(data)
            except Unfit as wrong:
                wrongs.append(wrong)
        raise self._nearest(data, wrongs)

    def _nearest(self, value: Any, wrongs: Sequence[Unfit]) -> Unfit:
        """What is wrong with the member that fits best; if none fits at all, that."""
        best = max(wrongs, key=lambda wrong: wrong.nearness)
        return best if best.nearness else unfit(value, self.name)


def _reads(member: Converter, data: Any) -> bool:
    try:
        member.load(data)
    except Unfit:
        return False
    return True
