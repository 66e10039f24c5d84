"""The functions that are measured, and the workers that run them.

`python chores.py worker CONCURRENCY` runs a worker until it is told to stop, `python chores.py idle
CONCURRENCY` until there is nothing to do, `python chores.py listen` takes jobs by hand.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slothqueue import Sloth, current_job

sloth = Sloth(os.environ.get("SLOTH_DB", "unused.db"), durability="process")


@sloth.task(name="nothing", queue="bench")
def nothing() -> None:
    """Do nothing."""


@sloth.task(name="hang", queue="bench")
def hang() -> None:
    """Tell who runs it; hang in the first attempt, and be killed there."""
    attempt = current_job().attempt
    tell(f"{attempt} {os.getpid()} {time.time()}")
    while attempt == 1:
        time.sleep(60)


def tell(line: str) -> None:
    """To the one who measures: it reads a pipe by this name."""
    with open(os.environ["BENCH_PIPE"], "w") as pipe:
        pipe.write(line + "\n")


def listen() -> None:
    """Tell of each job how long after the moment in its payload its row was here."""
    queue = sloth.queue("bench")
    for lease in queue:
        here = time.monotonic_ns()
        lease.complete()
        sys.stdout.write(f"{lease.payload} {here}\n")
        sys.stdout.flush()


@contextmanager
def process(*words: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """This script in another process, ended in the end."""
    argv = [sys.executable, str(Path(__file__).resolve()), *words]
    started = subprocess.Popen(
        argv, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables}
    )
    try:
        yield started
    finally:
        started.terminate()
        started.wait(30)
        if started.stdout is not None:
            started.stdout.close()


def main(what: str, concurrency: str = "1") -> None:
    worker = sloth.worker(concurrency=int(concurrency))
    if what == "listen":
        listen()
    elif what == "idle":
        worker.run_until_idle()
    else:
        worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
