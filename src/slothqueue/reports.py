"""What upkeep finds and tells: one fault of a store, one line of the doctor, one backup."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """One thing that is wrong with a store: what it is, where it is, and what to do."""

    what: str
    where: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.where}. {self.remedy}"


class Backup(NamedTuple):
    """A finished backup: where it is, its bytes, and the running jobs that start again in it."""

    path: str
    bytes: int
    reissued: int


LEVELS = ("ok", "note", "warning", "problem")


class Mark(NamedTuple):
    """What the doctor says of one thing: how it is (one of LEVELS), what was found, what to do."""

    check: str
    level: str
    found: str
    remedy: str | None = None
