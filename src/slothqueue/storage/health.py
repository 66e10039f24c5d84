"""How a file is: is it there, is it whole, who may read it, how large is what lies beside it.

Every function looks without writing, and without opening the files but through SQLite.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator

from ..clock import Millis
from ..errors import SchemaTooNew, SlothError, StoreUnavailable
from ..reports import Mark
from ..sizes import spoken_size
from . import filesystem, migrate
from .base import Tx
from .check import SQL, findings
from .checkpoints import log_bytes, wal_fault
from .log_readers import log_readers
from .opening import FLOOR, SMALLEST, check_whole, in_use_by_others
from .reading import ReadingStore
from .sqlite_errors import cannot_open, corrupt, not_regular

MUCH_LOG = 64_000_000
LITTLE_ROOM = 100_000_000
NO_ROOM = 10_000_000


def examine(store: ReadingStore, *, quick: bool) -> Iterator[Mark]:
    """One mark for each thing looked at, in an order that ends where nothing more can be told."""
    reading = log_readers(store.path)
    yield _sqlite()
    yield _place(store.path)
    there = _file(store.path)
    yield there
    if there.level == "problem" or not os.path.exists(store.path):
        return
    yield from _private(store)
    yield from _contents(store, quick=quick)
    yield _log(store.path, reading & log_readers(store.path))
    yield _room(store)
    yield _locks(store)


def told(check: str, error: Exception, level: str = "problem") -> Mark:
    """A sentence that says what happened and what to do, as the two parts that it has."""
    found, _, remedy = str(error).partition(". ")
    return Mark(check, level, found.rstrip("."), remedy or None)


# ---- the machine --------------------------------------------------------------------------------


def _sqlite() -> Mark:
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < FLOOR:
        return Mark(
            "sqlite",
            "problem",
            f"SQLite {version} is too old: 3.37 or newer is needed",
            "Use a newer Python or system.",
        )
    if wal_fault():
        return Mark(
            "sqlite",
            "note",
            f"SQLite {version} can damage its log when two programs write and copy it at the same "
            "moment; slothqueue itself takes care that they do not",
            "Other programs that write to this file do not. If there are any, use a Python with "
            "SQLite 3.51.3 or newer, 3.50.7 or 3.44.6.",
        )
    return Mark("sqlite", "ok", f"SQLite {version}")


def _place(path: str) -> Mark:
    try:
        warning = filesystem.check(path)
    except StoreUnavailable as error:
        return told("file system", error)
    if warning:
        return told("file system", StoreUnavailable(warning), "warning")
    mount = filesystem.mount_of(path)
    return Mark("file system", "ok", f"{mount.kind} on {mount.point}" if mount else "local")


# ---- the file -----------------------------------------------------------------------------------


def _file(path: str) -> Mark:
    """Whether there is something to look into."""
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path)):
        return told("file", cannot_open(path, StoreUnavailable("no such place")))
    if not os.path.exists(path):
        return _absent(path)
    if not os.path.isfile(path):
        return told("file", not_regular(path))
    if not os.access(path, os.R_OK):
        return Mark(
            "file",
            "problem",
            f"{path} may not be read by this user",
            "Give this user read and write permission on it, and on its directory.",
        )
    size = os.stat(path).st_size
    if 0 < size < SMALLEST:
        return told("file", corrupt(path, f"it has {size} bytes, too few for a database"))
    return Mark("file", "ok", f"{path}, {spoken_size(size)}")


def _absent(path: str) -> Mark:
    if log_bytes(path):
        return Mark(
            "file",
            "problem",
            f"{path} is missing, but its log {path}-wal is here",
            "Put the file back beside its log. Never make an empty one in its place.",
        )
    if not os.access(os.path.dirname(path), os.W_OK | os.X_OK):
        return Mark(
            "file",
            "problem",
            f"{path} does not exist, and may not be made: its directory is read-only",
            "Give this user write permission there, or choose another place with --db or SLOTH_DB.",
        )
    return Mark("file", "note", f"{path} does not exist yet", "`sloth add` makes it.")


def _private(store: ReadingStore) -> Iterator[Mark]:
    """Who else may read it or write to it, and whether we may."""
    path, folder = store.path, os.path.dirname(store.path)
    if not (os.access(path, os.W_OK) and os.access(folder, os.W_OK | os.X_OK)):
        yield Mark(
            "permissions",
            "problem",
            f"{path} or its directory may not be written by this user",
            "Give this user write permission on both. Until then it can only be looked at.",
        )
        return
    open_ones = [one for one in (path, store.live, store.logs) if _mode(one) & 0o077]
    if open_ones:
        yield Mark(
            "permissions",
            "warning",
            f"others may use {', '.join(open_ones)}: arguments, results and output are in there",
            f"If that is not meant: chmod go= {' '.join(open_ones)}",
        )
        return
    yield Mark("permissions", "ok", "private to their owner")


def _mode(path: str) -> int:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return 0


# ---- what is in it ------------------------------------------------------------------------------


def _contents(store: ReadingStore, *, quick: bool) -> Iterator[Mark]:
    try:
        store.peek(lambda tx: check_whole(tx, store.path, store.patience))
        mark = store.peek(lambda tx: _schema(tx, store.path))
        yield mark
        if mark.level == "ok":
            yield from store.peek(lambda tx: _integrity(tx, quick=quick))
            yield from _live(store, store.peek(lambda tx: store.names.meta(tx, "store")))
    except SlothError as error:
        yield told("integrity", error)


def _schema(tx: Tx, path: str) -> Mark:
    try:
        missing = migrate.pending(tx, path)
    except SchemaTooNew as error:
        return told("schema", error)
    if not migrate.version(tx):
        others = tx.execute(SQL["other_tables"]).fetchone()[0]
        what = f"a database with {others} tables of others and none of ours" if others else "empty"
        return Mark("schema", "note", what, "The first job puts our tables into it.")
    if missing:
        return Mark(
            "schema",
            "note",
            f"schema {migrate.version(tx)}; this version brings {missing[-1][0]}",
            "It is changed, all jobs kept, when the store is next used. Older versions can then "
            "not use it: back it up before.",
        )
    return Mark("schema", "ok", f"schema {migrate.version(tx)}")


def _integrity(tx: Tx, *, quick: bool) -> list[Mark]:
    found = findings(tx, quick=quick)
    if not found:
        return [Mark("integrity", "ok", "the file is sound, and every job is where it should be")]
    return [Mark("integrity", "problem", f"{one.what}: {one.where}", one.remedy) for one in found]


def _live(store: ReadingStore, id: str | None) -> Iterator[Mark]:
    """Nothing, unless the locks beside it are those of the users of another store."""
    if in_use_by_others(store.live, id or ""):
        yield Mark(
            "live directory",
            "problem",
            f"{store.live} belongs to another store, and a process still uses it: the file beside "
            "it was replaced",
            "End that process, then use the store again; or put this file elsewhere.",
        )


def newest_job(tx: Tx) -> Millis | None:
    """When the newest job was made, by the clock of then."""
    found = tx.execute(SQL["newest_job"]).fetchone()
    return None if found is None else int(found[0])


# ---- what lies beside it ------------------------------------------------------------------------


def _log(path: str, reading: set[tuple[int, int]]) -> Mark:
    size = log_bytes(path)
    if size <= MUCH_LOG:
        return Mark("log", "ok", f"the write-ahead log has {spoken_size(size)}")
    return Mark(
        "log",
        "warning",
        f"the write-ahead log has grown to {spoken_size(size)}: a reader kept it from being reused",
        _who_reads(sorted({pid for pid, _ in reading})),
    )


def _who_reads(pids: list[int]) -> str:
    if not pids:
        return (
            "Nobody reads for long at this moment, so it will be reused, and shrinks when the last "
            "program closes the store. Look for a program that keeps a transaction open."
        )
    who = ", ".join(f"{pid} ({_name(pid)})" for pid in pids)
    return f"Reading now, for longer than a moment: process {who}. Have it end its transaction."


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "gone by now"


def _room(store: ReadingStore) -> Mark:
    if not hasattr(os, "statvfs"):
        return Mark("disk", "ok", "cannot be told here")
    place = os.statvfs(os.path.dirname(store.path))
    free, size = place.f_bavail * place.f_frsize, _size(store.path) + log_bytes(store.path)
    output, live = _tree(store.logs), _tree(store.live)
    found = (
        f"{spoken_size(free)} free; store {spoken_size(size)}, output of commands "
        f"{spoken_size(output[1])} in {output[0]} files, live directory {live[0]} files"
    )
    if free < NO_ROOM or (place.f_files and not place.f_favail):
        return Mark("disk", "problem", found, "The disk is full. Free some space.")
    if free < max(LITTLE_ROOM, size):
        return Mark("disk", "warning", found, "Free some space: there is little room to grow.")
    return Mark("disk", "ok", found)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _tree(folder: str) -> tuple[int, int]:
    """How many files are in a directory, and their bytes."""
    try:
        with os.scandir(folder) as entries:
            sizes = [_size(entry.path) for entry in entries]
    except OSError:
        return 0, 0
    return len(sizes), sum(sizes)


def _locks(store: ReadingStore) -> Mark:
    folder = store.live if os.path.isdir(store.live) else os.path.dirname(store.path)
    try:
        works = filesystem.locks_seem_to_work(folder)
    except OSError as error:
        return Mark("locks", "problem", f"{folder} cannot be opened: {error.strerror}")
    if works:
        return Mark("locks", "ok", "two programs exclude each other")
    return Mark(
        "locks",
        "problem",
        f"locks do not work in {folder}: nobody can tell whether a process lives",
        "Put the store on a disk of this machine. Until then every lease has a time limit.",
    )
