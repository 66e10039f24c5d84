"""Who rings for writers that do not ring by themselves, and when. Decisions only.

One process per store is the herald: it holds the lock of a file in the live directory for as long
as it lives, and it alone watches the files of the database.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

HERALD = "herald"
"""The name of the file in the live directory whose lock makes its holder the herald."""

WINDOW = 0.002
"""So long it waits for the writer's own ring, and so long it gathers the writes of a burst."""

EARLY = 0.0002
"""So long after its first write a commit is mostly visible, but not yet rung for if flushed."""

LOOK_AGAIN = 0.25
LONGEST_REST = 30.0


class Seat:
    """The herald's place: there is one per store, and it falls free with its process."""

    def __init__(self, lock: int, trumpet: int) -> None:
        self._lock = lock
        self._trumpet = trumpet

    @classmethod
    def take(cls, live: str) -> Seat | None:
        """The seat, or None while somebody else has it."""
        import fcntl  # not there on Windows

        path = os.path.join(live, HERALD)
        # Read-only: whoever tries and fails must not raise the event that makes all others try
        # again.
        lock = os.open(path, os.O_RDONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A second descriptor, open for writing, raises that event when the holder is gone.
            seat = cls(lock, os.open(path, os.O_WRONLY))
        except BlockingIOError:
            os.close(lock)
            return None
        except BaseException:
            os.close(lock)
            raise
        if seat.valid(live):
            return seat
        seat.close()
        return None

    def valid(self, live: str) -> bool:
        """Whether the file is still the one in the directory."""
        try:
            found = os.stat(os.path.join(live, HERALD))
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(self._lock))

    def close(self) -> None:
        """Give it up; in the child of a fork this leaves the parent's as it is."""
        os.close(self._lock)
        os.close(self._trumpet)


class Deeds(Protocol):
    """What the herald can do."""

    def version(self) -> int:
        """Watch the files again, then read the database's `data_version`."""
        ...

    def drain(self) -> None:
        """Take all events that have happened, and tell the herald of them."""
        ...

    def ring(self) -> None:
        """Ring the bell file."""
        ...

    def alarm(self, seconds: float) -> None:
        """Have `alarmed` called so long from now."""
        ...

    def settle(self) -> None:
        """Wait elsewhere until whoever is writing now has ended, then have `settled` called."""
        ...


class Herald:
    """Decides when to ring for those who do not. It holds no descriptor and no thread.

    Told of a write it *looks*, gathers for one window, rings if it owes a ring, and looks again if
    more was written; else it *settles* once and is idle.

    A writer of ours that does not flush has often rung before the look. Nothing shows that this
    ring was not an older one, so the herald rings once more.
    """

    # No commit is lost. Let w be the last write of a commit to a watched file and v > w the moment
    # at which others can see it. A write is always followed by a look (the watch is renewed before
    # the version is read), and a look by another one or by a settling; take the first of them after
    # w. If v came before its reading, the version differs: a ring is owed, and only a ring written
    # after the reading clears the debt (`drain` has removed the older ones). If v came later, the
    # version may be old, or changed by others only; but our writer holds the write lock from before
    # w until v, so either the next look comes after v, or the settling, begun after w, gets the
    # lock only after v.

    def __init__(self, deeds: Deeds) -> None:
        self.blind = False  # when the files cannot be watched: look on a timer
        self._deeds = deeds
        self._seen: int | None = None
        self._state = "idle"
        self._owed = False
        self._more = False
        self._rest = LOOK_AGAIN

    def written(self) -> None:
        """Somebody wrote to the files of the database."""
        self._more = True
        if self._state == "idle":
            self._state = "gathering"
            self._deeds.alarm(EARLY)

    def rung(self) -> None:
        """Somebody has rung since the last look."""
        self._owed = False

    def alarmed(self) -> None:
        """The time asked for is over."""
        if self._owed:
            self._ring()
        if self._state == "resting" or (self._state == "gathering" and self._more):
            self._try(self._look)
        elif self._state == "gathering":
            self._try(self._wait_out)

    def settled(self, error: BaseException | None) -> None:
        """Whoever was writing has ended, or this could not be found out."""
        if error is not None:
            self._fail()
        elif self._more:
            self._try(self._look)
        else:
            self._try(self._last_look)

    def _look(self) -> None:
        self._more = False
        self._state = "gathering"
        version = self._deeds.version()
        self._deeds.drain()
        self._owed = version != self._seen
        self._seen = version
        self._deeds.alarm(WINDOW)

    def _wait_out(self) -> None:
        self._catch_up()  # most commits are visible by now, and need not wait for the settling
        self._state = "settling"
        self._deeds.settle()

    def _last_look(self) -> None:
        self._catch_up()
        self._rest = LOOK_AGAIN
        self._state = "idle"
        if self.blind:
            self._state = "resting"
            self._deeds.alarm(LOOK_AGAIN)

    def _catch_up(self) -> None:
        version = self._deeds.version()
        if version != self._seen:
            self._ring()
        self._seen = version

    def _ring(self) -> None:
        self._owed = False
        self._deeds.ring()

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception:
            self._fail()

    def _fail(self) -> None:
        # Nothing is known, so all should look; and nothing may be forgotten, so try again later.
        self._ring()
        self._state = "resting"
        self._deeds.alarm(self._rest)
        self._rest = min(2 * self._rest, LONGEST_REST)

    def __repr__(self) -> str:
        return f"Herald({self._state}, seen={self._seen}, owed={self._owed})"
