"""`sloth.check()`: silent about every sound store, and it finds each thing that it looks for."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slothqueue import Finding, ManualClock, Sloth, StoreCorrupt
from slothqueue.storage.check import RULES, SHOWN


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store in which something of every kind has happened; closed."""
    clock = ManualClock()
    with Sloth(tmp_path / "work.db", clock=clock) as sloth:
        mail = sloth.queue("mail", max_attempts=2)
        mail.enqueue_many(list(range(12)))
        mail.enqueue("later", delay="1h")
        one, two, three, four, five, _ = mail.claim_many(6)
        one.complete("fine")
        two.fail("boom")
        three.discard("bad")
        four.snooze("1m")
        five.release()
        clock.advance(90)
        assert mail.claim() and sloth.stats()["running"] == 1
        sloth.queue("media").enqueue_command(["true"])
        parent = sloth.queue("waits").enqueue("parent", hold=True)
        sloth.queue("waits").enqueue("child", after=[parent], expires="1h")
        for text in ("one", "two"):
            sloth.queue("keys").enqueue(text, concurrency_key="k")
        lease = sloth.queue("keys").claim()
        assert lease and not sloth.queue("keys").claim()
        lease.job.cancel()
    return tmp_path / "work.db"


def spoil(path: Path, *statements: str) -> list[Finding]:
    """What is found once a stranger has done this."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()
    with Sloth(path, clock=ManualClock()) as sloth:
        return sloth.check()


def test_a_sound_store_has_no_findings(path: Path):
    assert spoil(path) == []
    with Sloth(path) as sloth:
        assert sloth.check(quick=True) == []


def test_a_new_store_has_no_findings(tmp_path: Path):
    with Sloth(tmp_path / "new.db") as sloth:
        assert sloth.check() == []


WRONGS = {
    "a queued job that no claim can find": "delete from _sloth_ready where id = 8",
    "a job that is filed twice": "insert into _sloth_sched values (1, 5, 8, 0, null)",
    "an entry of a job that does not exist": "insert into _sloth_ready values (1, 0, 0, 777)",
    "a job that has ended and is filed": "insert into _sloth_ready values (1, 0, 0, 1)",
    "filed though it is to wait": "update _sloth_job set parked = 4 where id = 8",
    "a job that waits for nothing": "update _sloth_extra set held = null where job = 15",
    "may run before its parents": "update _sloth_job set parked = 0 where id = 16",
    "waits for a parent that has ended": "update _sloth_job set state = 4 where id = 15",
    "an expiry of a job that has ended": "insert into _sloth_expiry values (1, 1)",
    "a request to a job that does not run": "update _sloth_ask set job = 1",
    "filed under another queue": "update _sloth_ready set lane = 2 where id = 8",
    "a lease on a job that does not exist": "update _sloth_running set id = id + 777",
    "whose holder is not known": "update _sloth_running set holder = 777",
    "in a state that does not exist": "update _sloth_job set state = 9 where id = 1",
    "a job of a queue that does not exist": "update _sloth_job set lane = 9 where id = 1",
    "a lane of a queue that does not exist": "update _sloth_lane set queue = 9 where id = 1",
    "a history with a gap": "update _sloth_event set n = 9 where job = 2 and n = 3",
    "the history of a job that does not exist": "update _sloth_event set job = 777 where job = 2",
    "a store without an id": "update _sloth_meta set key = 'name' where key = 'store'",
    "whose payload is no JSON": "update _sloth_job set payload = '{' where id = 1",
    "a part of the schema is missing": "drop trigger _sloth_job_ready",
    "a part of the schema was changed": "alter table _sloth_event add column mood text",
}


@pytest.mark.parametrize("what", WRONGS)
def test_what_is_wrong_is_found(path: Path, what: str):
    found = spoil(path, WRONGS[what])
    told = [one for one in found if what in one.what]
    assert len(told) == 1, found
    assert told[0].where and told[0].remedy.endswith(".")


def test_there_is_a_wrong_for_every_rule():
    whats = [rule.what for rule in RULES]
    assert all(any(wrong in what for wrong in WRONGS) for what in whats), whats


def test_many_places_are_counted_and_few_are_named(path: Path):
    (found,) = spoil(path, "delete from _sloth_ready where id > 4")
    assert found.where.startswith("jobs ") and found.where.endswith(" more")
    assert found.where.count(",") == SHOWN - 1


def test_an_index_that_lost_an_entry_is_found_and_not_by_the_quick_look(path: Path):
    found = spoil(
        path,
        "pragma writable_schema=on",
        "update sqlite_master set sql = replace(sql, 'state > 2', 'state > 3') "
        "where name = '_sloth_job_dead'",
        "pragma writable_schema=reset",
        "reindex _sloth_job_dead",
        "pragma writable_schema=on",
        "update sqlite_master set sql = replace(sql, 'state > 3', 'state > 2') "
        "where name = '_sloth_job_dead'",
    )
    assert {one.what for one in found} == {"the file is damaged"}
    assert "_sloth_job_dead" in found[0].where and "backup" in found[0].remedy
    with Sloth(path, clock=ManualClock()) as sloth:
        assert sloth.check(quick=True) == []


def test_pages_that_are_garbage_are_found_or_refused(path: Path):
    with Sloth(path) as sloth:
        sloth.queue("mail").enqueue_many(["x" * 3_000] * 200)
    content = bytearray(path.read_bytes())
    content[300_000:310_000] = b"\xa5" * 10_000
    path.write_bytes(content)
    with Sloth(path) as sloth:
        try:
            found = sloth.check()
        except StoreCorrupt as error:
            assert str(path) in str(error)
        else:
            assert found[0].what == "the file is damaged"


def test_a_novelty_of_a_newer_version_is_no_fault(path: Path):
    newer = "insert into _sloth_migration values (99, 'later', 'x', 0, 0)"
    assert spoil(path, newer, "alter table _sloth_event add column mood text") == []


WRITER = """
import sys
from slothqueue import Sloth
sloth = Sloth(sys.argv[1], durability="process")
mail = sloth.queue("mail")
print("ready", flush=True)
while True:
    mail.enqueue_many([1, 2, 3])
    mail.enqueue(4, delay="1s")
    one, two, *rest = mail.claim_many(4)
    one.fail("boom"), two.release()
    mail.complete_many(rest)
"""


def test_what_others_do_meanwhile_is_no_fault(path: Path):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    try:
        for writer in writers:
            assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
        with Sloth(path, durability="process") as sloth:
            before: Any = sloth.stats()
            for _ in range(40):
                assert sloth.check(quick=True) == []
            assert sloth.stats() != before, "nobody wrote meanwhile"
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()


def test_a_check_takes_no_write_lock(path: Path):
    stranger = sqlite3.connect(path, isolation_level=None)
    with Sloth(path) as sloth:
        sloth.stats()
        stranger.execute("begin immediate")
        stranger.execute("delete from _sloth_ready")
        assert sloth.check() == []
    stranger.close()
