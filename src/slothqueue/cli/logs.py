"""Where the output of attempts is found: one file per lease, `JOB-ATTEMPT-FENCE.log`."""

from __future__ import annotations

import os
from typing import NamedTuple


class Log(NamedTuple):
    """The output of one run of a job. The later of two has the larger fence."""

    fence: int
    attempt: int
    path: str


def logs_of(folder: str, job: int) -> list[Log]:
    """The logs of a job, oldest first."""
    start = f"{job}-"
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(start)]
    except FileNotFoundError:  # nothing has ever run here
        return []
    found = (_read_name(folder, name) for name in names if name.endswith(".log"))
    return sorted(log for log in found if log is not None)


def _read_name(folder: str, name: str) -> Log | None:
    parts = name.removesuffix(".log").split("-")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        return None
    return Log(int(parts[2]), int(parts[1]), os.path.join(folder, name))
