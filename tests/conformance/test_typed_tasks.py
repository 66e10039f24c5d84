"""Tasks whose arguments and results are more than JSON: they come as their annotations say."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from slothqueue import JobFailed, NotSerializable, Sloth, WrongState
from slothqueue.typed import calls

from .running import idle
from .telling import every_job

OpenSloth = Callable[..., Sloth]
NOON = dt.datetime(2030, 1, 31, 12, 30)


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclasses.dataclass
class Older:
    at: dt.datetime


@dataclasses.dataclass
class Order:
    when: dt.datetime
    sizes: dict[Size, int]


ORDER = Order(NOON, {Size.LARGE: 2})


def test_arguments_and_results_come_as_the_function_says(sloth: Sloth):
    seen: list[Any] = []

    @sloth.task()
    def take(
        order: Order, *paths: pathlib.Path, wait: dt.timedelta | None = None
    ) -> set[dt.datetime]:
        seen.append((order, paths, wait))
        return {order.when}

    @sloth.task()
    async def later(order: Order) -> tuple[Order, bytes]:
        seen.append(order)
        return order, b"\xff"

    first = take.enqueue(ORDER, pathlib.Path("a"), wait=dt.timedelta(hours=1))
    job = later.enqueue(ORDER)
    idle(sloth)
    assert (ORDER, (pathlib.Path("a"),), dt.timedelta(hours=1)) in seen
    assert ORDER in seen
    assert first.result() == {NOON}
    assert job.result() == (ORDER, b"\xff")


def test_a_process_that_does_not_know_the_task_gets_the_plain_json(
    sloth: Sloth, monkeypatch: pytest.MonkeyPatch
):
    @sloth.task()
    def again(order: Order) -> Order:
        return order

    job = again.enqueue(ORDER)
    assert job.payload == {
        "args": [{"when": "2030-01-31T12:30:00", "sizes": {"l": 2}}],
        "kwargs": {},
    }
    idle(sloth)
    assert job.result() == ORDER
    monkeypatch.delitem(calls.known, again.name)
    assert job.result() == {"when": "2030-01-31T12:30:00", "sizes": {"l": 2}}


def test_arguments_named_like_options_are_converted_and_mean_what_they_say(sloth: Sloth):
    @sloth.task(queue="media")
    def odd(self: dt.date, queue: Size, timeout: dt.timedelta, delay: bytes = b"") -> list[str]:
        return [type(each).__name__ for each in (self, queue, timeout, delay)]

    given: dict[str, Any] = {"self": NOON.date(), "queue": Size.SMALL, "timeout": dt.timedelta(0)}
    jobs = [odd.enqueue(**given, delay=b"1"), *odd.enqueue_many([given])]
    assert {job.refresh().queue for job in jobs} == {"media"}
    assert {job.refresh().timeout for job in jobs} == {None}
    idle(sloth)
    assert [job.result() for job in jobs] == [["date", "Size", "timedelta", "bytes"]] * 2


def test_what_does_not_fit_is_refused_at_enqueue_and_nothing_is_written(sloth: Sloth):
    @sloth.task(name="ship")
    def ship(order: Order, day: dt.date | None = None) -> None: ...

    wrong: Any = Order("noon", {})  # type: ignore[arg-type]
    with pytest.raises(NotSerializable, match=r"^ship: order\.when is 'noon', and not a datetime$"):
        ship.enqueue(wrong)
    with pytest.raises(NotSerializable, match=r"^ship: day is a datetime, which would not come "):
        ship.enqueue(ORDER, day=NOON)
    with pytest.raises(NotSerializable, match=r"^calls\[1\]: ship: order is a dict, and not an O"):
        ship.enqueue_many([(ORDER,), ({},)])
    assert every_job(sloth) == []


def test_a_renamed_field_fails_the_attempt_and_names_the_place(open_sloth: OpenSloth):
    old, new = open_sloth(), open_sloth()

    @old.task(name="ship", max_attempts=1)
    def ship(orders: list[Older]) -> Older:
        return orders[0]

    job = ship.enqueue([Older(NOON)])

    @new.task(name="ship")
    def ship_now(orders: list[Order]) -> None: ...

    idle(new)
    told = job.refresh().error
    expected = "NotSerializable: ship: orders[0] is without 'when', which Order needs; it has at"
    assert told == expected  # and no traceback of ours
    with pytest.raises(JobFailed, match="is without 'when'"):
        job.result()


def test_arguments_of_an_older_function_fail_the_attempt(open_sloth: OpenSloth):
    old, new = open_sloth(), open_sloth()

    @old.task(name="ship", max_attempts=1)
    def ship(order: int) -> None: ...

    job = ship.enqueue(order=1)

    @new.task(name="ship")
    def ship_now(number: int, day: dt.date | None = None) -> None: ...

    idle(new)
    assert "unexpected keyword argument 'order'" in (job.refresh().error or "")


# ---- results: scenario 43 ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize(
    ("value", "told"),
    [
        (lambda: 1, "NotSerializable: result is a function, which JSON does not know"),
        (float("nan"), "NotSerializable: result is nan, a number that JSON does not have"),
        (
            b"x",
            "NotSerializable: result is a bytes, which JSON does not know; annotate it as bytes",
        ),
        (
            {"a": [NOON]},
            "NotSerializable: result.a[0] is a datetime, which JSON does not know; ann",
        ),
        (ORDER, "NotSerializable: result is an Order, which JSON does not know; annotate it as "),
    ],
)
def test_a_result_that_cannot_travel_fails_its_attempt(
    sloth: Sloth, kind: str, value: Any, told: str
):
    async def later():
        return value

    job = sloth.task(max_attempts=1)(later if kind == "async def" else lambda: value).enqueue()
    idle(sloth)
    with pytest.raises(JobFailed):
        job.result(timeout=0)
    assert (job.refresh().error or "").startswith(told)


def test_large_results_travel(sloth: Sloth):
    @sloth.task()
    def large() -> bytes:
        return b"x" * 10_000_000

    job = large.enqueue()
    idle(sloth)
    assert job.result() == b"x" * 10_000_000


# ---- many at once --------------------------------------------------------------------------------


def test_many_calls_are_enqueued_in_their_order_with_the_options_of_the_task(sloth: Sloth):
    @sloth.task(queue="media", max_attempts=7)
    def thumb(path: str, width: int = 200) -> list[Any]:
        return [path, width]

    many = thumb.using(priority=3, timeout="5s")
    jobs = many.enqueue_many([("a",), {"path": "b", "width": 3}, ("c", 4)])
    assert [job.id for job in jobs] == [1, 2, 3]
    for job in jobs:
        assert job.refresh() == job
        assert (job.queue, job.priority, job.timeout, job.max_attempts) == ("media", 3, 5, 7)
    idle(sloth)
    assert [job.result() for job in jobs] == [["a", 200], ["b", 3], ["c", 4]]
    assert thumb.enqueue_many([]) == []


def test_many_calls_commit_with_their_transaction(sloth: Sloth):
    @sloth.task()
    def note(n: int) -> None: ...

    with pytest.raises(ZeroDivisionError), sloth.transaction() as tx:
        note.within(tx).enqueue_many([(1,), (2,)])
        raise ZeroDivisionError
    assert every_job(sloth) == []
    with sloth.transaction() as tx:
        assert len(note.within(tx).enqueue_many([(1,), (2,)])) == 2
        with pytest.raises(WrongState):
            note.enqueue_many([(3,)])
    assert len(every_job(sloth)) == 2


def test_one_wrong_call_and_none_is_enqueued(sloth: Sloth):
    @sloth.task(name="note")
    def note(n: int) -> None: ...

    wrong: Any
    for wrong, error, told in (
        ("ab", TypeError, r"calls\[1\] is 'ab': give a tuple"),
        ([1], TypeError, r"calls\[1\] is \[1\]: give a tuple"),
        ((1, 2), TypeError, r"calls\[1\]: note: too many positional arguments"),
        ({"m": 1}, TypeError, r"calls\[1\]: note: missing a required argument: 'n'"),
        (("1",), NotSerializable, r"calls\[1\]: note: n is '1', and not an int"),
    ):
        with pytest.raises(error, match=told):
            note.enqueue_many([(1,), wrong])
    with pytest.raises(ValueError, match="priority"):
        note.using(priority=1.5).enqueue_many([(1,)])  # type: ignore[arg-type]
    assert every_job(sloth) == []
