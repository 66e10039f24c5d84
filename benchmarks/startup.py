"""How quick is the command line, beside a Python that does nothing?

Whole processes, in turn; the median of the ratios of the rounds. `add` writes to a store that is
there, and starts no worker.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from measure import figure, full, ratios, rounds, workplace

TARGETS = {"sloth --version": "< 3", "sloth add": "< 8"}


def sloth() -> list[str]:
    """The installed command beside this Python, else the module."""
    installed = Path(sys.executable).with_name("sloth")
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "slothqueue"]


def run(argv: list[str], env: dict[str, str]) -> None:
    done = subprocess.run(argv, env=env, check=False, stdin=subprocess.DEVNULL, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def main() -> None:
    with workplace() as folder:
        # Without this variable modules are kept compiled, as everybody has them.
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env |= {"SLOTH_DB": str(folder / "startup.db"), "SLOTH_AUTOSTART": "0"}
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "sloth --version": [*sloth(), "--version"],
            "sloth add": [*sloth(), "add", "--", "true"],
        }
        actions = {name: lambda argv=argv: run(argv, env) for name, argv in commands.items()}
        taken = rounds(60 if full() else 25, actions)
    bare = taken["python -c pass"]
    for name, target in TARGETS.items():
        figure(
            f"{name}, beside python -c pass",
            ratios(taken[name], bare),
            unit="x the time",
            target=target,
            least_ms=round(min(taken[name]) * 1000, 1),
            bare_least_ms=round(min(bare) * 1000, 1),
        )


if __name__ == "__main__":
    main()
