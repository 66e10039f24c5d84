"""The output of an attempt as it is on disk: what there is of it, and where a piece was cut out.

A log is read while it grows and while its middle is freed, so what was read counts only if the
note beside the log, read afterwards, does not say that it was cut meanwhile.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from .caps import read_note


class Kept(NamedTuple):
    """A piece of a log that is there."""

    offset: int
    length: int


class Cut(NamedTuple):
    """A piece that is not: so many bytes were written here and not kept."""

    length: int


def pieces(path: str) -> list[Kept | Cut]:
    """What there is of the log at `path`, in order; raises OSError if it is not there."""
    end = os.stat(path).st_size
    note = read_note(path)
    if note is None or end < note[2]:  # not cut, or emptied since
        return [Kept(0, end)] if end else []
    start, lost, resume = note
    found: list[Kept | Cut] = [Kept(0, start), Cut(lost), Kept(resume, end - resume)]
    return [piece for piece in found if piece.length]


class Reader:
    """Reads one log from `offset` on, while it may be growing and losing its middle.

    `file` is the log, open for reading, and `path` where it is.
    """

    def __init__(self, file: int, path: str, offset: int = 0) -> None:
        self._file, self._path, self._offset = file, path, offset
        self._note = note = read_note(path)
        self._told = note[1] if note and offset > note[0] else 0

    @property
    def offset(self) -> int:
        """Where the next read begins."""
        return self._offset

    def read(self, most: int = 65536) -> bytes | Cut:
        """The next bytes, or a cut in their place; no bytes when there are no more for now."""
        data = os.pread(self._file, most, self._offset)
        now, note = os.fstat(self._file), read_note(self._path)
        if note is None and not now.st_nlink:  # deleted, and its note with it: what was known holds
            note = self._note
        self._note = note
        if note is None or now.st_size < note[2]:
            return self._pass(data)
        start, lost, resume = note
        if self._offset < start:
            return self._pass(data[: start - self._offset])
        if start < resume:
            return self._skip(resume, resume - self._offset) or self._pass(data)
        # The file system knows no holes: all behind the head was cut off, maybe more than once.
        cut, self._told = self._skip(start, lost - self._told), lost
        return cut or self._pass(data)

    def _skip(self, offset: int, lost: int) -> Cut | None:
        if lost <= 0:
            return None
        self._offset = offset
        return Cut(lost)

    def _pass(self, data: bytes) -> bytes:
        self._offset += len(data)
        return data
