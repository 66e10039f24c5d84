"""For the tests of people who use slothqueue: a clock that moves when told."""

from __future__ import annotations

from .clock import ManualClock

__all__ = ["ManualClock"]
