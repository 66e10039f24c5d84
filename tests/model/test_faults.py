"""The model is tested too: each deliberate fault must make it fail."""

from __future__ import annotations

import pytest
from hypothesis import Phase

from .faults import FAULTS
from .test_jobs_model import run


def notices(examples: int = 200) -> bool:
    """Whether the machine sees a difference. The same stories each time, and none made shorter."""
    calm = {"derandomize": True, "phases": [Phase.generate], "report_multiple_bugs": False}
    try:
        run(examples, steps=40, **calm)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch):
    FAULTS[name](monkeypatch)
    assert notices(), f"the model does not notice that {name}"


def test_without_a_fault_nothing_is_noticed():
    assert not notices(examples=15)
