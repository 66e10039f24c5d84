"""A commit happens once or not at all, and whoever asked knows which. Of this engine only."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slothqueue import ManualClock, Sloth, StoreBusy, StoreUnavailable

from .telling import every_job

OpenSloth = Callable[..., Sloth]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "commits.db")


@pytest.fixture
def foreign(sloth: Sloth, url: str) -> Iterator[sqlite3.Connection]:
    """A program that knows nothing of us and holds the write lock."""
    sloth.queue("q").enqueue("before")
    connection = sqlite3.connect(url, isolation_level=None, check_same_thread=False)
    connection.execute("begin immediate")
    yield connection
    connection.close()


def test_what_was_busy_was_not_done(open_sloth: OpenSloth, foreign: sqlite3.Connection):
    sloth = open_sloth(busy_timeout="20ms")
    for call in (
        lambda: sloth.queue("q").enqueue(1),
        lambda: sloth.queue("q").enqueue_many([1, 2]),
        lambda: sloth.queue("q").enqueue(1, delay=5),
        lambda: sloth.queue("q").claim(),
        lambda: sloth.queue("new").enqueue(1),
    ):
        with pytest.raises(StoreBusy, match="Nothing was changed"):
            call()
    foreign.execute("commit")
    assert every_job(sloth) == [(1, "queued", "before")]
    sloth.queue("q").enqueue("after")
    assert len(every_job(sloth)) == 2


def test_a_lease_survives_a_store_that_is_busy(open_sloth: OpenSloth, foreign: sqlite3.Connection):
    foreign.execute("commit")
    sloth = open_sloth(busy_timeout="20ms")
    lease = sloth.queue("q").claim()
    assert lease is not None
    foreign.execute("begin immediate")
    for call in (lease.complete, lease.heartbeat, lease.release, lambda: lease.fail("no")):
        with pytest.raises(StoreBusy):
            call()
    foreign.execute("commit")
    lease.complete("once")
    assert sloth.job(lease.id).result() == "once"


def test_reads_do_not_wait_for_a_writer(open_sloth: OpenSloth, foreign: sqlite3.Connection):
    sloth = open_sloth(busy_timeout=0)
    assert every_job(sloth) == [(1, "queued", "before")]
    assert sloth.job(1).events()
    assert sloth.stats()["queued"] == 1
    assert sloth.queue("empty").claim() is None
    with pytest.raises(TimeoutError):
        sloth.queue("empty").wait(timeout=0)


def test_who_waits_for_the_lock_gets_it(
    open_sloth: OpenSloth, foreign: sqlite3.Connection, aside: Callable[..., Any]
):
    sloth = open_sloth()
    write = aside(lambda: sloth.queue("q").enqueue("patient").id)
    assert not write.over(0.05)
    foreign.execute("commit")
    assert write.value() == 2
    assert len(every_job(sloth)) == 2


def test_a_claim_that_waited_for_the_lock_starts_when_it_has_it(
    open_sloth: OpenSloth,
    foreign: sqlite3.Connection,
    aside: Callable[..., Any],
    clock: ManualClock,
):
    foreign.execute("commit")
    sloth = open_sloth()
    assert sloth.queue("q").claim() is not None  # registered
    queue = sloth.queue("rated", rate=(1, "10s"))
    queue.enqueue_many([1, 2])
    foreign.execute("begin immediate")
    call = aside(queue.claim)
    assert not call.over(0.2)
    clock.advance(8)
    foreign.execute("commit")
    lease = call.value()
    assert lease.job.events()[-1].at.timestamp() == clock.wall() / 1000
    clock.advance(9.999)
    assert queue.claim() is None
    clock.advance(0.001)
    assert queue.claim() is not None


@pytest.mark.parametrize("call", ["enqueue", "enqueue_many", "transaction"])
def test_a_commit_that_the_disk_did_not_confirm_is_told_as_done_and_not_repeated(
    open_sloth: OpenSloth, monkeypatch: pytest.MonkeyPatch, call: str
):
    sloth = open_sloth(durability="full")  # scenario 14
    queue = sloth.queue("q")
    queue.enqueue("before")

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("os.fdatasync", broken)
    with pytest.raises(StoreUnavailable, match="is in the file"):
        if call == "transaction":
            with sloth.transaction() as tx:
                tx.queue("q").enqueue("once")
        elif call == "enqueue":
            queue.enqueue("once")
        else:
            queue.enqueue_many(["once"])
    monkeypatch.undo()
    assert [payload for _, _, payload in every_job(sloth)] == ["before", "once"]
    queue.enqueue("after")


@pytest.mark.parametrize("durability", ["full", "process", "strict"])
def test_every_durability_keeps_what_it_confirmed(open_sloth: OpenSloth, durability: str):
    with open_sloth(durability=durability) as sloth:
        job = sloth.queue("q").enqueue(1)
        lease = sloth.queue("q").claim()
        assert lease is not None
        lease.complete(2)
    assert open_sloth(durability=durability).job(job.id).result() == 2


def test_a_durability_that_nobody_knows_is_refused(url: str):
    with pytest.raises(ValueError, match="durability"):
        Sloth(url, durability="eventually")
