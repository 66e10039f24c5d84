"""What only tests of this folder ask for."""

from __future__ import annotations

import pytest

from .running import Gate


@pytest.fixture
def gate() -> Gate:
    return Gate()
