"""Tasks: a function that can be called here and now, or enqueued."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

import pytest

from slothqueue import NotSerializable, Sloth, WrongState, current_job

from .telling import every_job

OpenSloth = Callable[..., Sloth]


def run(sloth: Sloth) -> int:
    return sloth.worker(pool="thread").run_until_idle()


def test_an_ordinary_call_runs_here_and_now_and_writes_nothing(sloth: Sloth):
    calls = []

    @sloth.task()
    def thumb(path: str, width: int = 200) -> str:
        """Make it small."""
        calls.append(path)
        return f"{path} {width}"

    assert thumb("a.png", width=3) == "a.png 3"
    assert calls == ["a.png"]
    assert every_job(sloth) == []
    assert (thumb.__name__, thumb.__doc__) == ("thumb", "Make it small.")


def test_an_enqueued_call_runs_later_with_the_same_arguments(sloth: Sloth):
    @sloth.task()
    def join(first: str, *rest: str, sep: str = "-", **more: int) -> list[Any]:
        return [first, list(rest), sep, more]

    job = join.enqueue("a", "b", "c", sep="+", n=1)
    assert (job.kind, job.task, job.state) == ("task", join.name, "queued")
    assert run(sloth) == 1
    assert job.result() == ["a", ["b", "c"], "+", {"n": 1}]


def test_arguments_may_be_named_like_options(sloth: Sloth):
    @sloth.task(queue="media")
    def odd(
        self: int, queue: str, timeout: int, delay: int, priority: int, **more: Any
    ) -> list[Any]:
        return [self, queue, timeout, delay, priority, more]

    args: dict[str, Any] = {"self": 1, "queue": "q", "timeout": 0, "delay": 5, "priority": 9}
    more = {"run_at": 1, "max_attempts": 0, "name": "n", "args": [1], "kwargs": {"a": 1}}
    job = odd.enqueue(**args, **more)  # type: ignore[arg-type]  # scenario 45
    assert (job.refresh().queue, job.refresh().priority, job.refresh().timeout) == (
        "media",
        0,
        None,
    )
    run(sloth)
    assert job.result() == [1, "q", 0, 5, 9, more]
    assert odd(**args) == [1, "q", 0, 5, 9, {}]


def test_using_gives_options_to_what_is_enqueued_and_leaves_the_task_alone(
    sloth: Sloth, clock: Any
):
    @sloth.task(queue="media", max_attempts=5, timeout="10m")
    def thumb(path: str) -> str:
        return path

    plain = thumb.enqueue("a").refresh()
    other = (
        thumb.using(delay="10m", priority=5)
        .using(queue="slow", max_attempts=1, timeout="1h")
        .enqueue("b")
        .refresh()
    )
    assert (plain.queue, plain.max_attempts, plain.timeout, plain.priority) == ("media", 5, 600, 0)
    assert (other.queue, other.max_attempts, other.timeout, other.priority) == ("slow", 1, 3600, 5)
    assert (other.run_at - plain.run_at).total_seconds() == 600
    assert thumb.using(delay=0, priority=0).enqueue("c").run_at == plain.run_at
    assert thumb.using(timeout=None).enqueue("d").refresh().timeout is None


def test_options_that_make_no_sense_are_refused(sloth: Sloth):
    @sloth.task()
    def thumb(path: str) -> str:
        return path

    with pytest.raises(TypeError, match="width"):
        thumb.using(width=3)  # type: ignore[call-arg]
    for options in (
        {"delay": -1},
        {"priority": "high"},
        {"max_attempts": 0},
        {"timeout": "soon"},
        {"timeout": 0},
    ):
        with pytest.raises(ValueError, match=next(iter(options))):
            thumb.using(**options).enqueue("a")
    wrong: dict[str, Any]
    for wrong in (
        {"lease": 0},
        {"lease": -1},
        {"timeout": "soon"},
        {"timeout": "0s"},
        {"queue": ""},
    ):
        with pytest.raises(ValueError, match=r"lease|timeout|name"):
            sloth.task(**wrong)(len)
    assert every_job(sloth) == []


def test_a_call_that_cannot_work_is_refused_now_and_not_later(sloth: Sloth):
    @sloth.task()
    def thumb(path: str, width: int = 200) -> str:
        return path

    for call in (
        lambda: thumb.enqueue(),  # type: ignore[call-arg]
        lambda: thumb.enqueue("a", 1, 2),  # type: ignore[call-arg]
        lambda: thumb.enqueue("a", height=3),  # type: ignore[call-arg]
    ):
        with pytest.raises(TypeError, match="thumb"):
            call()
    argument: Any
    for argument in (object(), float("nan"), b"x"):
        with pytest.raises(NotSerializable, match="thumb"):
            thumb.enqueue(argument)
    assert every_job(sloth) == []


def test_two_functions_under_one_name_are_refused(sloth: Sloth):
    @sloth.task(name="the task")
    def one() -> int:
        return 1

    with pytest.raises(WrongState, match="the task"):

        @sloth.task(name="the task")
        def other() -> int:
            return 2

    assert sloth.task(name="the task")(one.function) is not None  # loading one again is fine
    with pytest.raises(TypeError, match="parentheses"):
        sloth.task(one.function)


def test_the_name_of_a_task_tells_where_its_function_is(sloth: Sloth):
    @sloth.task()
    def here() -> None: ...

    assert here.name.endswith(
        "test_tasks.test_the_name_of_a_task_tells_where_its_function_is.<locals>.here"
    )
    assert here.enqueue().refresh().task == here.name


def test_a_task_that_this_worker_does_not_know_is_left_for_one_that_does(open_sloth: OpenSloth):
    one, other = open_sloth(), open_sloth()

    @one.task(name="known to one")
    def known() -> str:
        return "done"

    job = known.using(priority=9).enqueue()
    payload = one.queue().enqueue("for a hand-written worker")
    assert run(other) == 0
    assert job.refresh().state == "queued"
    assert run(one) == 1
    assert job.result() == "done"
    assert payload.refresh().state == "queued"
    lease = other.queue().claim()
    assert lease is not None
    assert lease.id == payload.id


def test_who_claims_by_hand_does_not_get_tasks_or_commands(sloth: Sloth):
    @sloth.task(queue="q")
    def known() -> None: ...

    known.enqueue()
    sloth.queue("q").enqueue_command(["true"])
    assert sloth.queue("q").claim() is None


def test_a_running_function_knows_its_job(sloth: Sloth):
    @sloth.task()
    def look() -> list[Any]:
        job = current_job()
        return [job.id, job.attempt, job.token, job.stopping]

    job = look.enqueue()
    run(sloth)
    id, attempt, token, stopping = job.result()
    assert (id, attempt, stopping) == (job.id, 1, False)
    assert str(job.id) in token
    with pytest.raises(WrongState, match="current job"):
        current_job()


def test_a_function_leaves_no_context_behind(sloth: Sloth):
    seen: contextvars.ContextVar[int] = contextvars.ContextVar("seen", default=0)

    @sloth.task()
    def count() -> int:
        seen.set(seen.get() + 1)
        return seen.get()

    jobs = [count.enqueue() for _ in range(3)]
    run(sloth)
    assert [job.result() for job in jobs] == [1, 1, 1]


def test_a_task_may_enqueue_others_and_claim_by_the_same_handle(sloth: Sloth):
    @sloth.task()
    def child(n: int) -> int:
        return n

    @sloth.task()
    def parent() -> list[int]:
        with sloth.transaction() as tx:
            child.within(tx).enqueue(1)
        return [child.enqueue(2).id]

    job = parent.enqueue()
    assert run(sloth) == 3
    assert sloth.job(job.result()[0]).result() == 2
