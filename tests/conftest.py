"""What a test may ask for: a clock, an engine, a store, as many handles on it as it likes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slothqueue import ManualClock, Sloth

PATIENCE = 20.0
"""Real seconds until a test that waits for another thread or process gives up."""

os.environ["SLOTH_AUTOSTART"] = "0"  # no test leaves a worker behind that it did not ask for

ENGINES: dict[str, Callable[[Path], str]] = {"sqlite": lambda folder: str(folder / "work.db")}
"""Where a fresh store of each engine is kept; the second engine adds a line here."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(engine: str, tmp_path: Path) -> str:
    """A store that nobody has opened yet."""
    return ENGINES[engine](tmp_path)


@pytest.fixture
def open_sloth(url: str, clock: ManualClock) -> Iterator[Callable[..., Sloth]]:
    """Opens one more handle on the test's store; all are closed at the end."""
    opened: list[Sloth] = []

    def open_one(**options: Any) -> Sloth:
        sloth = Sloth(url, **{"clock": clock, "durability": "process", **options})
        opened.append(sloth)
        return sloth

    yield open_one
    for sloth in opened:
        sloth.close()


@pytest.fixture
def sloth(open_sloth: Callable[..., Sloth]) -> Sloth:
    return open_sloth()


class Aside:
    """A call that runs in a thread of its own, with its outcome."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call, self._value = call, None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._call()
        except BaseException as error:
            self._error = error

    def over(self, within: float = 0.0) -> bool:
        """Whether it has come to its end, looking for that long."""
        self._thread.join(within)
        return not self._thread.is_alive()

    def value(self, within: float = PATIENCE) -> Any:
        """What the call returned; raises what it raised."""
        if not self.over(within):
            raise AssertionError(f"the call is still running after {within:g} s")
        if self._error is not None:
            raise self._error
        return self._value


@pytest.fixture
def aside() -> Callable[[Callable[[], Any]], Aside]:
    """Runs a call in a thread."""
    return Aside


@pytest.fixture
def pass_time(clock: ManualClock) -> Callable[..., None]:
    """Lets time pass in small steps until a call in another thread has ended."""

    def until_over(call: Aside, step: float = 1.0, steps: int = 10_000) -> None:
        for _ in range(steps):
            if call.over(0.002):
                return
            clock.advance(step)
        raise AssertionError(f"the call is still running after {step * steps:g} s of its clock")

    return until_over
