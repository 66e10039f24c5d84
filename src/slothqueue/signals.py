"""Signals that tell a worker to come to an end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def told_to_stop(stop: Callable[[], None], *, pass_on: bool = False) -> Iterator[None]:
    """Call `stop` for SIGTERM and SIGINT inside of this, if signals are this thread's to hear.

    With `pass_on` a signal goes its usual way afterwards, too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []

    def hear(number: int, _: Any) -> None:
        caught.append(number)
        stop()

    kept = {number: signal.signal(number, hear) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    if pass_on and caught:
        signal.raise_signal(caught[0])
