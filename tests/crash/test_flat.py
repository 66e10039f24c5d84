"""What a process uses does not grow with the number of jobs that it has seen."""

from __future__ import annotations

import gc
import os
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slothqueue import Sloth, current_job

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

BYTES = 40
"""Of memory that a job may cost for good; the smallest object that holds anything is larger."""

FEW = 4
"""More threads and files than before: those that met at the store are kept for the next time."""


@pytest.fixture
def sloth(tmp_path: Path) -> Iterator[Sloth]:
    with Sloth(tmp_path / "work.db", durability="process") as handle:
        yield handle


def growth(round_of: Callable[[int], None], times: int) -> float:
    """Bytes of memory that each of so many costs for good; threads and files must not grow."""
    round_of(times // 4)
    tracemalloc.start()
    try:
        before, threads, files = _memory(), *_used()
        round_of(times)
        now_threads, now_files = _used()
        assert now_threads <= threads + FEW
        assert now_files <= files + FEW
        return (_memory() - before) / times
    finally:
        tracemalloc.stop()


def _memory() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _used() -> tuple[int, int]:
    return threading.active_count(), len(os.listdir("/proc/self/fd"))


def test_nothing_grows_with_the_number_of_jobs(sloth: Sloth):
    @sloth.task(max_attempts=1)
    def work(n: int) -> int:
        current_job().progress(0.5, str(n))
        if n % 3 == 0:
            raise RuntimeError(f"{n} cannot be done")
        return n

    def round_of(times: int) -> None:
        queue = sloth.queue("q", concurrency=5, rate=(100_000, "1s"))
        for n in range(times // 4):
            parent = queue.enqueue(n, unique=f"{n}", expires="1h", concurrency_key=f"{n}")
            queue.enqueue(n, after=[parent]).cancel()
            work.enqueue(n)
            work.using(unique=str(n)).enqueue(n)
        sloth.worker(pool="thread").run_until_idle()
        while leases := queue.claim_many(50):
            queue.complete_many(leases)
        sloth.prune(0)

    assert growth(round_of, 2_000) < BYTES


def test_nothing_grows_with_those_who_wait(sloth: Sloth, tmp_path: Path):
    def round_of(times: int) -> None:
        for _ in range(times):
            other = Sloth(tmp_path / "work.db", durability="process")
            with other, pytest.raises(TimeoutError):
                other.queue("q").wait(timeout="1ms")

    sloth.queue("q").enqueue(1).cancel()
    assert growth(round_of, 120) < BYTES * 10
