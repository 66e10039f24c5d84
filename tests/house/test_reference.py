"""What the reference says of the code is what the code says of itself."""

from __future__ import annotations

import importlib

import slothqueue


def test_the_reference_is_made_from_the_present_code():
    maker = importlib.import_module("docs.make_reference")
    assert maker.STORED.read_text(encoding="utf-8") == maker.page(), (
        "docs/reference/api.md is not up to date: python -m docs.make_reference"
    )


def test_the_reference_has_a_section_for_whatever_is_no_error():
    maker = importlib.import_module("docs.make_reference")
    rest = set(slothqueue.__all__) - set(maker.ORDER)
    assert all(issubclass(getattr(slothqueue, name), slothqueue.SlothError) for name in rest)
