"""Where the output of a job goes: to a pipe as it is, to a terminal made harmless, or as JSON."""

from __future__ import annotations

import codecs
import re
import sys
from typing import Protocol

from .screen import safe
from .session import Session

# What may pass to a terminal: tabs, line ends, a return that progress bars use, and colors.
_HARMLESS = re.compile(r"[\t\n\r]|\x1b\[[0-9;]*m")
_UNFINISHED = re.compile(r"\x1b(\[[0-9;]{0,32})?$")


class Sink(Protocol):
    """Takes output as it comes."""

    def write(self, attempt: int, data: bytes) -> None: ...
    def end(self) -> None: ...


def sink_for(session: Session, job: int) -> Sink:
    """The sink that fits who reads."""
    if session.json:
        return Lines(session, job)
    return Harmless() if session.screen.terminal else AsItIs()


class AsItIs:
    """Bytes as they were."""

    def write(self, attempt: int, data: bytes) -> None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def end(self) -> None:
        """Nothing is kept back."""


class Harmless:
    """Text that cannot steer a terminal but for line ends and colors; what else might is shown."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._kept = ""

    def write(self, attempt: int, data: bytes) -> None:
        text = self._kept + self._decoder.decode(data)
        unfinished = _UNFINISHED.search(text)
        at = unfinished.start() if unfinished else len(text)
        self._kept = text[at:]
        self._show(text[:at])

    def end(self) -> None:
        self._show(self._kept + self._decoder.decode(b"", final=True))
        self._kept = ""

    def _show(self, text: str) -> None:
        sys.stdout.write(harmless(text))
        sys.stdout.flush()


def harmless(text: str) -> str:
    """The text with everything but line ends and colors shown instead of obeyed."""
    parts, at = [], 0
    for match in _HARMLESS.finditer(text):
        parts += [safe(text[at : match.start()]), match[0]]
        at = match.end()
    return "".join([*parts, safe(text[at:])])


class Lines:
    """One object per line of output, for programs."""

    def __init__(self, session: Session, job: int) -> None:
        self._session, self._job = session, job
        self._attempt, self._number, self._rest = 0, 0, b""

    def write(self, attempt: int, data: bytes) -> None:
        if attempt != self._attempt:
            self.end()
            self._attempt, self._number = attempt, 0
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._tell(line)
        sys.stdout.flush()

    def end(self) -> None:
        if self._rest:
            self._tell(self._rest)
        self._rest = b""
        sys.stdout.flush()

    def _tell(self, line: bytes) -> None:
        self._number += 1
        text = line.decode("utf-8", "backslashreplace")
        self._session.tell(
            {"job": self._job, "attempt": self._attempt, "line": self._number, "text": text}
        )
