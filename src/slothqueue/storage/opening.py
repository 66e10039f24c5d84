"""Opens a file as a store: is this a place for one, is it whole, is its schema ours."""

from __future__ import annotations

import os
import sqlite3
import threading
import time

from ..clock import Clock
from ..errors import StoreUnavailable
from ..liveness import free, make_private
from ..waiting import BellFile
from . import filesystem, migrate
from .base import NameVerbs
from .checkpoints import log_bytes
from .locking import begin, patiently, undo
from .sqlite_errors import cannot_create, cannot_open, corrupt, not_regular

FLOOR = (3, 37, 0)
BETWEEN_LOOKS = 1.0  # s
GOING = 3.0
"""Seconds in which those who use a file that was replaced, and have nothing to do, have to go."""

SMALLEST = 512  # bytes: a page is no smaller
one_at_a_time = threading.Lock()
"""Held while a file is created: a descriptor of ours must not meet SQLite's, see `sqlite.py`."""


class Identity:
    """Which file it was that we opened, to notice that somebody has put another in its place."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = _file(path)
        self._next_look = time.monotonic() + BETWEEN_LOOKS

    def changed(self) -> bool:
        """Whether it is gone or another by now; looks once a second."""
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + BETWEEN_LOOKS
        return _file(self._path) != self._file


def _file(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def replaced(path: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"{path} was removed or replaced while it was open, so nothing is written. What was "
        "written in the last second may be in the old file. The next call opens what is there now."
    )


def prepare_live(live: str, store_id: str, *, wait: bool) -> bool:
    """Make the live directory and bind it to its store; whether locks work in it.

    Raises StoreUnavailable if it belongs to another store that somebody still uses; `wait` gives
    them a moment to find out and go, which is of no use to one of them.
    """
    make_private(live)
    mark = os.path.join(live, "store")
    if in_use_by_others(live, store_id) and not (wait and _send_away(live, store_id)):
        raise StoreUnavailable(
            f"{live} belongs to another store, and a process still uses it. Was the file beside it "
            "replaced? End that process, or put the store elsewhere."
        )
    try:
        if _read(mark) != store_id:
            with open(mark, "w", encoding="ascii", opener=_private) as file:
                file.write(store_id)
        return filesystem.locks_work(live)
    except OSError:  # it may be read but not written: whoever registers there is told
        return True


def in_use_by_others(live: str, store_id: str) -> bool:
    """Whether somebody lives in this directory as a user of another store."""
    found = _read(os.path.join(live, "store"))
    return bool(found) and found != store_id and _in_use(live)


def _send_away(live: str, store_id: str) -> bool:
    """Wake those who sleep beside a file that was replaced: they find out, and go. Whether all
    have gone."""
    bell, until = BellFile(live), time.monotonic() + GOING
    while in_use_by_others(live, store_id):
        if time.monotonic() > until:
            return False
        bell.ring()  # again and again: they look at the file once a second
        time.sleep(0.1)
    return True


def _read(mark: str) -> str:
    try:
        with open(mark, encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _in_use(live: str) -> bool:
    locks = (name for name in os.listdir(live) if name.endswith(".lock"))
    return any(not free(os.path.join(live, name)) for name in locks)


def check_place(path: str, *, allow_unsafe_fs: bool) -> tuple[str | None, bool]:
    """Whether a store may be here: a warning, and whether locks can be trusted here.

    Raises StoreUnavailable if they cannot, unless that is allowed.
    """
    if sqlite3.sqlite_version_info < FLOOR:
        raise StoreUnavailable(
            f"SQLite {sqlite3.sqlite_version} is too old: 3.37 or newer is needed. Use a newer "
            "Python or system."
        )
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path)):
        raise cannot_open(path, StoreUnavailable("no such place"))
    if os.path.exists(path) and not os.path.isfile(path):
        raise not_regular(path)
    try:
        return filesystem.check(path), True
    except StoreUnavailable:
        if not allow_unsafe_fs:
            raise
        return None, False


def create(path: str) -> None:
    """Create the file unless it is there, private to its owner.

    SQLite gives the same mode to what it puts beside it.
    """
    if not os.path.exists(path) and log_bytes(path):
        # An empty file beside it would make SQLite delete the log, and with it what is only there.
        raise StoreUnavailable(
            f"{path} is missing, but its log {path}-wal is here. Put the file back beside its log; "
            "or, if it is gone for good, move the log away to begin anew."
        )
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileExistsError:
        return
    except OSError as error:
        raise cannot_create(path, error) from error
    os.close(descriptor)
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)  # or a power cut may take the name of the file
    finally:
        os.close(folder)


def set_up(
    connection: sqlite3.Connection, path: str, names: NameVerbs, clock: Clock, patience: float
) -> None:
    """Switch to WAL and bring the schema up to date. Many may do so at the same moment."""
    try:
        _set_up(connection.cursor(), path, names, clock, patience)
    except BaseException:
        connection.close()
        raise


def _set_up(tx: sqlite3.Cursor, path: str, names: NameVerbs, clock: Clock, patience: float) -> None:
    check_whole(tx, path, patience)
    mode = patiently(_journal_mode, tx, patience)
    if mode != "wal":
        raise StoreUnavailable(
            f"{path} cannot use a write-ahead log here (it stays in {mode} mode). Put it on a "
            "local disk."
        )
    while patiently(lambda tx: migrate.pending(tx, path), tx, patience):
        try:
            patiently(begin, tx, patience)
            for script in migrate.pending(tx, path):
                migrate.apply(tx, script, clock.wall())
            names.bind(tx)
            tx.execute("commit")
        except BaseException:
            undo(tx)
            raise


def uri(path: str, how: str) -> str:
    """The file as SQLite is told of it: `how` are parameters, such as `mode=ro`."""
    return f"file:{path.replace('%', '%25').replace('?', '%3f').replace('#', '%23')}?{how}"


def check_whole(tx: sqlite3.Cursor, path: str, patience: float) -> None:
    """Raises StoreCorrupt if the file is no database, or was cut short."""
    patiently(lambda tx: _refuse_garbage(tx, path), tx, patience)
    _check_length(tx, path, patience)


def _refuse_garbage(tx: sqlite3.Cursor, path: str) -> None:
    """Read the header: raises if the file is not a database."""
    if 0 < (size := os.stat(path).st_size) < SMALLEST:  # SQLite would take it for an empty one
        raise corrupt(path, f"it has {size} bytes, too few for a database")
    tx.execute("pragma schema_version").fetchone()


def _journal_mode(tx: sqlite3.Cursor) -> str:
    return str(tx.execute("pragma journal_mode=wal").fetchone()[0])


def _check_length(tx: sqlite3.Cursor, path: str, patience: float) -> None:
    """A file that was cut short opens without a word; with an empty log we can tell."""
    pages = patiently(lambda tx: tx.execute("pragma page_count").fetchone(), tx, patience)[0]
    size = tx.execute("pragma page_size").fetchone()[0]
    found = os.stat(path).st_size
    if found < pages * size and log_bytes(path) == 0:
        raise corrupt(path, f"it is cut short: {found} bytes of {pages * size}")
