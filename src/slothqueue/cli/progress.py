"""A bar on the terminal for what takes long, on stderr, gone when it is over."""

from __future__ import annotations

import sys

from .screen import Screen

CELLS = 24


class Bar:
    """Draws itself when told how far things are; draws nothing where nobody would see it."""

    def __init__(self, what: str) -> None:
        self._what, self._screen, self._drawn = what, Screen(sys.stderr), ""

    def show(self, fraction: float, said: str) -> None:
        """So much is done, from 0 to 1; and a few words."""
        full = round(CELLS * min(max(fraction, 0.0), 1.0))
        line = f"{self._what} [{'#' * full}{' ' * (CELLS - full)}] {fraction:4.0%}  {said}"
        self._write(line)

    def end(self) -> None:
        """Leave the line empty."""
        if self._drawn:
            self._write("")

    def _write(self, line: str) -> None:
        if not self._screen.terminal or line == self._drawn:
            return
        line = line[: (self._screen.width or 80) - 1]
        sys.stderr.write("\r" + line.ljust(len(self._drawn)) + ("" if line else "\r"))
        sys.stderr.flush()
        self._drawn = line
