"""Jobs that run after others: each way in which a parent can end, and nobody waits for ever."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slothqueue import Job, JobNotFound, ManualClock, Sloth, WrongState

from .keeping import ENDS, check_filing, delete_row, rows, take
from .running import idle
from .telling import every_job, kinds


def ended_as(sloth: Sloth, clock: ManualClock, end: str) -> tuple[Job, Callable[[], None]]:
    """A parent in its own queue that is still live, and what ends it."""
    queue = sloth.queue("parents", max_attempts=1)
    expires = 60 if end == "expired" else None
    parent = queue.enqueue("parent", expires=expires)

    def act() -> None:
        ENDS[end](sloth, parent)
        if end == "expired":
            clock.advance(61)
        if end == "cancelled while it ran":
            clock.advance(61)
        queue.claim()  # the rota looks: at the time, at the dead, at what was deleted

    return parent, act


WORDS = {
    "failed": "failed",
    "discarded": "failed",
    "cancelled": "was cancelled",
    "cancelled while it ran": "was cancelled",
    "expired": "was cancelled",
    "deleted": "was deleted",
}


@pytest.mark.parametrize("end", WORDS)
def test_a_child_is_cancelled_with_the_reason_when_its_parent_ends_badly(
    sloth: Sloth, clock: ManualClock, end: str
):
    parent, act = ended_as(sloth, clock, end)
    queue = sloth.queue("children")
    child = queue.enqueue("child", after=[parent])
    grandchild = queue.enqueue("grandchild", after=child.id)
    assert (child.refresh().blocked, queue.claim()) == (True, None)
    act()
    reason = f"its parent {parent.id} {WORDS[end]}"
    assert (child.refresh().state, child.refresh().message) == ("cancelled", reason)
    assert grandchild.refresh().message == f"its parent {child.id} was cancelled"
    assert kinds(child) == ["enqueued", "cancelled"]
    assert not child.refresh().blocked
    check_filing(sloth)


@pytest.mark.parametrize("end", ENDS)
def test_a_child_that_wants_to_runs_however_its_parent_ends(
    sloth: Sloth, clock: ManualClock, end: str
):
    parent, act = ended_as(sloth, clock, end)
    queue = sloth.queue("children")
    child = queue.enqueue("child", after=[parent], after_failed="run")
    assert queue.claim() is None
    act()
    take(sloth, child).complete()
    check_filing(sloth)


def test_a_child_runs_once_its_parent_is_done(sloth: Sloth):
    parent = sloth.queue("parents").enqueue("parent")
    child = sloth.queue("children").enqueue("child", after=parent)
    assert sloth.stats()["blocked"] == 1
    lease = take(sloth, parent)
    assert sloth.queue("children").claim() is None
    lease.complete()
    assert sloth.stats()["blocked"] == 0
    take(sloth, child)


def test_parents_that_are_completed_together_free_their_children(sloth: Sloth):
    queue = sloth.queue("parents")
    parents = queue.enqueue_many([1, 2, 3])
    child = sloth.queue("children").enqueue("child", after=parents)
    assert len(queue.complete_many(queue.claim_many(3))) == 3
    take(sloth, child)
    check_filing(sloth)


@pytest.mark.parametrize("end", [end for end in ENDS if end != "deleted"])
def test_a_parent_that_has_already_ended_counts_at_once(sloth: Sloth, clock: ManualClock, end: str):
    parent, act = ended_as(sloth, clock, end)
    act()
    child = sloth.queue("children").enqueue("child", after=parent)
    runs = sloth.queue("children").enqueue("runs", after=parent, after_failed="run")
    state = "queued" if end == "done" else "cancelled"
    assert (child.state, child.refresh().state, runs.state) == (state, state, "queued")
    assert not child.blocked
    assert len(sloth.queue("children").claim_many(5)) == 1 + (end == "done")
    check_filing(sloth)


def test_a_child_of_a_job_that_is_cancelled_as_it_comes_is_cancelled_too(sloth: Sloth):
    queue = sloth.queue("q", max_attempts=1)
    parent = queue.enqueue("parent")
    take(sloth, parent).fail("no")
    child = queue.enqueue("child", after=parent)
    assert queue.enqueue("grandchild", after=child).message == (
        f"its parent {child.id} was cancelled"
    )


def test_a_parent_that_is_pruned_strands_nobody(sloth: Sloth, clock: ManualClock):
    queue, children = sloth.queue("parents", max_attempts=1), sloth.queue("children")
    one, two = queue.enqueue_many([1, 2])
    child = children.enqueue("child", after=[one, two])
    take(sloth, one).complete()
    clock.advance(1)
    assert sloth.prune(0) == 0, "somebody waits for what it returned"
    take(sloth, two).complete()
    lease = take(sloth, child)
    lease.complete()
    clock.advance(1)
    assert sloth.prune(0) == 2, "all but the highest id"
    check_filing(sloth)


def test_a_chain_ends_at_once_with_its_head(sloth: Sloth):
    queue = sloth.queue("q")
    chain = [queue.enqueue(0)]
    for n in range(1, 200):
        chain.append(queue.enqueue(n, after=chain[-1]))
    chain[0].cancel("enough")
    assert sloth.stats()["cancelled"] == 200
    assert chain[199].refresh().message == f"its parent {chain[198].id} was cancelled"
    check_filing(sloth)


def test_the_last_of_a_diamond_waits_for_both_sides_and_ends_once(sloth: Sloth):
    queue = sloth.queue("q", max_attempts=1)
    for fails in (False, True):
        top = queue.enqueue("top")
        sides = [queue.enqueue(side, after=top) for side in ("left", "right")]
        last = queue.enqueue("last", after=sides)
        if fails:
            take(sloth, top).fail("no")
            assert kinds(last) == ["enqueued", "cancelled"]
        else:
            take(sloth, top).complete()
            take(sloth, sides[0]).complete()
            assert last.refresh().blocked
            take(sloth, sides[1]).complete()
            take(sloth, last).complete()
        check_filing(sloth)


def test_one_bad_parent_among_good_ones_is_enough(sloth: Sloth):
    parents = sloth.queue("parents", max_attempts=1).enqueue_many([1, 2, 3])
    queue = sloth.queue("children")
    child = queue.enqueue("child", after=parents)
    runs = queue.enqueue("runs", after=parents, after_failed="run")
    take(sloth, parents[0]).complete()
    take(sloth, parents[1]).fail("no")
    assert child.refresh().message == f"its parent {parents[1].id} failed"
    assert runs.refresh().blocked
    take(sloth, parents[2]).complete()
    assert [lease.id for lease in queue.claim_many(5)] == [runs.id]
    check_filing(sloth)


@pytest.mark.parametrize("how", ["complete", "fail"])
def test_a_parent_that_is_named_twice_counts_once(sloth: Sloth, how: str):
    parent = sloth.queue("parents", max_attempts=1).enqueue("parent")
    child = sloth.queue("children").enqueue("child", after=[parent, parent.id, parent])
    grandchild = sloth.queue("children").enqueue("grandchild", after=child)
    lease = take(sloth, parent)
    lease.complete() if how == "complete" else lease.fail("no")
    check_filing(sloth)
    if how == "complete":
        take(sloth, child).complete()
        take(sloth, grandchild).complete()
        return
    assert kinds(child) == kinds(grandchild) == ["enqueued", "cancelled"]


@pytest.mark.parametrize("unknown", [0, -1, 99, 2**40, 2**63 - 1, 2**63, 2**70, -(2**70)])
def test_an_unknown_parent_is_said_to_be_unknown_and_nothing_is_written(sloth: Sloth, unknown: int):
    queue = sloth.queue("q")
    parent = queue.enqueue("parent")
    before = rows(sloth, "select extras from _sloth_job")
    for after in (unknown, [unknown], [parent, unknown]):
        with pytest.raises(JobNotFound, match=f"no job {unknown}"):
            queue.enqueue("child", after=after)
        with pytest.raises(JobNotFound):
            queue.enqueue_many([1, 2], after=after)
    assert len(every_job(sloth)) == 1
    assert rows(sloth, "select extras from _sloth_job") == before
    assert rows(sloth, "select * from _sloth_edge") == []


def test_an_unknown_parent_leaves_the_rest_of_a_transaction(sloth: Sloth):
    with sloth.transaction() as tx:
        parent = tx.queue("q").enqueue("parent")
        with pytest.raises(JobNotFound):
            tx.queue("q").enqueue("child", after=[parent, 77])
        child = tx.queue("q").enqueue("child", after=parent)
    assert child.refresh().parents == [parent.id]
    assert len(every_job(sloth)) == 2
    take(sloth, parent).complete()
    take(sloth, child)


def test_family_that_was_rolled_back_never_was(sloth: Sloth):
    there = sloth.queue("q").enqueue("there")
    with pytest.raises(ZeroDivisionError), sloth.transaction() as tx:
        tx.queue("q").enqueue("child", after=there)
        raise ZeroDivisionError
    take(sloth, there).complete()
    assert rows(sloth, "select * from _sloth_edge") == []
    check_filing(sloth)


def test_a_parent_that_is_revived_is_not_waited_for_by_who_has_gone_on(sloth: Sloth):
    parent = sloth.queue("parents", max_attempts=1).enqueue("parent")
    queue = sloth.queue("children")
    gone_on = queue.enqueue("child", after=parent, after_failed="run")
    doomed = queue.enqueue("doomed", after=parent)
    take(sloth, parent).fail("no")
    parent.revive()
    assert doomed.refresh().state == "cancelled"
    take(sloth, gone_on).complete()
    take(sloth, parent).complete()
    check_filing(sloth)


def test_a_revived_child_waits_for_parents_that_live_again(sloth: Sloth):
    parent = sloth.queue("parents", max_attempts=1).enqueue("parent")
    child = sloth.queue("children").enqueue("child", after=parent)
    take(sloth, parent).fail("no")
    parent.revive()
    child.revive()
    assert child.refresh().blocked
    take(sloth, parent).complete()
    take(sloth, child)


def test_a_child_revived_alone_runs_without_the_parent_that_failed(sloth: Sloth):
    parent = sloth.queue("parents", max_attempts=1).enqueue("parent")
    child = sloth.queue("children").enqueue("child", after=parent)
    take(sloth, parent).fail("no")
    child.revive()
    take(sloth, child)


@pytest.mark.parametrize("sides", [1, 3])
def test_a_family_that_is_revived_waits_for_each_other_as_before(sloth: Sloth, sides: int):
    """One side is longer than the other: the last waits for both ends whatever is revived first."""
    queue = sloth.queue("q", max_attempts=1)
    for longer_first in (True, False):
        top = queue.enqueue("top")
        long = [queue.enqueue("long", after=top)]
        for _ in range(sides):
            long.append(queue.enqueue("long", after=long[-1]))
        short = queue.enqueue("short", after=top, priority=1)
        ends = [long[-1], short] if longer_first else [short, long[-1]]
        last = queue.enqueue("last", after=ends, priority=1)
        take(sloth, top).fail("no")
        assert last.refresh().state == "cancelled"
        top.revive(children=True)
        check_filing(sloth)
        assert all(job.refresh().state == "queued" for job in [*long, short, last])
        order = []
        while lease := queue.claim():
            order.append(lease.id)
            lease.complete()
        assert order[-1] == last.id
        assert len(order) == 4 + sides


def test_only_those_are_revived_with_their_parent_that_were_cancelled_with_it(sloth: Sloth):
    queue = sloth.queue("q", max_attempts=1)
    parent = queue.enqueue("parent")
    with_it, apart = (queue.enqueue(name, after=parent) for name in ("with it", "apart"))
    apart.cancel("not needed")
    take(sloth, parent).fail("no")
    parent.revive(children=True)
    assert (with_it.refresh().state, apart.refresh().state) == ("queued", "cancelled")
    assert with_it.refresh().blocked


def test_two_of_one_key_are_not_revived_together(sloth: Sloth):
    queue = sloth.queue("q", max_attempts=1)
    parent = queue.enqueue("parent")
    children = []
    for _ in range(2):
        children.append(queue.enqueue("child", after=parent, unique="k"))
        take(sloth, parent).fail("no")
        parent.revive()
    take(sloth, parent).fail("no")
    with pytest.raises(WrongState, match=f"key 'k' belongs to job {children[0].id}"):
        parent.revive(children=True)
    assert {job.refresh().state for job in (parent, *children)} == {"failed", "cancelled"}
    check_filing(sloth)


def test_a_parent_row_deleted_while_it_runs_strands_nobody(sloth: Sloth):
    parent = sloth.queue("parents").enqueue("parent")
    child = sloth.queue("children").enqueue("child", after=parent)
    take(sloth, parent)
    delete_row(sloth, parent)
    assert sloth.queue("children").claim() is None
    assert child.refresh().message == f"its parent {parent.id} was deleted"
    assert rows(sloth, "select * from _sloth_gone") == []
    check_filing(sloth)


def test_a_parent_may_be_deleted_twice_under_one_id(sloth: Sloth):
    """The id of a replacement is the highest, so a foreign program that deletes it frees it."""
    queue = sloth.queue("q")
    old = queue.enqueue(1, unique="k")
    children = [queue.enqueue(2, after=old)]
    for _ in range(2):
        new = queue.enqueue(1, unique="k", on_conflict="replace")
        delete_row(sloth, new)
        old = queue.enqueue(1, unique="k")
        assert old.id == new.id
        children.append(queue.enqueue(2, after=old))
        delete_row(sloth, old)
        old = queue.enqueue(1, unique="k")
    assert queue.claim() is not None
    check_filing(sloth)


def test_a_child_row_that_is_deleted_is_in_nobodys_way(sloth: Sloth):
    parent = sloth.queue("q").enqueue("parent")
    child = sloth.queue("q").enqueue("child", after=parent)
    delete_row(sloth, child)
    take(sloth, parent).complete()
    assert rows(sloth, "select * from _sloth_edge") == []
    assert sloth.queue("q").claim() is None
    check_filing(sloth)


def test_a_child_for_later_is_for_later_once_its_parents_are_done(sloth: Sloth, clock: ManualClock):
    parent = sloth.queue("q").enqueue("parent")
    child = sloth.queue("q").enqueue("child", after=parent, delay=60)
    take(sloth, parent).complete()
    assert sloth.queue("q").claim() is None
    assert (child.refresh().blocked, sloth.stats()["scheduled"]) == (False, 1)
    clock.advance(60)
    take(sloth, child)


def test_a_thousand_children_of_one_parent_are_freed_and_cancelled_together(sloth: Sloth):
    queue = sloth.queue("q", max_attempts=1)
    for fails in (False, True):
        parent = queue.enqueue("parent", priority=1)
        children = queue.enqueue_many(list(range(1_000)), after=parent)
        lease = take(sloth, parent)
        lease.fail("no") if fails else lease.complete()
        assert {child.refresh().state for child in children} == {"cancelled" if fails else "queued"}
        check_filing(sloth)
    assert len(queue.claim_many(2_000)) == 1_000


def test_a_child_of_a_thousand_parents_runs_after_the_last_of_them(sloth: Sloth):
    queue = sloth.queue("parents")
    parents = queue.enqueue_many(list(range(1_000)))
    child = sloth.queue("children").enqueue("child", after=parents)
    assert child.parents == [parent.id for parent in parents]
    leases = queue.claim_many(1_000)
    queue.complete_many(leases[:-1])
    assert sloth.queue("children").claim() is None
    leases[-1].complete()
    take(sloth, child)


def test_a_worker_runs_a_chain_to_its_end(sloth: Sloth):
    order: list[int] = []

    @sloth.task()
    def note(n: int) -> int:
        order.append(n)
        return n

    job = note.enqueue(0)
    for n in range(1, 5):
        job = job.then(note, n)
    assert idle(sloth) == 5
    assert order == [0, 1, 2, 3, 4]


def test_results_are_passed_on_in_the_order_of_the_parents(sloth: Sloth):
    @sloth.task()
    def give(n: int) -> int:
        return n

    @sloth.task()
    def add(*numbers: int) -> list[int]:
        return list(numbers)

    parents = [give.enqueue(n) for n in (3, 1, 2)]
    job = add.using(after=parents, pass_results=True).enqueue(9)
    idle(sloth)
    assert job.result(timeout=0) == [3, 1, 2, 9]


def test_parents_may_come_from_what_can_be_read_only_once(sloth: Sloth):
    @sloth.task()
    def show(*values: object) -> None: ...

    parents = sloth.queue("q").enqueue_many([1, 2])
    ids = [job.id for job in parents]
    task = show.using(after=(job for job in parents), pass_results=True)
    assert [task.enqueue().parents for _ in range(2)] == [ids, ids]
    assert sloth.queue("q").enqueue(3, after=iter(ids)).parents == ids
    many = sloth.queue("q").enqueue_many([3, 4], after=iter(ids))
    assert [job.parents for job in many] == [ids, ids]


def test_a_failed_parent_of_a_child_that_runs_anyway_passes_none(sloth: Sloth):
    @sloth.task(max_attempts=1)
    def fail() -> None:
        raise ValueError("no")

    @sloth.task()
    def show(*values: object) -> str:
        return repr(values)

    job = show.using(after=fail.enqueue(), after_failed="run", pass_results=True).enqueue()
    idle(sloth)
    assert job.result(timeout=0) == "(None,)"


def test_a_failed_command_passes_none_and_not_its_exit_code(sloth: Sloth):
    @sloth.task()
    def show(*values: object) -> str:
        return repr(values)

    parents = [
        sloth.queue("q", max_attempts=1).enqueue_command(["sh", "-c", f"exit {code}"])
        for code in (0, 3)
    ]
    job = show.using(after=parents, after_failed="run", pass_results=True).enqueue()
    idle(sloth)
    assert job.result(timeout=0) == "({'exit_code': 0}, None)"
