"""Jobs and rows of one file commit together, or neither does: `sloth.transaction()`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slothqueue import JobNotFound, ManualClock, NotSerializable, Sloth, SlothError, WrongState

from .telling import every_job

OpenSloth = Callable[..., Sloth]


@pytest.fixture
def orders(sloth: Sloth) -> Callable[[], list[int]]:
    """A table of the user's own, and what is in it."""
    with sloth.transaction() as tx:
        tx.execute("create table orders (id integer)")

    def read() -> list[int]:
        with sloth.transaction() as tx:
            return [row[0] for row in tx.execute("select id from orders order by id").fetchall()]

    return read


def test_a_job_and_a_row_commit_together(
    open_sloth: OpenSloth, sloth: Sloth, orders: Callable[[], list[int]]
):
    other = open_sloth()
    with sloth.transaction() as tx:
        tx.execute("insert into orders values (?)", (42,))
        job = tx.queue("mail").enqueue({"order": 42}, priority=3, delay=5)
        with pytest.raises(JobNotFound):
            other.job(job.id)
    assert orders() == [42]
    assert other.job(job.id).payload == {"order": 42}
    assert (job.refresh().priority, job.refresh().state) == (3, "queued")


def test_an_exception_takes_everything_back(
    open_sloth: OpenSloth, sloth: Sloth, orders: Callable[[], list[int]]
):
    with pytest.raises(ZeroDivisionError), sloth.transaction() as tx:
        tx.execute("insert into orders values (42)")
        tx.queue("mail").enqueue_many([1, 2])
        raise ZeroDivisionError
    assert orders() == []
    assert every_job(sloth) == []
    assert sloth.queue("mail").claim() is None
    sloth.queue("mail").enqueue("after")
    assert [payload for _, _, payload in every_job(open_sloth())] == ["after"]


def test_the_first_use_of_a_queue_may_be_inside_and_be_rolled_back(
    open_sloth: OpenSloth, sloth: Sloth
):
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), sloth.transaction() as tx:
            tx.queue("new").enqueue(1)
            raise ZeroDivisionError
    with sloth.transaction() as tx:
        job = tx.queue("new").enqueue(2)
        tx.queue("newer").enqueue(3)
    other = open_sloth()
    lease = other.queue("new").claim()
    assert lease is not None
    assert lease.id == job.id
    assert sloth.queue("newer").enqueue(4).refresh().queue == "newer"


def test_a_job_that_was_refused_does_not_spoil_the_transaction(sloth: Sloth):
    with sloth.transaction() as tx:
        tx.queue("q").enqueue("first")
        with pytest.raises(NotSerializable):
            tx.queue("q").enqueue(float("nan"))
        with pytest.raises(ValueError, match="delay"):
            tx.queue("q").enqueue(1, delay=-1)
        tx.queue("q").enqueue("second")
    assert [payload for _, _, payload in every_job(sloth)] == ["first", "second"]


@pytest.mark.parametrize(
    "call",
    [
        lambda sloth, lease: sloth.queue("q").enqueue(1),
        lambda sloth, lease: sloth.queue("q").enqueue_many([1]),
        lambda sloth, lease: sloth.queue("new").enqueue(1),
        lambda sloth, lease: sloth.queue("q", max_attempts=9),
        lambda sloth, lease: sloth.queue("q").claim(),
        lambda sloth, lease: lease.complete(),
        lambda sloth, lease: lease.heartbeat(),
        lambda sloth, lease: sloth.transaction().__enter__(),
    ],
    ids=[
        "enqueue",
        "enqueue_many",
        "first_use",
        "options",
        "claim",
        "complete",
        "heartbeat",
        "transaction",
    ],
)
def test_a_plain_call_inside_is_refused_and_does_not_block_itself(
    sloth: Sloth, call: Callable[..., object]
):
    sloth.queue("q").enqueue_many([1, 2])
    lease = sloth.queue("q").claim()
    with sloth.transaction() as tx:
        tx.queue("q").enqueue("inside")
        with pytest.raises(WrongState, match="tx"):
            call(sloth, lease)
    assert [state for _, state, _ in every_job(sloth)] == ["running", "queued", "queued"]


def test_reading_inside_sees_the_store_as_it_was_and_does_not_block(sloth: Sloth):
    before = sloth.queue("q").enqueue(1)
    with sloth.transaction() as tx:
        tx.queue("q").enqueue(2)
        assert sloth.job(before.id).state == "queued"
        assert len(sloth.jobs()) == 1
        assert sloth.queue("q").stats()["queued"] == 1


def test_a_lease_is_completed_together_with_its_effect(
    sloth: Sloth, orders: Callable[[], list[int]]
):
    job = sloth.queue("q").enqueue(1)
    lease = sloth.queue("q").claim()
    assert lease is not None
    with pytest.raises(ZeroDivisionError), sloth.transaction() as tx:
        tx.execute("insert into orders values (1)")
        assert tx.queue("q").complete_many([lease]) == [lease]
        raise ZeroDivisionError
    assert (job.refresh().state, orders()) == ("running", [])
    with sloth.transaction() as tx:
        tx.execute("insert into orders values (1)")
        assert tx.queue("q").complete_many([lease]) == [lease]
    assert (job.refresh().state, orders()) == ("done", [1])


def test_a_mistake_in_a_statement_of_the_users_own_is_told_as_the_engine_told_it(sloth: Sloth):
    with pytest.raises(Exception, match=r"(?i)unique") as told, sloth.transaction() as tx:
        tx.execute("create table t (id integer unique)")
        tx.queue("q").enqueue(1)
        tx.execute("insert into t values (1), (1)")
    assert not isinstance(told.value, SlothError)
    assert every_job(sloth) == []


@pytest.mark.parametrize("call", ["claim", "wait", "claim_many"])
def test_nothing_is_claimed_inside_a_transaction(sloth: Sloth, call: str):
    sloth.queue("q").enqueue(1)
    with sloth.transaction() as tx, pytest.raises(WrongState, match="claim"):
        getattr(tx.queue("q"), call)(*{"claim_many": [3]}.get(call, []))
    assert sloth.queue("q").claim() is not None


def test_waiting_inside_for_a_job_of_the_same_transaction_is_refused(sloth: Sloth):
    with sloth.transaction() as tx:
        job = tx.queue("q").enqueue(1)
        with pytest.raises(WrongState):
            job.result(timeout=5)


def test_a_transaction_that_has_ended_takes_no_more(sloth: Sloth):
    with sloth.transaction() as tx:
        queue = tx.queue("q")
        queue.enqueue(1)
    for call in (
        lambda: queue.enqueue(2),
        lambda: tx.queue("q").enqueue(2),
        lambda: tx.execute("select 1"),
    ):
        with pytest.raises(WrongState, match="ended"):
            call()
    assert len(every_job(sloth)) == 1
    sloth.queue("q").enqueue(3)


def test_a_job_made_in_a_transaction_can_be_asked_afterwards(
    open_sloth: OpenSloth, sloth: Sloth, aside: Callable[..., object]
):
    with sloth.transaction() as tx:
        job = tx.queue("q").enqueue(1)
        assert job.refresh().state == "queued"
    result = aside(lambda: job.result())
    lease = open_sloth().queue("q").claim()
    assert lease is not None
    lease.complete("fine")
    assert result.value() == "fine"  # type: ignore[attr-defined]
    assert [event.kind for event in job.events()] == ["enqueued", "claimed", "completed"]
    sloth.close()
    assert job.refresh().state == "done"


def test_a_waiter_in_another_handle_wakes_after_the_commit(
    open_sloth: OpenSloth, sloth: Sloth, aside: Callable[..., object]
):
    other = open_sloth()
    waiter = aside(lambda: other.queue("q").wait())
    with sloth.transaction() as tx:
        job = tx.queue("q").enqueue(1)
    assert waiter.value(within=10).id == job.id  # type: ignore[attr-defined]


def test_a_task_is_enqueued_within_a_transaction(sloth: Sloth, clock: ManualClock):
    @sloth.task(queue="media", max_attempts=2)
    def thumb(path: str, width: int = 200) -> str:
        return f"{path} {width}"

    with pytest.raises(ZeroDivisionError), sloth.transaction() as tx:
        thumb.within(tx).enqueue("lost.png")
        raise ZeroDivisionError
    with sloth.transaction() as tx:
        job = thumb.using(priority=2).within(tx).enqueue("a.png", width=3)
        with pytest.raises(WrongState, match="tx"):
            thumb.enqueue("b.png")
    assert (job.refresh().queue, job.refresh().priority, job.refresh().max_attempts) == (
        "media",
        2,
        2,
    )
    sloth.worker(pool="thread").run_until_idle()
    assert job.result() == "a.png 3"
    assert len(every_job(sloth)) == 1


def test_threads_take_turns(sloth: Sloth, aside: Callable[..., object]):
    with sloth.transaction() as tx:
        other = aside(lambda: sloth.queue("q").enqueue("second"))
        tx.queue("q").enqueue("first")
    assert other.value().payload == "second"  # type: ignore[attr-defined]
    assert [payload for _, _, payload in every_job(sloth)] == ["first", "second"]
