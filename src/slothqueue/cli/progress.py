"""A line that tells how far long work is: on a terminal only, and gone at its end."""

from __future__ import annotations

import sys
from typing import Any

from ..clock import Clock, SystemClock
from .screen import Screen

SOON, BETWEEN = 400, 100
"""Milliseconds before the line appears, and between two changes of it."""

BAR = 20
_CLEAR = "\r\x1b[K"


class Progress:
    """How much of `total` is done, as a line on stderr. To be used in a `with` statement."""

    def __init__(
        self, total: int, what: str, *, stream: Any = None, clock: Clock | None = None
    ) -> None:
        self._total, self._what, self._done = total, what, 0
        self._stream = sys.stderr if stream is None else stream
        self._wanted = Screen(self._stream).terminal and total > 0
        self._now = (clock or SystemClock()).awake
        self._next = self._now() + SOON
        self._shown = False

    def advance(self, by: int) -> None:
        """So much more is done."""
        self._done += by
        if self._wanted and self._now() >= self._next:
            self._next = self._now() + BETWEEN
            self._show()

    def hide(self) -> None:
        """Take the line away, for others to write; it comes back as the work goes on."""
        if self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()
            self._shown = False

    def _show(self) -> None:
        part = min(self._done / self._total, 1.0)
        bar = "#" * int(BAR * part)
        self._stream.write(f"{_CLEAR}{self._what} [{bar:.<{BAR}}] {part:.0%}")
        self._stream.flush()
        self._shown = True

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc: object) -> None:
        self.hide()
