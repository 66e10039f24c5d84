"""Sizes as people write and read them."""

from __future__ import annotations

import re
from typing import Any

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SIZE = r"(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?"  # compiled when it is needed, which is seldom


def size(value: Any, *, what: str = "size") -> int:
    """Bytes, from a whole number or from text such as `64MB`, `1.5 GiB`, `500k`.

    Raises ValueError.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    found = re.fullmatch(_SIZE, value.strip().lower()) if isinstance(value, str) else None
    unit = None if found is None else {**_UNITS, **_BINARY}.get(found[2])
    if found is None or unit is None:
        raise ValueError(f"{what} must be bytes or text such as '64MB' or '1GiB', and is {value!r}")
    return int(float(found[1]) * unit)


def spoken_size(count: int) -> str:
    """Bytes for people: `12 kB`, `3.4 MB`."""
    if count < 1000:
        return f"{count} B"
    value, units = count / 1000, ["kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.1f}".removesuffix(".0") + f" {units[0]}"
