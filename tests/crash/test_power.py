"""What would be left after a power cut, as far as it can be told without one.

A power cut takes what was not flushed. So the log is copied at each flush, and what was confirmed
by then must be in that copy and the database file. (A shim that drops unflushed writes of all files
is a matter of its own; here the database file is trusted, for only checkpoints write to it.)
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slothqueue import Sloth
from slothqueue.storage import checkpoints

from .support import audit, rows, until

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fdatasync") or sys.platform == "darwin", reason="watches fdatasync"
)


class Flushes:
    """Counts the flushes of the log, and calls whoever wants to know of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.then: Callable[[], None] = lambda: None
        self.hold: threading.Event | None = None
        self.inside = threading.Event()
        self._flush = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", self._watched)

    def _watched(self, descriptor: int) -> None:
        assert os.readlink(f"/proc/self/fd/{descriptor}").endswith("-wal")
        self.count += 1
        if self.hold is not None:
            self.inside.set()
            assert self.hold.wait(30)
        self._flush(descriptor)
        self.then()

    def of(self, action: Callable[[], Any]) -> int:
        """How many flushes this takes."""
        before = self.count
        action()
        return self.count - before


@pytest.fixture
def flushes(monkeypatch: pytest.MonkeyPatch) -> Flushes:
    return Flushes(monkeypatch)


@pytest.fixture
def sloth(tmp_path: Path) -> Iterator[Sloth]:
    with Sloth(tmp_path / "work.db") as made:
        made.queue("mail").enqueue_many(list(range(50)))
        assert made.queue("mail").claim()
        yield made


def test_each_call_that_confirms_something_flushes_once(flushes: Flushes, sloth: Sloth):
    mail = sloth.queue("mail")
    one, two, three, four, *others = mail.claim_many(20)
    confirming = (
        lambda: mail.enqueue(1),
        lambda: mail.enqueue(1, delay="1h"),
        lambda: mail.enqueue_many([1, 2, 3]),
        lambda: mail.enqueue_command(["true"]),
        lambda: one.complete("well"),
        lambda: two.fail("boom"),
        lambda: three.snooze(1),
        lambda: four.discard("bad"),
        lambda: mail.complete_many(others),
        lambda: _in_transaction(sloth),
    )
    sloth.queue("mail").enqueue_command(["true"])  # makes its lane
    assert [flushes.of(action) for action in confirming] == [1] * len(confirming)


def _in_transaction(sloth: Sloth) -> None:
    with sloth.transaction() as tx:
        tx.execute("create table t (x)")
        tx.queue("mail").enqueue(1)
        tx.queue("mail").enqueue(2)


def test_a_claim_and_a_look_do_not_flush(flushes: Flushes, sloth: Sloth):
    mail = sloth.queue("mail")
    looks = (mail.claim, lambda: mail.claim_many(5), mail.stats, sloth.jobs, mail.dead_letters)
    assert [flushes.of(look) for look in looks] == [0] * len(looks)
    lease = mail.claim()
    assert lease is not None and flushes.of(lease.heartbeat) == 0


@pytest.mark.parametrize("durability", ["process", "strict"])
def test_other_durabilities_do_not_flush_by_themselves(
    flushes: Flushes, tmp_path: Path, durability: str
):
    with Sloth(tmp_path / "work.db", durability=durability) as sloth:
        mail = sloth.queue("mail")
        mail.enqueue_many([1, 2, 3])
        mail.complete_many(mail.claim_many(3))
    assert flushes.count == 0


def test_strict_leaves_the_flush_to_sqlite(tmp_path: Path):
    with Sloth(tmp_path / "work.db", durability="strict") as sloth, sloth.transaction() as tx:
        assert tx.execute("pragma synchronous").fetchone() == (2,)
    with Sloth(tmp_path / "work.db") as sloth, sloth.transaction() as tx:
        assert tx.execute("pragma synchronous").fetchone() == (1,)


def test_nobody_is_told_before_the_flush_is_through(flushes: Flushes, sloth: Sloth):
    flushes.hold = threading.Event()
    confirmed: list[int] = []
    thread = threading.Thread(
        target=lambda: confirmed.append(sloth.queue("mail").enqueue("mine").id)
    )
    thread.start()
    assert flushes.inside.wait(30)
    assert not confirmed
    assert any(job.payload == "mine" for job in sloth.jobs()), "but others see it already"
    flushes.hold.set()
    thread.join(30)
    assert len(confirmed) == 1


def test_one_flush_covers_all_who_committed_before_it(flushes: Flushes, sloth: Sloth):
    before, gate = flushes.count, threading.Event()
    flushes.hold = gate
    threads = [
        threading.Thread(target=lambda n=n: sloth.queue("mail").enqueue({"n": n}))
        for n in range(16)
    ]
    threads[0].start()
    assert flushes.inside.wait(30)  # the first one flushes, and the others commit meanwhile
    for thread in threads[1:]:
        thread.start()
    count = "select count(*) from _sloth_job"
    until(lambda: rows(sloth.path, count) == [(50 + 16,)], "all have committed")
    gate.set()
    for thread in threads:
        thread.join(30)
    assert sloth.stats()["queued"] == 49 + 16
    assert flushes.count == before + 2


def test_a_log_that_was_replaced_is_found_and_flushed(flushes: Flushes, sloth: Sloth):
    flushes.of(lambda: sloth.queue("mail").enqueue(1))
    sloth.store._drop_connections()  # as before a fork; the last one to close removes the log
    Sloth(sloth.path).close()
    assert not os.path.exists(sloth.path + "-wal")
    assert flushes.of(lambda: sloth.queue("mail").enqueue(2)) == 1


class Images:
    """The store as the disk has it after each flush, with what was confirmed until the next."""

    def __init__(self, sloth: Sloth, folder: Path) -> None:
        self.sloth, self.folder, self.taken = sloth, folder, 0
        self.confirmed: list[list[int]] = [[]]

    def take(self) -> None:
        """Called when a flush is through and before its caller is told.

        Only the log is read: no descriptor of the database may be closed in this process.
        """
        place = self.folder / str(self.taken)
        place.mkdir(parents=True)
        shutil.copy(self.sloth.path + "-wal", place / "work.db-wal")
        self.taken += 1
        self.confirmed.append([])

    def confirm(self, *jobs: int) -> None:
        self.confirmed[self.taken].extend(jobs)


def test_what_was_flushed_holds_everything_that_was_confirmed(
    flushes: Flushes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Without checkpoints the database file stays as it was made, and the log has it all.
    monkeypatch.setattr(checkpoints, "PAGES_BETWEEN", 1 << 40)
    database = tmp_path / "work.db"
    Sloth(database).stats()
    Sloth(database).close()
    (tmp_path / "as-made.db").write_bytes(database.read_bytes())
    sloth = Sloth(database)
    images = Images(sloth, tmp_path / "images")
    flushes.then = images.take
    mail, ended = sloth.queue("mail"), []
    for n in range(25):
        images.confirm(mail.enqueue({"n": n}).id)
        if n % 5 == 4:
            images.confirm(*(job.id for job in mail.enqueue_many([1, 2, 3])))
            lease = mail.claim()
            assert lease is not None
            lease.complete()
            ended.append((images.taken, lease.id))
    sloth.close()
    assert images.taken >= 35
    promised: set[int] = set()
    for n in range(images.taken):
        copy = images.folder / str(n) / "work.db"
        shutil.copy(tmp_path / "as-made.db", copy)
        promised |= set(images.confirmed[n + 1])
        with Sloth(copy, durability="process") as left:
            jobs = audit(left)
        assert set(jobs) >= promised, f"image {n} lacks {promised - set(jobs)}"
        done = {id for taken, id in ended if taken <= n + 1}
        assert all(jobs[id].state == "done" for id in done), f"image {n}"


def test_without_the_flush_the_images_would_lack_something(tmp_path: Path):
    """So the test above can see: a log copied at the last flush lacks what came after it."""
    with Sloth(tmp_path / "work.db") as sloth:
        sloth.queue("mail").enqueue(1)
        before = Path(sloth.path + "-wal").read_bytes()
        sloth.store.durability = "process"
        later = sloth.queue("mail").enqueue(2)
    (tmp_path / "copy.db").touch()
    (tmp_path / "copy.db-wal").write_bytes(before)
    with Sloth(tmp_path / "copy.db") as left:
        assert later.id not in {job.id for job in left.jobs()}
