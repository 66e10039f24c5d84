"""The public surface as text. `python -m tests.house.surface` writes surface.txt anew.

A change of surface is a change of that file, and gets the review that it deserves.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STORED = Path(__file__).with_name("surface.txt")
MODULES = ("slothqueue", "slothqueue.testing")


def lines() -> Iterator[str]:
    """Every public name with its signature, one a line."""
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in sorted(module.__all__):
            yield from _describe(f"{module_name}.{name}", getattr(module, name))


def members(kind: type) -> dict[str, Any]:
    """The public members of a class that we wrote, inherited ones included."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] == "slothqueue":
            found |= vars(base)
    special = {"__call__", "__iter__", "__aiter__", "__enter__", "__exit__"}
    return {n: v for n, v in sorted(found.items()) if n in special or not n.startswith("_")}


def _describe(name: str, thing: object) -> Iterator[str]:
    if isinstance(thing, type) and issubclass(thing, dict):  # options, by their names
        yield f"class {name}(TypedDict)"
        for key, kind in thing.__annotations__.items():
            yield f"{name}.{key}: {_text(getattr(kind, '__forward_arg__', kind))}"
    elif isinstance(thing, type):
        yield f"class {name}({', '.join(base.__name__ for base in thing.__bases__)})"
        if not issubclass(thing, BaseException):
            yield f"{name}{_signature(thing)}"
        for member, value in members(thing).items():
            yield from _member(f"{name}.{member}", value)
    elif inspect.isroutine(thing):
        yield f"{name}{_signature(thing)}"
    else:
        yield f"{name}: {type(thing).__name__}"


def _member(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, property):
        yield f"{name}: {_text(inspect.signature(value.fget).return_annotation)}"  # type: ignore[arg-type]
    elif isinstance(value, classmethod | staticmethod):
        yield f"{name}{_signature(value.__func__)}  [{type(value).__name__}]"
    elif inspect.isfunction(value):
        yield f"{name}{_signature(value)}"
    elif type(value).__name__ in ("member_descriptor", "_tuplegetter"):
        yield f"{name}: field"
    else:
        yield f"{name}: {type(value).__name__}"


def _signature(thing: Any) -> str:
    signature = inspect.signature(thing)
    parts, starred = [], False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            starred = True
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        parts.append(_parameter(parameter))
    result = _text(signature.return_annotation)
    return f"({', '.join(parts)})" + (f" -> {result}" if result else "")


def _parameter(parameter: inspect.Parameter) -> str:
    text = str(parameter).partition(":")[0].partition("=")[0].strip()  # with its stars
    annotation = _text(parameter.annotation)
    if annotation:
        text += f": {annotation}"
    if parameter.default is not parameter.empty:
        default = re.sub(r"<.* at 0x\w+>", "...", repr(parameter.default))
        text += f" = {default}" if annotation else f"={default}"
    return text


def _text(annotation: object) -> str:
    """An annotation as it was written, the same on every version of Python."""
    if annotation is inspect.Signature.empty:
        return ""
    if isinstance(annotation, str):
        return annotation
    return annotation.__name__ if type(annotation) is type else str(annotation)


if __name__ == "__main__":
    STORED.write_text("".join(f"{line}\n" for line in lines()), encoding="utf-8")
    print(f"wrote {STORED.name}")
