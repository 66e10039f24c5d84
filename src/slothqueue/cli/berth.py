"""The one place for a background worker of a store: who holds its lock has it.

The file `background` in the live directory, locked (`flock(2)`) by that worker for its whole life
and by nobody else. It tells who that is; without a lock on it that is out of date.
"""

from __future__ import annotations

import os

from ..liveness import make_private, start_time

NAME = "background"  # no `.lock`: those are looked at, and cleared away, by others


def take(live: str) -> int | None:
    """The place, as a descriptor to keep open; None if somebody else has it.

    Raises OSError, and StoreUnavailable where the live directory cannot be made.
    """
    import fcntl

    make_private(live)
    path = os.path.join(live, NAME)
    while True:
        file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(path, file):
                _sign(file)
                return file
        except BlockingIOError:
            os.close(file)
            return None
        except OSError:
            os.close(file)
            raise
        os.close(file)  # somebody has cleared it away just before: this lock says nothing


def _is_still(path: str, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False


def _sign(file: int) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, b"%d %d\n" % (os.getpid(), start_time(os.getpid())), 0)


def signed(live: str) -> tuple[int, int] | None:
    """The pid and the start of the worker that took the place last; it may be gone."""
    try:
        with open(os.path.join(live, NAME), "rb") as file:
            pid, start = file.read(100).split()
            return int(pid), int(start)
    except (OSError, ValueError):
        return None
