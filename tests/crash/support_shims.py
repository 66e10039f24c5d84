"""Real commands under real shims, started the way a worker starts them."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slothqueue import processes, receipts
from slothqueue.commands import Command
from slothqueue.models import Ending
from slothqueue.orders import OPTIONS

DEADLINE = 20.0
HERE = os.getpid()
PAYLOAD = {"cwd", "env", "shell", *OPTIONS}


def until(true: Callable[[], Any], what: str) -> Any:
    """Look again and again until it is so, at most for the deadline."""
    end = time.monotonic() + DEADLINE
    while not (found := true()):
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.005)
    return found


class Commands:
    """Starts commands the way a worker does and knows what is left of them."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.logs = place / "logs"
        self.all: list[Command] = []

    def start(self, *argv: str, go: bool = True, **options: Any) -> Command:
        shape = {name: options.pop(name) for name in options.keys() & PAYLOAD}
        n = len(self.all) + 1
        command = Command(
            {"argv": list(argv), **shape},
            job=n,
            attempt=1,
            fence=100 + n,
            token=f"token-{n}",
            cookie=f"cookie-{n}-{HERE}-{time.monotonic_ns()}",
            lock=str(self.place / f"lock-{n}"),
            logs=str(self.logs),
            **{"grace": 5_000, **options},
        )
        self.all.append(command)
        if go:
            self.ready(command)
            assert command.go()
        return command

    def ready(self, command: Command) -> None:
        select.select([command.spawned.socket], [], [], DEADLINE)
        assert command.receive()

    def end(self, command: Command) -> Ending:
        command.spawned.process.wait(DEADLINE)
        ending = command.ending()
        assert ending is not None
        return ending

    def log(self, command: Command, suffix: str = ".log") -> bytes:
        try:
            return Path(command.base + suffix).read_bytes()
        except FileNotFoundError:
            return b""

    def says(self, command: Command, text: bytes) -> None:
        until(lambda: text in self.log(command), f"{text!r} in the log")

    def left(self, command: Command) -> list[processes.Process]:
        """Every living process that carries the cookie of this command."""
        mark = f"{receipts.COOKIE}={command.cookie}".encode()
        around = processes.look_around().values()
        return [
            one for one in around if processes.lives(one) and receipts._is_marked(one.pid, mark)
        ]

    def runs(self, command: Command, *names: str) -> list[processes.Process]:
        """The processes below the shim, as soon as they are those of these names."""

        def look() -> list[processes.Process] | None:
            tree = processes.below(processes.look_around(), command.spawned.pid)
            return tree if sorted(process.name for process in tree) == sorted(names) else None

        tree: list[processes.Process] = until(look, f"{names} run")
        return tree

    def kill_shim(self, command: Command, *names: str) -> list[processes.Process]:
        """Kill the shim when these run under it; returns them."""
        tree = self.runs(command, *names)
        until(lambda: receipts.began(command.base), "the shim has noted which it is")
        command.spawned.signal(signal.SIGKILL)
        command.spawned.process.wait(DEADLINE)
        return tree

    def clean(self) -> None:
        for command in self.all:
            command.spawned.signal(signal.SIGKILL)
            command.spawned.process.wait(DEADLINE)
            command.sweep()
            command.close()


def asleep(pid: int) -> bool:
    before = switches(pid)
    time.sleep(0.4)  # longer than between two looks at a log that may yet grow
    process = processes.look_at(pid)
    return switches(pid) == before and process is not None and process.state == "S"


def switches(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
