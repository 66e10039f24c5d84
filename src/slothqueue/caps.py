"""How much of a command's output is kept: a log that grows beyond it loses its middle.

The command writes straight to its log, so nobody counts along: the shim looks at the log as often
as it can fill up, and when it has not grown for a second, waits to be told that it grows again. The
middle is freed where it lies (the offsets in the file stay), or, where the file system cannot do
that, all behind the head is cut off. What is lost is noted in LOG.cut before it is: `START LOST
RESUME`, the offset of the cut, its bytes and the offset at which the log goes on.

It is loaded by the shim and stands alone. Sources: `fallocate(2)` for the holes, `inotify(7)`.
"""

import os
import sys
import time
from collections.abc import Callable

SUFFIX = ".cut"
LONGEST_PAUSE = 0.25  # seconds between two looks at a log that grows
SHORTEST_PAUSE = 0.01
FIRST_PAUSE = 0.05  # until we see how fast a log grows that has just begun to
BLIND_PAUSE = 1.0  # between two looks at one that does not, where nobody would tell us
QUIET_LOOKS = 4  # without growth, before we rather wait to be told
_NOTE = 64  # bytes, always the same, so that one write replaces all of it
_READS = 100
_PUNCH = 0x3  # PUNCH_HOLE | KEEP_SIZE
_MODIFIED_ONCE, _QUIETLY = 0x80000002, 0x80800  # IN_MODIFY | IN_ONESHOT, NONBLOCK | CLOEXEC


def read_note(path: str) -> tuple[int, int, int] | None:
    """Start, lost bytes and resumption of the cut in the log at `path`; None if it is whole."""
    try:
        file = os.open(path + SUFFIX, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        start, lost, resume = map(int, _settled(file).split())
    except (OSError, ValueError):
        return None
    finally:
        os.close(file)
    return (start, lost, resume) if lost > 0 else None


def _settled(file: int) -> bytes:
    """What a note says: a read beside a write may see half of each, so it is read until it says
    the same twice; that often at most."""
    text = os.pread(file, _NOTE, 0)
    for _ in range(_READS):
        before, text = text, os.pread(file, _NOTE, 0)
        if text == before:
            break
    return text


class Cap:
    """One log, open for writing, and how many bytes of it are kept: half of them its head."""

    def __init__(self, file: int, path: str, most: int) -> None:
        self.file, self.path, self.most = file, path, most
        self.lost = 0
        self.grew = False
        self._start = self._resume = most // 2
        self._holes = True
        self._seen, self._looked = self._kept(), time.monotonic()

    def look(self) -> float:
        """Cut if there is a quarter too much; returns the seconds until the next look is needed."""
        room = self.most + self.most // 4 - self._kept()
        if room < 0:
            self.cut()
        kept, now = self._kept(), time.monotonic()
        grown, passed = kept - self._seen, now - self._looked
        self._seen, self._looked = kept, now
        self.grew = room < 0 or grown > 0
        if room < 0:
            return SHORTEST_PAUSE
        half_way = passed * room / grown / 2 if grown > 0 else LONGEST_PAUSE
        return min(max(half_way, SHORTEST_PAUSE), LONGEST_PAUSE)

    def cut(self) -> None:
        """Leave not more than is to be kept."""
        excess = self._kept() - self.most
        if excess <= 0:
            return
        if self._holes:
            self._holes = self._punch(excess)
        if not self._holes:
            self._cut_off()

    def _kept(self) -> int:
        size = os.fstat(self.file).st_size
        if size < self._resume and self.lost:  # the command has emptied its log itself
            self.lost, self._resume = 0, self._start
            self._note()
        return size - (self._resume - self._start)

    def _punch(self, excess: int) -> bool:
        before = self._resume, self.lost
        self._resume, self.lost = self._resume + excess, self.lost + excess
        noted = self._note()
        if not _free(self.file, self._start, self._resume - self._start):
            self._resume, self.lost = before
            return False
        if not noted:  # a full disk has room now
            self._note()
        return True

    def _cut_off(self) -> None:
        self.lost += os.fstat(self.file).st_size - self._start
        self._resume = self._start
        self._note()
        os.ftruncate(self.file, self._start)

    def _note(self) -> bool:
        text = b"%d %d %d" % (self._start, self.lost, self._resume)
        try:
            file = os.open(self.path + SUFFIX, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(file, text.ljust(_NOTE - 1) + b"\n", 0)
            finally:
                os.close(file)
        except OSError:
            return False
        return True


def _free(file: int, start: int, length: int) -> bool:
    try:
        import ctypes

        offsets = ctypes.c_long(start), ctypes.c_long(length)
        return bool(ctypes.CDLL(None).fallocate(file, _PUNCH, *offsets) == 0)
    except (ImportError, AttributeError, OSError):  # no ctypes, or another system
        return False


class Caps:
    """The caps of one command, and what wakes the shim for them.

    `watch` is told which file to listen to and whom to call, `ignore` that it is not to be listened
    to for now, and `later` whom to call in so many seconds.
    """

    def __init__(
        self,
        caps: list[Cap],
        *,
        watch: Callable[[int, Callable[[], object]], object],
        ignore: Callable[[int], object],
        later: Callable[[float, Callable[[], object]], object],
    ) -> None:
        self.caps = caps
        self._watch, self._ignore, self._later = watch, ignore, later
        self._watcher: int | None = None
        self._quiet = 0
        self._later(FIRST_PAUSE, self._look)

    def _look(self) -> None:
        pause = self._look_once()
        self._quiet = 0 if any(cap.grew for cap in self.caps) else self._quiet + 1
        if self._quiet < QUIET_LOOKS:
            self._later(pause, self._look)
        elif self._listen():
            self._look_once()  # at what has been written just before somebody listened
        else:
            self._later(BLIND_PAUSE, self._look)

    def _listen(self) -> bool:
        """Have us told of growth, once; False where that cannot be."""
        # To give a watcher back takes the kernel 10 ms while it watches something, and our end has
        # to wait for that. So nobody listens to a command that writes or has just begun.
        if self._watcher is None:
            self._watcher = _watcher()
        if self._watcher is None or not _watches(self._watcher, [cap.file for cap in self.caps]):
            return False
        self._watch(self._watcher, self._hear)
        return True

    def _hear(self) -> None:
        if self._watcher is not None:
            os.read(self._watcher, 4096)
            self._ignore(self._watcher)
        self._quiet = 0
        self._look_once()
        self._later(FIRST_PAUSE, self._look)

    def _look_once(self) -> float:
        return min([cap.look() for cap in self.caps])

    def finish(self) -> int:
        """Cut what is still too much; returns how many bytes were lost in all."""
        for cap in self.caps:
            cap.cut()
        return sum(cap.lost for cap in self.caps)


def _watcher() -> int | None:
    """A file that can be read when a log has grown; None where there is no such thing."""
    if sys.platform != "linux":
        return None
    try:
        import ctypes

        watcher = int(ctypes.CDLL(None).inotify_init1(_QUIETLY))
    except (ImportError, AttributeError, OSError):
        return None
    return watcher if watcher >= 0 else None


def _watches(watcher: int, files: list[int]) -> bool:
    import ctypes

    add = ctypes.CDLL(None).inotify_add_watch
    paths = [b"/proc/self/fd/%d" % file for file in files]
    return all(add(watcher, path, ctypes.c_uint32(_MODIFIED_ONCE)) >= 0 for path in paths)
