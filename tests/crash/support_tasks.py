"""The functions that workers run in the crash tests."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from slothqueue import current_job


def note(path: str, n: int) -> int:
    """Write a line, all at once."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{n}\n".encode())
    finally:
        os.close(file)
    return n


def nap(path: str, n: int, seconds: float) -> int:
    """Say when it begins and when it ends."""
    note(path, n)
    time.sleep(seconds)
    note(path, -n)
    return n


def kill_me(path: str, n: int) -> None:
    """What the kernel does to a process that takes too much."""
    note(path, n)
    os.kill(os.getpid(), signal.SIGKILL)


def kill_my_worker(path: str, n: int) -> None:
    note(path, n)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def wait_for(path: str, n: int, gate: str) -> int:
    """Say that it has begun, and end when the gate is there."""
    note(path, n)
    end = time.monotonic() + 60
    while not os.path.exists(gate) and time.monotonic() < end:
        time.sleep(0.005)
    note(path, -n)
    return n


async def wait_for_on_the_loop(path: str, n: int, gate: str) -> int:
    """The same as a coroutine."""
    note(path, n)
    end = time.monotonic() + 60
    while not os.path.exists(gate) and time.monotonic() < end:
        await asyncio.sleep(0.005)
    note(path, -n)
    return n


def until_told(path: str, n: int) -> None:
    """Go on until the job is cancelled, and say so."""
    note(path, n)
    end = time.monotonic() + 60
    while not current_job().stopping and time.monotonic() < end:
        time.sleep(0.005)
    note(path, -n)
    raise RuntimeError("I was told to stop")


def tidies_up(path: str, n: int) -> None:
    """Does not listen, but closes what it has opened."""
    note(path, n)
    try:
        time.sleep(60)
    finally:
        note(path, -n)


async def until_told_on_the_loop(path: str, n: int) -> None:
    """The same as a coroutine."""
    note(path, n)
    end = time.monotonic() + 60
    while not current_job().stopping and time.monotonic() < end:
        await asyncio.sleep(0.005)
    note(path, -n)
    raise RuntimeError("I was told to stop")


def done_when_terminated(path: str, n: int) -> int:
    """Come to a good end at SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: note(path, -n))
    note(path, n)
    end = time.monotonic() + 60
    while not _is_noted(path, -n) and time.monotonic() < end:
        time.sleep(0.005)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return n


def _is_noted(path: str, n: int) -> bool:
    with open(path) as file:
        return f"{n}\n" in file.readlines()
