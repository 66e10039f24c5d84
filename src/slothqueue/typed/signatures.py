"""Reads what a function says of its parameters and of its result."""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Callable
from inspect import Parameter
from typing import Any, NamedTuple, Optional

from . import calls
from .annotations import converter, evaluated, forget, keys
from .fitting import Converter
from .scalars import ANY

forget.append(calls.forget)


class Signature(NamedTuple):
    """The parameters of a function with their converters; None where JSON passes as it is."""

    bind: Callable[..., Any]
    positional: list[tuple[str, Converter | None]]
    """By place; last `*name`, if it takes more."""
    named: dict[str, Converter | None]
    more: Converter | None
    """Of `**kwargs`."""
    result: Converter | None


def read(function: Callable[..., Any]) -> Signature:
    """The signature of a function."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    raw = {each.name: each.annotation for each in parameters if each.annotation is not each.empty}
    if signature.return_annotation is not signature.empty:
        raw["return"] = signature.return_annotation
    hints = evaluated(raw, *_scope(function))
    made = {each.name: _of_parameter(each, hints) for each in parameters}
    more = next((each.name for each in parameters if each.kind is Parameter.VAR_KEYWORD), "")
    returned = converter(hints.get("return", Any))
    return Signature(
        signature.bind,
        _by_place(parameters, made),
        {each.name: made[each.name] for each in parameters if each.kind in _NAMED}
        | _unpacked(hints.get(more)),
        made.get(more),
        None if returned.same else returned,
    )


_PLACED = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def _by_place(
    parameters: list[Parameter], made: dict[str, Converter | None]
) -> list[tuple[str, Converter | None]]:
    placed = [(each.name, made[each.name]) for each in parameters if each.kind in _PLACED]
    rest = [each.name for each in parameters if each.kind is Parameter.VAR_POSITIONAL]
    return placed + [(f"*{name}", made[name]) for name in rest]


def _unpacked(hint: Any) -> dict[str, Converter | None]:
    """The keys of `**kwargs: Unpack[SomeTypedDict]`."""
    if typing.get_origin(hint) is not typing.Unpack:
        return {}
    return {field.name: field.converter for field in keys(typing.get_args(hint)[0])}


def _of_parameter(parameter: Parameter, hints: dict[str, Any]) -> Converter | None:
    hint = hints.get(parameter.name, Any)
    if parameter.default is None and hint is not Any:
        hint = _or_none(hint)  # many write `x: str = None`
    made = converter(hint)
    return None if made is ANY else made


def _or_none(hint: Any) -> Any:
    try:
        return Optional[hint]  # noqa: UP045  # works for whatever stands in an annotation
    except TypeError:
        return hint


def _scope(function: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The names that its annotations can see: those of its module, and those around it."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if not hasattr(function, "__globals__") and not inspect.ismethod(function):
        module = sys.modules.get(getattr(function, "__module__", ""))
        call = type(function).__call__ if not isinstance(function, type) else None
        return getattr(call, "__globals__", vars(module) if module else {}), {}
    inner = getattr(function, "__func__", function)
    return inner.__globals__, _around(inner)


def _around(function: Any) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return found
