"""SQLite's errors in our words: what happened, to which file, and what to do."""

from __future__ import annotations

import errno
import os
import sqlite3
from typing import NoReturn

from ..errors import (
    SlothError,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

_BUSY, _LOCKED, _READONLY, _IOERR, _CORRUPT, _FULL, _CANTOPEN, _NOTADB = 5, 6, 8, 10, 11, 13, 14, 26


def code(error: sqlite3.Error) -> int:
    """The primary result code, 0 when the error has none (https://sqlite.org/rescode.html)."""
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    return code(error) in (_BUSY, _LOCKED)


def translate(error: sqlite3.Error, path: str) -> SlothError:
    """The typed error for what SQLite said; the caller keeps the cause."""
    number = code(error)
    if number in (_BUSY, _LOCKED):
        return StoreBusy(
            f"{path} is locked by another program, and stayed so for longer than the wait. Nothing "
            "was changed. Close the program that holds a transaction open, or try again."
        )
    if number == _FULL or (number == _IOERR and _disk_is_full(path)):
        return StoreFull(
            f"the disk of {path} is full. Nothing was changed; what was confirmed before is kept. "
            "Free some space and try again."
        )
    if number == _READONLY:
        return read_only(path)
    if number in (_CORRUPT, _NOTADB):
        return corrupt(path, str(error))
    if number == _CANTOPEN:
        return cannot_open(path, error)
    return StoreUnavailable(
        f"{path}: {error}. `sloth status --db {_quoted(path)}` tells whether it can be used."
    )


def raise_ours(error: sqlite3.Error, path: str) -> NoReturn:
    """As translate(), but what is wrong with the caller's own statement stays as SQLite said it."""
    told = translate(error, path)
    if type(told) is StoreUnavailable:
        raise error
    raise told from error


def read_only(path: str) -> StoreReadOnly:
    return StoreReadOnly(
        f"{path} or its directory may not be written. Give this user write permission on both, or "
        "choose another place with --db or SLOTH_DB."
    )


def corrupt(path: str, why: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"{path} is not a usable database: {why}. It was not touched. Restore it from a backup, or "
        "name another file."
    )


def cannot_open(path: str, error: Exception) -> SlothError:
    """Look at the path for the reason; SQLite only says that it could not."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        return StoreUnavailable(
            f"{path} is a directory. Name a file in it, such as {path}/work.db."
        )
    if not os.path.isdir(folder):
        return StoreUnavailable(
            f"the directory {folder} does not exist. Create it: mkdir -p {_quoted(folder)}"
        )
    if not os.access(folder, os.W_OK | os.X_OK) or (
        os.path.exists(path) and not os.access(path, os.W_OK)
    ):
        return read_only(path)
    return StoreUnavailable(
        f"{path} cannot be opened: {error}. Check its permissions and the limit of open files "
        "(ulimit -n)."
    )


def cannot_create(path: str, error: OSError) -> SlothError:
    """The file is not there and cannot be made."""
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return read_only(path)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(f"the disk of {path} is full. Free some space and try again.")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return cannot_open(path, error)
    return StoreUnavailable(
        f"{path} cannot be created: {error.strerror}. Choose another place with --db or SLOTH_DB."
    )


def not_regular(path: str) -> SlothError:
    """A device, a pipe or a socket: nothing can be kept there."""
    return StoreUnavailable(
        f"{path} is not a regular file. Name one that is, or one that does not exist yet."
    )


def _quoted(path: str) -> str:
    """A path as a shell takes it.

    Not by shlex: who has no descriptor left can import nothing, and must be told so all the same.
    """
    if path.isascii() and not set(path) - _PLAIN:
        return path
    return "'" + path.replace("'", "'\"'\"'") + "'"


_PLAIN = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_")


def _disk_is_full(path: str) -> bool:
    try:
        return os.statvfs(os.path.dirname(os.path.abspath(path))).f_bavail < 16
    except (OSError, AttributeError):
        return False
