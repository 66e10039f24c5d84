"""How quick is `sloth list` of a million jobs, beside `sloth --version`?

Whole processes, in turn; the median of the ratios of the rounds. A third of the jobs is queued, a
third is for later, a third has ended.
"""

from __future__ import annotations

import os

from bare import PAYLOAD
from measure import figure, full, ratios, rounds, workplace
from startup import run, sloth

from slothqueue import Sloth

NUMBER = 1_000_000


def fill(path: str) -> None:
    """A million jobs, a thousand at a time."""
    with Sloth(path, durability="process") as store:
        queue, ended = store.queue("bench"), store.queue("ended")
        for _ in range(NUMBER // 3000):
            queue.enqueue_many([PAYLOAD] * 1000)
            queue.enqueue_many([PAYLOAD] * 1000, delay="1d")
            ended.enqueue_many([PAYLOAD] * 1000)
            ended.complete_many(ended.claim_many(1000))


def main() -> None:
    with workplace() as folder:
        path = str(folder / "list.db")
        fill(path)
        # Without this variable modules are kept compiled, as everybody has them.
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env |= {"SLOTH_DB": path, "SLOTH_AUTOSTART": "0"}
        commands = {
            "--version": [*sloth(), "--version"],
            "list": [*sloth(), "list"],
            "list --state queued": [*sloth(), "list", "--state", "queued", "-n", "20"],
            "list --state done": [*sloth(), "list", "--state", "done", "-n", "20"],
        }
        actions = {name: lambda argv=argv: run(argv, env) for name, argv in commands.items()}
        taken = rounds(40 if full() else 15, actions)
    for name in list(commands)[1:]:
        figure(
            f"sloth {name} of a million jobs, beside sloth --version",
            ratios(taken[name], taken["--version"]),
            unit="x the time",
            target="< 15",
            least_ms=round(min(taken[name]) * 1000, 1),
        )


if __name__ == "__main__":
    main()
