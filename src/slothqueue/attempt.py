"""Turns the outcome of a user's function into an Ending, whatever it returns or raises."""

from __future__ import annotations

import os
import traceback
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from .codec import bounded, encode
from .context import Discard, Retry, Snooze
from .models import Ending

_LONGEST_SUMMARY = 400
_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


Write = Callable[[Any], str]
"""Makes JSON text of what a function returned; raises what says why it cannot."""


def plainly(result: Any) -> str:
    """A result as JSON by itself."""
    return encode(result, "result", typed=True)


def run(call: Callable[[], Any], write: Write = plainly) -> Ending:
    """Call, and say how it ended. Never raises."""
    try:
        return Ending("complete", result=write(call()))
    except BaseException as error:  # a SystemExit of the function must not end its worker
        return ended_by(error)


async def run_async(call: Callable[[], Awaitable[Any]], write: Write = plainly) -> Ending:
    """The same for a coroutine. Raises nothing but the cancellation of its own task."""
    try:
        return Ending("complete", result=write(await call()))
    except BaseException as error:
        if _is_our_cancellation(error):
            raise
        return ended_by(error)


def _is_our_cancellation(error: BaseException) -> bool:
    import asyncio

    if not issubclass(type(error), asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def ended_by(error: BaseException) -> Ending:
    """The Ending of an attempt that raised this. Never raises, however odd the error is."""
    try:
        return _ended_by(error)
    except BaseException:  # even looking at an error can run code of its own, or want more memory
        name = type(error).__name__
        return Ending("fail", error=f"{name}: (this error could not be described any further)")


def _ended_by(error: BaseException) -> Ending:
    if isinstance(error, Snooze):
        return Ending("snooze", delay=error.delay)
    if isinstance(error, Discard):
        return Ending("discard", error=bounded(error.reason))
    if isinstance(error, Retry):
        return Ending("retry", delay=error.delay, error=_reason(error))
    return Ending("fail", error=describe(error))


def _reason(error: Retry) -> str:
    """What the function said, else what it had caught when it asked to be tried again."""
    cause = error.__cause__ or error.__context__
    if error.error is None and cause is not None:
        return describe(cause)
    return bounded(str(error))


def describe(error: BaseException) -> str:
    """`TypeName: text` on the first line, then where it was raised; bounded, fit for any store."""
    if isinstance(error, MemoryError):
        # The frames still hold what filled the memory.
        traceback.clear_frames(error.__traceback__)
    lines = traceback.format_exception(type(error), error, _theirs(error.__traceback__))
    first = summary(error)
    if f".{lines[-1].strip()}".endswith(f".{first}"):
        del lines[-1]  # it would say once more what the first line says
    rest = "".join(lines).rstrip()
    return bounded(f"{first}\n\n{rest}" if rest else first)


def _theirs(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without our own frames above the function."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace


def summary(error: BaseException) -> str:
    """The error on one line."""
    name = type(error).__name__
    try:
        text = " ".join(str(error)[: 4 * _LONGEST_SUMMARY].split())
    except BaseException:
        text = "(its text could not be made: its __str__ raised)"
    if len(text) > _LONGEST_SUMMARY:
        text = f"{text[:_LONGEST_SUMMARY]}..."
    return f"{name}: {text}" if text else name
