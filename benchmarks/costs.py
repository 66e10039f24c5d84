"""Where does the time go? Of enqueue and of claim + complete, in microseconds for one job.

Not part of the table: for whoever wants to make them quicker. First what SQLite takes, by
statement; then the dearest Python functions. cProfile adds its own cost to each call, so there
read the order and not the sums. `python costs.py [full]` for the durability.
"""

from __future__ import annotations

import cProfile
import pstats
import sqlite3
import sys
import time
from collections.abc import Callable
from typing import Any

from by_hand import Verbs
from measure import seconds, workplace

from slothqueue import Sloth

N = 4000
spent: dict[str, list[float]] = {}


class TimedCursor(sqlite3.Cursor):
    """Adds up what each statement takes."""

    def execute(self, sql: str, *values: Any) -> Any:
        return _timed(sql, lambda: super(TimedCursor, self).execute(sql, *values))

    def executemany(self, sql: str, *values: Any) -> Any:
        return _timed(sql, lambda: super(TimedCursor, self).executemany(sql, *values))


class TimedConnection(sqlite3.Connection):
    def cursor(self, *values: Any) -> Any:
        return super().cursor(TimedCursor)

    def execute(self, sql: str, *values: Any) -> Any:
        return _timed(sql, lambda: super(TimedConnection, self).execute(sql, *values))


def _timed(sql: str, action: Callable[[], Any]) -> Any:
    began = time.perf_counter()
    try:
        return action()
    finally:
        spent.setdefault(" ".join(sql.split())[:64], []).append(time.perf_counter() - began)


def by_statement(action: Callable[[], object]) -> None:
    spent.clear()
    whole = seconds(action)
    rows = sorted(spent.items(), key=lambda item: -sum(item[1]))
    total = sum(sum(each) for _, each in rows)
    print(f"  {whole / N * 1e6:7.2f} in all, {total / N * 1e6:.2f} of it in SQLite, all timed")
    for sql, each in rows[:10]:
        print(f"  {sum(each) / N * 1e6:7.2f} in {len(each) / N:5.2f} calls  {sql}")


def by_function(action: Callable[[], object], top: int = 12) -> None:
    profiler = cProfile.Profile()
    profiler.runcall(action)
    stats = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    rows = sorted((own, calls, whole, key) for key, (_, calls, own, whole, _) in stats.items())
    for own, calls, whole, (file, line, name) in reversed(rows[-top:]):
        place = f"{file.rpartition('slothqueue/')[2]}:{line} " if line else ""
        figures = f"{own / N * 1e6:7.2f} own {whole / N * 1e6:7.2f} whole {calls / N:5.1f} calls"
        print(f"  {figures}  {place}{name}")


def measure(durability: str, look: Callable[[Callable[[], object]], None]) -> None:
    with workplace() as folder, Sloth(folder / "costs.db", durability=durability) as sloth:
        verbs = Verbs(sloth.queue("bench"), N)
        for action in (verbs.enqueue, verbs.enqueue, verbs.claim_and_complete):
            action()  # the log has its size
        for name, action in verbs.all().items():
            print(f"\n{name}: {seconds(action) / N * 1e6:.1f} each")
            look(action)


def main() -> None:
    durability = sys.argv[1] if len(sys.argv) > 1 else "process"
    measure(durability, by_function)
    plain = sqlite3.connect
    timed: Any = lambda *args, **more: plain(*args, **more, factory=TimedConnection)  # noqa: E731
    sqlite3.connect = timed
    measure(durability, by_statement)


if __name__ == "__main__":
    main()
