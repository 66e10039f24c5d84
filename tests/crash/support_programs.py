"""Programs that tests start as processes: `python -m tests.crash.support_programs VERB ...`"""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

from slothqueue import Sloth

from . import support_tasks
from .support import complete_with_effect

QUEUE = "work"


def register(sloth: Sloth, lease: str | None = None) -> dict[str, Any]:
    """The tasks that workers know, by their names."""
    functions = ["note", "nap", "wait_for", "wait_for_on_the_loop", "kill_me", "kill_my_worker"]
    functions += ["until_told", "until_told_on_the_loop", "done_when_terminated", "tidies_up"]
    return {
        name: sloth.task(name=name, queue=QUEUE, lease=lease)(getattr(support_tasks, name))
        for name in functions
    }


def worker(path: str, pool: str, concurrency: str, grace: str, lease: str, patience: str) -> None:
    """A worker until it is told to stop."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    with Sloth(path, busy_timeout=float(patience)) as sloth:
        register(sloth, lease or None)
        sloth.worker(concurrency=int(concurrency), pool=pool, grace=float(grace)).run()


def take(path: str, gate: str) -> None:
    """Claim and complete by hand, in threes, until there is nothing left."""
    with Sloth(path) as sloth:
        mail = sloth.queue("mail")
        print("ready", flush=True)
        sys.stdin.readline()
        while leases := mail.claim_many(3):
            for lease in leases:
                complete_with_effect(sloth, lease)


def open_it(path: str) -> None:
    """Open the store, write to it, and say so."""
    with Sloth(path) as sloth:
        print("ready", flush=True)
        sys.stdin.readline()
        print(sloth.queue("mail").enqueue(0).id)


def enqueue_for_ever(path: str) -> None:
    with Sloth(path, durability="process") as sloth:
        for n in range(1_000_000):
            print(sloth.queue("mail").enqueue(n).id, flush=True)


def hold(path: str) -> None:
    """Claim one job and hold on to it."""
    sloth = Sloth(path)
    lease = sloth.queue("mail").claim()
    assert lease is not None
    print(lease.id, flush=True)
    time.sleep(600)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
