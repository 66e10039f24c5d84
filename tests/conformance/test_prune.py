"""Ended jobs go away: by their queue's `keep` or as a person asks, with what belongs to them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from slothqueue import JobNotFound, ManualClock, Sloth, pruning

from .keeping import check_filing, rows, take
from .running import idle

DAY = 86_400.0


def one_of_each(sloth: Sloth, queue: str = "q") -> dict[str, int]:
    """A job in every state; the last one has the highest id."""
    q = sloth.queue(queue, max_attempts=1)
    jobs = {state: q.enqueue(state).id for state in ("done", "failed", "cancelled", "running")}
    for state in ("done", "failed", "cancelled", "running"):
        lease = q.claim()
        assert lease is not None
        if state == "done":
            lease.complete()
        elif state == "failed":
            lease.fail("no")
        elif state == "cancelled":
            lease.job.cancel()
            lease.fail("no")
    jobs["queued"] = q.enqueue("queued").id
    return jobs


def left(sloth: Sloth) -> set[str]:
    return {job.state for job in sloth.jobs(limit=10_000)}


def test_by_keep_what_is_done_or_cancelled_goes_and_what_failed_stays(
    sloth: Sloth, clock: ManualClock
):
    jobs = one_of_each(sloth)
    assert sloth.queue("q").options.keep == 7 * DAY * 1000
    clock.advance(7 * DAY - 1)
    assert sloth.prune() == 0
    clock.advance(1)
    assert sloth.prune() == 2
    assert left(sloth) == {"failed", "running", "queued"}
    for state in ("done", "cancelled"):
        with pytest.raises(JobNotFound):
            sloth.job(jobs[state])
    check_filing(sloth)


def test_keep_of_none_keeps_for_ever(sloth: Sloth, clock: ManualClock):
    one_of_each(sloth)
    sloth.queue("q", keep=None)
    clock.advance(1_000 * DAY)
    assert sloth.prune() == 0
    sloth.queue("q", keep="1d")
    assert sloth.prune() == 2


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        ({"older_than": 60}, 3),
        ({"older_than": "1m", "states": ["failed"]}, 1),
        ({"older_than": 0, "states": ["done", "cancelled"]}, 2),
        ({"older_than": 0}, 3),
        ({"older_than": "61s"}, 0),
        ({"older_than": 60, "queue": "other"}, 0),
        ({"older_than": 60, "queue": "q"}, 3),
    ],
    ids=repr,
)
def test_as_asked_what_is_old_enough_goes(
    sloth: Sloth, clock: ManualClock, options: dict[str, Any], gone: int
):
    one_of_each(sloth)
    sloth.queue("other").enqueue("highest")
    clock.advance(60)
    assert max(n for n, _ in sloth.pruned(**options, dry=True)) == gone
    assert sloth.stats()["done"] == 1
    assert sloth.prune(**options) == gone
    assert {"running", "queued"} <= left(sloth)


@pytest.mark.parametrize(
    "options",
    [
        {"older_than": -1},
        {"older_than": "x"},
        {"older_than": True},
        {"older_than": 0, "states": ["running"]},
        {"older_than": 0, "states": ["queued", "done"]},
        {"older_than": 0, "states": "done"},
        {"states": ["done"]},
        {"older_than": 0, "queue": "unheard of"},
    ],
    ids=repr,
)
def test_what_makes_no_sense_is_refused_and_deletes_nothing(
    sloth: Sloth, clock: ManualClock, options: dict[str, Any]
):
    one_of_each(sloth)
    clock.advance(60)
    with pytest.raises(ValueError, match=r"older_than|states|queue"):
        sloth.prune(**options)
    assert len(sloth.jobs()) == 5


def test_an_id_is_never_given_twice(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q")
    ids = [queue.enqueue(n).id for n in range(3)]
    queue.complete_many(queue.claim_many(3))
    clock.advance(1)
    assert [n for n, _ in sloth.pruned(0, dry=True)] == [2], "a dry run counts what a real one does"
    assert sloth.prune(0) == 2
    assert [job.id for job in sloth.jobs()] == [ids[-1]]
    assert queue.enqueue("next").id == ids[-1] + 1
    assert sloth.prune(0) == 1


def test_a_parent_stays_while_a_child_may_want_its_result(sloth: Sloth, clock: ManualClock):
    one, two = sloth.queue("p").enqueue_many([1, 2])
    child = sloth.queue("q").enqueue(3, after=[one, two])
    take(sloth, one).complete()
    clock.advance(30 * DAY)
    assert [n for n, _ in sloth.pruned(0, dry=True)] == [0]
    assert sloth.prune(0) == sloth.prune() == 0
    take(sloth, two).complete()
    take(sloth, child).complete()
    sloth.queue("q").enqueue("highest")
    clock.advance(1)
    assert sloth.prune(0) == 3
    assert rows(sloth, "select * from _sloth_edge") == []


def test_everything_that_belongs_to_a_job_goes_with_it(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q", max_attempts=1)
    parent = queue.enqueue(0)
    job = queue.enqueue(
        1,
        unique="k",
        expires="1h",
        concurrency_key="g",
        hold=True,
        after=parent,
        on_interrupt="hold",
    )
    child = queue.enqueue(2, after=job)
    take(sloth, parent).complete()
    job.unhold()
    take(sloth, job).fail("no")
    assert child.refresh().state == "cancelled"
    queue.enqueue("highest")
    clock.advance(1)
    assert sloth.prune(0) == 3
    for table in ("event", "extra", "expiry", "edge", "gated", "ask", "gone", "running"):
        assert rows(sloth, f"select * from _sloth_{table}") == [], table
    check_filing(sloth)


def test_the_logs_of_a_command_go_with_it(sloth: Sloth, clock: ManualClock):
    job = sloth.queue("q").enqueue_command(["echo", "hello"])
    kept = sloth.queue("q").enqueue_command(["echo", "hello"])
    idle(sloth)
    logs = Path(sloth.store.logs)
    (logs / "notes").write_text("not ours")
    assert {name.partition("-")[0] for name in os.listdir(logs)} == {
        str(job.id), str(kept.id), "notes",
    }  # fmt: skip
    clock.advance(1)
    assert sloth.prune(0) == 1
    assert {name.partition("-")[0] for name in os.listdir(logs)} == {str(kept.id), "notes"}


def test_many_go_in_slices_and_steps_tell_how_far_it_is(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q")
    queue.enqueue_many(list(range(12_000)))
    queue.complete_many(queue.claim_many(12_000))
    queue.enqueue("highest")
    clock.advance(1)
    before = sloth.store.commits
    steps = list(sloth.pruned(0))
    assert sloth.store.commits - before >= 24
    assert [total for total, _ in steps] == [5_000, 10_000, 12_000]
    assert [upto for _, upto in steps] == [5_000, 10_000, 0]
    assert sloth.stats()["done"] == 0


def test_a_worker_prunes_by_itself_while_it_has_other_work(sloth: Sloth, clock: ManualClock):
    one_of_each(sloth)

    @sloth.task()
    def work() -> None:
        clock.advance(10)

    clock.advance(7 * DAY)
    worker = sloth.worker(pool="thread", concurrency=1)
    for _ in range(3):
        work.enqueue()
    worker.run_until_idle()
    assert {job.state for job in sloth.jobs(queue="q")} == {"failed", "queued"}
    check_filing(sloth)


def test_a_worker_prunes_logs_and_environments_by_itself(
    sloth: Sloth, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pruning, "SLICE", 2)

    @sloth.task()
    def work() -> None:
        clock.advance(10)

    jobs = [sloth.queue("q").enqueue_command(["true"], env={"N": str(n)}) for n in range(4)]
    idle(sloth)
    clock.advance(7 * DAY)
    worker = sloth.worker(pool="thread", concurrency=1)
    for _ in range(6):
        work.enqueue()
    worker.run_until_idle()
    assert not {job.id for job in sloth.jobs()} & {job.id for job in jobs}
    assert os.listdir(sloth.store.logs) == []
    assert rows(sloth, "select * from _sloth_env") == []


def test_an_empty_store_is_pruned_to_nothing(sloth: Sloth):
    assert sloth.prune() == sloth.prune(0) == 0


def test_an_environment_that_no_job_has_goes_too(sloth: Sloth, clock: ManualClock):
    with sloth.transaction() as tx:
        tx.execute("insert into _sloth_env (text) values ('{}')")
    sloth.prune()
    assert rows(sloth, "select * from _sloth_env") == []


def test_enqueue_tells_of_a_job_that_is_gone_by_the_time_it_returns(
    sloth: Sloth, monkeypatch: pytest.MonkeyPatch
):
    """Somebody runs and prunes it between the commit and the answer."""
    queue, write = sloth.queue("q"), sloth.store.write
    queue.enqueue("before")

    def meddle(*args: Any, **options: Any) -> Any:
        value = write(*args, **options)
        monkeypatch.setattr(sloth.store, "write", write)
        queue.complete_many(queue.claim_many(10))
        queue.enqueue("after")  # the latest is never pruned
        assert sloth.prune(0) > 1
        return value

    for enqueue in (
        lambda: queue.enqueue(1, unique="key"),
        lambda: queue.enqueue(1, expires="1h"),
        lambda: queue.enqueue_many([1], expires="1h")[0],
    ):
        monkeypatch.setattr(sloth.store, "write", meddle)
        job = enqueue()
        assert (job.payload, job.state) == (1, "queued")
        with pytest.raises(JobNotFound):
            job.refresh()
