"""Functions that tamper with the process they run in."""

from __future__ import annotations

import os
import time
from pathlib import Path


def pid():
    return os.getpid()


def size(text):
    return len(text)


def close_all():
    os.closerange(3, 256)


def close_all_and_stay(notes):
    Path(notes).write_text(str(os.getpid()))
    os.closerange(3, 256)
    time.sleep(600)


def open_in_our_place(path):
    os.closerange(3, 256)
    files = [open(path, "w") for _ in range(60)]  # noqa: SIM115
    files[0].write("theirs")
    files[0].flush()
    return [file.fileno() for file in files]
