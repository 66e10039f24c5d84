"""How the tests of the command line drive it: as a process of its own, in a pipe or a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from slothqueue.processes import look_around

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 30.0


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]


def until(look: Callable[[], Any], what: str) -> Any:
    """What `look` says once it is true, within the deadline."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {DEADLINE} s: {what}")


def workers(db: Path) -> set[int]:
    """The background workers of this store that live, by what they were started with."""
    found = set()
    for pid in look_around():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"__background" in words and os.fsencode(db) in words:
            found.add(pid)
    return found


class Cli:
    """`sloth` on one store in a directory of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.db = folder, folder / "work.db"
        kept = ("PATH", "LANG", "LC_ALL", "COVERAGE_PROCESS_START")
        self.env = {name: os.environ[name] for name in kept if name in os.environ}
        self.env |= {
            "SLOTH_DB": str(self.db),
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT / "src"),
            "SLOTH_AUTOSTART": "0",
            "TERM": "xterm",
        }
        self.python: tuple[str, ...] = (sys.executable, "-m", "slothqueue")

    def __call__(self, *words: str | bytes, code: int = 0, **env: str | None) -> Done:
        """Run it to its end, which must be this exit code."""
        done = subprocess.run(
            [*self.python, *words],
            env=self.environment(env),
            cwd=self.folder,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=DEADLINE,
        )
        err = done.stderr.decode()
        assert done.returncode == code, f"{words} ended with {done.returncode}: {err}"
        assert "Traceback" not in err
        return Done(done.returncode, done.stdout, err)

    def environment(self, more: dict[str, str | None]) -> dict[str, str]:
        mixed = {**self.env, **more}
        return {name: value for name, value in mixed.items() if value is not None}

    def refused(self, *words: str | bytes, code: int, **env: str | None) -> str:
        """What it complains of: one line, with its name before it."""
        done = self(*words, code=code, **env)
        assert done.out == b""
        line, *rest = done.err.splitlines()
        assert not rest, done.err
        assert line.startswith("sloth: "), done.err
        return line

    def add(self, *words: str) -> int:
        """The id of a job added with these words."""
        return int(self("add", *words).out)

    def job(self, id: int) -> dict[str, Any]:
        return self("show", str(id), "--json").objects[0]

    def start(self, *words: str, **more: Any) -> subprocess.Popen[bytes]:
        """Start it with pipes; whoever starts it ends it."""
        return subprocess.Popen(
            [*self.python, *words],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            **{"env": self.env, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more},
        )

    @contextlib.contextmanager
    def worker(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """A worker that is there, until the end of the block."""
        process = self.start("worker", "--grace", "0", *words)
        try:
            assert process.stderr is not None
            assert b"Ctrl-C" in process.stderr.readline()
            until(lambda: self("status", "--json").objects[0]["workers"], "a worker is alive")
            yield process
        finally:
            end(process)


def end(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """End a process that we started, kindly and then not."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        return process.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()


def _at_a_terminal() -> None:
    """What a login does: a terminal of its own, and a Ctrl-C that is heard."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # whoever started the tests may ignore it


class Terminal:
    """`sloth` in a real pseudo-terminal of its own."""

    def __init__(self, cli: Cli, *words: str, columns: int = 80, **env: str | None) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = subprocess.Popen(
            [*cli.python, *words],
            env=cli.environment(env),
            cwd=cli.folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_at_a_terminal,
        )
        os.close(theirs)
        self.seen = ""

    def read_until(self, text: str) -> str:
        """What has appeared once this text has."""
        end = time.monotonic() + DEADLINE
        while text not in self.seen:
            assert time.monotonic() < end, f"{text!r} did not appear: {self.seen!r}"
            if not self._read():
                raise AssertionError(f"{text!r} did not appear: {self.seen!r}")
        return self.seen

    def _read(self) -> bool:
        if not select.select([self._ours], [], [], 1)[0]:
            return True
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # what a terminal says when nobody is left on the other side
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def finish(self) -> int:
        """Everything read, and the exit code."""
        while self._read():
            pass
        return self.process.wait(DEADLINE)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)
