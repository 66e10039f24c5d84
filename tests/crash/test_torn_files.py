"""Copies of a store whose log was cut or spoilt: each opens, is sound, and lacks only a tail."""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path

import pytest

from slothqueue import Sloth, StoreUnavailable

from .support import EFFECTS, Ahead, audit, check_effects, complete_with_effect, finish, rows

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="copies a file in use")

HEADER, FRAME = 32, 24


def live_through(sloth: Sloth, jobs: int) -> None:
    """Jobs that end in every way, one step a commit; each remembers the number of its step."""
    with sloth.transaction() as tx:
        tx.execute(EFFECTS)
        tx.execute("create table steps (n integer primary key)")
    mail = sloth.queue("mail")
    for n in range(1, jobs + 1):
        with sloth.transaction() as tx:
            tx.execute("insert into steps values (?)", (n,))
            tx.queue("mail").enqueue({"step": n}, delay="1h" if n % 7 == 0 else None)
        if n % 2 and (lease := mail.claim()):
            (lease.fail, lease.snooze, lambda _: complete_with_effect(sloth, lease))[n % 3]("1s")


class Snapshot:
    """A store as it stands in the file system while it is open, to be cut and opened elsewhere.

    It is copied with its own process looking on: reading the files does no harm, but closing a
    descriptor of the database would drop SQLite's locks, so nothing goes on in this handle after.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "whole"
        self.folder.mkdir()
        sloth = Sloth(self.folder / "work.db", durability="process")
        live_through(sloth, 60)
        kept = folder / "kept"
        kept.mkdir()
        for suffix in ("", "-wal"):
            shutil.copy(f"{sloth.path}{suffix}", kept / f"work.db{suffix}")
        sloth.close()
        self.database = (kept / "work.db").read_bytes()
        self.log = (kept / "work.db-wal").read_bytes()
        self.page = int.from_bytes(self.log[8:12], "big")

    def with_log(self, place: Path, log: bytes) -> Path:
        place.mkdir()
        (place / "work.db").write_bytes(self.database)
        (place / "work.db-wal").write_bytes(log)
        return place / "work.db"

    @property
    def frames(self) -> int:
        return (len(self.log) - HEADER) // (FRAME + self.page)

    def start_of(self, frame: int) -> int:
        return HEADER + frame * (FRAME + self.page)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return Snapshot(tmp_path_factory.mktemp("torn"))


def steps_of(path: Path) -> int:
    """How many steps this copy still knows: an unbroken run from the first, each with its job."""
    if not rows(path, "select 1 from sqlite_master where name = 'steps'"):
        return 0
    kept = [row[0] for row in rows(path, "select n from steps order by n")]
    assert kept == list(range(1, len(kept) + 1)), "it lacks more than a tail"
    return len(kept)


def opens_and_is_sound(path: Path) -> int:
    """A healthy program can use the copy to the end; how many steps are in it."""
    clock = Ahead(60)
    with Sloth(path, clock=clock, durability="process") as sloth:
        sloth.stats()
        kept = steps_of(path)
        jobs = audit(sloth)
        assert {job.payload["step"] for job in jobs.values()} == set(range(1, kept + 1))
        finish(sloth, clock)
        ended = audit(sloth)
        assert set(ended) == set(jobs) and {job.state for job in ended.values()} <= {
            "done",
            "failed",
        }
        check_effects(path, ended)
    return kept


def try_all(snapshot: Snapshot, folder: Path, logs: list[bytes]) -> list[int]:
    kept = []
    for n, log in enumerate(logs):
        kept.append(opens_and_is_sound(snapshot.with_log(folder / str(n), log)))
        shutil.rmtree(folder / str(n))
    return kept


def cuts(snapshot: Snapshot, number: int) -> list[int]:
    """Offsets from the start to the end: between pages, inside their headers, inside pages."""
    chance = random.Random(46)
    starts = [snapshot.start_of(n * snapshot.frames // number) for n in range(number)]
    return sorted(
        {0, 1, 31, *starts, *(start + chance.randrange(1, snapshot.page) for start in starts)}
    )


def test_a_log_that_was_cut_anywhere_loses_only_its_tail(snapshot: Snapshot, tmp_path: Path):
    kept = try_all(snapshot, tmp_path, [snapshot.log[:cut] for cut in cuts(snapshot, 25)])
    assert kept == sorted(kept), "a longer log keeps no less"
    assert kept[0] == 0 and kept[-1] > 40
    assert try_all(snapshot, tmp_path, [snapshot.log]) == [60]


@pytest.mark.slow(reason="some thousand copies")
@pytest.mark.timeout(600)
def test_a_log_that_was_cut_at_every_page_loses_only_its_tail(snapshot: Snapshot, tmp_path: Path):
    at = [snapshot.start_of(n) + off for n in range(snapshot.frames) for off in (0, 8, 24, 1_000)]
    kept = try_all(snapshot, tmp_path, [snapshot.log[:cut] for cut in at])
    assert kept == sorted(kept)


def test_a_log_in_which_a_page_was_spoilt_ends_before_it(snapshot: Snapshot, tmp_path: Path):
    chance = random.Random(47)
    logs, intact = [], []
    for frame in sorted(chance.sample(range(snapshot.frames), 20)):
        start = snapshot.start_of(frame) + FRAME + chance.randrange(snapshot.page - 16)
        logs.append(snapshot.log[:start] + chance.randbytes(16) + snapshot.log[start + 16 :])
        intact.append(snapshot.log[: snapshot.start_of(frame)])
    assert try_all(snapshot, tmp_path, logs) == try_all(snapshot, tmp_path, intact)


def test_a_log_with_a_hole_of_zeros_ends_before_it(snapshot: Snapshot, tmp_path: Path):
    logs, intact = [], []
    for part in range(1, 10):
        start = snapshot.start_of(part * snapshot.frames // 10)
        logs.append(snapshot.log[:start] + bytes(4_096) + snapshot.log[start + 4_096 :])
        intact.append(snapshot.log[:start])
    assert try_all(snapshot, tmp_path, logs) == try_all(snapshot, tmp_path, intact)


def test_a_log_without_its_file_is_not_thrown_away(tmp_path: Path):
    log = tmp_path / "work.db-wal"
    log.write_bytes(b"it may be all that is left " * 500)
    before = log.read_bytes()
    with Sloth(tmp_path / "work.db") as sloth, pytest.raises(StoreUnavailable, match="is missing"):
        sloth.queue("mail").enqueue(1)
    assert log.read_bytes() == before
    assert not (tmp_path / "work.db").exists()


def test_a_log_of_another_store_is_not_taken_for_ours(tmp_path: Path):
    with Sloth(tmp_path / "work.db") as sloth:
        sloth.queue("mail").enqueue(1)
    (tmp_path / "work.db-wal").write_bytes(b"not a log at all" * 500)
    with Sloth(tmp_path / "work.db") as sloth:
        assert sloth.queue("mail").enqueue(2).id == 2
        assert len(audit(sloth)) == 2
