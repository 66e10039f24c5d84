"""What do jobs by hand cost, beside a bare insert on the same file?

All of it in each round, interleaved, each with an empty log and long enough to pay for its own
checkpoints; the figure is the median of the ratios of the rounds (our rate by that of the bare
insert).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bare import PAYLOAD, Bare
from measure import figure, full, micros, ratios, rounds, workplace

from slothqueue import Sloth
from slothqueue.queues import Queue


class Verbs:
    """Each of what is measured, for `n` jobs."""

    def __init__(self, queue: Queue, n: int) -> None:
        self._queue, self.n = queue, n
        self.hundreds = [PAYLOAD] * 100

    def enqueue(self) -> None:
        for _ in range(self.n):
            self._queue.enqueue(PAYLOAD)

    def claim_and_complete(self) -> None:
        for _ in range(self.n):
            lease = self._queue.claim()
            assert lease is not None
            lease.complete()

    def enqueue_by_100(self) -> None:
        for _ in range(self.n // 100):
            self._queue.enqueue_many(self.hundreds)

    def claim_and_complete_by_32(self) -> None:
        left = self.n
        while left > 0:
            leases = self._queue.claim_many(min(32, left))
            left -= len(self._queue.complete_many(leases))

    def all(self) -> dict[str, Callable[[], None]]:
        """In an order that leaves as many jobs as there were."""
        return {
            "enqueue": self.enqueue,
            "claim + complete": self.claim_and_complete,
            "enqueue by 100": self.enqueue_by_100,
            "claim + complete by 32": self.claim_and_complete_by_32,
        }


TARGETS = {
    "enqueue": ">= 0.6",
    "claim + complete": ">= 0.25",
    "enqueue by 100": ">= 3",
    "claim + complete by 32": ">= 2",
}


def compare(
    path: Path, durability: str, synchronous: str, *, n: int, times: int
) -> dict[str, list[float]]:
    """Seconds of each round, by what was done."""
    with Sloth(path, durability=durability) as sloth:
        queue = sloth.queue("bench")
        verbs = Verbs(queue, n)
        verbs.enqueue_by_100()  # so that a claim always finds one, in whatever order they come
        verbs.enqueue_by_100()
        bare, apart = Bare(path, synchronous), Bare(path.with_name("apart.db"), synchronous)
        _grow_log(path)
        apart.insert(n)
        yardsticks = {"bare": lambda: bare.insert(n), "apart": lambda: apart.insert(n)}
        taken = rounds(times, {**yardsticks, **verbs.all()}, bare.checkpoint)
        bare.close()
        apart.close()
        return taken


def _grow_log(path: Path) -> None:
    """A log that still grows costs several times one that is written over, as it soon is."""
    with Sloth(path, durability="process") as sloth:
        verbs = Verbs(sloth.queue("before"), 4000)
        verbs.enqueue()
        verbs.claim_and_complete()


def main() -> None:
    n = 2000
    with workplace() as folder:
        taken = compare(folder / "hand.db", "process", "normal", n=n, times=40 if full() else 15)
    for name, target in TARGETS.items():
        figure(
            f"{name}, beside a bare insert",
            ratios(taken["bare"], taken[name]),
            unit="x the rate",
            target=target,
            micros=micros(taken[name], n),
            bare_micros=micros(taken["bare"], n),
        )
    # Our files have smaller pages than SQLite gives by itself, which suits the bare insert as well.
    figure(
        "enqueue, beside a bare insert in a file by sqlite3",
        ratios(taken["apart"], taken["enqueue"]),
        unit="x the rate",
        micros=micros(taken["enqueue"], n),
        bare_micros=micros(taken["apart"], n),
    )


if __name__ == "__main__":
    main()
