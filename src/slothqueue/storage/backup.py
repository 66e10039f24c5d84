"""Copies a store that is in use, all of it as of one moment, to a file that is whole or not there.

SQLite's own backup takes the pages, some at a time, inside one read transaction of ours: without
that it starts over at every commit of others, and under steady writers for ever; with it the copy
is of one moment, and writers go on, their log growing by what they write meanwhile. `vacuum into`
takes twice as long and gives other row ids to a user's own tables.

The copy is made in a private directory beside the target, locked as long as its maker lives, and
moved to its name when it is whole, checked and on the disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import (
    SlothError,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    WrongState,
)
from ..liveness import free, lock_directory
from ..sizes import spoken_size
from . import opening
from .base import Tx
from .sqlite_errors import cannot_open, code, not_regular, translate

if TYPE_CHECKING:
    from .sqlite import SqliteStore

PAGES_AT_ONCE = 1_000
PREFIX = ".sloth-backup-"
BESIDE = ("-wal", "-shm", "-journal")
_ROLLBACK_MODE = b"\x01\x01"
_FULL, _READONLY, _IOERR, _CANTOPEN = 13, 8, 10, 14

Progress = Callable[[str, float], None]
"""Told what goes on ("copy" or "check") and how much of it is done, 0 to 1."""


def back_up(
    store: SqliteStore,
    path: str | os.PathLike[str],
    *,
    force: bool,
    finish: Callable[[Tx], int],
    progress: Progress,
) -> tuple[str, int, int]:
    """Copy the store to this path; the path, the bytes, and what `finish` made of the copy.

    `finish` runs in a transaction on the copy, before it has its name. Raises WrongState if there
    is something already, StoreFull, StoreReadOnly or StoreUnavailable if the place is no good, and
    StoreCorrupt if the store itself is damaged; nothing is left then.
    """
    target = _target(store.path, path, force)
    sweep(os.path.dirname(target))
    draft = Draft(target)
    try:
        store.read(lambda tx: _copy(tx, draft, target, progress))
        done = _finish(draft, store.path, finish, progress)
        size = _flush(draft.file)
        draft.publish(force)
    except (OSError, sqlite3.Error) as error:
        raise _told(error, target) from error
    finally:
        draft.close()
    return target, size, done


# ---- the place ----------------------------------------------------------------------------------


def _target(store: str, path: str | os.PathLike[str], force: bool) -> str:
    """Where the copy goes, behind any link. Raises if it may not go there."""
    target = os.path.realpath(os.path.expanduser(os.fspath(path)))
    real = os.path.realpath(store)
    ours = [real, *(real + end for end in (*BESIDE, "-live", "-logs"))]
    if target in ours or _same(target, real):
        raise WrongState(f"{target} is the store itself. Name another file for the backup.")
    if os.path.isdir(target) or not os.path.isdir(os.path.dirname(target)):
        raise cannot_open(target, StoreUnavailable("no such place"))
    if os.path.exists(target):
        _refuse_what_is_there(target, force)
    for end in BESIDE:
        if os.path.lexists(target + end):  # SQLite would take it for the new file's own
            raise WrongState(
                f"{target}{end} is there: {target} is in use as a database, or was left in the "
                "middle of something. Nothing was changed. Name another file for the backup."
            )
    return target


def _refuse_what_is_there(target: str, force: bool) -> None:
    if not os.path.isfile(target):
        raise not_regular(target)
    if not force:
        raise WrongState(
            f"{target} is there already. Nothing was changed. Name another file, or have it "
            "replaced: --force, or force=True."
        )
    live = target + "-live"
    if os.path.isdir(live) and any(
        not free(os.path.join(live, name)) for name in os.listdir(live) if name.endswith(".lock")
    ):
        raise WrongState(
            f"{target} is a store that a process uses now (see {live}). Nothing was changed. Name "
            "another file for the backup."
        )


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


class Draft:
    """A copy on its way: in a directory of its own beside the target, until it is published."""

    def __init__(self, target: str) -> None:
        self.target, self.folder = target, ""
        self._lock: int | None = None
        try:
            self._make(os.path.dirname(target))
            os.close(os.open(self.file, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        except OSError as error:
            self.close()
            raise _told(error, target) from error
        except BaseException:
            self.close()
            raise

    def _make(self, parent: str) -> None:
        while self._lock is None:  # again, if it was taken for a leftover before it was locked
            self.folder = os.path.join(parent, PREFIX + os.urandom(6).hex())
            os.mkdir(self.folder, 0o700)
            self._lock = lock_directory(self.folder)

    @property
    def file(self) -> str:
        """Where the copy is made."""
        return os.path.join(self.folder, "copy.db")

    def publish(self, force: bool) -> None:
        """Give it its name, in one step; the disk knows of it when this returns."""
        if force:
            os.replace(self.file, self.target)
        else:
            self._link()
        _sync_name(self.target)

    def _link(self) -> None:
        """Unlike a move, a link takes nobody else's place; where there are none, we look first."""
        try:
            os.link(self.file, self.target)
        except FileExistsError:
            raise WrongState(
                f"{self.target} was made by somebody else meanwhile. It was not touched. Name "
                "another file for the backup."
            ) from None
        except OSError:
            if os.path.lexists(self.target):
                raise
            os.rename(self.file, self.target)

    def close(self) -> None:
        """Leave nothing but what was published."""
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def sweep(folder: str) -> None:
    """Remove what backups that were killed have left in this directory."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for path in [entry.path for entry in entries if entry.name.startswith(PREFIX)]:
            with contextlib.suppress(OSError):  # one of another user says nothing of the next
                _remove_leftover(path)


def _remove_leftover(path: str) -> None:
    lock = lock_directory(path) if free(path) else None
    if lock is not None:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


# ---- the pages ----------------------------------------------------------------------------------


def _copy(tx: Tx, draft: Draft, target: str, progress: Progress) -> None:
    """All pages, as they are at this moment. Called again if SQLite was not ready to read."""
    pages = tx.execute("pragma page_count").fetchone()[0]
    tx.execute("select count(*) from sqlite_master").fetchone()  # the moment of the copy
    _refuse_small_disk(target, pages * tx.execute("pragma page_size").fetchone()[0])
    copy = _connect(draft.file)

    def told(status: int, left: int, total: int) -> None:
        progress("copy", 1 - left / max(total, 1))

    try:
        tx.connection.backup(copy, pages=PAGES_AT_ONCE, progress=told)
    except sqlite3.Error as error:
        if code(error) in (_FULL, _READONLY, _IOERR, _CANTOPEN):
            raise _told(error, target) from error
        raise
    finally:
        copy.close()


def _connect(file: str) -> sqlite3.Connection:
    """On a file that nobody else knows of: no locks, no journal, flushed by us in the end."""
    connection = sqlite3.connect(opening.uri(file, "nolock=1"), uri=True, isolation_level=None)
    connection.execute("pragma journal_mode=off")
    connection.execute("pragma synchronous=off")
    return connection


def _refuse_small_disk(target: str, needed: int) -> None:
    if not hasattr(os, "statvfs"):
        return
    place = os.statvfs(os.path.dirname(target))
    there = place.f_bavail * place.f_frsize
    if there < needed:
        raise StoreFull(
            f"there is not enough room for {target}: it takes {spoken_size(needed)}, and "
            f"{spoken_size(there)} are free. Nothing was changed. Free some space, or name another "
            "place."
        )


def _finish(draft: Draft, store: str, finish: Callable[[Tx], int], progress: Progress) -> int:
    """Make the copy a store of its own, in one file, and look whether it is whole."""
    _leave_the_log(draft.file)
    copy = _connect(draft.file)
    try:
        progress("check", 0)
        _refuse_damage(copy, store)
        tx = copy.cursor()
        tx.execute("begin")
        done = finish(tx)
        tx.execute("commit")
        return done
    finally:
        copy.close()


def _leave_the_log(file: str) -> None:
    """Say in its header that it has no log beside it, so that one file is all of it.

    Source: https://sqlite.org/fileformat.html, the two bytes at 18. Whoever opens it as a store
    gives it a log again.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, _ROLLBACK_MODE, 18)
    finally:
        os.close(descriptor)


def _refuse_damage(copy: sqlite3.Connection, store: str) -> None:
    try:
        found = str(copy.execute("pragma integrity_check(1)").fetchone()[0])
    except sqlite3.DatabaseError as error:
        found = str(error)
    if found != "ok":
        first = " ".join(found.split())
        raise StoreCorrupt(
            f"{store} is damaged, so no backup of it was made: {first}. `sloth doctor` tells more; "
            "an earlier backup may be whole."
        )


def _flush(file: str) -> int:
    _sync(file, os.O_RDWR)
    return os.stat(file).st_size


def _sync(path: str, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        if sys.platform == "darwin":
            import fcntl  # not there on Windows

            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # fsync() stops at the drive's cache
        else:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_name(path: str) -> None:
    """Flush the directory of a file; there are some that cannot be, or not by us."""
    try:
        _sync(os.path.dirname(path), os.O_RDONLY)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM):
            raise


def _told(error: Exception, target: str) -> SlothError:
    """What went wrong at the target, with the way out."""
    number = getattr(error, "errno", None)
    if isinstance(error, sqlite3.Error) and code(error) not in (_FULL, _READONLY, _IOERR):
        return translate(error, target)
    if number in (errno.EACCES, errno.EPERM, errno.EROFS) or _is(error, _READONLY):
        return StoreReadOnly(
            f"{os.path.dirname(target)} may not be written, so there is no backup. Give this user "
            "write permission there, or name another place."
        )
    if number in (errno.ENOSPC, errno.EDQUOT) or _is(error, _FULL):
        return StoreFull(
            f"the disk of {target} is full, so there is no backup, and nothing is left of it. Free "
            "some space, or name another place."
        )
    return StoreUnavailable(
        f"the backup to {target} failed: {error}. Look at that disk and at the store's, or name "
        "another place."
    )


def _is(error: Exception, number: int) -> bool:
    return isinstance(error, sqlite3.Error) and code(error) == number
