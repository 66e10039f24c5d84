"""Finds the converter of an annotation."""

from __future__ import annotations

import collections
import collections.abc as abc
import enum
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, Union

from . import records
from .fitting import EVERYTHING, GENERAL, Converter, Unfit
from .records import Field, Keyed, Record
from .scalars import ANY, OneOf, Opaque, Plain, Registered, Unread, members_of, plain, text
from .shapes import Items, Maybe, OneAmong, Row, Table

T = TypeVar("T")

_registered: dict[type, Registered] = {}
_made: dict[type, Converter] = {}
"""Converters of classes: one each, so that a class may have itself in its fields."""

forget: list[Callable[[], None]] = [_made.clear]
"""What is to be called when a converter may have changed."""


def register(kind: type[T], to: Callable[[T], Any], back: Callable[[Any], T], /) -> None:
    """Let values of a type of your own be arguments and results of tasks.

    `to` makes JSON of a value (None, numbers, text, lists, dicts with text keys), `back` makes the
    value again. It counts where an annotation names this type; register it in the module that the
    task is in, so that every process does it. Goes before what is known of the type otherwise.
    """
    if not isinstance(kind, type):
        raise TypeError(f"register() takes a class first, not {kind!r}")
    _registered[kind] = Registered(kind, to, back)
    for clear in forget:
        clear()


class Unreadable:
    """In the place of an annotation that could not be evaluated."""

    def __init__(self, text: Any, error: Exception) -> None:
        self.text, self.error = text, error


def evaluated(
    raw: Mapping[str, Any], names: dict[str, Any], local: dict[str, Any]
) -> dict[str, Any]:
    """Annotations with what they name in place of text. What cannot be found is Unreadable."""
    try:
        return _evaluated(raw, names, local)
    except Exception:  # whatever a name or an expression in it raises
        return {name: _alone(name, each, names, local) for name, each in raw.items()}


def _evaluated(
    raw: Mapping[str, Any], names: dict[str, Any], local: dict[str, Any]
) -> dict[str, Any]:
    holder = types.SimpleNamespace(__annotations__=dict(raw))
    return typing.get_type_hints(holder, names, local, include_extras=True)


def _alone(name: str, annotation: Any, names: dict[str, Any], local: dict[str, Any]) -> Any:
    try:
        return _evaluated({name: annotation}, names, local)[name]
    except Exception as error:
        return Unreadable(annotation, error)


def converter(annotation: Any) -> Converter:
    """The converter of an annotation; one for anything where it says nothing that we know."""
    if annotation is Any or annotation is object or annotation is typing.NoReturn:
        return ANY
    if annotation is None:
        annotation = type(None)
    if isinstance(annotation, Unreadable):
        return Unread(str(annotation.text), annotation.error)
    if isinstance(annotation, type):
        return _of_class(annotation)
    origin = typing.get_origin(annotation)
    if origin is not None:
        return _of_form(annotation, origin, typing.get_args(annotation))
    return _of_name(annotation)


def _of_name(annotation: Any) -> Converter:
    """NewType, `type X = ...`, TypeVar."""
    inner = getattr(annotation, "__supertype__", None) or getattr(annotation, "__bound__", None)
    if inner is not None:
        return converter(inner)
    if type(annotation).__name__ == "TypeAliasType":
        return Late(annotation)
    return ANY


class Late:
    """An alias, which may name itself: looked into at its first use."""

    same = False
    rank = GENERAL
    kinds = EVERYTHING

    def __init__(self, alias: Any) -> None:
        self.name, self._alias = str(alias), alias
        self._found: Converter | None = None

    @property
    def _real(self) -> Converter:
        if self._found is None:
            self._found = converter(self._alias.__value__)
        return self._found

    def dump(self, value: Any) -> Any:
        return self._real.dump(value)

    def load(self, data: Any) -> Any:
        return self._real.load(data)


# ---- forms ---------------------------------------------------------------------------------------

_THROUGH = (typing.Annotated, typing.Final, typing.Required, typing.NotRequired, typing.ClassVar)
_AWAITED = (abc.Awaitable, abc.Coroutine)


def _of_form(annotation: Any, origin: Any, arguments: tuple[Any, ...]) -> Converter:
    if origin in (Union, types.UnionType):
        return union([converter(each) for each in arguments])
    if origin is Literal:
        return _literal(arguments)
    if origin in _THROUGH or getattr(origin, "_name", None) == "ReadOnly":
        return converter(arguments[0])
    if origin in _AWAITED:
        return converter(arguments[-1])
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        return Row([converter(each) for each in arguments])
    if type(origin).__name__ == "TypeAliasType":
        return ANY
    made = _of_container(origin, [converter(each) for each in arguments if each is not Ellipsis])
    if made is not None:
        return made
    return _of_class(origin) if isinstance(origin, type) else ANY


def union(members: list[Converter]) -> Converter:
    """The converter of a union of these."""
    rest = [member for member in members if member is not _NONE]
    if any(member is ANY for member in rest) and all(member.same for member in rest):
        return ANY
    if not rest:
        return _NONE
    made = rest[0] if len(rest) == 1 else _joined(rest)
    return made if len(rest) == len(members) else _or_none(made)


_NONE: Converter = plain(type(None))  # type: ignore[assignment]


def _joined(members: list[Converter]) -> Converter:
    if all(isinstance(member, Plain) for member in members):
        kinds = {kind for member in members for kind in member.kinds}
        return Plain(" or ".join(member.name for member in members), *kinds)
    return OneAmong(members)


def _or_none(inner: Converter) -> Converter:
    if isinstance(inner, Plain):
        return Plain(f"{inner.name} or None", *inner.kinds, type(None))
    return OneAmong([inner, _NONE]) if type(None) in inner.kinds else Maybe(inner)


def _literal(values: tuple[Any, ...]) -> Converter:
    pairs = []
    for value in values:
        data = value if type(value) in EVERYTHING else converter(type(value)).dump(value)
        pairs.append((value, data))
    return OneOf("Literal", pairs)


_LISTS: dict[Any, tuple[Any, Any]] = {
    list: (list, list),
    tuple: (tuple, tuple),
    set: (set, set),
    frozenset: (frozenset, frozenset),
    collections.deque: (collections.deque, collections.deque),
    abc.Sequence: (abc.Sequence, list),
    abc.MutableSequence: (abc.MutableSequence, list),
    abc.Collection: (abc.Collection, list),
    abc.Iterable: (abc.Collection, list),
    abc.Set: (abc.Set, set),
    abc.MutableSet: (abc.MutableSet, set),
}
_DICTS: dict[Any, tuple[Any, Any]] = {
    dict: (dict, dict),
    abc.Mapping: (abc.Mapping, dict),
    abc.MutableMapping: (abc.MutableMapping, dict),
    collections.OrderedDict: (collections.OrderedDict, collections.OrderedDict),
}


def _of_container(kind: Any, inner: list[Converter]) -> Converter | None:
    if kind in _LISTS:
        accepted, make = _LISTS[kind]
        return Items(make.__name__, inner[0] if inner else ANY, accepted, make)
    if kind in _DICTS:
        accepted, make = _DICTS[kind]
        key, value = inner if len(inner) == 2 else (ANY, ANY)
        return Table(make.__name__, key, value, accepted, make)
    return None


# ---- classes -------------------------------------------------------------------------------------


def _of_class(kind: type) -> Converter:
    if kind not in _made:
        _made[kind] = _registered.get(kind) or _known(kind) or _opaque(kind)
    return _made[kind]


def _known(kind: Any) -> Converter | None:
    return (
        plain(kind)
        or text(kind)
        or (members_of(kind) if issubclass(kind, enum.Enum) else None)
        or _of_container(kind, [])
        or records.model(kind)
        or _record(kind)
    )


def _opaque(kind: type) -> Converter:
    def fits(value: Any) -> bool:
        try:
            return isinstance(value, kind)
        except TypeError:  # a protocol that cannot be asked at run time
            return True

    name = kind.__name__
    return Opaque(name, fits, f"tell how, by slothqueue.register({name}, to, back)")


def _record(kind: Any) -> Converter | None:
    if typing.is_typeddict(kind):
        return Keyed(kind, lambda: keys(kind))
    if "__dataclass_fields__" in vars(kind):
        return Record(kind, lambda: _dataclass_fields(kind))
    if "__attrs_attrs__" in vars(kind):
        return Record(kind, lambda: _attrs_fields(kind))
    if issubclass(kind, tuple) and hasattr(kind, "_fields") and hasattr(kind, "_field_defaults"):
        return Record(kind, lambda: _places(kind))
    return None


def _hints(kind: Any) -> dict[str, Any]:
    """The annotations of a class and of those that it is made of."""
    found: dict[str, Any] = {}
    for each in reversed(kind.__mro__):
        names = vars(sys.modules.get(each.__module__, typing))
        raw = vars(each).get("__annotations__")
        if raw is None and each is not object:  # newer Pythons make them when asked
            raw = getattr(each, "__annotations__", {}) if "__annotate_func__" in vars(each) else {}
        found.update(evaluated(raw or {}, names, dict(vars(each))))
    return found


def _dataclass_fields(kind: Any) -> list[Field]:
    hints, missing = _hints(kind), sys.modules["dataclasses"].MISSING
    found = []
    for field in kind.__dataclass_fields__.values():
        how = field._field_type.name
        if how == "_FIELD_INITVAR":
            raise Unfit(
                f"is a {kind.__name__}, whose {field.name} is an InitVar and so not kept; "
                f"tell how to write it, by slothqueue.register({kind.__name__}, to, back)"
            )
        if how == "_FIELD" and field.init:
            needed = field.default is missing and field.default_factory is missing
            each = converter(hints.get(field.name, Any))
            found.append(Field(field.name, field.name, needed, each))
    return found


def _attrs_fields(kind: Any) -> list[Field]:
    hints, nothing = _hints(kind), sys.modules["attr"].NOTHING
    return [
        Field(
            each.name,
            getattr(each, "alias", None) or each.name.lstrip("_"),
            each.default is nothing,
            converter(hints.get(each.name, each.type or Any)),
        )
        for each in kind.__attrs_attrs__
        if each.init
    ]


def _places(kind: Any) -> list[Field]:
    hints = _hints(kind)
    return [
        Field(name, name, name not in kind._field_defaults, converter(hints.get(name, Any)))
        for name in kind._fields
    ]


def keys(kind: Any) -> list[Field]:
    """The keys of a TypedDict."""
    return [
        Field(name, name, _needed(kind, name, hint), converter(hint))
        for name, hint in _typed_dict_hints(kind).items()
    ]


def _typed_dict_hints(kind: Any) -> dict[str, Any]:
    raw, names = dict(kind.__annotations__), vars(sys.modules.get(kind.__module__, typing))
    return evaluated(raw, names, {})


def _needed(kind: Any, name: str, hint: Any) -> bool:
    """Whether the key must be there. What the class says is wrong when annotations are text."""
    while (origin := typing.get_origin(hint)) is not None:
        if origin in (typing.Required, typing.NotRequired):
            return origin is typing.Required
        if origin is not typing.Annotated and getattr(origin, "_name", None) != "ReadOnly":
            break
        hint = typing.get_args(hint)[0]
    return name in kind.__required_keys__
