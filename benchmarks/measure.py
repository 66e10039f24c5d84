"""How everything here is measured, and how it is told.

A machine is never quiet. So whatever is compared is measured side by side: in each round a little
of one, then a little of the other, and the figure is the *median of the ratios* of the rounds,
with the middle half of them as its spread. One figure is one JSON line on stdout.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


@contextmanager
def workplace() -> Iterator[Path]:
    """A directory on the file system that is asked about: BENCH_DIR, or here."""
    folder = Path(tempfile.mkdtemp(prefix=".bench-", dir=os.environ.get("BENCH_DIR", ".")))
    try:
        yield folder.resolve()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def full() -> bool:
    """Whether the long set was asked for."""
    return "--full" in sys.argv[1:]


def seconds(action: Callable[[], object]) -> float:
    """How long this takes, with the garbage collector out of the way."""
    gc.collect()
    gc.disable()
    try:
        began = time.perf_counter()
        action()
        return time.perf_counter() - began
    finally:
        gc.enable()


def rounds(
    number: int,
    actions: Mapping[str, Callable[[], object]],
    before: Callable[[], object] = lambda: None,
) -> dict[str, list[float]]:
    """Each action once per round, in turn; every other round backwards, so that drift cancels.

    `before` is called ahead of each, and not measured.
    """
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for each in actions.values():
        each()  # warm
    for i in range(number):
        order = list(actions) if i % 2 == 0 else list(reversed(actions))
        for name in order:
            before()
            taken[name].append(seconds(actions[name]))
    return taken


def ratios(of: Sequence[float], to: Sequence[float]) -> list[float]:
    """The ratio of each round."""
    return [a / b for a, b in zip(of, to)]


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def figure(
    name: str,
    values: Sequence[float],
    *,
    unit: str,
    target: str | None = None,
    at: float = 0.5,
    **more: Any,
) -> None:
    """Tell one figure: the median of its values, or another quantile; `target` is like '>= 0.6'."""
    value = statistics.median(values) if at == 0.5 else quantile(values, at)
    told = {
        "figure": name,
        "value": _short(value),
        "unit": unit,
        "target": target,
        "ok": None if target is None else meets(value, target),
        "spread": [_short(quantile(values, 0.25)), _short(quantile(values, 0.75))],
        "samples": len(values),
        **more,
    }
    print(json.dumps(told), flush=True)


def meets(value: float, target: str) -> bool:
    """Whether a figure is as promised."""
    sign, _, bound = target.partition(" ")
    limit = float(bound.split()[0])
    return {">=": value >= limit, "<=": value <= limit, "<": value < limit}[sign]


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def micros(taken: Sequence[float], count: int) -> float:
    """Microseconds for one, by the median round."""
    return round(statistics.median(taken) / count * 1e6, 1)
