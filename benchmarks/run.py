"""All figures in one table: `python benchmarks/run.py [--full] [--save] [NAME...]`.

The short set takes about two minutes. --full takes crowds of a million and more rounds. --save
keeps the JSON lines, with machine, versions and settings, in benchmarks/results/.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
SCRIPTS = (
    "by_hand",
    "crowded",
    "listing",
    "reissue",
    "wakeup",
    "idle",
    "startup",
    "durable",
    "throughput",
)


def main(argv: list[str]) -> int:
    names = [word for word in argv if not word.startswith("-")] or list(SCRIPTS)
    unknown = set(names) - set(SCRIPTS)
    if unknown:
        print(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(SCRIPTS)}")
        return 2
    settings = {"full": "--full" in argv, "scripts": names}
    about = {**machine(), "settings": settings}
    print(
        f"{about['python']}, SQLite {about['sqlite']}, {about['cores']} cores, {about['place']}\n"
    )
    rows, failed = [], []
    for name in names:
        lines, code = measure(name, settings["full"])
        rows += lines
        failed += [name] if code else []
    print(table(rows))
    if "--save" in argv:
        print(f"\nkept in {save(about, rows)}")
    return _verdict(rows, failed)


def measure(name: str, full: bool) -> tuple[list[dict[str, Any]], int]:
    """Run one script; its figures and its exit code."""
    _progress(f"measuring: {name}")
    argv = [sys.executable, str(HERE / f"{name}.py"), *(["--full"] if full else [])]
    # Reading modules without a cache takes twice the time.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    source = str(HERE.parent / "src")
    env["SLOTH_AUTOSTART"] = "0"  # what is measured starts its own workers
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [source, env.get("PYTHONPATH")]))
    done = subprocess.run(argv, stdout=subprocess.PIPE, env=env, check=False, text=True)
    _progress("")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [{"script": name, **line} for line in lines], done.returncode


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text.ljust(40)}", end="\r", file=sys.stderr, flush=True)


def table(rows: list[dict[str, Any]]) -> str:
    """Figure, measured, target, verdict, and the middle half of what was measured."""
    cells = [["figure", "measured", "target", "", "middle half"]]
    for row in rows:
        ok = {True: "ok", False: "SHORT", None: ""}[row["ok"]]
        spread = " to ".join(number(bound) for bound in row["spread"])
        value = f"{number(row['value'])} {row['unit']}"
        cells.append([row["figure"], value, row["target"] or "-", ok, spread])
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells
    ]
    return "\n".join(lines)


def number(value: float) -> str:
    """As a person reads it."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _verdict(rows: list[dict[str, Any]], failed: list[str]) -> int:
    short = [row["figure"] for row in rows if row["ok"] is False]
    for name in failed:
        print(f"\nbenchmark {name} did not come to its end", file=sys.stderr)
    print(
        f"\n{len(rows) - len(short)} figures as promised or without a promise, {len(short)} short"
    )
    return 1 if failed else 0  # a short figure may be a busy machine; people judge it


def machine() -> dict[str, Any]:
    """What was measured on, as far as it matters."""
    return {
        "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "python": f"Python {platform.python_version()}",
        "sqlite": sqlite3.sqlite_version,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "place": _file_system(os.environ.get("BENCH_DIR", ".")),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "?")


def _file_system(place: str) -> str:
    """The kind of file system, by the longest mount point."""
    path = os.path.realpath(place)
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "?"
    over = [(point, kind) for point, kind in mounts if os.path.commonpath([point, path]) == point]
    return max(over, key=lambda mount: len(mount[0]))[1] if over else "?"


def save(about: dict[str, Any], rows: list[dict[str, Any]]) -> Path:
    """One line about the machine, then one per figure."""
    RESULTS.mkdir(exist_ok=True)
    kind = "full" if about["settings"]["full"] else "short"
    host = f"{platform.machine()}-{about['cores']}-cores"
    path = RESULTS / f"{time.strftime('%Y-%m-%d')}-{host}-{kind}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in [{"machine": about}, *rows]))
    return path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
