"""`sloth.within(connection)`: the user's own sqlite3 connection decides. Of this engine only."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from slothqueue import JobNotFound, ManualClock, Sloth, StoreBusy, WrongState

from .forking import forked, refused
from .telling import every_job

OpenSloth = Callable[..., Sloth]
Connect = Callable[..., sqlite3.Connection]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "own.db")


@pytest.fixture
def connect(url: str) -> Iterator[Connect]:
    """Opens connections of the user's own on the store's file."""
    opened: list[sqlite3.Connection] = []

    def open_one(isolation_level: Any = "", **options: Any) -> sqlite3.Connection:
        options = {"isolation_level": isolation_level, "timeout": 5, **options}
        opened.append(sqlite3.connect(url, **options))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


LEVELS = pytest.mark.parametrize("level", ["", "DEFERRED", "IMMEDIATE", "EXCLUSIVE"])


@LEVELS
def test_the_users_commit_decides(sloth: Sloth, connect: Connect, level: str):
    connection = connect(level)
    sloth.queue("old")
    assert sloth.jobs() == []
    connection.execute("create table orders (id integer)")
    connection.execute("insert into orders values (42)")
    job = sloth.within(connection).queue("new").enqueue({"order": 42}, delay=5)
    assert connection.in_transaction
    with pytest.raises(JobNotFound):
        sloth.job(job.id)
    connection.commit()
    assert sloth.job(job.id).payload == {"order": 42}
    assert connection.execute("select id from orders").fetchall() == [(42,)]


@LEVELS
def test_the_users_rollback_leaves_no_trace(sloth: Sloth, connect: Connect, level: str):
    connection = connect(level)
    before = sloth.queue("old").enqueue(1)
    tx = sloth.within(connection)
    tx.queue("old").enqueue(2)
    tx.queue("new").enqueue_many([3, 4], delay=5)
    connection.rollback()
    assert [id for id, _, _ in every_job(sloth)] == [before.id]
    assert sloth.jobs(queue="new") == []
    tx.queue("new").enqueue("again")  # the same one, in a transaction that begins now
    connection.commit()
    assert [payload for _, _, payload in every_job(sloth)] == [1, "again"]


def test_without_transactions_of_its_own_each_statement_commits(sloth: Sloth, connect: Connect):
    connection = connect(None)
    job = sloth.within(connection).queue("q").enqueue(1)
    assert not connection.in_transaction
    assert sloth.job(job.id).payload == 1
    connection.execute("begin")
    sloth.within(connection).queue("q").enqueue(2)
    sloth.within(connection).queue("new").enqueue(2)
    connection.execute("rollback")
    assert len(every_job(sloth)) == 1
    connection.execute("begin immediate")
    sloth.within(connection).queue("q").enqueue(3)
    connection.execute("commit")
    assert [payload for _, _, payload in every_job(sloth)] == [1, 3]


@pytest.mark.parametrize("level", ["", None])
def test_a_row_factory_of_the_users_own_is_left_alone(
    sloth: Sloth, connect: Connect, level: str | None
):
    connection = connect(level)
    connection.row_factory = sqlite3.Row
    tx = sloth.within(connection)
    job = tx.queue("q").enqueue(1)
    assert job.refresh().state == "queued"
    assert tx.execute("select 1 as one").fetchone()["one"] == 1
    connection.commit()
    assert sloth.job(job.id).payload == 1
    assert connection.row_factory is sqlite3.Row


def test_text_and_types_of_the_users_own_are_left_alone(sloth: Sloth, connect: Connect):
    connection = connect("", detect_types=sqlite3.PARSE_DECLTYPES | sqlite3.PARSE_COLNAMES)
    job = sloth.within(connection).queue("q").enqueue({"ä": 1})
    connection.commit()
    assert sloth.job(job.id).payload == {"ä": 1}


@pytest.mark.parametrize("level", ["", "IMMEDIATE", None])
def test_an_empty_file_is_set_up_on_the_users_connection(
    open_sloth: OpenSloth, connect: Connect, level: str | None
):
    connection = connect(level)
    connection.execute("create table orders (id integer)")
    connection.commit()
    sloth = open_sloth()
    connection.execute("begin")
    job = sloth.within(connection).queue("q").enqueue(1)
    connection.execute("commit")
    lease = open_sloth().queue("q").claim()
    assert lease is not None
    assert lease.id == job.id
    lease.complete()


@pytest.mark.parametrize("level", ["", "IMMEDIATE"])
def test_a_rollback_of_the_set_up_leaves_no_trace(
    open_sloth: OpenSloth, connect: Connect, level: str
):
    connection, sloth = connect(level), open_sloth()
    sloth.within(connection).queue("q").enqueue(1)
    connection.rollback()
    assert connection.execute("select * from sqlite_master").fetchall() == []
    sloth.within(connection).queue("q").enqueue(2)
    connection.commit()
    assert [payload for _, _, payload in every_job(sloth)] == [2]


def test_a_connection_on_another_file_is_refused(sloth: Sloth, tmp_path: Path, url: str):
    sloth.queue("q").enqueue(1)
    for other in (str(tmp_path / "other.db"), ":memory:"):
        with closing(sqlite3.connect(other)) as connection:
            with pytest.raises(WrongState, match=r"own\.db"):
                sloth.within(connection)
            assert not connection.in_transaction
    for wrong in (None, url, object()):
        with pytest.raises(WrongState, match="sqlite3"):
            sloth.within(wrong)


def test_another_name_of_the_same_file_is_the_same_file(
    sloth: Sloth, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
):
    sloth.queue("q").enqueue(1)
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    for name in (str(tmp_path / "link" / "own.db"), "own.db", f"file:{url}"):
        with closing(sqlite3.connect(name, uri=name.startswith("file:"))) as connection:
            sloth.within(connection).queue("q").enqueue(2)
            connection.commit()
    assert len(every_job(sloth)) == 4


def test_who_has_read_before_others_wrote_is_told_to_begin_again(sloth: Sloth, connect: Connect):
    connection = connect(None)
    sloth.queue("q").enqueue("before")
    connection.execute("begin")
    connection.execute("select count(*) from sqlite_master").fetchall()
    sloth.queue("q").enqueue("meanwhile")
    with pytest.raises(StoreBusy, match="BEGIN IMMEDIATE"):
        sloth.within(connection).queue("q").enqueue("late")
    connection.execute("rollback")
    connection.execute("begin immediate")
    sloth.within(connection).queue("q").enqueue("again")
    connection.execute("commit")
    assert [payload for _, _, payload in every_job(sloth)] == ["before", "meanwhile", "again"]


def test_a_plain_call_beside_an_open_transaction_gives_up_after_its_patience(
    open_sloth: OpenSloth, connect: Connect
):
    sloth, connection = open_sloth(busy_timeout="50ms"), connect("")
    sloth.queue("q").enqueue(1)
    sloth.within(connection).queue("q").enqueue(2)
    with pytest.raises(StoreBusy, match="Nothing was changed"):
        sloth.queue("q").enqueue(3)
    connection.commit()
    assert [payload for _, _, payload in every_job(sloth)] == [1, 2]


@pytest.mark.parametrize("call", ["claim", "wait"])
def test_nothing_is_claimed_on_the_users_connection(sloth: Sloth, connect: Connect, call: str):
    sloth.queue("q").enqueue(1)
    connection = connect("")
    with pytest.raises(WrongState, match="claim"):
        getattr(sloth.within(connection).queue("q"), call)()
    assert not connection.in_transaction


def test_a_lease_is_completed_with_the_users_rows(sloth: Sloth, connect: Connect):
    job, connection = sloth.queue("q").enqueue(1), connect("")
    lease = sloth.queue("q").claim()
    assert lease is not None
    assert sloth.within(connection).queue("q").complete_many([lease]) == [lease]
    connection.rollback()
    assert job.refresh().state == "running"
    assert sloth.within(connection).queue("q").complete_many([lease]) == [lease]
    connection.commit()
    assert job.refresh().state == "done"


def test_a_task_is_enqueued_within_the_users_connection(sloth: Sloth, connect: Connect):
    @sloth.task()
    def double(n: int) -> int:
        return 2 * n

    connection = connect("")
    double.within(sloth.within(connection)).enqueue(1)
    connection.rollback()
    job = double.within(sloth.within(connection)).enqueue(21)
    connection.commit()
    sloth.worker(pool="thread").run_until_idle()
    assert job.result() == 42


def test_a_job_can_be_asked_after_its_connection_was_closed(sloth: Sloth, connect: Connect):
    connection = connect("")
    job = sloth.within(connection).queue("q").enqueue(1)
    assert job.refresh().state == "queued"
    connection.commit()
    connection.close()
    lease = sloth.queue("q").claim()
    assert lease is not None
    lease.complete("fine")
    assert (job.refresh().state, job.result(timeout=0)) == ("done", "fine")


@pytest.mark.parametrize("level", ["", "IMMEDIATE"])
def test_a_waiter_in_another_handle_wakes_after_the_users_commit(
    open_sloth: OpenSloth, connect: Connect, aside: Callable[..., Any], level: str
):
    one, other, connection = open_sloth(), open_sloth(), connect(level)
    one.queue("q").enqueue("first")
    waiter = aside(lambda: [other.queue("q").wait().payload for _ in range(3)])
    for payload in ("second", "third"):  # nobody rings for them: the herald notices
        one.within(connection).queue("q").enqueue(payload)
        connection.commit()
    assert waiter.value(within=10) == ["first", "second", "third"]


def test_the_clock_set_back_does_not_lengthen_a_delay_of_a_users_transaction(
    open_sloth: OpenSloth, connect: Connect, clock: ManualClock
):
    sloth, connection = open_sloth(), connect("")
    sloth.within(connection).queue("q").enqueue(1, delay=60)
    connection.commit()
    clock.step_wall(-3600)
    clock.advance(60)
    assert open_sloth().queue("q").claim() is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_fork_while_a_users_connection_is_joined_is_refused_in_the_child(
    open_sloth: OpenSloth, url: str
):
    sloth = open_sloth()
    sloth.queue("q").enqueue("before")
    with closing(sqlite3.connect(url)) as connection:
        sloth.within(connection).queue("q").enqueue("within")
        message = forked(lambda: refused(lambda: sloth.queue("q").enqueue(1)))
        assert "within()" in message
        assert "fork" in message
        connection.commit()
        assert "within()" in forked(lambda: refused(lambda: sloth.jobs()))
    assert forked(lambda: sloth.queue("q").enqueue("closed by now").id) == 3
    assert [job.payload for job in sloth.jobs()] == ["before", "within", "closed by now"]
