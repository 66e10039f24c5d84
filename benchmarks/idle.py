"""What does a worker cost that has nothing to do?

Context switches of all its threads, and of its idle pool child, over ten seconds (a minute with
--full), after it has run a job; likewise of a process that waits for jobs by hand. From /proc, so
on Linux only.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import chores
from measure import figure, full, workplace

from slothqueue import Sloth


def switches(pid: int) -> int:
    """Of all threads of a process, wanted and unwanted."""
    total = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        counts = re.findall(r"^\w*voluntary_ctxt_switches:\s+(\d+)", status.read_text(), re.M)
        total += sum(map(int, counts))
    return total


def family(pid: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def main() -> None:
    span = 60 if full() else 10
    with workplace() as folder:
        os.environ["SLOTH_DB"] = str(folder / "idle.db")
        with (
            Sloth(folder / "idle.db") as sloth,
            chores.process("worker", "1") as worker,
            chores.process("listen") as listener,
        ):
            chores.nothing.within(sloth).enqueue().result(timeout=30)
            sloth.queue("bench").enqueue({}).result(timeout=30)
            time.sleep(3)
            watched = {"worker": family(worker.pid), "waiting process": [listener.pid]}
            before = {name: sum(map(switches, pids)) for name, pids in watched.items()}
            time.sleep(span)
            after = {name: sum(map(switches, pids)) for name, pids in watched.items()}
    for name, count in after.items():
        rate = (count - before[name]) / span
        figure(
            f"idle {name}: context switches",
            [rate],
            unit="a second",
            target="< 1",
            seconds=span,
            processes=len(watched[name]),
        )


if __name__ == "__main__":
    main()
