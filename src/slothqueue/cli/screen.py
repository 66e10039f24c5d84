"""What a person sees: columns that fit, times that speak, colors on a terminal, nothing harmful."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence
from typing import Any

COLORS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "gray": "90", "bold": "1"}
STATE_COLORS = {
    "queued": "",
    "running": "blue",
    "done": "green",
    "failed": "red",
    "cancelled": "gray",
}
GAP = 2


def safe(text: str) -> str:
    """The text with what could steer a terminal shown instead of obeyed."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _shown(char) for char in text)


def _shown(char: str) -> str:
    number = ord(char)
    if 0xDC80 <= number <= 0xDCFF:  # a byte that was no UTF-8, as Python keeps it
        return f"\\x{number - 0xDC00:02x}"
    return char.encode("unicode_escape").decode("ascii")


def one_line(text: str) -> str:
    """Any text as one safe line."""
    return safe(" ".join(text.split()))


def columns_of(text: str) -> int:
    """How many columns of a terminal a safe text takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    wide = sum(east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(1 for char in text if combining(char))


def cut(text: str, width: int) -> str:
    """The text, shortened to this many columns if need be."""
    if columns_of(text) <= width:
        return text
    while text and columns_of(text) > width - 1:
        text = text[: min(len(text) - 1, width - 1)]
    return text.rstrip() + "…" if width > 0 else ""


def folded(line: str, width: int) -> list[str]:
    """The line, folded between words to this many columns, each part as far indented."""
    parts, indent = [], len(line) - len(line.lstrip())
    while columns_of(line) > width and (at := line.rfind(" ", indent + 1, max(width, 0) + 1)) > 0:
        parts.append(line[:at].rstrip())
        line = " " * indent + line[at:].lstrip()
    return [*parts, line]


class Screen:
    """How to write for one stream: how wide it is, and whether it shows colors."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.terminal = _is_terminal(stream)
        self.width = _width(stream) if self.terminal else None
        self.colored = wants_color(self.terminal, os.environ)

    def paint(self, text: str, color: str) -> str:
        """The text in a color, where colors are wanted."""
        if not self.colored or not color or not text.strip():
            return text
        return f"\x1b[{COLORS[color]}m{text}\x1b[0m"

    def table(
        self,
        head: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        right: Sequence[int] = (),
        indent: int = 0,
        colors: Sequence[Sequence[str]] = (),
    ) -> list[str]:
        """Aligned lines. On a narrow terminal the last column gives way, and then the widest."""
        cells = [list(head), *([one_line(cell) for cell in row] for row in rows)]
        widths = [max(columns_of(row[i]) for row in cells) for i in range(len(head))]
        self._fit(widths, _least(cells, right), indent, yields=len(head) - 1 not in right)
        painted = [["gray"] * len(head), *(colors or [[""] * len(head)] * len(rows))]
        return [
            (" " * indent + self._row(row, widths, right, paint)).rstrip()
            for row, paint in zip(cells, painted)
        ]

    def _fit(self, widths: list[int], least: list[int], indent: int, *, yields: bool) -> None:
        """Narrow the columns until they fit, or until all are as narrow as can be."""
        if self.width is None:
            return
        over = indent + sum(widths) + GAP * (len(widths) - 1) - self.width
        if yields and over > 0:
            given = min(over, max(0, widths[-1] - least[-1]))
            widths[-1], over = widths[-1] - given, over - given
        while over > 0:
            spare, at = max((width - least[i], i) for i, width in enumerate(widths))
            if spare <= 0:
                return
            widths[at], over = widths[at] - 1, over - 1

    def _row(
        self, row: Sequence[str], widths: Sequence[int], right: Sequence[int], paint: Sequence[str]
    ) -> str:
        shown = []
        for i, cell in enumerate(row):
            text = cut(cell, widths[i])
            pad = " " * (widths[i] - columns_of(text))
            text = self.paint(text, paint[i])
            shown.append(pad + text if i in right else text + pad)
        return (" " * GAP).join(shown)


def _least(cells: Sequence[Sequence[str]], right: Sequence[int]) -> list[int]:
    """How narrow each column may become. Numbers stay whole, whatever becomes of their title."""
    numbers = {i: max((columns_of(row[i]) for row in cells[1:]), default=1) for i in right}
    return [numbers.get(i, 8 if i == len(cells[0]) - 1 else 5) for i in range(len(cells[0]))]


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def _width(stream: Any) -> int:
    told = os.environ.get("COLUMNS", "")
    if told.isdigit() and int(told) > 0:
        return int(told)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError, AttributeError):
        return 80


def wants_color(terminal: bool, environment: Any) -> bool:
    """NO_COLOR forbids (https://no-color.org), FORCE_COLOR demands, else a terminal decides."""
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return terminal and environment.get("TERM") != "dumb"


def rough(span: dt.timedelta) -> str:
    """A span for people, in its largest unit: `3m`, `2h`, `12s`."""
    seconds = round(abs(span.total_seconds()))
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size - size // 120:  # 1799 s are 30 minutes to a person
            return f"{max(1, round(seconds / size))}{name}"
    return f"{seconds}s"


def since(then: dt.datetime, now: dt.datetime) -> str:
    """`in 10m`, `3m ago`, `just now`."""
    if then > now:
        return f"in {rough(then - now)}"
    return f"{rough(now - then)} ago" if (now - then).total_seconds() >= 1 else "just now"


def local(moment: dt.datetime) -> str:
    """A moment in the zone of this machine."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")
