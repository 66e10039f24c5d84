"""Writes docs/performance.md from what `python benchmarks/run.py --save` has kept.

`python benchmarks/page.py` takes the latest results of each kind; nothing there is typed by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from run import RESULTS, number

PAGE = RESULTS.parents[1] / "docs" / "performance.md"
HEAD = """\
# Performance

What `make bench` measures, and what it found. Ratios compare with plain `sqlite3` on the same
file, or with a bare Python, in the same run: each round does a little of one and a little of the
other, and a figure is the median of the ratios of the rounds. The last column is the middle half.
"""
TAIL = """\
Made by `benchmarks/page.py` from `benchmarks/results/{name}`. What each figure means, and from
where to where it is measured, is told at the head of its script in `benchmarks/`.
"""
KINDS = {"short": "## The short set", "full": "## With a million jobs"}


def latest(kind: str) -> Path | None:
    return max(RESULTS.glob(f"*-{kind}.jsonl"), default=None)


def section(kind: str, path: Path) -> str:
    first, *rows = [json.loads(line) for line in path.read_text().splitlines()]
    about = first["machine"]
    machine = (
        f"{about['at'][:10]}, {about['processor']}, {about['cores']} cores, {about['system']}, "
        f"{about['place']}, {about['python']}, SQLite {about['sqlite']}."
    )
    lines = ["| figure | measured | promised | middle half |", "|---|---|---|---|"]
    lines += [_row(row) for row in rows]
    return "\n".join([KINDS[kind], "", machine, "", *lines, "", TAIL.format(name=path.name)])


def _row(row: dict[str, Any]) -> str:
    low, high = (number(bound) for bound in row["spread"])
    promised = row["target"] or ""
    if row["ok"] is False:
        promised += " (**short**)"
    return (
        f"| {row['figure']} | {number(row['value'])} {row['unit']} | {promised} | {low} to {high} |"
    )


def main() -> None:
    found = {kind: path for kind in KINDS if (path := latest(kind))}
    if not found:
        raise SystemExit("there are no results yet: python benchmarks/run.py --save")
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n".join([HEAD, *(section(kind, path) for kind, path in found.items())]))
    print(f"wrote {PAGE.relative_to(RESULTS.parents[1])}")


if __name__ == "__main__":
    main()
