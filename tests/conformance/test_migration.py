"""A file that an older version wrote is brought up to date, with its jobs."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from slothqueue import Sloth
from slothqueue.storage import migrate, statements

QUEUE = "insert into _sloth_queue values (1, 'mail', null, 3, 2.0, 3600000, 1000)"
LANE = "insert into _sloth_lane values (1, 1, 0, '')"
JOB = """
insert into _sloth_job
    (lane, state, priority, due, created, claimed, finished, fence, worker, payload)
values (1, ?, ?, ?, 1000, 1000, 1000, 1000000, 1000000, ?)
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store of schema 1: a job that is due, one for later, one that is done, one that failed."""
    path = tmp_path / "old.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma journal_mode=wal")
    connection.execute("begin immediate")
    migrate.apply(connection.cursor(), statements.migrations("sqlite")[0], 0)
    connection.execute("insert into _sloth_meta values ('store', 'abc')")
    for text in (QUEUE, LANE):
        connection.execute(text)
    later = 4_000_000_000_000
    for state, priority, due in ((0, 0, 1000), (0, -5, later), (2, 0, 1000), (3, 0, 1000)):
        connection.execute(JOB, (state, priority, due, '"hello"'))
    connection.execute("commit")
    connection.close()
    return path


def test_its_jobs_are_there_and_run(old: Path):
    with Sloth(old) as sloth:
        assert [job.state for job in map(sloth.job, (1, 2, 3, 4))] == [
            "queued",
            "queued",
            "done",
            "failed",
        ]
        queue = sloth.queue("mail")
        assert (queue.options.max_attempts, queue.options.concurrency) == (3, None)
        lease = queue.claim()
        assert lease is not None
        assert lease.payload == "hello"
        assert queue.claim() is None
        lease.complete()
        assert sloth.job(4).revive().state == "queued"


def test_what_is_new_works_on_old_jobs(old: Path):
    with Sloth(old) as sloth:
        first = sloth.job(1)
        child = sloth.queue("mail").enqueue("child", after=[first], unique="k")
        first.hold()
        assert sloth.queue("mail").claim() is None
        first.cancel()
        assert child.refresh().state == "cancelled"


def test_the_scripts_make_the_same_schema_in_one_step_or_in_two(old: Path, tmp_path: Path):
    for path in (old, tmp_path / "new.db"):
        with Sloth(path) as sloth:
            sloth.stats()
    assert _schema(old) == _schema(tmp_path / "new.db")


def _schema(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    rows = connection.execute("select sql from sqlite_master where sql is not null order by name")
    found = [row[0] for row in rows]
    connection.close()
    return found


def test_an_older_version_refuses_it_then(old: Path, monkeypatch: pytest.MonkeyPatch):
    from slothqueue import SchemaTooNew

    with Sloth(old) as sloth:
        sloth.stats()
    first = statements.migrations("sqlite")[:1]
    monkeypatch.setattr(migrate, "scripts", lambda: first)
    with Sloth(old) as sloth, pytest.raises(SchemaTooNew, match="pip install --upgrade"):
        sloth.stats()
