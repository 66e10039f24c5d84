"""What a worker listens with: files of its children, and a pipe by which anybody can wake it."""

from __future__ import annotations

import os
import selectors
import threading
from collections.abc import Set
from typing import Any


class Ear:
    """Waits for any of many files to become readable. Opened, used and closed by one thread."""

    def __init__(self) -> None:
        self._watched: dict[Any, int] = {}
        self._writing: set[Any] = set()
        self._mouth = -1
        self._lock = threading.RLock()  # a signal handler may wake us while we close

    def open(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._pipe, self._mouth = os.pipe()
        os.set_blocking(self._pipe, False)
        os.set_blocking(self._mouth, False)
        self._selector.register(self._pipe, selectors.EVENT_READ)

    def wake(self) -> None:
        """End the wait, or the next one; from any thread and from signal handlers."""
        with self._lock:
            if self._mouth < 0:
                return
            try:
                os.write(self._mouth, b"w")
            except BlockingIOError:  # the pipe is full, so we are awake
                return

    def watch(self, files: set[Any], writing: Set[Any] = frozenset()) -> None:
        """Listen to these from now on, and to no others. Call it before one of them is closed.

        Those in `writing`, which are among them, also end the wait when they can be written to.
        """
        for file in self._watched.keys() - files:
            self._selector.unregister(self._watched.pop(file))
        for file in files - self._watched.keys():
            number = file if isinstance(file, int) else file.fileno()
            self._selector.register(number, selectors.EVENT_READ)
            self._watched[file] = number
        for file in (writing ^ self._writing) & files:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if file in writing else 0)
            self._selector.modify(self._watched[file], events)
        self._writing = set(writing)

    def wait(self, patience: float) -> None:
        """Sleep until something is there to read, or for `patience` seconds."""
        ready = self._selector.select(patience)
        if any(key.fd == self._pipe for key, _ in ready):
            os.read(self._pipe, 65536)

    def close(self) -> None:
        with self._lock:  # or a number could be written to that belongs to another file by now
            mouth, self._mouth = self._mouth, -1
            os.close(mouth)
        os.close(self._pipe)
        self._selector.close()
        self._watched.clear()
        self._writing.clear()
