"""What does a durable enqueue cost, alone, beside an insert with synchronous=FULL?

Everybody pays one flush of the disk; ours is paid after the write lock is free. Median of the
ratios of interleaved rounds (our rate by that of the insert).
"""

from __future__ import annotations

from by_hand import compare
from measure import figure, full, micros, ratios, workplace


def main() -> None:
    n = 200
    with workplace() as folder:
        taken = compare(folder / "durable.db", "full", "full", n=n, times=30 if full() else 9)
    for name in ("enqueue", "claim + complete", "enqueue by 100"):
        figure(
            f"durable {name}, beside an insert with FULL",
            ratios(taken["bare"], taken[name]),
            unit="x the rate",
            micros=micros(taken[name], n),
            bare_micros=micros(taken["bare"], n),
        )


if __name__ == "__main__":
    main()
