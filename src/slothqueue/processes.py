"""The processes of this machine: who there is, who descends from whom, and how to end them.

It stands alone, for a shim is started once per command and loads this: with it nothing of ours and
next to nothing else. Sources: `proc(5)` for the fields of stat, `kill(2)` for the three numbers
that are no pids.
"""

import os
import sys
import time
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:  # the functions without the enums, which take nearly as long to import as Python to start
    import _signal as signal

LINUX = sys.platform == "linux"
BACKGROUND = b"SLOTH_BACKGROUND=1"
"""In the environment that a background worker of a store was started with, and in no other."""
PATIENCE = 10.0  # seconds to go on killing what does not die; whoever is left then is named


class Process:
    """A process as /proc showed it. `start` tells it from a later one with the same number."""

    __slots__ = ("group", "name", "parent", "pid", "session", "start", "state")

    def __init__(self, pid: int, name: str, *, state: str = "", parent: int = 0) -> None:
        self.pid, self.name, self.state, self.parent = pid, name, state, parent
        self.group = self.session = self.start = 0

    def __str__(self) -> str:
        return f"{self.pid} {self.name}"


def look_at(pid: int) -> Process | None:
    """The process with this number, if there is one (a zombie is one too)."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            text = file.read(4096).decode("ascii", "replace")
    except OSError:
        return None
    head, _, tail = text.rpartition(")")  # a name may hold anything, brackets too
    fields = tail.split()
    name = one_line(head.partition("(")[2])
    process = Process(pid, name, state=fields[0], parent=int(fields[1]))
    process.group, process.session, process.start = map(int, (fields[2], fields[3], fields[19]))
    return process


def look_around() -> dict[int, Process]:
    """Every process that can be seen here, by its number."""
    found = (look_at(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {process.pid: process for process in found if process is not None}


def below(everyone: dict[int, Process], root: int) -> list[Process]:
    """Everything that descends from this process, parents before their children."""
    children: dict[int, list[Process]] = {}
    for process in everyone.values():
        children.setdefault(process.parent, []).append(process)
    tree: list[Process] = list(children.get(root, ()))
    for process in tree:  # grows while we go
        tree += children.get(process.pid, ())
    return tree


def in_background(process: Process) -> bool:
    """Whether it is the background worker of a store: of no attempt, whoever has started it."""
    if process.session != process.pid:
        return False
    try:
        with open(f"/proc/{process.pid}/environ", "rb") as file:
            return BACKGROUND in file.read().split(b"\0")
    except OSError:
        return False


def without_background(tree: list[Process]) -> list[Process]:
    """These processes without background workers and all of them that descend from one."""
    known = {process.pid: process for process in tree}
    spared = {process.pid for process in tree if in_background(process)}
    for pid in list(spared):
        spared |= {process.pid for process in below(known, pid)}
    return [process for process in tree if process.pid not in spared]


def lives(process: Process) -> bool:
    """Whether it can still do something: a zombie cannot."""
    return process.state not in ("Z", "X")


def catches_term(process: Process) -> bool:
    """Whether it has a handler for SIGTERM, and may be busy with it; True if that is not seen."""
    try:
        with open(f"/proc/{process.pid}/status", "rb") as file:
            mask = file.read().partition(b"SigCgt:")[2].split(None, 1)[0]
    except (OSError, IndexError):
        return True
    return bool(int(mask, 16) >> (signal.SIGTERM - 1) & 1)


def send(process: Process, number: int, *, group: bool = False) -> bool:
    """Signal this process, or its group, unless its number is another's by now."""
    again = look_at(process.pid) if LINUX else process
    target = -process.group if group else process.pid  # the three: everybody, our group, init
    if again is None or again.start != process.start or target in (-1, 0, 1):
        return False
    try:
        os.kill(target, number)
    except OSError:
        return False
    return True


def slay(
    find: Callable[[], list[Process]],
    *,
    ended: Callable[[], bool],
    groups: bool,
    pause: Callable[[float], object] = time.sleep,
) -> list[Process]:
    """Kill whatever `find` finds, until `ended` says so or patience is over; returns all it found.

    With `groups` whole process groups but ours, which nobody escapes by forking, however fast.
    """
    seen: dict[tuple[int, int], Process] = {}
    until, wait = time.monotonic() + PATIENCE, 0.001
    while not ended() and time.monotonic() < until:
        found = find()
        seen.update({(process.pid, process.start): process for process in found})
        for process in found:
            send(process, signal.SIGKILL, group=groups and process.group != os.getpgrp())
        pause(wait)
        wait = min(2 * wait, 0.1)
    return list(seen.values())


def one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:500]
