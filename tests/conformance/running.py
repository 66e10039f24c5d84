"""What tests of workers need: a worker that runs what is due, and a gate for its functions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from slothqueue import Sloth

OpenSloth = Callable[..., Sloth]
Aside = Callable[..., Any]
SOON = 10.0
"""Real seconds: less than the fallback interval, so a lost wake-up is a failed test."""


def idle(sloth: Sloth, **options: Any) -> int:
    """Run what is due, in threads; how many attempts ended."""
    return sloth.worker(**{"pool": "thread", **options}).run_until_idle()


class Gate:
    """Holds functions until the test lets them go, and tells when they came."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Semaphore(0), threading.Event()

    def pass_through(self) -> None:
        self.entered.release()
        assert self.opened.wait(SOON)

    def wait_for(self, count: int = 1) -> None:
        for _ in range(count):
            assert self.entered.acquire(timeout=SOON)
