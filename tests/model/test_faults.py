"""The model is tested too: each deliberate fault must make it fail."""

from __future__ import annotations

import pytest
from hypothesis import Phase

from slothqueue import SlothError

from . import faults, faults_of_jobs, faults_of_limits
from .test_jobs_model import run

FAULTS = faults.FAULTS | faults_of_jobs.FAULTS | faults_of_limits.FAULTS

ALWAYS = (
    "settle ignores the fence",
    "a key is free while its job runs",
    "one too many of a key runs",
)
"""Those that every run of the tests tries; the nightly one tries all."""


def notices(examples: int = 300) -> bool:
    """Whether the machine sees a difference, or is refused what should work. The same stories each
    time, and none made shorter."""
    calm = {"derandomize": True, "phases": [Phase.generate], "report_multiple_bugs": False}
    try:
        run(examples, steps=40, **calm)
    except (AssertionError, SlothError):
        return True
    return False


@pytest.mark.parametrize("name", ALWAYS)
def test_a_fault_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch):
    FAULTS[name](monkeypatch)
    assert notices(), f"the model does not notice that {name}"


@pytest.mark.slow(reason="each fault takes a second or ten to be noticed, and there are many")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [name for name in FAULTS if name not in ALWAYS])
def test_every_fault_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch):
    FAULTS[name](monkeypatch)
    assert notices(), f"the model does not notice that {name}"


def test_without_a_fault_nothing_is_noticed():
    assert not notices(examples=15)
