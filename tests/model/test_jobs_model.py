"""Jobs beside a dictionary: whatever the order of events, both tell the same."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from .machine import QueueMachine

CALM = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


def run(examples: int, steps: int, **options: object) -> None:
    """Drive the machine through so many stories. Raises what differs."""
    calm = settings(max_examples=examples, stateful_step_count=steps, **{**CALM, **options})  # type: ignore[arg-type]
    run_state_machine_as_test(QueueMachine, settings=calm)


def test_the_store_and_the_dictionary_tell_the_same():
    run(examples=30, steps=40)


@pytest.mark.night(reason="two thousand long stories")
@pytest.mark.timeout(3600)
def test_the_store_and_the_dictionary_tell_the_same_for_long():
    run(examples=2_000, steps=60)
