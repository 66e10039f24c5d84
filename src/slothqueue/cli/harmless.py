"""Output of others for a terminal: colors pass, nothing else steers it, progress bars are folded.

What a program draws over with a carriage return is shown as it stands in the end; what could move
the cursor, set a title or write to the clipboard is shown instead of obeyed.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

from .screen import safe

LONGEST = 1 << 16
"""Characters of a line that are kept to be drawn over; what is longer is written as it comes."""

MOST_COLORS = 16
RESET = "\x1b[0m"
_ANEW = "\r\x1b[K"  # ours: back to the start of the line, and clear it

# A line end, a color, the clearing of a line, the hiding of the cursor, and the choice of the usual
# character set, which goes with the end of a color.
_KNOWN = re.compile(r"[\t\n\r]|\x1b\[[0-9;:]*m|\x1b\[[0-2]?K|\x1b\[\?25[lh]|\x1b\(B")
_UNFINISHED = re.compile(r"\x1b(\(|\[[0-9;:?]{0,32})?$")


class Fold:
    """Takes output in pieces and writes what a terminal may see.

    `live` shows a line that has not ended, too, and draws it anew as it changes.
    """

    def __init__(self, write: Callable[[str], object], *, live: bool, colored: bool) -> None:
        self._write, self._live, self._colored = write, live, colored
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._kept = ""
        self._parts: list[str] = []  # the present state of the line, with its colors
        self._size, self._spilled = 0, False
        self._before = ""  # the state that it draws over, if nothing is drawn yet
        self._drawn = ""  # what of it is on the screen
        self._dyed = False

    def feed(self, data: bytes) -> None:
        """Take the next piece of output."""
        text = self._kept + self._decoder.decode(data)
        unfinished = _UNFINISHED.search(text, max(len(text) - 40, 0))
        at = unfinished.start() if unfinished else len(text)
        self._kept = text[at:]
        self._take(text[:at])
        if self._live:
            self._draw()

    def end(self) -> None:
        """Write what is left, and leave the terminal in its usual color."""
        self._take(self._kept + self._decoder.decode(b"", final=True))
        self._kept = ""
        self._draw()
        if self._dyed:
            self._write(RESET)
        self._dyed = False

    def _take(self, text: str) -> None:
        at = 0
        for match in _KNOWN.finditer(text):
            self._add(text[at : match.start()])
            self._obey(match[0])
            at = match.end()
        self._add(text[at:])

    def _add(self, text: str) -> None:
        for start in range(0, len(text), LONGEST):
            piece = safe(text[start : start + LONGEST])
            self._parts.append(piece)
            self._size += len(piece)
            if self._size > LONGEST:
                self._spill()

    def _spill(self) -> None:
        """The line is too long to be kept: write it, and go on behind it."""
        self._draw()
        self._start_anew(colors=[])
        self._before = self._drawn = ""
        self._spilled = True

    def _obey(self, code: str) -> None:
        if code == "\n":
            self._end_line()
        elif code == "\r":
            self._return()
        elif code == "\t":
            self._add_as_is(code)
        elif code.endswith("m"):
            if self._colored:
                self._parts.append(code)
        elif code.endswith("K"):
            self._clear(code)

    def _add_as_is(self, text: str) -> None:
        self._parts.append(text)
        self._size += len(text)

    def _end_line(self) -> None:
        self._draw()
        self._write("\n")
        self._start_anew(colors=[])
        self._before, self._drawn, self._spilled = "", "", False

    def _return(self) -> None:
        """From here on the line is drawn over."""
        if self._spilled:  # too much of it is on the screen to be drawn over
            self._end_line()
        elif self._size:
            self._before = "".join(self._parts)
            self._start_anew(colors=_after_reset(self._parts))

    def _clear(self, code: str) -> None:
        """The line, or what of it is behind the cursor, is blank."""
        if code in ("\x1b[K", "\x1b[0K") and self._size:
            return
        self._before = ""
        self._start_anew(colors=_after_reset(self._parts))

    def _start_anew(self, colors: list[str]) -> None:
        self._parts, self._size = colors, 0

    def _draw(self) -> None:
        """Bring the line on the screen to its present state."""
        now = ("" if self._size else self._before) + "".join(self._parts)
        if now == self._drawn:
            return
        if now.startswith(self._drawn):
            self._write(now[len(self._drawn) :])
        else:
            self._write(_ANEW + now)
        self._drawn = now
        if "\x1b" in now:  # colors: nothing else of that kind gets here
            self._dyed = not _is_reset(now[now.rindex("\x1b") :].partition("m")[0])


def _after_reset(parts: list[str]) -> list[str]:
    """The colors that are in force behind these parts: those since the last reset, and it."""
    colors: list[str] = []
    for part in parts:
        if part.startswith("\x1b["):  # text was made safe, so this is ours
            colors = [part] if _is_reset(part) else [*colors, part][-MOST_COLORS:]
    return colors


def _is_reset(code: str) -> bool:
    return code.strip("\x1b[m0;:") == ""
