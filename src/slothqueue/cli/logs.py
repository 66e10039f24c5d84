"""Where the output of attempts is found: one file per lease, `JOB-ATTEMPT-FENCE.log`.

Beside it is `.err`, where a job keeps what it writes to stderr apart.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from ..outputs import Cut, Reader
from ..sizes import spoken_size

CHUNK = 1 << 16


class Log(NamedTuple):
    """The output of one run of a job. The later of two has the larger fence."""

    fence: int
    attempt: int
    path: str
    job: int = 0

    @property
    def errors(self) -> str:
        """Where its errors are, if they were kept apart."""
        return self.path.removesuffix(".log") + ".err"


def written(path: str, start: int = 0, chunk: int = CHUNK) -> Iterator[bytes | Cut]:
    """What is in a file of output, from `start` on to where it ends now; a cut in its place.

    It may grow and lose its middle meanwhile.
    """
    with open(path, "rb", buffering=0) as file:
        end = os.fstat(file.fileno()).st_size
        reader = Reader(file.fileno(), path, start)
        while reader.offset <= end and (part := reader.read(chunk)):
            yield part


def mark(cut: Cut) -> bytes:
    """What stands in the place of a cut: a line of ours."""
    return f"\n... {spoken_size(cut.length)} cut ...\n".encode()


def logs_of(folder: str, job: int) -> list[Log]:
    """The logs of a job, oldest first."""
    return sorted(_logs(folder, f"{job}-"))


def all_logs(folder: str) -> list[Log]:
    """The logs of all jobs, by the number of the job, then oldest first."""
    return sorted(_logs(folder, ""), key=lambda log: (log.job, log.fence))


def _logs(folder: str, start: str) -> Iterator[Log]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                log = _read_name(folder, entry.name) if entry.name.startswith(start) else None
                if log is not None:
                    yield log
    except FileNotFoundError:  # nothing has ever run here
        return


def _read_name(folder: str, name: str) -> Log | None:
    parts = name.removesuffix(".log").split("-")
    if not name.endswith(".log") or len(parts) != 3 or not all(part.isdigit() for part in parts):
        return None
    return Log(int(parts[2]), int(parts[1]), os.path.join(folder, name), int(parts[0]))
