"""How many jobs that do nothing does one worker run a second?

Functions in pool children, and commands (`true`) under their shims: a process, a session and a
receipt each. From the start of `run_until_idle` in a worker that is warm; the median of some
runs.
"""

from __future__ import annotations

import os
import time

import chores
from measure import figure, full, workplace

from slothqueue import Sloth

CONCURRENCY = 4


def functions(sloth: Sloth, number: int) -> None:
    with sloth.transaction() as tx:
        task = chores.nothing.within(tx)
        for _ in range(number):
            task.enqueue()


def commands(sloth: Sloth, number: int) -> None:
    with sloth.transaction() as tx:
        queue = tx.queue("bench")
        for _ in range(number):
            queue.enqueue_command(["true"])


def rate(sloth: Sloth, number: int) -> float:
    """Jobs a second, by the history: from the first claim to the last end."""
    while sloth.stats()["done"] < number:
        time.sleep(0.02)
    jobs = sloth.jobs(state="done", limit=number)
    began = min(job.started_at for job in jobs if job.started_at)
    ended = max(job.finished_at for job in jobs if job.finished_at)
    return number / max((ended - began).total_seconds(), 0.001)


def main() -> None:
    times = 7 if full() else 3
    kinds = {"functions": (functions, 1000), "commands": (commands, 150)}
    for name, (enqueue, number) in kinds.items():
        rates = []
        for _ in range(times):
            with workplace() as folder, Sloth(folder / "through.db", durability="process") as sloth:
                enqueue(sloth, number)
                os.environ["SLOTH_DB"] = str(folder / "through.db")
                with chores.process("worker", str(CONCURRENCY)):
                    rates.append(rate(sloth, number))
        figure(f"no-op {name} by one worker of {CONCURRENCY}", rates, unit="a second")


if __name__ == "__main__":
    main()
