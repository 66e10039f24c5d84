"""Processes of ours that hold attempts: started here, locked by themselves, watched from here.

A pool child and the shim of a command begin alike: we choose the name of a lock file, they create
and lock it (nobody else ever locks that name) and say `ready` on the one socket between us. From
then on the kernel tells everybody whether they live.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping, Sequence


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
        with theirs:
            self.process = subprocess.Popen(
                [*argv, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if quiet else None,
                stderr=subprocess.DEVNULL if quiet else None,
                env=None if env is None else dict(env),
                cwd="/" if quiet else None,
                start_new_session=True,
            )
        self.pid = self.process.pid
        self.pidfd = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None
        self._partial = b""
        self._closed = False

    def send(self, line: bytes) -> bool:
        """Send one line; False when the process no longer listens."""
        try:
            self.socket.settimeout(5)  # one that was stopped must not stop us
            self.socket.sendall(line + b"\n")
        except OSError:
            return False
        finally:
            self.socket.setblocking(False)
        return True

    def receive(self) -> list[bytes]:
        """The whole lines that have arrived since the last call; never waits."""
        while not self._closed:
            try:
                piece = self.socket.recv(65536)
            except BlockingIOError:
                break
            except OSError:
                piece = b""
            self._closed = not piece
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
