"""Bells, and the herald's decisions played through in many orders. No process, no sleep."""

from __future__ import annotations

import os
import random
import threading

import pytest

from slothqueue import kernel
from slothqueue.herald import HERALD, Herald
from slothqueue.senses import Watches, digest
from slothqueue.waiting import Bell, BellFile


def test_a_ring_between_the_look_and_the_wait_is_not_slept_through():
    bell = Bell()
    mark = bell.mark()
    bell.ring()
    assert bell.wait(mark, None)


def test_a_ring_before_the_mark_wakes_nobody():
    bell = Bell()
    bell.ring()
    assert not bell.wait(bell.mark(), 0)


def test_every_waiter_is_woken_by_one_ring():
    bell = Bell()
    mark = bell.mark()
    woken: list[bool] = []
    waiters = [threading.Thread(target=lambda: woken.append(bell.wait(mark, 5))) for _ in range(8)]
    for waiter in waiters:
        waiter.start()
    bell.ring()
    for waiter in waiters:
        waiter.join(5)
    assert woken == [True] * 8


def test_a_subscriber_is_called_on_each_ring_until_it_leaves():
    bell = Bell()
    calls: list[int] = []
    leave = bell.subscribe(lambda: calls.append(bell.mark()))
    bell.ring()
    bell.ring()
    leave()
    bell.ring()
    leave()
    assert calls == [1, 2]
    assert repr(bell) == "Bell(rung=3, subscribers=0)"


def raises() -> None:
    raise RuntimeError("a broken subscriber")


def test_a_broken_subscriber_does_not_keep_the_others_asleep():
    bell = Bell()
    calls: list[str] = []
    bell.subscribe(raises)
    bell.subscribe(lambda: calls.append("woken"))
    bell.ring()
    assert calls == ["woken"]


def test_a_waiter_may_ring_from_within_the_lock():
    bell = Bell()
    with bell._rung:  # as a signal handler would that interrupts a waiter
        bell.ring()
    assert bell.mark() == 1


def test_the_bell_file_is_private_and_never_grows(tmp_path):
    bell = BellFile(str(tmp_path))
    assert bell.ring() and bell.ring()
    status = os.stat(bell.path)
    assert (status.st_size, status.st_mode & 0o777) == (1, 0o600)
    bell.close()


def test_a_commit_that_nobody_waits_for_rings_nobody(tmp_path):
    bell, other = BellFile(str(tmp_path)), BellFile(str(tmp_path))
    bell.ring_if_wanted()
    quiet = os.stat(bell.path).st_mtime_ns
    bell.ring_if_wanted()
    assert os.stat(bell.path).st_mtime_ns == quiet

    other.want()
    bell.ring_if_wanted()
    rung = os.stat(bell.path).st_mtime_ns
    assert rung > quiet

    bell.ring_if_wanted()  # whoever was woken has to want it again
    assert os.stat(bell.path).st_mtime_ns == rung
    bell.close()
    other.close()


def test_ringing_never_raises_and_remembers_why_it_failed(tmp_path):
    bell = BellFile(str(tmp_path / "nowhere"))
    assert not bell.ring()
    assert isinstance(bell.error, FileNotFoundError)


def test_a_bell_file_that_was_replaced_is_opened_anew(tmp_path):
    bell = BellFile(str(tmp_path))
    bell.ring()
    os.unlink(bell.path)
    assert bell.ring() and os.path.exists(bell.path)
    bell.close()


def test_a_bell_file_whose_directory_was_moved_away_is_opened_anew(tmp_path):
    live = tmp_path / "live"
    live.mkdir()
    bell = BellFile(str(live))
    bell.ring()
    live.rename(tmp_path / "old")
    live.mkdir()
    assert bell.ring()
    assert (live / "bell").exists()
    bell.close()


def test_closing_twice_is_closing_once_and_a_ring_opens_again(tmp_path):
    bell = BellFile(str(tmp_path))
    bell.ring()
    bell.close()
    bell.close()
    assert repr(bell).endswith("open=False)")
    assert bell.ring()
    bell.close()


def test_the_kernels_events_are_read_as_they_were_written():
    header = kernel._HEADER.pack
    data = (
        header(1, kernel.IN_MODIFY, 0, 0)
        + header(2, kernel.IN_DELETE, 0, 16)
        + b"a.lock"
        + b"\0" * 10
    )
    assert kernel.parse(data) == [(1, kernel.IN_MODIFY, ""), (2, kernel.IN_DELETE, "a.lock")]


def test_events_are_told_apart_by_their_watch_and_name():
    watches = Watches(live=1, bell=2, directory=4, names=frozenset({"w.db-wal"}))
    close = kernel.IN_CLOSE_WRITE

    def told(*events):
        return digest([kernel.Notice(*event) for event in events], watches)

    assert told((2, kernel.IN_MODIFY, "")).rung
    assert told((3, kernel.IN_MODIFY, "")).written
    assert told((9, kernel.IN_MODIFY, "")).written  # by a watch that has been renewed since
    assert told((4, kernel.IN_CREATE, "w.db-wal")).written
    assert not any(told((4, kernel.IN_CREATE, "notes.txt"))[:4])
    assert told((1, close, "a.lock"), (1, close, HERALD), (1, close, "x")).suspects == {
        "a.lock",
        HERALD,
    }
    assert told((1, kernel.IN_DELETE, "bell")).lost_bell and not told((1, close, "bell")).lost_bell
    assert told((1, kernel.IN_IGNORED, "")).moved
    assert told((-1, kernel.IN_Q_OVERFLOW, "")).overflow


class World:
    """Writers that hold one lock, and a kernel that tells the herald of them some time later.

    Whenever the herald does anything the writers may take any number of steps, by the dice.
    """

    def __init__(self, seed: int, herald: type[Herald] = Herald) -> None:
        self.dice = random.Random(seed)
        self.haste = self.dice.choice([0.4, 0.5, 0.6])
        self.log: list[str] = []
        self.events: list[str] = []
        self.locked_by: int | None = None
        self.armed = True
        self.visible = 0
        self.alarms = self.settlings = 0
        foreign = ["lock", "write", "write", "visible", "unlock"]
        self.writers = [list(foreign), [*foreign, "ring"]]
        if self.dice.random() < 0.4:
            self.writers.append(list(self.dice.choice(self.writers)))
        self.herald = herald(self)

    def step_of_a_writer(self) -> None:
        able = [n for n, steps in enumerate(self.writers) if steps and self.may(n, steps[0])]
        if not able:
            return
        writer = self.dice.choice(able)
        self.do(writer, self.writers[writer].pop(0))

    def may(self, writer: int, step: str) -> bool:
        return step != "lock" or self.locked_by is None

    def do(self, writer: int, step: str) -> None:
        if step == "lock":
            self.locked_by = writer
        elif step == "unlock":
            self.locked_by = None
        elif step == "visible":
            self.visible += 1
            self.log.append("visible")
        elif step == "ring":
            self.ring()
        elif self.armed:
            self.armed = False
            self.events.append("written")

    def others(self) -> None:
        while self.dice.random() < self.haste:
            self.step_of_a_writer()

    def version(self) -> int:
        self.others()
        self.armed = True
        self.others()
        version = self.visible
        self.others()
        return version

    def ring(self) -> None:
        self.log.append("ring")
        self.events.append("rung")

    def drain(self) -> None:
        events, self.events = self.events, []
        if "rung" in events:
            self.herald.rung()
        if "written" in events:
            self.herald.written()

    def alarm(self, seconds: float) -> None:
        self.alarms = 1

    def settle(self) -> None:
        self.settlings = 1

    def try_to_settle(self) -> None:
        if self.settlings == 1 and self.locked_by is None:
            self.settlings = 2

    def turn(self) -> None:
        """One thing happens to the herald, or none."""
        self.others()
        what = self.dice.choice(["events", "alarm", "settle", "settled"])
        if what == "events":
            self.drain()
        elif what == "alarm" and self.alarms:
            self.alarms = 0
            self.herald.alarmed()
        elif what == "settle":
            self.try_to_settle()
        elif what == "settled" and self.settlings == 2:
            self.settlings = 0
            self.herald.settled(None)

    def at_rest(self) -> bool:
        return not (any(self.writers) or self.events or self.alarms or self.settlings)

    def play(self) -> bool:
        """Until all is quiet. Whether somebody rang after the last commit became visible."""
        while not self.at_rest():
            self.turn()
        return "ring" in self.log[len(self.log) - self.log[::-1].index("visible") :]


def lost(herald: type[Herald] = Herald, world: type[World] = World, games: int = 3000) -> int:
    return sum(not world(seed, herald).play() for seed in range(games))


def test_the_herald_loses_no_commit_in_any_order_of_events():
    assert lost() == 0


class WithoutSettling(Herald):
    def alarmed(self) -> None:
        super().alarmed()
        if self._state == "settling":
            self._state = "idle"


class SettlesOnlyIfNothingIsNew(Herald):
    """The plausible rule: a version that changed needs no settling."""

    new = False

    def _look(self) -> None:
        before = self._seen
        super()._look()
        self.new = self._seen != before

    def alarmed(self) -> None:
        super().alarmed()
        if self._state == "settling" and self.new:
            self._state = "idle"


class CountsOldRings(Herald):
    def _look(self) -> None:
        self._more = False
        self._state = "gathering"
        version = self._deeds.version()
        self._owed = version != self._seen
        self._seen = version
        self._deeds.alarm(0)


class WatchesOnce(World):
    def version(self) -> int:
        self.others()
        return self.visible


@pytest.mark.parametrize("fault", [WithoutSettling, SettlesOnlyIfNothingIsNew, CountsOldRings])
def test_a_herald_with_a_fault_is_seen_to_lose_commits(fault):
    assert lost(fault, games=10_000) > 0


def test_a_watch_that_is_never_renewed_is_seen_to_lose_commits():
    assert lost(world=WatchesOnce) > 0


class Sick(World):
    """A database that cannot be read for a while."""

    def version(self) -> int:
        if self.dice.random() < 0.5:
            raise OSError("cannot be read")
        return super().version()


def test_a_database_that_cannot_be_read_for_a_while_costs_no_commit():
    assert lost(world=Sick, games=1000) == 0


def test_a_settling_that_fails_is_tried_again():
    world = World(seed=1)
    world.writers = []
    world.herald.written()
    world.herald.alarmed()
    world.alarms = 0
    world.herald.alarmed()
    world.herald.settled(TimeoutError())
    assert (world.herald._state, world.alarms) == ("resting", 1)
    assert world.log == ["ring", "ring"]


def test_a_blind_herald_looks_on_a_timer():
    world = World(seed=1)
    world.writers = []
    world.herald.blind = True
    world.herald.written()
    world.herald.alarmed()
    world.herald.alarmed()
    world.herald.settled(None)
    assert world.herald._state == "resting"
    world.visible += 1
    world.herald.alarmed()
    world.herald.alarmed()
    assert world.log == ["ring", "ring"]
