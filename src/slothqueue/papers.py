"""The receipt of a command, as its shim writes it: all at once, or not at all.

It is loaded by the shim and stands alone; `receipts.py` reads what is written here.
"""

import errno
import os
import time
from collections.abc import Callable

from .processes import look_at

FULL_DISK_PATIENCE = 60.0
ROOM = 4096  # bytes kept for the receipt from the start, so that a full disk cannot lose the end
_PASSING = {getattr(errno, name, -1) for name in ("ENOSPC", "EDQUOT", "ENOMEM", "ENFILE", "EIO")}


class Paper:
    """The place for the receipt, taken while there is room and filled in at the end."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.file: int | None = None
        self._try(b"\n" * ROOM, self._write)  # if there is none now, there may be when it is needed

    def draft(self, pid: int) -> None:
        """Note which process is the command, for whoever finds us killed."""
        process = look_at(pid)
        if process is not None:
            self._try(b"began %d %d\n" % (pid, process.start), self._write)

    def fill(self, text: bytes) -> bool:
        """Write the receipt, all of it or nothing; with patience when the disk is full."""
        until, wait = time.monotonic() + FULL_DISK_PATIENCE, 0.05
        while (number := self._leave(text)) in _PASSING and time.monotonic() < until:
            time.sleep(wait)
            wait = min(2 * wait, 1.0)
        return number == 0

    def _leave(self, text: bytes) -> int:
        number = self._try(text, self._write_and_name)
        if number != errno.ENOENT:
            return number
        self._forget()  # somebody cleared the draft away, or all of the directory
        return self._try(text, self._write_and_name)

    def _try(self, text: bytes, how: Callable[[bytes], object]) -> int:
        try:
            how(text)
        except OSError as error:
            return error.errno or errno.EINVAL
        return 0

    def _write_and_name(self, text: bytes) -> None:
        file = self._write(text)
        os.ftruncate(file, len(text))
        getattr(os, "fdatasync", os.fsync)(file)
        os.rename(self.path + ".part", self.path)

    def _write(self, text: bytes) -> int:
        if self.file is None:
            make(os.path.dirname(self.path))
            self.file = os.open(self.path + ".part", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        done = 0
        while done < len(text):
            done += os.pwrite(self.file, text[done:], done)
        return self.file

    def _forget(self) -> None:
        if self.file is not None:
            os.close(self.file)
        self.file = None


def make(folder: str) -> None:
    """Put the directory back if somebody has cleared it away, but not what it is in."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        return
