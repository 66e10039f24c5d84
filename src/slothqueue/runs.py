"""What every attempt under way can do, however it runs."""

from __future__ import annotations

from typing import Any, Protocol

from .clock import Millis
from .models import Ending
from .storage.base import Claimed, Held, Holder
from .timing import spoken


class Run(Protocol):
    """One attempt under way."""

    held: Held
    """The lease, with its present holder."""
    limit: Millis | None
    deadline: Millis | None
    """When its time limit ends, awake time; None if it has none or keeps it itself."""

    news: tuple[float, str | None] | None
    """What the function said of its progress and nobody has been told yet."""

    def taker(self) -> Holder | None:
        """The process that the lease is to be handed over to, once it is ready for it."""
        ...

    def begin(self) -> None:
        """The lease is where it belongs: go."""
        ...

    def poll(self) -> Ending | None:
        """How it ended, if it has."""
        ...

    def ask(self) -> None:
        """Tell it that its worker wants to stop."""
        ...

    def end(self, ending: Ending, *, hurry: bool = False) -> None:
        """Make it stop, with this ending unless it has one of its own by now."""
        ...

    def cancel(self, step: int, grace: Millis) -> Millis | None:
        """Take this step to have a cancelled attempt end, from 0 on: in how many ms the next one is
        due, None after the last."""
        ...

    def send(self, text: str | None) -> None:
        """Pass this on to its standard input, or close that."""
        ...

    def files(self) -> list[Any]:
        """What becomes readable when there is something to poll."""
        ...

    def close(self) -> None:
        """Give back what it cost."""
        ...


def held_of(claimed: Claimed) -> Held:
    return Held(*claimed[:7])


def timed_out(run: Run) -> Ending:
    """The ending of an attempt that went on for longer than it may."""
    error = f"timed out after {spoken(run.limit or 0)}"
    return Ending("fail", error=error, reason="timed out")


CANCELLED = Ending("release", reason="it was cancelled")
"""The attempt of a job that somebody wants cancelled was made to end."""
