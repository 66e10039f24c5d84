"""The work of the demo: real files, and what is to be done to each of them."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import sys
import sysconfig
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from slothqueue import Job

BIG = 12 * 1024 * 1024
HERE = Path(__file__).resolve().parent

# For a machine that lacks one of the tools: the same by Python.
_INSTEAD = {
    "gzip": "import gzip, sys; "
    "sys.stdout.buffer.write(gzip.compress(open(sys.argv[-1], 'rb').read()))",
    "sha256sum": "import hashlib, sys; f = sys.argv[-1]; "
    "print(hashlib.sha256(open(f, 'rb').read()).hexdigest(), '', f)",
    "wc": "import sys; f = sys.argv[-1]; print(open(f, 'rb').read().count(b'\\n'), f)",
}


class Piece(NamedTuple):
    """One job: its name, what it reads, where it writes, and how to see that it is right."""

    name: str
    kind: str
    source: Path
    output: Path
    right: Callable[[bytes, bytes], bool]

    @property
    def big(self) -> bool:
        return self.source.suffix == ".bundle"

    @property
    def command(self) -> bool:
        return self.kind in COMMANDS


COMMANDS = {
    "gzip": (["gzip", "-9", "-n", "-c"], lambda out, src: gzip.decompress(out) == src),
    "sha256sum": (
        ["sha256sum"],
        lambda out, src: out.split()[0].decode() == hashlib.sha256(src).hexdigest(),
    ),
    "wc": (["wc", "-l"], lambda out, src: int(out.split()[0]) == src.count(b"\n")),
}
FUNCTIONS = {
    "squeeze": lambda out, src: zlib.decompress(out) == src,
    "checksum": lambda out, src: out.decode() == hashlib.blake2b(src).hexdigest(),
    "count": lambda out, src: list(map(int, out.split())) == _counted(src),
}


def _counted(source: bytes) -> list[int]:
    """Counted in another way than the function does it."""
    words = sum(len(line.split()) for line in source.splitlines())
    return [len(source.split(b"\n")) - 1, words, sum(1 for _ in source)]


def sources(number: int) -> list[Path]:
    """Python files of the running interpreter's standard library, the biggest first."""
    library = Path(sysconfig.get_path("stdlib"))
    found = [
        path
        for path in library.rglob("*.py")
        if not {"test", "tests", "site-packages", "dist-packages"} & set(path.parts)
        and os.access(path, os.R_OK)
        and 0 < path.stat().st_size < 100_000
    ]
    return sorted(found, key=lambda path: (-path.stat().st_size, path))[:number]


def bundles(folder: Path, number: int) -> list[Path]:
    """The same sources put together, so that compressing takes a second or two."""
    pieces = [path.read_bytes() for path in sources(400)]
    made = []
    for i in range(number):
        path = folder / f"{i}.bundle"
        order = pieces[i * 7 :] + pieces[: i * 7]
        everything = b"".join(order)
        path.write_bytes((everything * (BIG // len(everything) + 1))[:BIG])
        made.append(path)
    return made


def pieces(folder: Path, *, files: int, big: int) -> list[Piece]:
    """All jobs: each kind for each file, and among them, evenly, those that last."""
    out = folder / "out"
    out.mkdir()
    rights = {**{kind: right for kind, (_, right) in COMMANDS.items()}, **FUNCTIONS}

    def piece(kind: str, source: Path, number: int) -> Piece:
        name = f"{kind}-{number}{'-big' if source.suffix == '.bundle' else ''}"
        return Piece(name, kind, source, out / name, rights[kind])

    small = [
        piece(kind, source, number)
        for number, source in enumerate(sources(files))
        for kind in rights
    ]
    long = [
        piece(kind, source, number)
        for number, source in enumerate(bundles(folder, big))
        for kind in ("gzip", "squeeze")
    ]
    return _woven(small, long)


def _woven(small: list[Piece], long: list[Piece]) -> list[Piece]:
    stride = len(small) // len(long) + 1
    woven: list[Piece] = []
    for i, each in enumerate(long):
        woven += [each, *small[i * stride : (i + 1) * stride]]
    return woven


def enqueue(all_pieces: list[Piece], record: Path) -> dict[str, Job]:
    """Enqueue everything in one transaction: all of it, or nothing."""
    import tasks  # reads SLOTH_DB, which is set by now

    jobs = {}
    with tasks.sloth.transaction() as tx:
        queue = tx.queue("demo")
        for piece in all_pieces:
            if piece.command:
                jobs[piece.name] = queue.enqueue_command(_argv(piece, record), cwd="/")
                continue
            task = getattr(tasks, piece.kind).within(tx)
            jobs[piece.name] = task.enqueue(piece.name, str(piece.source), str(piece.output))
    return jobs


def _argv(piece: Piece, record: Path) -> list[str]:
    tool = COMMANDS[piece.kind][0]
    if shutil.which(tool[0]) is None:
        tool = [sys.executable, "-S", "-c", _INSTEAD[tool[0]]]
    step = ["sh", str(HERE / "step.sh"), str(record), piece.name, str(piece.output)]
    return [*step, *tool, str(piece.source)]
