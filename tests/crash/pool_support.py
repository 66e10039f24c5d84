"""Means of the tests of the pool; also used by the scripts that they run."""

from __future__ import annotations

import fcntl
import itertools
import os
import select
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from slothqueue.codec import decode
from slothqueue.pool import Child

DEADLINE = 30.0
FUNCTIONS = "tests.crash.pool_functions"


def until(condition: Callable[[], Any], seconds: float = DEADLINE) -> Any:
    """What the condition says, once it says something."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.002)
    return value


_waiting: WeakKeyDictionary[Child, list[dict[str, Any]]] = WeakKeyDictionary()


def heard(child: Child) -> dict[str, Any]:
    """The next thing that a child says, or that it is gone."""
    waiting = _waiting.setdefault(child, [])
    end = time.monotonic() + DEADLINE
    while not waiting:
        assert time.monotonic() < end, "it said nothing"
        sending = [child.socket.fileno()] if child.sending else []
        select.select([child.socket.fileno(), child.pidfd or 0], sending, [], 1)
        gone = child.gone
        waiting += child.receive()
        if gone:
            waiting.append({"kind": "gone", "by": child.ended_by()})
    return waiting.pop(0)


def ordered(child: Child, where: dict[str, Any], /, *args: Any, **kwargs: Any) -> bool:
    """Have the child run this function."""
    order = {"job": 7, "attempt": 2, "token": f"store:7:{time.monotonic_ns()}", **where}
    order.setdefault("task", f"{where['module']}.{where['qualname']}")
    return child.run({**order, "payload": {"args": args, "kwargs": kwargs}})


def outcome(child: Child, where: dict[str, Any], /, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """The ending of this function, or how the child went instead."""
    ordered(child, where, *args, **kwargs)
    message = heard(child)
    ending: dict[str, Any] = message.get("ending", message)
    return ending


class Children:
    """Makes children, and knows the functions that tests have them run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._numbers = itertools.count()
        self._made: list[Child] = []

    def new(self) -> Child:
        child = Child(str(self.directory / f"lock-{next(self._numbers)}"))
        self._made.append(child)
        return child

    def place(self, name: str) -> dict[str, Any]:
        return {"module": FUNCTIONS, "qualname": name, "main": None}

    def run(self, child: Child, name: str, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return outcome(child, self.place(name), *args, **kwargs)

    def value(self, child: Child, name: str, /, *args: Any, **kwargs: Any) -> Any:
        ending = self.run(child, name, *args, **kwargs)
        assert ending["kind"] == "complete", ending
        return decode(ending["result"])

    def close(self) -> None:
        for child in self._made:
            child.close()


def is_free(lock: str | Path) -> bool:
    """Whether nobody holds this lock any more."""
    file = os.open(lock, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
