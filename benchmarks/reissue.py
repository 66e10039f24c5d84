"""How long from the kill of a process to the next claim of its job?

Two idle workers of one slot each; one runs a function that hangs, and is hit. Measured from the
moment before the signal is sent to the claim in the job's history (whole milliseconds). First the
process of the function is killed; then, apart, its worker as well.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import chores
from measure import figure, full, workplace

from slothqueue import Job, Sloth

Victim = Callable[[int], int]


class Hits:
    """Jobs that hang, and what becomes of them when their process is hit."""

    def __init__(self, sloth: Sloth, pipe: IO[str]) -> None:
        self._task, self._pipe = chores.hang.within(sloth), pipe
        self._sloth = sloth

    def take(self, victim: Victim) -> tuple[float, float]:
        """Milliseconds to the next claim, and until the function runs again."""
        job = self._task.enqueue()
        child = int(self._heard(job, 1)[1])
        time.sleep(0.03)  # the others are asleep again
        target, at = victim(child), time.time()
        os.kill(target, signal.SIGKILL)
        again = float(self._heard(job, 2)[2])
        job.result(timeout=10)
        claims = [event for event in job.events() if event.kind == "claimed"]
        return (claims[1].at.timestamp() - at) * 1000, (again - at) * 1000

    def _heard(self, job: Job, attempt: int) -> list[str]:
        words = self._pipe.readline().split()
        assert words[0] == str(attempt), f"job {job.id}: attempt {words[0]}, not {attempt}"
        return words


def warm(sloth: Sloth, workers: int) -> None:
    """Until every worker has a child that is ready."""
    task = chores.nothing.within(sloth)
    for job in [task.enqueue() for _ in range(20 * workers)]:
        job.result(timeout=30)


def function_killed(sloth: Sloth, pipe: IO[str], number: int) -> list[tuple[float, float]]:
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(chores.process("worker", "1"))
        warm(sloth, 2)
        hits = Hits(sloth, pipe)
        hits.take(lambda child: child)
        return [hits.take(lambda child: child) for _ in range(number)]


def worker_killed(sloth: Sloth, pipe: IO[str], number: int) -> Iterator[tuple[float, float]]:
    hits = Hits(sloth, pipe)
    for _ in range(number):
        with ExitStack() as stack:
            for _ in range(2):
                stack.enter_context(chores.process("worker", "1"))
            warm(sloth, 2)
            yield hits.take(parent)


def parent(pid: int) -> int:
    status = Path(f"/proc/{pid}/stat").read_text()
    return int(status.rpartition(")")[2].split()[1])


def main() -> None:
    number = 300 if full() else 60
    with workplace() as folder:
        os.environ["SLOTH_DB"] = str(folder / "reissue.db")
        os.environ["BENCH_PIPE"] = str(folder / "pipe")
        os.mkfifo(folder / "pipe")
        descriptor = os.open(folder / "pipe", os.O_RDWR)  # for both, so that it never ends
        with Sloth(folder / "reissue.db") as sloth, open(descriptor) as pipe:
            killed = function_killed(sloth, pipe, number)
            apart = list(worker_killed(sloth, pipe, number // 6))
    claims = [claim for claim, _ in killed]
    figure("function killed: claimed again, p50", claims, unit="ms", target="< 20 ms")
    figure("function killed: claimed again, p99", claims, unit="ms", target="< 200 ms", at=0.99)
    figure("function killed: runs again, p50", [again for _, again in killed], unit="ms")
    figure("worker killed: claimed again, p50", [claim for claim, _ in apart], unit="ms")
    figure("worker killed: claimed again, worst", [claim for claim, _ in apart], unit="ms", at=1.0)


if __name__ == "__main__":
    main()
