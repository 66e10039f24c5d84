"""Runs a short program again and again, each time killed at another of its statements.

Nothing in the product knows of this: `sqlite3.connect` is told to make connections that count.

Each stage of a run (prepare, act, look) is a process of its own, forked from this one, which never
has a connection. Killing a process loses nothing that it has written, so nothing is synced here.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import shutil
import signal
import sqlite3
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from slothqueue import Sloth
from slothqueue.models import ENDED

from ..filing import check_filing, rows
from .support import (
    Ahead,
    audit,
    check_effects,
    finish,
    writer_gets_in,
)


class Fuse:
    """Kills its own process at the n-th step that it sees once it is armed."""

    def __init__(self, when: str, n: int) -> None:
        self.when, self.last, self.armed, self.seen = when, n, False, 0
        self._numbers = itertools.count(1)  # threads take their numbers from it one at a time

    def step(self, action: Callable[..., Any], *args: Any) -> Any:
        if not self.armed:
            return action(*args)
        number = self.seen = next(self._numbers)
        if self.when == "before" and number == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return action(*args)
        finally:  # a statement that failed was one, too
            if self.when == "after" and number == self.last:
                os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        """Have all connections that are made from now on, and flushes, count."""
        fuse = self

        class Cursor(sqlite3.Cursor):
            def execute(self, *args: Any) -> Any:
                return fuse.step(super().execute, *args)

            def executemany(self, *args: Any) -> Any:
                return fuse.step(super().executemany, *args)

        class Connection(sqlite3.Connection):
            def cursor(self, *args: Any, **options: Any) -> Any:
                return super().cursor(Cursor)

            def commit(self) -> None:
                fuse.step(super().commit)

        connect = functools.partial(sqlite3.connect, factory=Connection)
        sqlite3.connect = connect  # type: ignore[assignment]
        flush, unlink = os.fdatasync, os.unlink
        os.fdatasync = lambda fd: fuse.step(flush, fd)
        os.unlink = lambda path, **options: fuse.step(functools.partial(unlink, **options), path)


class Stage:
    """What a program has in its hands."""

    def __init__(self, folder: Path, clock: Ahead, fuse: Fuse | None = None) -> None:
        self.folder, self.clock, self.fuse = folder, clock, fuse
        self.path = str(folder / "work.db")
        self.sloth = Sloth(self.path, clock=clock)
        self.note: Any = None

    def arm(self) -> None:
        """From here on every statement may be the last."""
        if self.fuse is not None:
            self.fuse.armed = True

    def tell(self, *words: Any) -> None:
        """Confirm something to the world outside: from now on it must never be lost."""
        with open(self.folder / "confirmed", "a") as file:
            file.write(json.dumps(words) + "\n")

    def confirmed(self, what: str) -> list[Any]:
        try:
            lines = (self.folder / "confirmed").read_text().splitlines()
        except FileNotFoundError:
            return []
        told = [json.loads(line) for line in lines]
        return [words[1] for words in told if words[0] == what]


Program = Callable[[Stage], Any]


class Scenario(NamedTuple):
    act: Program
    prepare: Program | None = None
    look: Program | None = None
    """What must hold beside the rest, after a healthy program has done what was left."""
    ahead: float = 0
    """How much later than the preparation it happens, in seconds of the machine running."""
    rest: Program | None = None
    """How the rest is done, if not by hand."""
    dies: bool = False
    """Whether the preparing process is killed as it stands."""
    stays: Callable[[Any], None] | None = None
    """What the preparing process, which lives on meanwhile, does at the very end."""
    effects: bool = True
    ends: tuple[str, ...] = ("done", "failed")
    """The states in which jobs may be at the very end."""


SCENARIOS: dict[str, Scenario] = {}


def scenario(**options: Any) -> Callable[[Program], Program]:
    def add(act: Program) -> Program:
        SCENARIOS[act.__name__] = Scenario(act, **options)
        return act

    return add


# ---- running them -------------------------------------------------------------------------------


def in_process(program: Callable[[], Any]) -> tuple[int, Any]:
    """Run it in a process of its own; its pid, and where it reports."""
    ear, mouth = os.pipe()
    pid = os.fork()
    if pid:
        os.close(mouth)
        return pid, os.fdopen(ear)
    os.close(ear)
    code, told = 1, ""
    try:
        told, code = json.dumps(program()), 0
    except BaseException:
        told = traceback.format_exc()
    os.write(mouth, told.encode()[:60_000])
    os._exit(code)


def outcome(pid: int, ear: Any) -> tuple[int, str]:
    """How it ended: exit code, or the signal negated; and its report."""
    with ear:
        told = ear.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), told


def ran(program: Callable[[], Any]) -> tuple[int, str]:
    return outcome(*in_process(program))


class Failed(Exception):
    """A stage did not end as it should; the report says why."""


def well(what: str, code: int, told: str, expected: int = 0) -> Any:
    if code != expected:
        raise Failed(f"{what} ended with {code}: {told}")
    return json.loads(told) if told else None


class Preparation:
    """The process that prepares. It ends, is killed, or lives on until the end."""

    def __init__(self, one: Scenario, folder: Path) -> None:
        self.one = one
        self.gate, self.key = os.pipe()
        self.pid, self.ear = in_process(lambda: self._run(folder))

    def _run(self, folder: Path) -> None:
        os.close(self.key)
        stage = Stage(folder, Ahead())
        held = self.one.prepare(stage) if self.one.prepare else None
        if self.one.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.one.stays is None:
            stage.sloth.close()
            return
        (folder / "ready").touch()
        os.read(self.gate, 1)  # ends when the others are through
        self.one.stays(held)

    def wait(self, folder: Path) -> None:
        if self.one.stays is None:
            self.end()
            return
        while not (folder / "ready").exists() and os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            os.sched_yield()

    def end(self) -> None:
        os.close(self.key)
        os.close(self.gate)
        code, told = outcome(self.pid, self.ear)
        well("prepare", code, told, -signal.SIGKILL if self.one.dies else 0)


def act(one: Scenario, folder: Path, fuse: Fuse) -> int:
    fuse.install()
    stage = Stage(folder, Ahead(one.ahead), fuse)
    one.act(stage)
    stage.sloth.close()
    return fuse.seen


def look(one: Scenario, folder: Path) -> None:
    """The dead are in nobody's way, a healthy program does the rest, and all is as it must be."""
    stage = Stage(folder, Ahead(one.ahead))
    if os.path.exists(stage.path):
        writer_gets_in(stage.path)
        if rows(stage.path, "select 1 from sqlite_master where name = '_sloth_gone'"):
            check_filing(stage.path)
    if one.rest is None:
        finish(stage.sloth, stage.clock)
    else:
        one.rest(stage)
    jobs = audit(stage.sloth)
    assert {job.state for job in jobs.values()} <= set(one.ends), jobs
    lost = [id for id in stage.confirmed("enqueued") if id not in jobs]
    assert not lost, f"confirmed and lost: {lost}"
    for state in ENDED:
        wrong = [id for id in stage.confirmed(state) if jobs[id].state != state]
        assert not wrong, f"confirmed as {state}, and is not: {wrong}"
    if one.effects:
        check_effects(stage.path, jobs)
    if one.look is not None:
        one.look(stage)
    stage.sloth.close()


def run_once(one: Scenario, folder: Path, when: str, n: int) -> int | None:
    """One run; how many statements there were if it ended alive."""
    preparation = Preparation(one, folder)
    try:
        preparation.wait(folder)
        code, told = ran(lambda: act(one, folder, Fuse(when, n)))
        seen = None if code == -signal.SIGKILL else well("act", code, told)
        well("look", *ran(lambda: look(one, folder)))
    finally:
        if one.stays is not None:
            preparation.end()
    return seen


def main(name: str, when: str, step: int, folder: Path) -> None:
    one, points, seen = SCENARIOS[name], 0, None
    failures: list[str] = []
    n = 1
    while seen is None and n < 5_000 and len(failures) < 3:
        place = folder / f"{when}-{n}"
        place.mkdir(parents=True)
        try:
            seen = run_once(one, place, when, n)
            shutil.rmtree(place)
        except Failed as error:
            failures.append(f"{when} statement {n}: {error}")
        points, n = points + 1, n + step
    print(json.dumps({"kills": points - 1, "statements": seen, "failures": failures}))
