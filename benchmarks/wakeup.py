"""How long from a commit to a listener in another process that has the row?

The listener sleeps in `queue.wait()`; its row is here when the lease is, which includes a commit
of its own for the claim. From *before* `enqueue` is called, so our commit is part of it, too. The
foreign writer commits through a connection of its own (`sloth.within`), which rings nobody: the
herald notices. There it counts from the moment in which `commit()` has returned.
"""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import chores
from measure import figure, full, workplace

from slothqueue import Sloth


def ours(sloth: Sloth) -> Callable[[int], int]:
    queue = sloth.queue("bench")

    def write(number: int) -> int:
        began = time.monotonic_ns()
        queue.enqueue(number)
        return began

    return write


def foreign(sloth: Sloth, path: Path) -> Callable[[int], int]:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma synchronous=normal")
    queue = sloth.within(connection).queue("bench")

    def write(number: int) -> int:
        connection.execute("begin immediate")
        queue.enqueue(number)
        connection.commit()
        return time.monotonic_ns()

    return write


def latencies(
    write: Callable[[int], int], listener: subprocess.Popen[str], number: int
) -> list[float]:
    """Milliseconds of each; the listener is asleep again before the next."""
    assert listener.stdout is not None
    found = []
    for i in range(number):
        time.sleep(random.uniform(0.004, 0.012))
        began = write(i)
        _, here = listener.stdout.readline().split()
        found.append((int(here) - began) / 1e6)
    return found[number // 10 :]  # what is cold at first


def main() -> None:
    number = 3000 if full() else 400
    with workplace() as folder:
        path = folder / "wakeup.db"
        os.environ["SLOTH_DB"] = str(path)
        with Sloth(path, durability="process") as sloth, chores.process("listen") as listener:
            writers = {"commit": ours(sloth), "foreign commit": foreign(sloth, path)}
            found = {name: latencies(write, listener, number) for name, write in writers.items()}
    for name, each in found.items():
        promised = name == "commit"
        p50, p99 = ("< 1 ms", "< 5 ms") if promised else (None, None)
        figure(f"{name} to listener, p50", each, unit="ms", target=p50)
        figure(f"{name} to listener, p99", each, unit="ms", target=p99, at=0.99)


if __name__ == "__main__":
    main()
