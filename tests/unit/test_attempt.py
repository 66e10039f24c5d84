"""Whatever a function returns or raises, its attempt has an ending that says what can be said."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest

from slothqueue import context
from slothqueue.attempt import run, run_async
from slothqueue.codec import LONGEST_TEXT, decode
from slothqueue.context import CurrentJob, Discard, Retry, Snooze, call_within, current_job
from slothqueue.errors import WrongState
from slothqueue.models import Ending


def raising(error: BaseException) -> Callable[[], NoReturn]:
    def call() -> NoReturn:
        raise error

    return call


def iter_nothing() -> Iterator[int]:
    yield from ()


def error_of(call: Callable[[], Any]) -> str:
    ending = run(call)
    assert ending.kind == "fail"
    assert ending.error is not None
    return ending.error


# ---- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, 0, "", [], {"a": [1, 2.5, "é"]}, "x" * 10_000_000])
def test_a_value_completes_with_its_json(value: Any):
    ending = run(lambda: value)
    assert ending.kind == "complete"
    assert ending.result is not None
    assert decode(ending.result) == value


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (lambda: 1, "result is a function, which JSON does not know"),
        (float("nan"), "result is nan, a number that JSON does not have"),
        (b"x", "result is a bytes, which JSON does not know"),
        ({"a": {1: 2}}, "result.a has the key 1, an int"),
        ("\ud800", "result is '\\ud800', text with a lone surrogate"),
        (iter_nothing(), "result is a generator, which JSON does not know; give a list"),
    ],
)
def test_a_result_that_is_not_json_fails_with_its_place(value: Any, told: str):
    assert error_of(lambda: value).startswith(f"NotSerializable: {told}")


# ---- what it asks for ----------------------------------------------------------------------------


def test_retry_carries_its_delay_and_its_error():
    assert run(raising(Retry("30s", "busy"))) == Ending("retry", delay=30_000, error="busy")


def test_retry_without_a_delay_leaves_it_to_the_back_off():
    ending = run(raising(Retry()))
    assert (ending.kind, ending.delay) == ("retry", None)
    assert ending.error == "the function asked to be tried again"


def test_retry_tells_of_the_error_that_it_came_from():
    def call() -> None:
        try:
            raise KeyError("missing")
        except KeyError as error:
            raise Retry(5) from error

    ending = run(call)
    assert ending.error is not None
    assert ending.error.startswith("KeyError: 'missing'\n\nTraceback")


def test_snooze_and_discard_have_endings_of_their_own():
    assert run(raising(Snooze("1h"))) == Ending("snooze", delay=3_600_000)
    assert run(raising(Discard("bad url"))) == Ending("discard", error="bad url")


def test_a_delay_of_zero_is_a_delay():
    assert run(raising(Retry(0))).delay == 0


@pytest.mark.parametrize("delay", [-1, "soon", float("nan"), True])
def test_nonsense_durations_are_refused_where_they_are_written(delay: Any):
    with pytest.raises(ValueError, match="delay"):
        Retry(delay)
    with pytest.raises(ValueError, match="delay"):
        Snooze(delay)


@pytest.mark.parametrize("wish", [Retry("30s", "busy"), Snooze(5), Discard("bad")])
def test_wishes_survive_a_trip_through_another_process(wish: Exception):
    again = pickle.loads(pickle.dumps(wish))
    assert vars(again) == vars(wish)


# ---- errors --------------------------------------------------------------------------------------


class NeedsArguments(Exception):
    def __init__(self, code: int, where: str) -> None:
        super().__init__()
        self.code, self.where = code, where


class CannotBePrinted(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class EndsItsPrinter(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


def endless() -> Any:
    return endless()


@pytest.mark.parametrize(
    ("call", "first_line"),
    [
        (raising(ValueError("bad")), "ValueError: bad"),
        (raising(ValueError("one\n  two\n")), "ValueError: one two"),
        (raising(ValueError()), "ValueError"),
        (raising(SystemExit(3)), "SystemExit: 3"),
        (raising(KeyboardInterrupt()), "KeyboardInterrupt"),
        (raising(GeneratorExit()), "GeneratorExit"),
        (raising(MemoryError()), "MemoryError"),
        (raising(NeedsArguments(1, "here")), "NeedsArguments"),
        (raising(CannotBePrinted()), "CannotBePrinted: (its text could not be made: its __str__"),
        (raising(EndsItsPrinter()), "EndsItsPrinter: (its text could not be made: its __str__"),
        (raising(ExceptionGroup("two", [KeyError(1), OSError("x")])), "ExceptionGroup: two (2 sub"),
        (raising(BaseExceptionGroup("one", [SystemExit()])), "BaseExceptionGroup: one (1 sub"),
        (raising(asyncio.CancelledError()), "CancelledError"),
        (raising(context.Loading()), "Loading"),
        (endless, "RecursionError: maximum recursion depth exceeded"),
        (lambda: exec("1 +"), "SyntaxError: invalid syntax"),
    ],
)
def test_every_error_fails_the_attempt_with_one_line_and_then_the_traceback(
    call: Callable[[], Any], first_line: str
):
    first, blank, *rest = error_of(call).split("\n")
    assert first.startswith(first_line)
    assert blank == ""
    assert any(call.__name__ in line for line in rest)


def test_the_traceback_begins_in_the_function_of_the_user():
    assert "slothqueue/attempt.py" not in error_of(raising(ValueError("bad")))


class Worse(ValueError):
    """The traceback tells it with its module before it."""


@pytest.mark.parametrize("error", [ValueError("bad"), Worse("bad")])
def test_what_the_first_line_says_is_not_said_again(error: Exception):
    told = error_of(raising(error))
    assert told.count(": bad") == 1
    assert told.endswith("raise error")


def test_what_the_first_line_leaves_out_is_told_behind_the_traceback():
    error = ValueError("one\ntwo")
    error.add_note("a note")
    assert error_of(raising(error)).endswith("ValueError: one\ntwo\na note")


def test_wrong_arguments_are_told_without_a_traceback_of_ours():
    call: Any = lambda needed: None  # noqa: E731
    error = error_of(call)
    assert error.startswith("TypeError: ")
    assert "attempt.py" not in error


def test_causes_and_groups_are_told_in_full():
    def call() -> None:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ExceptionGroup("all", [OSError("inner")]) from error

    error = error_of(call)
    assert "KeyError: 'first'" in error
    assert "OSError: inner" in error


@pytest.mark.parametrize("text", ["x" * 1_000_000, "\u20ac" * 1_000_000, "line\n" * 100_000])
def test_a_long_error_is_cut_in_the_middle_and_says_so(text: str):
    error = error_of(raising(ValueError(text)))
    assert len(error.encode()) <= LONGEST_TEXT
    assert error.startswith("ValueError: " + text[:4])
    assert " bytes cut ...\n" in error
    assert len(error.split("\n")[0]) < 500


def test_an_error_can_be_kept_whatever_its_text_is_made_of():
    error = error_of(raising(OSError("a\udcff\0b")))
    assert error.encode()
    assert "\0" not in error
    assert error.startswith("OSError: a\\udcff\\x00b")


def test_an_error_of_an_odd_kind_is_told_by_its_name():
    class Odd(Exception):
        __module__ = None  # type: ignore[assignment]

        def __getattribute__(self, name: str) -> Any:
            raise ZeroDivisionError

    assert error_of(raising(Odd())).startswith("Odd: ")


# ---- coroutines ----------------------------------------------------------------------------------


def test_a_coroutine_ends_like_a_function():
    async def good() -> int:
        return 3

    async def bad() -> int:
        raise SystemExit(1)

    async def cancels_itself() -> int:
        raise asyncio.CancelledError

    assert asyncio.run(run_async(good)) == Ending("complete", result="3")
    assert (asyncio.run(run_async(bad)).error or "").startswith("SystemExit: 1")
    assert (asyncio.run(run_async(cancels_itself)).error or "").startswith("CancelledError")


def test_cancelling_the_task_of_a_coroutine_is_not_its_ending():
    async def main() -> None:
        started = asyncio.Event()

        async def hang() -> None:
            started.set()
            await asyncio.Event().wait()

        task = asyncio.ensure_future(run_async(hang))
        await started.wait()
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())


# ---- the current job -----------------------------------------------------------------------------


def job(**told: Any) -> CurrentJob:
    nothing: Any = lambda *_: None  # noqa: E731
    parts = {"stopping": lambda: False, "heartbeat": nothing, "progress": nothing, **told}
    return CurrentJob(7, 2, token="store:7:2", **parts)


def test_inside_a_job_it_is_the_current_one_and_outside_there_is_none():
    inside = call_within(job(), current_job)
    assert (inside.id, inside.attempt, inside.token) == (7, 2, "store:7:2")
    with pytest.raises(WrongState, match="there is no current job here"):
        current_job()


def test_the_current_job_passes_on_what_it_is_told():
    told: list[Any] = []
    beat: Any = lambda: told.append("beat")  # noqa: E731
    current = job(progress=lambda *what: told.append(what), heartbeat=beat, stopping=lambda: True)
    current.heartbeat()
    current.progress(1)
    current.progress(0.5, "half")
    assert told == ["beat", (1.0, None), (0.5, "half")]
    assert current.stopping


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
def test_progress_is_between_nothing_and_everything(fraction: float):
    with pytest.raises(ValueError, match="progress goes from 0 to 1"):
        job().progress(fraction)


def test_only_while_a_script_is_loaded_stores_are_refused(monkeypatch: pytest.MonkeyPatch):
    context.refuse_while_loading()
    monkeypatch.setattr(context, "loading", True)
    with pytest.raises(context.Loading):
        context.refuse_while_loading()
