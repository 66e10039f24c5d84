"""The workers of the demo, and a way to find whatever they may leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MARK = "DEMO_MARK"
"""A variable that every process of one demo inherits."""


class Worker:
    """One worker process: `sloth worker`, with its words in a file."""

    def __init__(self, letter: str, folder: Path) -> None:
        self.letter = letter
        self.log = folder / f"worker-{letter}.log"
        argv = [sys.executable, "-m", "slothqueue", "worker", "--app", "tasks:sloth", "-j", "2"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=HERE
            )
        self.pid = self.process.pid
        self.killed = False

    def kill(self) -> None:
        """With SIGKILL: it has no time for anything."""
        self.killed = True
        self.process.kill()
        self.process.wait()

    def family(self) -> list[int]:
        """The worker, and the children in which it runs functions; its shims stand alone."""
        children = [pid for pid in processes() if parent(pid) == self.pid]
        return [self.pid, *(pid for pid in children if b"slothqueue.child" in _argv(pid))]

    def told(self) -> str:
        """The last lines of what it said."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])


def dismiss(workers: list[Worker], patience: float = 20.0) -> list[str]:
    """Tell them to stop; what was wrong with how they did."""
    for worker in workers:
        worker.process.send_signal(signal.SIGCONT)
        worker.process.terminate()
    faults = []
    until = time.monotonic() + patience
    for worker in workers:
        try:
            code = worker.process.wait(max(until - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            worker.process.kill()
            faults.append(f"worker {worker.letter} did not stop within {patience:g} s")
            continue
        if code and not worker.killed:
            faults.append(f"worker {worker.letter} ended with {code}:\n{worker.told()}")
    return faults


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def parent(pid: int) -> int:
    """0 for a process that is gone."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    return int(status.rpartition(b")")[2].split()[1])


def _argv(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def left_behind(mark: str, patience: float = 5.0) -> list[str]:
    """Processes of this demo that are still there, once they had a moment to go."""
    until = time.monotonic() + patience
    while (left := _marked(mark)) and time.monotonic() < until:
        time.sleep(0.05)
    return [f"{pid} {_argv(pid).replace(bytes(1), b' ').decode(errors='replace')}" for pid in left]


def clear(mark: str) -> None:
    """End what is left of a demo that was broken off."""
    for pid in _marked(mark):
        os.kill(pid, signal.SIGKILL)


def _marked(mark: str) -> list[int]:
    wanted = f"{MARK}={mark}".encode()
    return [pid for pid in processes() if pid != os.getpid() and _has(pid, wanted)]


def _has(pid: int, wanted: bytes) -> bool:
    try:
        return wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
