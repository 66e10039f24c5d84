"""What the demo shows: one live line on a terminal, plain lines otherwise, and small tables."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence


class Screen:
    """Notes stay; the progress line is written over on a terminal, and now and then otherwise."""

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self._began = self._shown = time.monotonic()
        self._line = False

    def note(self, text: str) -> None:
        """A line that stays."""
        self._clear()
        seconds = time.monotonic() - self._began
        print(f"{seconds:5.1f} s  {text}", flush=True)

    def progress(self, counts: dict[str, int], total: int, what: str = "") -> None:
        """How far we are."""
        now = time.monotonic()
        if not self.live and now - self._shown < 2:
            return
        self._shown = now
        told = f"{counts['done']} done, {counts['running']} running, {counts['queued']} queued"
        filled = 12 * counts["done"] // total
        line = f"{now - self._began:5.1f} s  [{'#' * filled}{'.' * (12 - filled)}] {told}"
        if not self.live:
            print(line, flush=True)
            return
        line += f"; {what}" if what else ""
        width = shutil.get_terminal_size().columns - 1
        print("\r" + line[:width].ljust(width), end="", flush=True)
        self._line = True

    def _clear(self) -> None:
        if self._line:
            print("\r" + " " * (shutil.get_terminal_size().columns - 1), end="\r")
            self._line = False

    def end(self) -> None:
        """Nothing more will be written over."""
        self._clear()
        sys.stdout.flush()


def table(rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns, two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths)) for row in rows)
    return "\n".join(f"  {line.rstrip()}" for line in lines)
