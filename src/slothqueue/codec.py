"""JSON for payloads, arguments and results: what goes in comes out, or is refused with its place.

Only what JSON itself knows: None, bool, int, float, str, list and dict with text keys. Tuples pass
and come back as lists. `typed` turns more into these by annotations, and back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from .errors import NotSerializable


def encode(value: Any, what: str = "payload", *, typed: bool = False) -> str:
    """The value as compact JSON text. `what` names the value in errors; `typed` says that it has an
    annotation, or might have one.

    Raises NotSerializable with the place of the first thing that JSON cannot carry.
    """
    try:
        text = _encode(value)
        if not text.isascii():
            text.encode()  # lone surrogates are no text that a store could keep
    except (TypeError, ValueError, RecursionError) as error:
        raise _refusal(value, what, error, typed) from None
    # The encoder writes keys such as 1, None or True as text in silence. They always look like
    # this; real text may look so too, so look at the value itself before refusing it.
    if _ODD_KEY.search(text) and (found := _offender(value, what, typed)):
        raise NotSerializable(found)
    return text


def decode(text: str) -> Any:
    """The value of a JSON text. Raises ValueError when it is none."""
    return _decode(text)


def kept(text: str, what: str) -> Any:
    """The same of a text that we have written. Raises NotSerializable if it is none any more."""
    try:
        return _decode(text)
    except UNREADABLE as error:
        raise NotSerializable(
            f"{what} is not JSON any more, so another program has changed it: {error}"
        ) from None


UNREADABLE = (ValueError, RecursionError)
"""What `decode` raises for a text that is no JSON, or whose lists in lists never end."""

LONGEST_TEXT = 16_384
"""No error or message is longer than this many bytes; what was cut is said in its place."""


def bounded(text: str) -> str:
    """The text as any store can keep it: no lone surrogates, no zeros, not too long."""
    data = text.replace("\0", "\\x00").encode(errors="backslashreplace")
    if len(data) <= LONGEST_TEXT:
        return data.decode()
    # The first line says what it was, the last frames say where.
    head, tail = LONGEST_TEXT // 4, LONGEST_TEXT // 2
    cut = len(data) - head - tail
    return (
        data[:head].decode(errors="ignore")
        + f"\n... {cut} bytes cut ...\n"
        + data[-tail:].decode(errors="ignore")
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _make_encode() -> Callable[[Any], str]:
    """The standard encoder, made once: `JSONEncoder.encode` makes its C half for every call."""
    encoder = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
    )
    make = getattr(json.encoder, "c_make_encoder", None)
    text = getattr(json.encoder, "encode_basestring", None)
    if make is None or text is None:
        return encoder.encode
    pieces = make(None, encoder.default, text, None, ":", ",", False, False, False)
    return lambda value: "".join(pieces(value, 0))


_encode = _make_encode()
_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode
_ODD_KEY = re.compile(r'"(?:-?\d[\d.e+\-]*|true|false|null)":')
_PLAIN_KEY = re.compile(r"[^\W\d]\w{0,59}")
_DEEPEST = 500

_REMEDIES = {
    "datetime": "give text, such as value.isoformat()",
    "date": "give text, such as value.isoformat()",
    "time": "give text, such as value.isoformat()",
    "timedelta": "give a number, such as value.total_seconds()",
    "Decimal": "give text, such as str(value)",
    "UUID": "give text, such as str(value)",
    "PosixPath": "give text, such as str(value)",
    "WindowsPath": "give text, such as str(value)",
    "bytes": "give text, such as base64.b64encode(value).decode()",
    "bytearray": "give text, such as base64.b64encode(value).decode()",
    "set": "give a list, such as sorted(value)",
    "frozenset": "give a list, such as sorted(value)",
    "generator": "give a list, such as list(value)",
    "coroutine": "await it first, or make the function `async def`",
}
_OTHERWISE = "give None, numbers, text, lists or dicts with text keys"


def _refusal(value: Any, what: str, error: Exception, typed: bool) -> NotSerializable:
    found = _offender(value, what, typed)
    return NotSerializable(found or f"{what} is not JSON ({error}); {_OTHERWISE}")


def _offender(value: Any, what: str, typed: bool) -> str | None:
    """What is wrong with the first thing in `value` that is not JSON, with its place."""
    above: list[tuple[int, Iterator[tuple[str, Any]]]] = []
    ahead = iter([(what, value)])
    holder = 0
    while True:
        place, item = next(ahead, ("", _END))
        if item is _END and not above:
            return None
        if item is _END:
            holder, ahead = above.pop()
            continue
        if wrong := _wrong(item, place, typed):
            return wrong
        if not isinstance(item, (dict, list, tuple)):
            continue
        above.append((holder, ahead))
        if len(above) > _DEEPEST or id(item) in (key for key, _ in above):
            return f"{what} is nested too deeply, or contains itself; give a flatter value"
        holder, ahead = id(item), _inside(item, place)


_END = object()


def _inside(item: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(item, dict):
        return ((step(place, key), each) for key, each in item.items())
    return ((step(place, n), each) for n, each in enumerate(item))


def step(place: str, key: str | int) -> str:
    """The place of what is inside under this key, or at this index."""
    if isinstance(key, int):
        return f"{place}[{key}]"
    if _PLAIN_KEY.fullmatch(key):
        return f"{place}.{key}"
    return f"{place}[{short(key)}]"


def _wrong(item: Any, place: str, typed: bool) -> str | None:
    if isinstance(item, str):
        return _wrong_text(item, place)
    if isinstance(item, float) and not (float("-inf") < item < float("inf")):
        return f"{place} is {float(item)}, a number that JSON does not have; give None or text"
    if isinstance(item, dict):
        return next((w for key in item if (w := _wrong_key(key, place))), None)
    if isinstance(item, int):
        return _wrong_integer(item, place)
    if item is None or isinstance(item, (float, list, tuple)):
        return None
    name = type(item).__name__
    remedy = (_by_annotation(item) if typed else None) or _REMEDIES.get(name, _OTHERWISE)
    return f"{place} is {article(name)} {name}, which JSON does not know; {remedy}"


_KNOWN = {"datetime", "date", "time", "timedelta", "Decimal", "UUID", "bytes", "bytearray"}
_KNOWN |= {"set", "frozenset", "deque"}
_MARKS = ("__dataclass_fields__", "__attrs_attrs__", "__struct_fields__", "__fields__")


def _by_annotation(item: Any) -> str | None:
    """The way out for a value that could travel if its annotation said what it is."""
    kind = type(item)
    name = "Path" if kind.__name__ in ("PosixPath", "WindowsPath") else kind.__name__
    enum = hasattr(kind, "__members__")
    if name == "Path" or name in _KNOWN or enum or any(hasattr(kind, mark) for mark in _MARKS):
        return f"annotate it as {name}, and it comes back as one"
    if name in _REMEDIES or kind.__module__ == "builtins":
        return None
    return f"tell how, by slothqueue.register({name}, to, back), and annotate it as {name}"


def _wrong_text(item: str, place: str) -> str | None:
    try:
        item.encode()
    except UnicodeEncodeError:
        return (
            f"{place} is {short(item)}, text with a lone surrogate; it has no UTF-8 form. "
            "A file name that is not UTF-8 can travel as os.fsencode(name).hex()"
        )
    return None


def _wrong_integer(item: int, place: str) -> str | None:
    try:
        int.__repr__(item)
    except ValueError:
        return f"{place} is an integer with too many digits; give text, such as hex(value)"
    return None


def _wrong_key(key: Any, place: str) -> str | None:
    if isinstance(key, str):
        return _wrong_text(key, f"a key of {place}")
    name = type(key).__name__
    return (
        f"{place} has the key {short(key)}, {article(name)} {name}; keys in JSON are text, "
        "give str(key) or a list of pairs"
    )


def short(value: Any) -> str:
    """A value on one line, for people."""
    try:
        text = ascii(value)
    except Exception:
        return f"<{type(value).__name__}>"
    return text if len(text) <= 60 else f"{text[:57]}..."


def article(name: str) -> str:
    """`a` or `an`, as goes before this name."""
    return "an" if name[:1] in "aeiouAEIO" else "a"
