"""The clock that moves when told, and what it is a model of."""

from __future__ import annotations

import pytest

from slothqueue import ManualClock
from slothqueue.clock import SystemClock


def reading(clock: ManualClock) -> tuple[int, int, int, str]:
    return clock.wall(), clock.awake(), clock.elapsed(), clock.boot()


def moved(clock: ManualClock, before: tuple[int, int, int, str]) -> tuple[int, int, int]:
    """By how much wall, awake and elapsed time have moved."""
    after = reading(clock)
    return after[0] - before[0], after[1] - before[1], after[2] - before[2]


@pytest.mark.parametrize(
    ("move", "expected"),
    [
        (lambda clock: clock.advance(1.5), (1500, 1500, 1500)),
        (lambda clock: clock.suspend(60), (60_000, 0, 60_000)),
        (lambda clock: clock.step_wall(3600), (3_600_000, 0, 0)),
        (lambda clock: clock.step_wall(-3600), (-3_600_000, 0, 0)),
        (lambda clock: clock.advance(0.001), (1, 1, 1)),
    ],
    ids=["advance", "suspend", "forward", "back", "a millisecond"],
)
def test_each_move_moves_what_it_says(move, expected):
    clock = ManualClock()
    before = reading(clock)
    move(clock)
    assert moved(clock, before) == expected
    assert clock.boot() == before[3]


def test_a_restart_begins_the_counts_anew_and_has_another_name():
    clock = ManualClock()
    clock.advance(10_000)
    wall, _, _, boot = reading(clock)
    clock.reboot(45)
    assert clock.wall() == wall + 45_000
    assert clock.awake() == clock.elapsed() < 10_000
    assert clock.boot() != boot


def test_it_stands_still_unless_told():
    clock = ManualClock(wall=5_000)
    assert reading(clock) == reading(clock)
    assert clock.wall() == 5_000


def test_every_move_wakes_those_who_wait_until_they_leave():
    clock, calls = ManualClock(), []
    leave = clock.subscribe(lambda: calls.append(clock.wall()))
    clock.advance(1)
    clock.suspend(1)
    clock.step_wall(-1)
    clock.reboot()
    assert len(calls) == 4
    leave()
    leave()
    clock.advance(1)
    assert len(calls) == 4


def test_the_clock_of_the_machine_counts_and_knows_its_boot():
    clock = SystemClock()
    first = (clock.awake(), clock.elapsed())
    assert clock.awake() >= first[0]
    assert clock.elapsed() >= first[1]
    assert clock.boot() == SystemClock().boot() != ""
    assert clock.wall() > 1_700_000_000_000
    clock.subscribe(lambda: None)()
