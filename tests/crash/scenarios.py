"""Short programs that are killed at each of their statements; and what must hold then.

    python -m tests.crash.scenarios NAME (before|after) STEP FOLDER

In the first run the program is killed at the first statement, in the next at the one `STEP` after
that, and so on until it ends alive. Prints one line of JSON.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

from slothqueue import LeaseLost
from slothqueue.storage import checkpoints

from . import scenarios_waits, support_tasks
from .support import EFFECTS, complete_with_effect, finish, rows
from .support_kills import Program, Stage, main, scenario

HOUR = 3600.0
MORE = (scenarios_waits,)
"""Where other scenarios are: to import them is to have them."""


# ---- enqueue ------------------------------------------------------------------------------------


def open_store(stage: Stage) -> None:
    with stage.sloth.transaction() as tx:
        tx.execute(EFFECTS)


def three_jobs(stage: Stage) -> None:
    open_store(stage)
    stage.sloth.queue("mail").enqueue_many([1, 2, 3])


@scenario(prepare=open_store)
def enqueue(stage: Stage) -> None:
    stage.sloth.stats()
    stage.arm()
    mail = stage.sloth.queue("mail")
    for options in ({}, {"delay": "1h"}, {"priority": 3}):
        stage.tell("enqueued", mail.enqueue({"n": 1}, **options).id)


def all_or_none(stage: Stage) -> None:
    assert len(stage.sloth.jobs()) in (0, 20)


@scenario(prepare=open_store, look=all_or_none)
def enqueue_many(stage: Stage) -> None:
    stage.sloth.stats()
    stage.arm()
    for job in stage.sloth.queue("mail").enqueue_many(list(range(20))):
        stage.tell("enqueued", job.id)


def orders(stage: Stage) -> None:
    open_store(stage)
    with stage.sloth.transaction() as tx:
        tx.execute("create table orders (id integer primary key)")


def as_many_jobs_as_orders(stage: Stage) -> None:
    ordered = {row[0] for row in rows(stage.path, "select id from orders")}
    assert {job.payload["order"] for job in stage.sloth.jobs()} == ordered


@scenario(prepare=orders, look=as_many_jobs_as_orders)
def enqueue_with_rows(stage: Stage) -> None:
    stage.arm()
    for order in (1, 2):
        with stage.sloth.transaction() as tx:
            tx.execute("insert into orders values (?)", (order,))
            job = tx.queue("mail").enqueue({"order": order})
        stage.tell("enqueued", job.id)


# ---- claim and end ------------------------------------------------------------------------------


@scenario(prepare=three_jobs)
def claim_and_complete(stage: Stage) -> None:
    stage.sloth.stats()
    stage.arm()
    mail = stage.sloth.queue("mail")
    while lease := mail.claim():
        complete_with_effect(stage.sloth, lease)
        stage.tell("done", lease.id)


@scenario(prepare=three_jobs)
def effect_apart(stage: Stage) -> None:
    """Wrong on purpose: who is killed between the two has done it, and does it again."""
    stage.sloth.stats()
    stage.arm()
    for lease in stage.sloth.queue("mail").claim_many(3):
        with stage.sloth.transaction() as tx:
            tx.execute("insert into effects values (?, ?)", (lease.id, lease.attempt))
        lease.complete()


@scenario(prepare=three_jobs, effects=False)
def complete_plainly(stage: Stage) -> None:
    stage.sloth.stats()
    stage.arm()
    first, *others = stage.sloth.queue("mail").claim_many(3)
    first.heartbeat()
    first.complete({"sent": True}, "sent")
    stage.tell("done", first.id)
    for lease in stage.sloth.queue("mail").complete_many(others):
        stage.tell("done", lease.id)


def had_failures(stage: Stage) -> None:
    for id in stage.confirmed("attempt failed"):
        assert [event.kind for event in stage.sloth.job(id).events()].count("failed_attempt") == 1


@scenario(prepare=three_jobs, look=had_failures)
def fail_to_retry(stage: Stage) -> None:
    stage.sloth.stats()
    stage.arm()
    for lease in stage.sloth.queue("mail").claim_many(2):
        lease.fail("boom") if lease.id == 1 else lease.retry("5m", "busy")
        stage.tell("attempt failed", lease.id)


def one_attempt_each(stage: Stage) -> None:
    open_store(stage)
    stage.sloth.queue("mail", max_attempts=1).enqueue_many([1, 2])


@scenario(prepare=one_attempt_each)
def fail_for_good(stage: Stage) -> None:
    stage.sloth.stats()
    stage.arm()
    for lease in stage.sloth.queue("mail").claim_many(2):
        lease.fail("boom")
        stage.tell("failed", lease.id)


@scenario(prepare=three_jobs)
def give_back(stage: Stage) -> None:
    stage.sloth.stats()
    stage.arm()
    one, two, three = stage.sloth.queue("mail").claim_many(3)
    one.snooze("5m")
    two.release()
    three.discard("bad address")
    stage.tell("failed", three.id)


# ---- reclaim and promote ------------------------------------------------------------------------


def claim_them(stage: Stage) -> list[Any]:
    three_jobs(stage)
    return stage.sloth.queue("mail").claim_many(3)


def reclaimed_once_as(reason: str) -> Program:
    def look(stage: Stage) -> None:
        for job in stage.sloth.jobs():
            reasons = [event.reason for event in job.events() if event.kind == "reclaimed"]
            assert reasons[0] == reason and set(reasons[1:]) <= {"gone"}, reasons

    return look


@scenario(prepare=claim_them, dies=True, look=reclaimed_once_as("gone"))
def reclaim_from_the_dead(stage: Stage) -> None:
    stage.sloth.stats()
    stage.arm()
    for lease in stage.sloth.queue("mail").claim_many(3):
        complete_with_effect(stage.sloth, lease)
        stage.tell("done", lease.id)


def claim_one_last_time(stage: Stage) -> list[Any]:
    one_attempt_each(stage)
    return stage.sloth.queue("mail").claim_many(2)


@scenario(prepare=claim_one_last_time, dies=True, look=reclaimed_once_as("gone"))
def reclaim_for_the_last_time(stage: Stage) -> None:
    stage.sloth.stats()
    stage.arm()
    assert stage.sloth.queue("mail").claim() is None
    for job in stage.sloth.jobs():
        stage.tell("failed", job.id)


def is_too_late(leases: list[Any]) -> None:
    for lease in leases:
        try:
            lease.complete()
        except LeaseLost:
            continue
        raise AssertionError(f"{lease} was still good")


@scenario(prepare=claim_them, ahead=90, stays=is_too_late, look=reclaimed_once_as("silent"))
def reclaim_from_the_silent(stage: Stage) -> None:
    stage.sloth.stats()
    stage.arm()
    for lease in stage.sloth.queue("mail").claim_many(3):
        complete_with_effect(stage.sloth, lease)
        stage.tell("done", lease.id)


def jobs_for_later(stage: Stage) -> None:
    open_store(stage)
    stage.sloth.queue("mail").enqueue_many([1, 2, 3], delay="1h")


@scenario(prepare=jobs_for_later, ahead=2 * HOUR)
def promote(stage: Stage) -> None:
    stage.sloth.stats()
    stage.arm()
    for lease in stage.sloth.queue("mail").claim_many(2):
        complete_with_effect(stage.sloth, lease)
        stage.tell("done", lease.id)


def delays_have_not_grown(stage: Stage) -> None:
    asked = json.loads((stage.folder / "asked").read_text())
    for job in stage.sloth.jobs():
        assert abs(job.run_at.timestamp() - asked + 12 * HOUR) < 5, job.run_at


def jobs_in_an_hour(stage: Stage) -> None:
    jobs_for_later(stage)
    asked = stage.clock.wall() / 1000 + HOUR
    (stage.folder / "asked").write_text(json.dumps(asked))


def by_the_clock_that_was_set_back(stage: Stage) -> None:
    stage.clock.step_wall(-12 * HOUR)
    finish(stage.sloth, stage.clock)


@scenario(prepare=jobs_in_an_hour, rest=by_the_clock_that_was_set_back, look=delays_have_not_grown)
def set_the_clock_back(stage: Stage) -> None:
    stage.sloth.stats()
    stage.clock.step_wall(-12 * HOUR)
    stage.arm()
    assert stage.sloth.queue("mail").claim() is None


# ---- the store itself ---------------------------------------------------------------------------


def options_are_whole(stage: Stage) -> None:
    now = tuple(stage.sloth.queue("mail").options)
    asked = ((4, 2.0, 3_600_000, None), (7, 3.0, 60_000, 30_000), (2, 3.0, 60_000, None))
    assert now[:4] in asked, now
    changes = rows(stage.path, "select detail from _sloth_queue_change")
    assert len(changes) == (now[0] == 2), changes


@scenario(prepare=open_store, look=options_are_whole)
def set_options(stage: Stage) -> None:
    stage.sloth.stats()
    stage.arm()
    stage.sloth.queue("mail", lease=30, max_attempts=7, backoff=(3, "1m"))
    stage.sloth.queue("mail", lease=None, max_attempts=2)


@scenario(prepare=three_jobs)
def register_and_leave(stage: Stage) -> None:
    stage.sloth.stats()
    stage.arm()
    assert stage.sloth.presence.id
    stage.sloth.close()
    assert stage.sloth.queue("mail").claim()


@scenario()
def migrate(stage: Stage) -> None:
    stage.arm()
    stage.tell("enqueued", stage.sloth.queue("mail").enqueue(1).id)


@scenario(prepare=three_jobs)
def open_again(stage: Stage) -> None:
    stage.arm()
    assert stage.sloth.stats()["queued"] == 3
    stage.tell("enqueued", stage.sloth.queue("mail").enqueue(4).id)


def somebody_elses_file(stage: Stage) -> None:
    connection = sqlite3.connect(stage.path)
    connection.execute("create table orders (id integer primary key)")
    connection.commit()
    connection.close()


@scenario(prepare=somebody_elses_file, look=as_many_jobs_as_orders)
def migrate_within(stage: Stage) -> None:
    stage.arm()
    connection = sqlite3.connect(stage.path)
    connection.execute("insert into orders values (1)")
    job = stage.sloth.within(connection).queue("mail").enqueue({"order": 1})
    connection.commit()
    stage.tell("enqueued", job.id)
    connection.close()


@scenario(prepare=open_store)
def checkpoint(stage: Stage) -> None:
    checkpoints.PAGES_BETWEEN = 1
    stage.sloth.stats()
    stage.arm()
    for n in range(3):
        stage.tell("enqueued", stage.sloth.queue("mail").enqueue(n).id)
    lease = stage.sloth.queue("mail").claim()
    assert lease is not None
    complete_with_effect(stage.sloth, lease)
    stage.tell("done", lease.id)


# ---- workers ------------------------------------------------------------------------------------


def note_down(stage: Stage) -> None:
    """The task and the queue by which workers are tried."""
    stage.note = stage.sloth.task(name="note", queue="work")(support_tasks.note)


def three_notes(stage: Stage) -> None:
    open_store(stage)
    note_down(stage)
    for n in (1, 2, 3):
        stage.note.enqueue(str(stage.folder / "notes"), n)


def three_commands(stage: Stage) -> None:
    open_store(stage)
    for n in (1, 2, 3):
        stage.sloth.queue("work").enqueue_command(
            ["/bin/sh", "-c", f"echo {n} >> notes"], cwd=str(stage.folder)
        )


def until_all_have_ended(stage: Stage) -> None:
    note_down(stage)
    end = time.monotonic() + 30
    while any(not job.ended for job in stage.sloth.jobs()):
        assert time.monotonic() < end, "the rest was not done in time"
        stage.sloth.worker(concurrency=2, pool="thread").run_until_idle()


def noted(stage: Stage) -> list[int]:
    assert {job.state for job in stage.sloth.jobs()} == {"done"}
    return sorted(int(line) for line in (stage.folder / "notes").read_text().split())


def each_at_least_once(stage: Stage) -> None:
    """A function that dies with its process runs again: that is what we promise, and no more."""
    assert set(noted(stage)) == {1, 2, 3}


def each_exactly_once(stage: Stage) -> None:
    """A command outlives its worker, so nothing makes it run a second time."""
    assert noted(stage) == [1, 2, 3]


def work(stage: Stage, pool: str) -> None:
    note_down(stage)
    stage.sloth.stats()
    stage.arm()
    stage.sloth.worker(concurrency=2, pool=pool).run_until_idle()


@scenario(prepare=three_notes, rest=until_all_have_ended, look=each_at_least_once, effects=False)
def work_in_threads(stage: Stage) -> None:
    work(stage, "thread")


@scenario(prepare=three_notes, rest=until_all_have_ended, look=each_at_least_once, effects=False)
def work_in_children(stage: Stage) -> None:
    work(stage, "process")


@scenario(prepare=three_commands, rest=until_all_have_ended, look=each_exactly_once, effects=False)
def work_on_commands(stage: Stage) -> None:
    work(stage, "thread")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
