"""Values with named fields: an object in JSON.

Classes of other libraries are told by what they have on them, so that nobody who does not use such
a library loads it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .. import codec
from .fitting import EVERYTHING, RECORD, Converter, Unfit, broken, told, unfit
from .shapes import DICTS


class Field(NamedTuple):
    """One field: the name in JSON, that for the constructor, and whether it must be there."""

    name: str
    argument: str
    needed: bool
    converter: Converter


Describe = Callable[[], list[Field]]
"""Lists the fields of a class. Called late, for a class may have itself in its fields."""


class Record:
    """A class whose instances are made from their fields: dataclass, attrs, NamedTuple."""

    same = False
    kinds = DICTS
    rank = RECORD

    def __init__(self, kind: type, describe: Describe) -> None:
        self.name, self._kind, self._fields = kind.__name__, kind, _once(describe)

    def dump(self, value: Any) -> dict[str, Any]:
        if type(value) is not self._kind:  # a subclass would not come back as such
            raise unfit(value, self.name)
        return {field.name: _dumped(field, getattr(value, field.name)) for field in self._fields()}

    def load(self, data: Any) -> Any:
        found = _found(data, self._fields(), self.name)
        arguments = {field.argument: _loaded(field, data[field.name]) for field in found}
        try:
            return self._kind(**arguments)
        except Exception as error:
            raise broken("read as", self.name, error) from None


class Keyed:
    """A TypedDict."""

    same = False
    kinds = DICTS
    rank = RECORD

    def __init__(self, kind: type, describe: Describe) -> None:
        self.name, self._fields = kind.__name__, _once(describe)

    def dump(self, value: Any) -> dict[str, Any]:
        found = _found(value, self._fields(), self.name)
        return {field.name: _dumped(field, value[field.name]) for field in found}

    def load(self, data: Any) -> dict[str, Any]:
        found = _found(data, self._fields(), self.name)
        return {field.name: _loaded(field, data[field.name]) for field in found}


def _once(describe: Describe) -> Describe:
    known: list[Field] = []

    def fields() -> list[Field]:
        if not known:
            known[:] = describe()
        return known

    return fields


def _dumped(field: Field, value: Any) -> Any:
    try:
        return field.converter.dump(value)
    except Unfit as wrong:
        raise wrong.under(field.name) from None


def _loaded(field: Field, data: Any) -> Any:
    try:
        return field.converter.load(data)
    except Unfit as wrong:
        raise wrong.under(field.name) from None


def _found(data: Any, fields: list[Field], name: str) -> list[Field]:
    """The fields that are there. Raises Unfit for one that is missing or unknown."""
    if not isinstance(data, dict):
        raise unfit(data, name)
    found = [field for field in fields if field.name in data]
    for field in fields:
        if field.needed and field.name not in data:
            raise Unfit(f"is without {codec.short(field.name)}, which {name} needs{_says(data)}")
    if len(found) < len(data):
        known = {field.name for field in fields}
        other = next(key for key in data if key not in known)
        raise Unfit(f"has {codec.short(other)}, which {name} does not know")
    return found


def _says(data: Mapping[Any, Any]) -> str:
    there = ", ".join(str(key) for key in list(data)[:8])
    return f"; it has {there}" if there else ""


# ---- libraries -----------------------------------------------------------------------------------


class Model:
    """An object that its own library turns into JSON and back: pydantic, msgspec."""

    same = False
    kinds = EVERYTHING
    rank = RECORD

    def __init__(
        self,
        kind: type,
        write: Callable[[Any], Any],
        read: Callable[[Any], Any],
        content: Callable[[Any], Any],
    ) -> None:
        self.name, self._kind = kind.__name__, kind
        self._write, self._read, self._content = write, read, content

    def dump(self, value: Any) -> Any:
        if type(value) is not self._kind:
            raise unfit(value, self.name)
        try:
            data = self._write(value)
        except Exception as error:
            raise broken("written as", self.name, error) from None
        if self._content(self.load(data)) != self._content(value):
            raise Unfit(f"is {told(value)}, which would not come back the same from its JSON")
        return data

    def load(self, data: Any) -> Any:
        try:
            return self._read(data)
        except Exception as error:
            raise _explained(self.name, error) from None


def _explained(name: str, error: Exception) -> Unfit:
    """What a library says, with its place inside ours."""
    try:
        first = error.errors()[0]  # type: ignore[attr-defined]  # pydantic has it
        wrong = Unfit(f"does not fit {name}: {first['msg']}")
        for step in reversed(first["loc"]):
            wrong.under(step)
        return wrong
    except (AttributeError, IndexError, KeyError, TypeError):
        return broken("read as", name, error)


def model(kind: Any) -> Model | None:
    """Of a class of pydantic (2 or 1) or msgspec; None for others."""
    if hasattr(kind, "__pydantic_core_schema__") and hasattr(kind, "model_validate_json"):
        return Model(kind, _pydantic, lambda data: kind.model_validate_json(_json(data)), _content)
    if hasattr(kind, "parse_obj") and hasattr(kind, "__fields__"):
        return Model(kind, _old_pydantic, kind.parse_obj, _content)
    msgspec = sys.modules.get("msgspec")
    if msgspec is not None and hasattr(kind, "__struct_fields__"):
        return Model(
            kind,
            lambda value: msgspec.to_builtins(value, str_keys=True),
            lambda data: msgspec.convert(data, kind, str_keys=True),
            lambda value: [getattr(value, name) for name in kind.__struct_fields__],
        )
    return None


def _pydantic(value: Any) -> Any:
    return value.model_dump(mode="json", by_alias=True)


def _old_pydantic(value: Any) -> Any:
    return codec.decode(value.json(by_alias=True))


def _content(value: Any) -> Any:
    return value.__dict__


def _json(data: Any) -> str:
    return codec.encode(data)
