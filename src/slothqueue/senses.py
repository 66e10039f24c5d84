"""What a watcher hears: the descriptors it listens on, and what a batch of events amounts to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, TypeVar

from . import kernel
from .herald import HERALD
from .waiting import BELL

LOCK_SUFFIX = ".lock"
"""The names of files that living processes hold locked end so."""

_LIVE_MASK = (
    kernel.IN_CLOSE_WRITE
    | kernel.IN_DELETE
    | kernel.IN_MOVED_FROM
    | kernel.IN_DELETE_SELF
    | kernel.IN_MOVE_SELF
    | kernel.IN_ONLYDIR
)
_DIRECTORY_MASK = (
    kernel.IN_CREATE | kernel.IN_DELETE | kernel.IN_MOVED_FROM | kernel.IN_MOVED_TO
) | kernel.IN_ONLYDIR
_GONE = kernel.IN_DELETE_SELF | kernel.IN_MOVE_SELF | kernel.IN_IGNORED


class _Closable(Protocol):
    def close(self) -> None: ...


_C = TypeVar("_C", bound=_Closable)


class News(NamedTuple):
    """What a batch of events amounts to."""

    rung: bool = False
    written: bool = False
    overflow: bool = False
    moved: bool = False
    suspects: frozenset[str] = frozenset()
    lost_bell: bool = False


class Watches(NamedTuple):
    """Which watch is which, and which names of the database's directory are its own."""

    live: int = -2
    bell: int = -2
    directory: int = -2
    names: frozenset[str] = frozenset()


def digest(notices: Iterable[kernel.Notice], watches: Watches) -> News:
    """What these events mean."""
    rung = written = overflow = moved = lost_bell = False
    suspects = set()
    for watch, mask, name in notices:
        if mask & kernel.IN_Q_OVERFLOW:
            overflow = True
        elif watch == watches.bell:
            rung = rung or bool(mask & kernel.IN_MODIFY)
        elif watch == watches.live:
            moved = moved or bool(mask & _GONE)
            lost_bell = lost_bell or (name == BELL and not mask & kernel.IN_CLOSE_WRITE)
            if name == HERALD or name.endswith(LOCK_SUFFIX):
                suspects.add(name)
        elif watch == watches.directory:
            written = written or name in watches.names
        else:  # a file of the database, be it by a watch that has been renewed since
            written = True
    return News(rung, written, overflow, moved, frozenset(suspects), lost_bell)


class Senses:
    """The descriptors through which a watcher hears: opened together, closed together."""

    def __init__(self, live: str) -> None:
        self._live = live
        self.database = ""
        self.watches = Watches()
        self._open: list[Callable[[], None]] = []
        try:
            self.inotify = self._keep(kernel.Inotify())
            self.jump = self._keep(kernel.JumpAlarm())
            self.ladder = self._keep(kernel.Alarm())
            self.window = self._keep(kernel.Alarm())
            self.wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self._open.append(lambda: os.close(self.wake))
            self.watch_live()
        except BaseException:
            self.close()
            raise

    def _keep(self, thing: _C) -> _C:
        self._open.append(thing.close)
        return thing

    def watch_live(self) -> None:
        """Watch the live directory and the bell in it, also when either is a new one."""
        bell = os.path.join(self._live, BELL)
        os.close(os.open(bell, os.O_RDONLY | os.O_CREAT, 0o600))
        self.watches = self.watches._replace(
            live=self.inotify.watch(self._live, _LIVE_MASK),
            bell=self.inotify.watch(bell, kernel.IN_MODIFY),
        )

    def watch_database(self) -> None:
        """Watch the files of the database; again before each look.

        One event per look, not one per page: a watch that ends by its first event costs a busy
        writer nothing until it is renewed. Of the directory only names that come and go, because
        it may be somebody's busy working directory.
        """
        files = [self.database, self.database + "-wal", self.database + "-journal"]
        if not self.watches.names:
            self.watches = self.watches._replace(
                directory=self.inotify.watch(os.path.dirname(self.database), _DIRECTORY_MASK),
                names=frozenset(os.path.basename(file) for file in files),
            )
        for file in files:
            self._watch_file(file)

    def _watch_file(self, file: str) -> None:
        try:
            self.inotify.watch(file, kernel.IN_MODIFY | kernel.IN_ONESHOT)
        except FileNotFoundError:
            pass  # the directory's watch tells when it is made

    def close(self) -> None:
        while self._open:
            self._open.pop()()
