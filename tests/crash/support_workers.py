"""Real workers in real processes, and the means to do to them what the world does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from slothqueue import Sloth

from .support import DEADLINE, MARK, ROOT, audit, end, is_alive, marked, rows, until, zombies
from .support_programs import QUEUE, register


class World:
    """One store, the processes around it, and what they have written down."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, str(folder / "work.db")
        self.mark = f"{MARK}={os.getpid()}-{time.monotonic_ns()}"
        os.environ[MARK] = self.mark.partition("=")[2]  # for the commands that are enqueued here
        self.sloth = Sloth(self.path)
        self.sloth.stats()  # sets the file up
        self.tasks = register(self.sloth)
        self.notes, self.gate = str(folder / "notes"), str(folder / "gate")
        self.started: list[subprocess.Popen[Any]] = []

    # ---- processes ------------------------------------------------------------------------------

    def program(self, verb: str, *args: Any, **options: Any) -> subprocess.Popen[Any]:
        """One of the programs of `support_programs`."""
        name, _, value = self.mark.partition("=")
        paths = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
        command = [sys.executable, "-m", "tests.crash.support_programs", verb, self.path]
        process = subprocess.Popen(
            [*command, *map(str, args)],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": paths, name: value},
            **options,
        )
        self.started.append(process)
        return process

    def worker(
        self,
        pool: str = "process",
        concurrency: int = 1,
        grace: float = 10,
        lease: str = "",
        patience: float = 30,
    ) -> subprocess.Popen[Any]:
        """A worker; everything that it and its children say goes into one log."""
        told = (pool, concurrency, grace, lease, patience)
        with open(self.folder / "log", "ab") as log:
            return self.program("worker", *told, stdout=log, stderr=log)

    def idle_worker(self, **options: Any) -> subprocess.Popen[Any]:
        """A worker that has introduced itself and waits."""
        process = self.worker(**options)
        until(lambda: self._knows(process.pid), "the worker is there")
        return process

    def _knows(self, pid: int) -> bool:
        sql = "select 1 from _sloth_holder where pid = ? and tells is not null"
        return bool(rows(self.path, sql, pid))

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    # ---- jobs -----------------------------------------------------------------------------------

    def held_up(self, task: str = "wait_for", n: int = 1) -> Any:
        """Enqueue a call that goes on until the gate is opened."""
        return self.tasks[task].enqueue(self.notes, n, self.gate)

    def held_up_command(self, n: int = 1, code: int = 0) -> Any:
        """The same as a command."""
        wait = f"while [ ! -e {self.gate} ]; do sleep 0.02; done"
        script = f"echo {n} >> {self.notes}; {wait}; echo -{n} >> {self.notes}; exit {code}"
        return self.sloth.queue(QUEUE).enqueue_command(["/bin/sh", "-c", script])

    def open_gate(self) -> None:
        Path(self.gate).touch()

    def noted(self) -> Counter[int]:
        """How often which number was noted down."""
        try:
            return Counter(int(line) for line in Path(self.notes).read_text().split())
        except FileNotFoundError:
            return Counter()

    def wait_note(self, n: int, times: int = 1) -> None:
        until(lambda: self.noted()[n] >= times, f"{n} is noted {times} times")

    def runs(self, job: Any, attempt: int = 1) -> Any:
        """The job, once this attempt of it runs."""

        def look() -> Any:
            now = job.refresh()
            return now if now.state == "running" and now.attempts >= attempt else None

        return until(look, f"attempt {attempt} runs")

    def ended(self, job: Any, seconds: float = DEADLINE) -> Any:
        """The job, once it has ended."""
        return until(lambda: (now := job.refresh()).ended and now, "the job ends", seconds)

    def held_by(self, job: Any, kind: str) -> int:
        """The pid of the child or shim that holds the job, once it does."""
        sql = """select h.pid from _sloth_holder h join _sloth_running r on r.holder = h.id
                 where r.id = ? and h.kind = ?"""
        return int(until(lambda: rows(self.path, sql, job.id, kind), f"a {kind} holds it")[0][0])

    def events(self, job: Any, kind: str) -> list[Any]:
        return [event for event in job.events() if event.kind == kind]

    # ---- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop everybody; nobody may be left, dead or alive."""
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.started:
            try:
                process.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        audit(self.sloth)
        self.sloth.close()
        left = self._stragglers()
        end(left)
        assert not left, f"still there: {left}"
        assert not zombies()

    def _stragglers(self) -> list[int]:
        limit = time.monotonic() + 10
        while (left := [pid for pid in marked(self.mark) if is_alive(pid)]) and (
            time.monotonic() < limit
        ):
            time.sleep(0.02)
        return left
