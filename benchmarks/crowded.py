"""Does a store become slower when many jobs are queued, wait for something, or have ended?

100,000 of them in the short set, a million with --full (of those that are written one by one a
tenth). Crowded stores and an empty one take turns in each round; a figure is the median over the
rounds of "time in the crowded store by time in the empty one", of the worst among enqueue, claim +
complete, and both in batches.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

from bare import PAYLOAD
from by_hand import Verbs
from measure import figure, full, micros, ratios, rounds, workplace

from slothqueue import Sloth
from slothqueue.queues import Queue


def queued(queue: Queue, number: int) -> None:
    _fill(number, lambda batch: queue.enqueue_many(batch))


def scheduled(queue: Queue, number: int) -> None:
    """For later, at a higher priority than what is due now."""
    _fill(number, lambda batch: queue.enqueue_many(batch, delay="1d", priority=9))


def finished(queue: Queue, number: int) -> None:
    queued(queue, number)
    while leases := queue.claim_many(1000):
        queue.complete_many(leases)


def unique(queue: Queue, number: int) -> None:
    """Each with a key of its own, and for later: to be claimed they would have to go."""
    with queue._jobs.store.transaction() as bound:
        inside = Queue(queue.name, queue._jobs.within(bound))
        for key in range(min(number, 100_000)):
            inside.enqueue(PAYLOAD, unique=f"key {key}", delay="1d")


def blocked(queue: Queue, number: int) -> None:
    """Waiting for one that does not end."""
    parent = queue.enqueue(PAYLOAD, hold=True)
    _fill(min(number, 100_000), lambda batch: queue.enqueue_many(batch, after=[parent]))


def held(queue: Queue, number: int) -> None:
    _fill(min(number, 100_000) // 10, lambda batch: queue.enqueue_many(batch, hold=True))


def paused(queue: Queue, number: int) -> None:
    """In another queue of the same store."""
    other = Queue("paused", queue._jobs)
    queued(other, number)
    other.pause()


def _fill(number: int, enqueue: Callable[[list[object]], object]) -> None:
    batch: list[object] = [PAYLOAD] * 1000
    for _ in range(number // 1000):
        enqueue(batch)


CROWDS = {
    "queued": queued,
    "scheduled": scheduled,
    "finished": finished,
    "unique keys": unique,
    "waiting for a parent": blocked,
    "held (a tenth)": held,
    "in a paused queue": paused,
}


def measure(folder: Path, number: int, *, n: int, times: int) -> dict[str, list[float]]:
    """Seconds of each round by "store: verb"."""
    stores = {
        name: Sloth(folder / f"{name}.db", durability="process") for name in ("empty", *CROWDS)
    }
    actions: dict[str, Callable[[], object]] = {}
    everybody = {}
    for name, sloth in stores.items():
        queue = sloth.queue("bench")
        if name in CROWDS:
            CROWDS[name](queue, number)
        everybody[name] = Verbs(queue, n)
        everybody[name].enqueue_by_100()
        everybody[name].enqueue_by_100()
    for verb in everybody["empty"].all():  # what is compared is measured next to each other
        for name, verbs in everybody.items():
            actions[f"{name}: {verb}"] = verbs.all()[verb]
    taken = rounds(times, actions)
    for sloth in stores.values():
        sloth.close()
    return taken


def main() -> None:
    number, n = (1_000_000, 2000) if full() else (100_000, 1000)  # long enough for checkpoints
    with workplace() as folder:
        taken = measure(folder, number, n=n, times=15 if full() else 9)
    verbs = [name.partition(": ")[2] for name in taken if name.startswith("empty")]
    for crowd in CROWDS:
        each = {verb: ratios(taken[f"{crowd}: {verb}"], taken[f"empty: {verb}"]) for verb in verbs}
        worst = max(each, key=lambda verb: statistics.median(each[verb]))
        figure(
            f"with {number:,} {crowd}, worst of four",
            each[worst],
            unit="x the time",
            target="<= 1.3",
            worst=worst,
            each={verb: round(statistics.median(values), 3) for verb, values in each.items()},
            micros={verb: micros(taken[f"{crowd}: {verb}"], n) for verb in verbs},
            empty_micros={verb: micros(taken[f"empty: {verb}"], n) for verb in verbs},
        )


if __name__ == "__main__":
    main()
