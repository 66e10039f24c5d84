"""A line that tells how far long work is: on a terminal only, and gone at its end."""

from __future__ import annotations

import os
import sys
from typing import Any

from ..clock import Clock, Millis, SystemClock
from .screen import Screen

SOON, BETWEEN = 400, 100
"""Milliseconds before the line appears, and between two changes of it."""

BAR = 20
_CLEAR = "\r\x1b[K"


class Progress:
    """How far something is, as a line on stderr. To be used in a `with` statement.

    What is counted has a `total` and is called `what`; who knows the fraction calls `show`.
    """

    def __init__(
        self,
        total: int = 0,
        what: str = "",
        *,
        soon: Millis | None = None,
        stream: Any = None,
        clock: Clock | None = None,
    ) -> None:
        self._total, self._what, self._done = total, what, 0
        self._stream = sys.stderr if stream is None else stream
        screen = Screen(self._stream)
        self._wanted = screen.terminal and os.environ.get("TERM") != "dumb"
        self._now = (clock or SystemClock()).awake
        self._next = self._now() + (SOON if soon is None else soon)
        self._line = ""

    def advance(self, by: int) -> None:
        """So much more is done."""
        self._done += by
        if self._total > 0:
            self.show(self._what, min(self._done / self._total, 1.0))

    def show(self, what: str, fraction: float) -> None:
        """So much of it is done, from 0 to 1."""
        at_the_end = fraction >= 1 and self._line
        if not self._wanted or (self._now() < self._next and not at_the_end):
            return
        self._next = self._now() + BETWEEN
        line = f"{what} [{'#' * int(BAR * fraction):.<{BAR}}] {fraction:.0%}"
        if line != self._line:
            self._write(_CLEAR + line)
            self._line = line

    def hide(self) -> None:
        """Take the line away, for others to write; it comes back as the work goes on."""
        if self._line:
            self._write(_CLEAR)
            self._line = ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc: object) -> None:
        self.hide()
