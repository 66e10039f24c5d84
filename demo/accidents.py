"""What is done to the workers while they work, and to whom."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import record
from record import Run
from screen import Screen
from workers import Worker

from slothqueue import Job, Sloth

NAP = 3.0


class Deed(NamedTuple):
    """One accident: when, what, and the jobs that it hit (`kept` must go on, `lost` must not)."""

    at: float
    what: str
    lost: dict[str, int]
    kept: dict[str, int]
    """Names of jobs with the attempt that was under way."""
    more: str = ""


class Accidents:
    """Happen one after the other, each as soon as there is long work in flight to be hit."""

    def __init__(
        self,
        sloth: Sloth,
        jobs: dict[str, Job],
        workers: list[Worker],
        record: Path,
        screen: Screen,
    ) -> None:
        self._sloth, self._workers, self._record, self._screen = sloth, workers, record, screen
        self._jobs, self._names = jobs, {job.id: name for name, job in jobs.items()}
        self._asleep: tuple[Worker, list[int], float] | None = None
        self._spared: Worker | None = None
        self._waiting: list[tuple[float, Callable[[], Deed | None]]] = [
            (0.05, self._kill_shim),
            (0.15, self._kill_child),
            (0.25, self._stop_worker),
            (0.50, self._kill_worker),
        ]
        self.deeds: list[Deed] = []
        self.saying = ""

    @property
    def outstanding(self) -> int:
        """How many have found nobody to hit yet."""
        return len(self._waiting)

    def step(self, done: float) -> None:
        """Look whether the time has come; `done` is the share of jobs that are done."""
        self._perhaps_continue()
        if not self._waiting or done < self._waiting[0][0] or self._asleep or self._unsettled():
            return
        deed = self._waiting[0][1]()
        if deed is not None:
            self._waiting.pop(0)
            self.deeds.append(deed)
            self.saying = deed.what
            self._screen.note(deed.what + deed.more)

    def _unsettled(self) -> bool:
        """Whether the last one has not had its consequences yet."""
        hit = self.deeds[-1].lost.items() if self.deeds else ()
        return any(self._jobs[name].refresh().attempts <= attempt for name, attempt in hit)

    # ---- one by one -----------------------------------------------------------------------------

    def _kill_shim(self) -> Deed | None:
        run = next(iter(self._long("gzip")), None)
        if run is None:
            return None
        at = _kill(run.parent)
        return Deed(at, f"killed the shim of {run.name}", {run.name: run.attempt}, {})

    def _kill_child(self) -> Deed | None:
        run = next(iter(self._long("squeeze")), None)
        if run is None:
            return None
        at = _kill(run.pid)
        return Deed(at, f"killed the process of {run.name}", {run.name: run.attempt}, {})

    def _stop_worker(self) -> Deed | None:
        worker, _ = self._busy_worker()
        if worker is None:
            return None
        family = worker.family()
        at = time.time()
        for pid in family:
            os.kill(pid, signal.SIGSTOP)
        self._asleep, self._spared = (worker, family, time.monotonic() + NAP), worker
        held = {name: attempt for name, attempt, _ in self._held(worker)}
        more = f" with its children for {NAP:g} s; it holds {_listed(held)}"
        return Deed(at, f"stopped worker {worker.letter}", {}, held, more)

    def _perhaps_continue(self) -> None:
        if self._asleep is None or time.monotonic() < self._asleep[2]:
            return
        worker, family, _ = self._asleep
        for pid in family:
            os.kill(pid, signal.SIGCONT)
        self._asleep, self.saying = None, f"continued worker {worker.letter}"
        self._screen.note(self.saying)

    def _kill_worker(self) -> Deed | None:
        worker, run = self._busy_worker()
        if worker is None or run is None:
            return None
        held = self._held(worker)
        at = time.time()
        worker.kill()
        commands = {name: attempt for name, attempt, command in held if command}
        more = f" in the midst of {run.name}"
        if commands:
            more += f"; its command {_listed(commands)} must run on"
        lost = {run.name: run.attempt}
        return Deed(at, f"killed worker {worker.letter}", lost, commands, more)

    # ---- whom to hit ----------------------------------------------------------------------------

    def _long(self, kind: str) -> list[Run]:
        """The long jobs of this kind that are under way for the first time, the latest first."""
        runs = record.read(self._record).values()
        found = [each[-1] for each in runs if each[-1].ended is None and len(each) == 1]
        found = [run for run in found if run.name.endswith("-big") and run.name.startswith(kind)]
        return sorted(found, key=lambda run: -run.begun)

    def _busy_worker(self) -> tuple[Worker | None, Run | None]:
        """A worker with a long function under way; one that was stopped has had its share."""
        by_pid = {worker.pid: worker for worker in self._workers if worker is not self._spared}
        for run in self._long("squeeze"):
            if run.parent in by_pid:
                return by_pid[run.parent], run
        return None, None

    def _held(self, worker: Worker) -> list[tuple[str, int, bool]]:
        """What it runs: names, attempts, and whether it is a command that has begun."""
        runs = record.read(self._record)
        held = []
        for job in self._sloth.jobs(state="running"):
            name = self._names[job.id]
            if job.worker is not None and job.worker.endswith(f":{worker.pid}"):
                begun = any(run.attempt == job.attempts for run in runs.get(name, ()))
                held.append((name, job.attempts, job.kind == "command" and begun))
        return held


def _kill(pid: int) -> float:
    at = time.time()
    os.kill(pid, signal.SIGKILL)
    return at


def _listed(names: dict[str, int]) -> str:
    return ", ".join(names) or "nothing"
