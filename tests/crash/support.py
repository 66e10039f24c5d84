"""Means of the crash tests: deadlines, clocks that are ahead, what must hold of a store."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from slothqueue import LeaseLost, Sloth
from slothqueue.clock import SystemClock

from ..filing import check_filing
from ..filing import rows as rows

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 30.0
MARK = "SLOTH_CRASH_TEST"
EFFECTS = "create table if not exists effects (job integer not null, attempt integer not null)"

# What may follow what in the history of a job, by kind.
_HELD_BACK = {"held", "edited"}
_GIVEN_BACK = {"retried", "reclaimed", "snoozed", "released"}
_AT_REST = {"enqueued", "unheld", "revived", *_HELD_BACK, *_GIVEN_BACK}
_RUNS = {"claimed", "progress"}
_AFTER = {
    "claimed": _AT_REST - {"held"},
    "progress": _RUNS,
    "completed": _RUNS,
    "failed_attempt": _RUNS,
    "reclaimed": _RUNS,
    "snoozed": _RUNS,
    "released": _RUNS,
    "retried": {"failed_attempt"},
    "failed": {"failed_attempt", "reclaimed", *_RUNS},
    "held": _AT_REST - {"held"},
    "unheld": _HELD_BACK,
    "edited": {"failed", "cancelled", *_AT_REST},
    "cancelled": _AT_REST | _RUNS,
    "revived": {"failed", "cancelled", "edited"},
}
_LAST = {
    "done": {"completed"},
    "failed": {"failed", "edited"},
    "cancelled": {"cancelled", "edited"},
    "running": _RUNS,
    "queued": _AT_REST,
}


def until(true: Callable[[], Any], what: str = "it", seconds: float = DEADLINE) -> Any:
    """Look again and again until it is so, at most for the deadline."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.005)
    return found


class Ahead(SystemClock):
    """The clocks of this machine after so many more seconds of it running."""

    def __init__(self, seconds: float = 0) -> None:
        super().__init__()
        self._real = self.elapsed
        self._ahead = round(1000 * seconds)
        self._wall = 0
        self.elapsed = lambda: self._real() + self._ahead  # type: ignore[method-assign]

    def wall(self) -> int:
        return super().wall() + self._ahead + self._wall

    def awake(self) -> int:
        return super().awake() + self._ahead

    def advance(self, seconds: float) -> None:
        self._ahead += round(1000 * seconds)

    def step_wall(self, seconds: float) -> None:
        self._wall += round(1000 * seconds)


# ---- work with an effect ------------------------------------------------------------------------


def complete_with_effect(sloth: Sloth, lease: Any) -> None:
    """Complete the job and write its effect, both or neither."""
    with sloth.transaction() as tx:
        tx.execute("insert into effects values (?, ?)", (lease.id, lease.attempt))
        if not tx.queue(lease.queue).complete_many([lease]):
            raise LeaseLost.of(lease.id, lease.attempt)


def finish(sloth: Sloth, clock: Ahead, queues: tuple[str, ...] = ("mail",)) -> None:
    """Let time pass and a healthy program do whatever there is left to do by hand."""
    with sloth.transaction() as tx:
        tx.execute(EFFECTS)
    for _ in range(12):
        for queue in queues:
            for lease in sloth.queue(queue).claim_many(100):
                complete_with_effect(sloth, lease)
        counts = [sloth.queue(queue).stats() for queue in queues]
        if not any(count["queued"] or count["running"] for count in counts):
            return
        clock.advance(2 * 3600)
    raise AssertionError(f"jobs are left after all the time there is: {counts}")


# ---- what must hold -----------------------------------------------------------------------------


def writer_gets_in(path: Any) -> None:
    """The dead leave no lock: a plain client that does not wait may write at once."""
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        connection.execute("begin immediate")
        connection.execute("rollback")
    finally:
        connection.close()


def audit(sloth: Sloth) -> dict[int, Any]:
    """What must hold of every store at rest; its jobs by id."""
    check_file(sloth.path)
    assert sloth.check() == []
    jobs = {job.id: job for job in sloth.jobs(limit=100_000)}
    for job in jobs.values():
        check_history(job)
    return jobs


def check_file(path: Any) -> None:
    """The file is sound, and every job is in exactly one place."""
    assert rows(path, "pragma integrity_check") == [("ok",)]
    check_filing(path)


def check_history(job: Any) -> None:
    """Each event may follow the one before, the last fits the state, attempts are counted."""
    events = job.events()
    kinds = [event.kind for event in events]
    told = f"job {job.id} is {job.state} after {kinds}"
    assert [event.n for event in events] == list(range(1, len(events) + 1)), told
    assert kinds[0] == "enqueued", told
    for before, kind in pairwise(kinds):
        assert before in _AFTER[kind], told
    assert kinds[-1] in _LAST[job.state], told
    given_back = kinds.count("snoozed") + kinds.count("released")
    if job.state != "cancelled":  # that may or may not have spent its attempt
        assert job.attempts == kinds.count("claimed") - given_back, told


def check_effects(path: Any, jobs: dict[int, Any]) -> None:
    """Every job that is done has had its effect once, and no other has."""
    found = Counter(row[0] for row in rows(path, "select job from effects"))
    assert not found or max(found.values()) == 1, f"twice: {found}"
    done = {id for id, job in jobs.items() if job.state == "done"}
    assert set(found) == done, f"done without effect, or the reverse: {set(found) ^ done}"


# ---- processes ----------------------------------------------------------------------------------


def marked(mark: str) -> list[int]:
    """Every living process that carries this test's mark in its environment."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and mark.encode() in Path(f"/proc/{name}/environ").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def zombies() -> list[int]:
    """Our own children that ended and that nobody has asked about."""
    found = []
    for name in os.listdir("/proc"):
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] == "Z" and int(fields[1]) == os.getpid():
            found.append(int(name))
    return found


def end(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
