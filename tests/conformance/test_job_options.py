"""Options of jobs: what makes no sense is refused, with words for it and with nothing written."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from slothqueue import ManualClock, Sloth

from .keeping import rows
from .telling import every_job

BAD: list[dict[str, Any]] = [
    {"unique": ""},
    {"unique": 0},
    {"unique": False},
    {"unique": b"k"},
    {"unique": "x" * 1_001},
    {"unique": "\ud800"},
    {"on_conflict": "ignore", "unique": "k"},
    {"on_conflict": None},
    {"on_conflict": ""},
    {"after": "7"},
    {"after": ""},
    {"after": b""},
    {"after": True},
    {"after": [True]},
    {"after": 1.5},
    {"after": [None]},
    {"after": 1j},
    {"after": {"a": 1}},
    {"after_failed": "ignore"},
    {"after_failed": None},
    {"after_failed": False},
    {"expires": -1},
    {"expires": "soon"},
    {"expires": ""},
    {"expires": True},
    {"expires": float("nan")},
    {"expires": dt.datetime(2030, 1, 1)},
    {"expires": "2030-01-01T00:00:00"},
    {"expires": dt.timedelta(-1)},
    {"concurrency_key": ""},
    {"concurrency_key": 7},
    {"concurrency_key": ("k",)},
    {"concurrency_key": ("k", 0)},
    {"concurrency_key": ("k", True)},
    {"concurrency_key": ("k", 1.5)},
    {"concurrency_key": (1, "k")},
    {"concurrency_key": ("k", 1, 2)},
    {"on_interrupt": "ignore"},
    {"on_interrupt": None},
    {"on_interrupt": 0},
    {"hold": "no"},
    {"hold": 1},
    {"timeout": 0},
    {"timeout": -1},
    {"timeout": "x"},
]


@pytest.mark.parametrize("options", BAD, ids=lambda options: repr(options)[:50])
def test_an_option_that_makes_no_sense_is_refused_and_nothing_is_written(
    sloth: Sloth, options: dict[str, Any]
):
    @sloth.task(queue="q")
    def work() -> None: ...

    queue, name = sloth.queue("q"), next(iter(options))
    calls: list[Callable[[], Any]] = [
        lambda: queue.enqueue(1, **options),
        lambda: queue.enqueue_command(["true"], **options),
        lambda: work.using(**options).enqueue(),
    ]
    if "unique" not in options:
        calls.append(lambda: queue.enqueue_many([1, 2], **options))
    for call in calls:
        with pytest.raises(ValueError, match=name):
            call()
    with pytest.raises(ValueError, match=name), sloth.transaction() as tx:
        tx.queue("q").enqueue(1, **options)
    assert every_job(sloth) == []
    for table in ("extra", "edge", "expiry"):
        assert rows(sloth, f"select * from _sloth_{table}") == []


@pytest.mark.parametrize("option", ["prio", "uniq", "depends_on", "queue"])
def test_an_option_that_there_is_not_is_refused_by_name(sloth: Sloth, option: str):
    asked: Any = {option: 1}
    with pytest.raises(TypeError, match=option):
        sloth.queue("q").enqueue(1, **asked)
    assert every_job(sloth) == []


def test_nothing_asked_is_nothing_done(sloth: Sloth):
    """What looks like nothing, and means nothing."""
    job = sloth.queue("q").enqueue(
        1, unique=None, after=None, expires=None, concurrency_key=None, hold=False, timeout=None,
        delay=None, run_at=None, max_attempts=None,
    )  # fmt: skip
    nobody: list[Any] = [[], (), set()]
    many = [sloth.queue("q").enqueue(1, after=after) for after in nobody]
    assert rows(sloth, "select extras, parked from _sloth_job") == [(0, 0)] * 4
    for one in (job, *many):
        assert (one.parents, one.held, one.blocked, one.unique) == ([], False, False, None)
        assert (one.expires_at, one.concurrency_key, one.on_interrupt) == (None, None, "retry")


def test_zero_means_zero(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q")
    job = queue.enqueue(1, delay=0, priority=0, expires=0)
    assert job.expires_at == job.run_at == job.created_at
    assert queue.claim() is None
    assert job.refresh().state == "cancelled"


def test_options_of_a_task_are_those_of_its_jobs_unless_told_otherwise(sloth: Sloth):
    @sloth.task(
        queue="q", unique="k", priority=3, expires=60, concurrency_key=("g", 2), on_interrupt="hold"
    )
    def work() -> None: ...

    job = work.enqueue()
    assert (job.unique, job.priority, job.concurrency_key) == ("k", 3, ("g", 2))
    assert (job.on_interrupt, job.expires_at is not None) == ("hold", True)
    assert work.enqueue().id == job.id
    other = work.using(
        unique=None, priority=0, expires=None, concurrency_key=None, on_interrupt="retry"
    ).enqueue()
    assert other.id != job.id
    assert (other.unique, other.priority, other.concurrency_key) == (None, 0, None)
    assert (other.on_interrupt, other.expires_at) == ("retry", None)


@pytest.mark.parametrize("options", [{"unique": ""}, {"priority": 1.5}, {"expires": -1}], ids=repr)
def test_an_option_of_a_task_is_refused_where_it_is_written(sloth: Sloth, options: dict[str, Any]):
    with pytest.raises(ValueError, match=next(iter(options))):
        sloth.task(**options)


def test_many_jobs_have_the_options_of_one(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q")
    parent = queue.enqueue(0)
    jobs = queue.enqueue_many(
        [1, 2], after=parent, expires=60, concurrency_key="g", hold=True, on_interrupt="fail"
    )
    for job in jobs:
        now = job.refresh()
        assert job == now
        assert (now.parents, now.held, now.blocked) == ([parent.id], True, True)
        assert (now.concurrency_key, now.on_interrupt) == (("g", 1), "fail")


def test_counts_tell_of_each_reason_to_wait(sloth: Sloth):
    queue = sloth.queue("q")
    first = queue.enqueue(0, concurrency_key="g", priority=1)
    claimed = queue.claim()
    assert claimed is not None
    queue.enqueue(1, concurrency_key="g")
    assert queue.claim() is None
    queue.enqueue(2, after=first)
    queue.enqueue(3, hold=True)
    queue.enqueue(4, hold=True, after=first)
    queue.enqueue(5, delay=60)
    queue.enqueue(6)
    counts = sloth.stats()
    assert (counts["queued"], counts["blocked"], counts["held"]) == (6, 2, 2)
    assert (counts["scheduled"], counts["running"]) == (1, 1)
    assert len(sloth.jobs(state="queued")) == 6
    assert sloth.queue("q").stats() == counts
