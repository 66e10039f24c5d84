"""Where the output of a job goes: to a pipe as it is, to a terminal made harmless, or as JSON."""

from __future__ import annotations

import sys
from typing import Protocol

from ..outputs import Cut
from .harmless import Fold
from .logs import mark
from .session import Session

LONGEST_LINE = 1 << 20
"""Bytes of a line that are told as one object; a longer line is told in several."""


class Sink(Protocol):
    """Takes output as it comes."""

    def write(self, attempt: int, data: bytes) -> None: ...
    def cut(self, attempt: int, cut: Cut) -> None: ...
    def end(self) -> None: ...


def show(sink: Sink, attempt: int, part: bytes | Cut) -> None:
    """Give it bytes, or a cut in their place."""
    if isinstance(part, Cut):
        sink.cut(attempt, part)
    else:
        sink.write(attempt, part)


def sink_for(session: Session, job: int, *, raw: bool = False, live: bool = True) -> Sink:
    """The sink that fits who reads; `live` if a line is to be seen before it has ended."""
    if session.json:
        return Lines(session, job)
    if raw or not session.screen.terminal:
        return AsItIs()
    return Harmless(live=live, colored=session.screen.colored)


class AsItIs:
    """Bytes as they were."""

    def write(self, attempt: int, data: bytes) -> None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def cut(self, attempt: int, cut: Cut) -> None:
        self.write(attempt, mark(cut))

    def end(self) -> None:
        """Nothing is kept back."""


class Harmless:
    """Text that cannot steer a terminal but for its colors."""

    def __init__(self, *, live: bool, colored: bool) -> None:
        self._parts: list[str] = []
        self._fold = Fold(self._parts.append, live=live, colored=colored)

    def write(self, attempt: int, data: bytes) -> None:
        self._fold.feed(data)
        self._pass_on()

    def cut(self, attempt: int, cut: Cut) -> None:
        self.write(attempt, mark(cut))

    def end(self) -> None:
        self._fold.end()
        self._pass_on()

    def _pass_on(self) -> None:
        text = "".join(self._parts)
        self._parts.clear()  # first, or an interrupt between would have it written twice
        sys.stdout.write(text)  # at once: a terminal is flushed at every line
        sys.stdout.flush()


class Lines:
    """One object per line of output, for programs."""

    def __init__(self, session: Session, job: int) -> None:
        self._session, self._job = session, job
        self._attempt, self._number, self._rest = 0, 1, b""

    def write(self, attempt: int, data: bytes) -> None:
        if attempt != self._attempt:
            self.end()
            self._attempt, self._number = attempt, 1
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._tell(line)
            self._number += 1
        if len(self._rest) > LONGEST_LINE:
            self._tell(self._rest)
            self._rest = b""
        sys.stdout.flush()

    def cut(self, attempt: int, cut: Cut) -> None:
        self.write(attempt, b"\n")
        self._tell(mark(cut).strip(), cut=cut.length)
        self._number += 1

    def end(self) -> None:
        if self._rest:
            self._tell(self._rest)
        self._rest = b""
        sys.stdout.flush()

    def _tell(self, line: bytes, **more: int) -> None:
        text = line.decode("utf-8", "backslashreplace")
        told = {"job": self._job, "attempt": self._attempt, "line": self._number, "text": text}
        self._session.tell(told | more)
