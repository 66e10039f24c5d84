"""Two things of the Linux kernel that Python lacks: inotify, and timers on file descriptors.

Only thin wrappers: no threads, no policy. Everything opened here is closed on exec. Elsewhere than
on Linux the module imports cleanly and `supported()` is false. `os.timerfd_create` exists from
Python 3.13; inotify needs ctypes on every version, so timers go the same way.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ctypes

IN_MODIFY = 0x2
IN_CLOSE_WRITE = 0x8
IN_MOVED_FROM = 0x40
IN_MOVED_TO = 0x80
IN_CREATE = 0x100
IN_DELETE = 0x200
IN_DELETE_SELF = 0x400
IN_MOVE_SELF = 0x800
IN_Q_OVERFLOW = 0x4000
IN_IGNORED = 0x8000
IN_ONLYDIR = 0x1000000
IN_ONESHOT = 0x80000000

# inotify and timerfd take the values of these two from open(2).
_CLOEXEC_NONBLOCK = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_TFD_TIMER_ABSTIME = 1
_TFD_TIMER_CANCEL_ON_SET = 2
_CLOCK_REALTIME = 0
_CLOCK_MONOTONIC = 1
_HEADER = struct.Struct("iIII")
_ITIMERSPEC = struct.Struct("llll")
_FAR_AWAY = 2**33 if struct.calcsize("l") == 8 else 2**31 - 1  # the year 2242; 2038 on 32 bits

_libc: ctypes.CDLL | None = None


class Notice(NamedTuple):
    """One event of inotify: its watch (-1 for an overflow), what happened, and the file's name."""

    watch: int
    mask: int
    name: str


def supported() -> bool:
    """Whether this system has what is in here at all."""
    return sys.platform == "linux"


_LIMITS = {
    errno.EMFILE: "raise fs.inotify.max_user_instances, or the limit of open files (ulimit -n)",
    errno.ENOSPC: "raise fs.inotify.max_user_watches",
}


def why_not_watched(error: OSError, place: str) -> str:
    """A sentence on why this place cannot be watched, with what to do where something can be done.

    Sources: inotify_init(2) and inotify_add_watch(2) for the two limits.
    """
    advice = _LIMITS.get(error.errno or 0)
    told = error.strerror or str(error)
    why = f"{told}; {advice}" if advice else f"{error.filename or place}: {told}"
    return f"changes of this store cannot be watched, so it is looked at four times a second: {why}"


def _call(name: str, *arguments: object) -> int:
    import ctypes  # 5 ms that only those who wait should pay

    global _libc
    if _libc is None:
        _libc = ctypes.CDLL(None, use_errno=True)
    answer: int = getattr(_libc, name)(*arguments)
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer


def parse(data: bytes) -> list[Notice]:
    """The events in what was read from an inotify descriptor."""
    notices = []
    at = 0
    while at < len(data):
        watch, mask, _, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        name = data[at : at + length].split(b"\0", 1)[0]
        notices.append(Notice(watch, mask, os.fsdecode(name)))
        at += length
    return notices


class Inotify:
    """One inotify instance. Raises OSError with EMFILE when the user has too many of them."""

    def __init__(self) -> None:
        self.fd = _call("inotify_init1", _CLOEXEC_NONBLOCK)

    def watch(self, path: str, mask: int) -> int:
        """Watch a path; the same file again gives the same number with the new mask."""
        return _call("inotify_add_watch", self.fd, os.fsencode(path), mask)

    def unwatch(self, watch: int) -> None:
        """End a watch; one that has ended by itself is no error."""
        try:
            _call("inotify_rm_watch", self.fd, watch)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise

    def read(self) -> list[Notice]:
        """Everything that has happened until now, without waiting."""
        notices: list[Notice] = []
        while True:
            try:
                data = os.read(self.fd, 65536)
            except BlockingIOError:
                return notices
            notices += parse(data)

    def close(self) -> None:
        os.close(self.fd)


class Alarm:
    """A descriptor that becomes readable when its time has come. Counts time awake."""

    def __init__(self) -> None:
        self.fd = _call("timerfd_create", _CLOCK_MONOTONIC, _CLOEXEC_NONBLOCK)

    def after(self, seconds: float) -> None:
        """Go off once, so long from now, and not at any moment asked for before."""
        nanos = max(1, round(seconds * 1e9))
        _set_timer(self.fd, 0, *divmod(nanos, 1_000_000_000))

    def read(self) -> None:
        """Take note that it went off."""
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            pass

    def close(self) -> None:
        os.close(self.fd)


class JumpAlarm:
    """A descriptor that becomes readable when the clock was set or the machine woke from sleep."""

    def __init__(self) -> None:
        self.fd = _call("timerfd_create", _CLOCK_REALTIME, _CLOEXEC_NONBLOCK)
        self._arm()

    def _arm(self) -> None:
        _set_timer(self.fd, _TFD_TIMER_ABSTIME | _TFD_TIMER_CANCEL_ON_SET, _FAR_AWAY, 0)

    def read(self) -> bool:
        """Whether the clock jumped since the last time; ready for the next jump."""
        jumped = False
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.ECANCELED:
                raise
            jumped = True
        self._arm()
        return jumped

    def close(self) -> None:
        os.close(self.fd)


def _set_timer(fd: int, flags: int, seconds: int, nanos: int) -> None:
    _call("timerfd_settime", fd, flags, _ITIMERSPEC.pack(0, 0, seconds, nanos), None)
