"""Processes of ours that hold attempts: started here, locked by themselves, watched from here.

A pool child and the shim of a command begin alike: we choose the name of a lock file, they create
and lock it (nobody else ever locks that name) and say `ready` on the one socket between us. From
then on the kernel tells everybody whether they live.
"""

from __future__ import annotations

import os
import socket
import subprocess
import weakref
from collections.abc import Mapping, Sequence

_READS = 64
"""Pieces of 64 KiB that are read at once: one who never stops talking must not hold us up."""


class Spawned:
    """One such process, as its parent sees it. `lock` is the path of the file it locks.

    A `quiet` one keeps nothing of ours open: no output, no working directory. It may outlive us.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        lock: str,
        env: Mapping[str, str] | None = None,
        quiet: bool = False,
    ) -> None:
        self.lock = lock
        self.socket, theirs = socket.socketpair()
        self.socket.setblocking(False)
        self.pidfd: int | None = None
        self._partial, self._unsent = b"", b""
        self.closed = False
        """Whether it has closed its end; what it said before has been received by then."""
        _spawned.add(self)
        try:
            with theirs:
                self.process = _start(argv, theirs, env, quiet=quiet)
            self.pid = self.process.pid
            if hasattr(os, "pidfd_open"):
                self.pidfd = os.pidfd_open(self.pid)
        except BaseException:
            self.socket.close()  # one that has been started hears it and goes
            raise

    def send(self, line: bytes) -> bool:
        """Send one line; False when the process no longer listens. Never waits.

        What it does not take at once, because it was stopped say, is `unsent` until `flush()`.
        """
        self._unsent += line + b"\n"
        return self.flush()

    def flush(self) -> bool:
        """Send what it takes by now of what is unsent; False when it no longer listens."""
        unsent = memoryview(self._unsent)
        try:
            while unsent:
                unsent = unsent[self.socket.send(unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent = b""
            return False
        self._unsent = bytes(unsent)
        return True

    @property
    def unsent(self) -> bool:
        """Whether something waits to be sent, once the socket can be written to."""
        return bool(self._unsent)

    def receive(self) -> list[bytes]:
        """The whole lines that have arrived since the last call; never waits."""
        for _ in range(_READS):
            if self.closed:
                break
            try:
                piece = self.socket.recv(65536)
            except BlockingIOError:
                break
            except OSError:
                piece = b""
            self.closed = not piece
            self._partial += piece
        *lines, self._partial = self._partial.split(b"\n")
        return lines

    @property
    def gone(self) -> bool:
        """Whether the process has ended (and, being our child, was waited for)."""
        return self.process.poll() is not None

    def signal(self, number: int) -> None:
        """Send a signal to the process alone, if it still lives."""
        if not self.gone:
            self.process.send_signal(number)

    def close(self) -> None:
        """Give back what it costs us. The process itself goes on if it is still there."""
        self.socket.close()
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None

    def __repr__(self) -> str:
        state = f"ended {self.process.returncode}" if self.gone else "alive"
        return f"Spawned(pid={self.pid}, {state})"


def _start(
    argv: Sequence[str], link: socket.socket, env: Mapping[str, str] | None, *, quiet: bool
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*argv, str(link.fileno())],
        pass_fds=[link.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if quiet else None,
        stderr=subprocess.DEVNULL if quiet else None,
        env=None if env is None else dict(env),
        cwd="/" if quiet else None,
        start_new_session=True,
    )


_spawned: weakref.WeakSet[Spawned] = weakref.WeakSet()


def _leave_them() -> None:
    """In a fork of ours: they must see the end of their parent, not of its forks."""
    for each in list(_spawned):
        each.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_them)
