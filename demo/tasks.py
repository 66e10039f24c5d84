"""The functions of the demo. Workers run them in child processes, which get killed.

Each is a task: called, it runs here and now; enqueued, a worker runs it.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from pathlib import Path

from record import running

from slothqueue import Sloth

sloth = Sloth(os.environ["SLOTH_DB"])


@sloth.task(queue="demo")
def squeeze(name: str, source: str, output: str) -> int:
    """Compress a file; returns how many bytes are left of it."""
    with running(name):
        packer = zlib.compressobj(9)
        with open(source, "rb") as file:
            pieces = [packer.compress(piece) for piece in iter(lambda: file.read(1 << 16), b"")]
        return write(output, b"".join([*pieces, packer.flush()]))


@sloth.task(queue="demo")
def checksum(name: str, source: str, output: str) -> str:
    """The BLAKE2 checksum of a file."""
    with running(name):
        digest = hashlib.blake2b(Path(source).read_bytes()).hexdigest()
        write(output, digest.encode())
        return digest


@sloth.task(queue="demo")
def count(name: str, source: str, output: str) -> dict[str, int]:
    """The lines, words and bytes of a file."""
    with running(name):
        data = Path(source).read_bytes()
        counted = {"lines": data.count(b"\n"), "words": len(data.split()), "bytes": len(data)}
        write(output, " ".join(map(str, counted.values())).encode())
        return counted


def write(path: str, data: bytes) -> int:
    """The whole file or none of it: a function may be killed at any moment."""
    half = f"{path}.{os.getpid()}"
    Path(half).write_bytes(data)
    os.replace(half, path)
    return len(data)
