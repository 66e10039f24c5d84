"""Sizes as people write and read them."""

from __future__ import annotations

import pytest

from slothqueue.sizes import size, spoken_size


@pytest.mark.parametrize(
    ("told", "count"),
    [
        (5, 5),
        ("0", 0),
        ("64MB", 64_000_000),
        ("64 mb", 64_000_000),
        ("1.5G", 1_500_000_000),
        ("2KiB", 2048),
        ("1MiB", 2**20),
        ("7b", 7),
    ],
)
def test_sizes_are_read_as_people_write_them(told: object, count: int):
    assert size(told) == count


@pytest.mark.parametrize("told", ["", "MB", "-1", "1 XB", "1ib", "1i", None, 1.5, b"1"])
def test_what_is_no_size_is_refused(told: object):
    with pytest.raises(ValueError, match="size must be bytes or text such as"):
        size(told)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1_234_567, "1.2 MB"), (5 * 10**15, "5000 TB")],
)
def test_sizes_are_spoken(count: int, text: str):
    assert spoken_size(count) == text
