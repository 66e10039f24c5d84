"""A store across `fork`: each side has connections, leases and a name of its own."""

from __future__ import annotations

import json
import multiprocessing
import os
import select
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from slothqueue import Job, LeaseLost, Sloth, WrongState

from .forking import PATIENCE, forked, refused, report
from .telling import kinds, reasons

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
OpenSloth = Callable[..., Sloth]


def test_what_both_sides_commit_is_there(open_sloth: OpenSloth):
    sloth = open_sloth()
    sloth.queue("q").enqueue("before")

    def child() -> list[Any]:
        sloth.queue("q").enqueue("child")
        sloth.queue("of the child").enqueue_many([1, 2])
        return sorted(job.payload for job in sloth.jobs(queue="q"))

    assert forked(child) == ["before", "child"]
    sloth.queue("q").enqueue("parent")
    assert forked(lambda: len(sloth.jobs())) == 5
    payloads = [str(job.payload) for job in open_sloth().jobs()]
    assert sorted(payloads) == ["1", "2", "before", "child", "parent"]


def enqueue_thirty(sloth: Sloth, who: object) -> list[int]:
    return [sloth.queue("q").enqueue([who, n]).id for n in range(30)]


def test_both_sides_write_at_once_and_nothing_is_lost(open_sloth: OpenSloth):
    sloth = open_sloth(durability="full")
    sloth.queue("q").enqueue("before")
    ear, mouth = os.pipe()
    children = []
    for n in range(3):
        pid = os.fork()
        if pid == 0:
            report(mouth, partial(enqueue_thirty, sloth, n))
        children.append(pid)
    mine = enqueue_thirty(sloth, "parent")
    os.close(mouth)
    for pid in children:
        assert os.waitpid(pid, 0)[1] == 0
    with open(ear, "rb") as reports:
        told = reports.read().decode()
    theirs = [json.loads(part + "}")["value"] for part in told.split("}")[:-1]]
    ids = [*mine, *(id for part in theirs for id in part)]
    assert len(ids) == len(set(ids)) == 120
    stored = {job.id for job in open_sloth().jobs(limit=1000)}
    assert set(ids) < stored
    assert len(stored) == 121


def test_the_leases_of_the_parent_stay_the_parents(open_sloth: OpenSloth):
    sloth, other = open_sloth(), open_sloth()
    job = sloth.queue("q", lease="9h").enqueue(1)
    lease = sloth.queue("q").claim()
    assert lease is not None

    def child() -> list[Any]:
        # It is somebody else: it can take nothing from its living parent.
        return [sloth.queue("q").claim() is None, sloth.queue("other").claim() is None]

    assert forked(child) == [True, True]
    assert forked(lambda: None) is None
    assert forked(lambda: sloth.close()) is None
    assert other.queue("q").claim() is None
    lease.heartbeat()
    lease.complete()
    assert kinds(job) == ["enqueued", "claimed", "completed"]


def test_a_child_that_ends_loses_its_own_leases_only(open_sloth: OpenSloth):
    sloth = open_sloth()
    first, second = sloth.queue("q", lease="9h").enqueue_many([1, 2])
    mine = sloth.queue("q").claim()
    assert mine is not None

    def child() -> int:
        lease = sloth.queue("q").claim()
        return lease.id if lease else 0

    assert forked(child) == second.id
    again = sloth.queue("q").claim()
    assert again is not None
    assert (again.id, again.attempt) == (second.id, 2)
    assert (reasons(second), reasons(first)) == (["gone"], [])
    mine.complete()
    again.complete()


def test_a_child_settles_what_it_claimed(open_sloth: OpenSloth):
    sloth = open_sloth()
    job = sloth.queue("q").enqueue(1)

    def child() -> str:
        lease = sloth.queue("q").wait(timeout=0)
        lease.complete("by the child")
        return job.refresh().state

    assert forked(child) == "done"
    assert job.result() == "by the child"


def test_the_lease_of_the_parent_is_refused_to_nobody_but_counts_once(open_sloth: OpenSloth):
    sloth = open_sloth()
    job = sloth.queue("q").enqueue(1)
    lease = sloth.queue("q").claim()
    assert lease is not None

    def child() -> str:
        lease.complete("by the child")  # a lease is a value; who has it may settle it
        return "done"

    assert forked(child) == "done"
    with pytest.raises(LeaseLost):
        lease.complete("by the parent")
    assert job.result() == "by the child"


def test_a_handle_that_was_never_used_may_be_used_on_both_sides(open_sloth: OpenSloth):
    sloth = open_sloth()
    assert forked(lambda: sloth.queue("q").enqueue("child").id) == 1
    assert sloth.queue("q").enqueue("parent").id == 2


def test_a_child_of_a_child_is_fine_too(open_sloth: OpenSloth):
    sloth = open_sloth()
    sloth.queue("q").enqueue("before")

    def child() -> list[int]:
        mine = sloth.queue("q").enqueue("child").id
        return [mine, forked(lambda: sloth.queue("q").enqueue("grandchild").id)]

    assert forked(child) == [2, 3]
    assert len(sloth.jobs()) == 3


def test_who_waits_in_the_parent_goes_on_waiting(open_sloth: OpenSloth, aside: Callable[..., Any]):
    sloth = open_sloth()
    waiter = aside(lambda: sloth.queue("q").wait().payload)
    assert not waiter.over(0.05)
    assert forked(lambda: sloth.queue("q").enqueue("from the child").id) == 1
    assert waiter.value(within=10) == "from the child"


def test_who_waits_in_the_child_is_woken_by_the_parent(open_sloth: OpenSloth):
    sloth = open_sloth()
    sloth.queue("q").enqueue("before")
    ear, mouth = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ear)
        report(mouth, lambda: [sloth.queue("q").wait().payload for _ in range(2)])
    os.close(mouth)
    sloth.queue("q").enqueue("from the parent")
    ready, _, _ = select.select([ear], [], [], 10)
    if not ready:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with open(ear, "rb") as answer:
        assert json.loads(answer.read() or "null") == {"value": ["before", "from the parent"]}


def test_a_fork_inside_a_transaction_is_refused_in_the_child(open_sloth: OpenSloth):
    sloth = open_sloth()
    with sloth.transaction() as tx:
        tx.queue("q").enqueue("inside")
        told = forked(
            lambda: [
                refused(lambda: sloth.queue("q").enqueue(1)),
                refused(lambda: sloth.jobs()),
                refused(lambda: tx.queue("q").enqueue(1)),
            ]
        )
        tx.queue("q").enqueue("after it")
    assert all("fork" in message for message in told), told
    assert [job.payload for job in sloth.jobs()] == ["inside", "after it"]


def test_a_child_that_leaves_the_block_touches_nothing_of_its_parents_transaction(
    open_sloth: OpenSloth,
):
    sloth = open_sloth()
    sloth.queue("q").enqueue("before")
    for leave in (lambda: None, lambda: sys.exit(3)):
        pid = -1
        try:
            with sloth.transaction() as tx:
                tx.queue("q").enqueue("inside")
                pid = os.fork()
                if pid == 0:
                    leave()
                else:
                    assert os.waitpid(pid, 0)[1] == 0
                    tx.queue("q").enqueue("after the child")
        except (WrongState, SystemExit):
            if pid != 0:
                raise
            os._exit(0)
        if pid == 0:
            os._exit(1)  # it was not refused
    payloads = [job.payload for job in open_sloth().jobs()]
    assert payloads == ["before", *["inside", "after the child"] * 2]


def _in_a_process(sloth: Sloth, answers: Any) -> None:
    job: Job = sloth.queue("q").enqueue("from the process")
    lease = sloth.queue("q").claim()
    answers.put([job.id, lease and lease.payload])


def test_a_process_of_multiprocessing_by_fork_is_one_more_child(open_sloth: OpenSloth):
    sloth = open_sloth()
    sloth.queue("q").enqueue("before")
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    process = context.Process(target=_in_a_process, args=(sloth, answers))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 0
    assert answers.get() == [2, "before"]
    lease = sloth.queue("q").claim()
    assert lease is not None
    assert (lease.payload, lease.attempt) == ("before", 2)
    process.close()
