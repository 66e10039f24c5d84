"""One live job per key and queue, from its first moment to its end, however that comes."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from slothqueue import Lease, ManualClock, Sloth, WrongState

from .keeping import check_filing, delete_row, rows, take
from .telling import every_job, kinds

OpenSloth = Callable[..., Sloth]


def test_a_second_job_with_the_key_is_the_first(sloth: Sloth):
    queue = sloth.queue("q")
    first = queue.enqueue(1, unique="k")
    assert queue.enqueue(2, unique="k").id == first.id
    assert (first.refresh().payload, first.refresh().unique) == (1, "k")
    assert len(every_job(sloth)) == 1


def test_a_key_counts_within_its_queue_and_across_what_is_in_it(sloth: Sloth):
    @sloth.task(queue="q")
    def work() -> None: ...

    first = sloth.queue("q").enqueue(1, unique="k")
    assert sloth.queue("other").enqueue(1, unique="k").id != first.id
    assert sloth.queue("q").enqueue_command(["true"], unique="k").id == first.id
    assert work.using(unique="k").enqueue().id == first.id


def test_a_key_is_taken_in_every_state_of_a_live_job(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q", backoff=(2, "1h"))
    parent = queue.enqueue("parent", delay="1h")
    waits: dict[str, Any] = {
        "scheduled": {"delay": "2h"},
        "held": {"hold": True},
        "blocked": {"after": parent},
        "expiring": {"expires": "1h"},
    }
    for name, options in waits.items():
        job = queue.enqueue(name, unique=name, **options)
        assert queue.enqueue("again", unique=name).id == job.id
    job = queue.enqueue("runs", unique="k", priority=5)
    lease = take(sloth, job)
    assert queue.enqueue("again", unique="k").id == job.id
    lease.fail("no")
    assert queue.enqueue("again", unique="k").id == job.id, "while it waits to be tried again"
    clock.advance(2)
    take(sloth, job).snooze(60)
    assert queue.enqueue("again", unique="k").id == job.id, "while it snoozes"
    check_filing(sloth)


@pytest.mark.parametrize(
    "end", ["done", "failed", "discarded", "cancelled", "expired", "deleted", "pruned", "replaced"]
)
def test_a_key_is_free_as_soon_as_its_job_has_ended(sloth: Sloth, clock: ManualClock, end: str):
    queue = sloth.queue("q", max_attempts=1)
    job = queue.enqueue(1, unique="k", expires=60)
    if end in ("done", "failed", "discarded", "pruned"):
        lease = take(sloth, job)
        {"failed": lambda: lease.fail("no"), "discarded": lambda: lease.discard("no")}.get(
            end, lease.complete
        )()
    elif end == "cancelled":
        job.cancel()
    elif end == "expired":
        clock.advance(61)
        queue.claim()
    elif end == "deleted":
        delete_row(sloth, job)
    elif end == "replaced":
        job = queue.enqueue(2, unique="k", on_conflict="replace")
        job.cancel()
    sloth.queue("other").enqueue("the highest id stays")
    if end == "pruned":
        clock.advance(1)
        assert sloth.prune(0) == 1
    again = queue.enqueue(3, unique="k", on_conflict="error")
    assert again.state == "queued"
    check_filing(sloth)


def test_a_key_outlives_the_process_that_worked_on_its_job(open_sloth: OpenSloth):
    dead, other = open_sloth(), open_sloth()
    job = dead.queue("q").enqueue(1, unique="k")
    take(dead, job)
    dead.close()
    assert other.queue("q").enqueue(2, unique="k").id == job.id, "it will be tried again"
    take(other, job).complete()
    assert other.queue("q").enqueue(2, unique="k").id != job.id


def test_error_names_the_job_that_has_the_key_and_writes_nothing(sloth: Sloth):
    queue = sloth.queue("q")
    job = queue.enqueue(1, unique="k")
    with pytest.raises(WrongState, match=f"job {job.id} has the key 'k' and is queued"):
        queue.enqueue(2, unique="k", on_conflict="error")
    take(sloth, job)
    with pytest.raises(WrongState, match="is running"):
        queue.enqueue(2, unique="k", on_conflict="error")
    assert len(every_job(sloth)) == 1


def test_replace_puts_the_new_one_in_the_place_of_one_that_waits(sloth: Sloth):
    queue = sloth.queue("q")
    old = queue.enqueue(1, unique="k")
    new = queue.enqueue(2, unique="k", on_conflict="replace")
    assert new.id != old.id
    assert old.refresh().state == "cancelled"
    assert old.refresh().message == f"it was replaced by job {new.id}"
    assert kinds(old) == ["enqueued", "cancelled"]
    take(sloth, new).complete()
    assert queue.claim() is None


def test_replace_does_not_touch_a_job_that_runs(sloth: Sloth):
    queue = sloth.queue("q")
    old = queue.enqueue(1, unique="k")
    lease = take(sloth, old)
    with pytest.raises(WrongState, match="is running, so it cannot be replaced"):
        queue.enqueue(2, unique="k", on_conflict="replace")
    lease.complete()
    assert queue.enqueue(2, unique="k", on_conflict="replace").id != old.id
    assert len(every_job(sloth)) == 2


def test_the_children_of_a_replaced_job_wait_for_the_new_one(sloth: Sloth):
    queue = sloth.queue("q")
    old = queue.enqueue(1, unique="k")
    child = sloth.queue("children").enqueue("child", after=old)
    new = queue.enqueue(2, unique="k", on_conflict="replace")
    check_filing(sloth)
    assert (child.refresh().state, child.refresh().parents) == ("queued", [new.id])
    assert sloth.queue("children").claim() is None
    take(sloth, new).complete()
    assert sloth.queue("children").claim() is not None


@pytest.mark.parametrize("wait", ["held", "blocked", "scheduled", "gated"])
def test_whatever_waits_can_be_replaced(sloth: Sloth, wait: str):
    queue = sloth.queue("q")
    parent = queue.enqueue("parent", concurrency_key="g", priority=9)
    options: Any = {
        "held": {"hold": True},
        "blocked": {"after": parent},
        "scheduled": {"delay": "1h"},
        "gated": {"concurrency_key": "g"},
    }[wait]
    old = queue.enqueue(1, unique="k", **options)
    lease = take(sloth, parent)
    assert queue.claim() is None
    new = queue.enqueue(2, unique="k", on_conflict="replace")
    check_filing(sloth)
    take(sloth, new).complete()
    lease.complete()
    check_filing(sloth)
    assert (old.refresh().state, queue.claim()) == ("cancelled", None)


def test_children_do_not_wait_for_a_replacement_that_ended_as_it_came(sloth: Sloth):
    queue = sloth.queue("q", max_attempts=1)
    bad = queue.enqueue("bad")
    take(sloth, bad).fail("no")
    old = queue.enqueue(1, unique="k")
    child = queue.enqueue("child", after=old)
    new = queue.enqueue(2, unique="k", on_conflict="replace", after=bad)
    assert new.state == "cancelled"
    assert child.refresh().state == "cancelled"
    check_filing(sloth)


def test_nothing_is_replaced_by_what_would_wait_for_it(sloth: Sloth):
    queue = sloth.queue("q")
    old = queue.enqueue(1, unique="k")
    child = queue.enqueue("child", after=old)
    grandchild = queue.enqueue("grandchild", after=child)
    for after in (old, child, [grandchild]):
        with pytest.raises(WrongState, match="wait"):
            queue.enqueue(2, unique="k", on_conflict="replace", after=after)
    assert len(every_job(sloth)) == 3
    assert old.refresh().state == "queued"
    check_filing(sloth)


def test_a_key_taken_inside_a_transaction_is_free_if_that_is_rolled_back(sloth: Sloth):
    with pytest.raises(ZeroDivisionError), sloth.transaction() as tx:
        job = tx.queue("q").enqueue(1, unique="k")
        assert tx.queue("q").enqueue(2, unique="k").id == job.id
        raise ZeroDivisionError
    assert sloth.queue("q").enqueue(3, unique="k").payload == 3


def test_a_revived_job_takes_its_key_again_unless_it_is_taken(sloth: Sloth):
    queue = sloth.queue("q")
    old = queue.enqueue(1, unique="k")
    old.cancel()
    new = queue.enqueue(2, unique="k")
    with pytest.raises(WrongState, match=f"its key 'k' belongs to job {new.id}"):
        old.revive()
    assert (old.refresh().state, kinds(old)) == ("cancelled", ["enqueued", "cancelled"])
    new.cancel()
    old.revive()
    assert queue.enqueue(3, unique="k").id == old.id


def test_a_key_belongs_to_one_job_so_many_cannot_have_it(sloth: Sloth):
    with pytest.raises(ValueError, match="unique"):
        sloth.queue("q").enqueue_many([1, 2], unique="k")
    assert every_job(sloth) == []


PROGRAM = """
import sys
from slothqueue import Sloth
with Sloth(sys.argv[1], durability="process") as sloth:
    queue = sloth.queue("q")
    print("ready", flush=True)
    for line in sys.stdin:
        print(queue.enqueue(int(line), unique="k").id, flush=True)
"""


def test_eight_processes_never_see_two_live_jobs_of_one_key(open_sloth: OpenSloth):
    """While its job moves through every state, with the count of live ones read in between."""
    sloth = open_sloth(clock=None)
    queue = sloth.queue("q", backoff=(0, 0))
    others = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, sloth.path],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(8)
    ]  # fmt: skip
    said: list[str] = []
    try:
        talk = [threading.Thread(target=_ask, args=(other, 40, said)) for other in others]
        for thread in talk:
            thread.start()
        n = 0
        while any(thread.is_alive() for thread in talk):
            n += 1
            live = rows(sloth, "select id from _sloth_job where unique_key like '%k' and state = 0")
            assert len(live) <= 1, live
            lease = queue.claim()
            if lease is None:
                continue
            _next_state(lease, n)
    finally:
        for other in others:
            other.communicate(timeout=20)
    assert len(said) == 8 * 40, said[:3]
    assert n > 8
    check_filing(sloth)


def _ask(other: subprocess.Popen[str], times: int, said: list[str]) -> None:
    assert other.stdin and other.stdout
    assert other.stdout.readline() == "ready\n"
    for n in range(times):
        other.stdin.write(f"{n}\n")
        other.stdin.flush()
        said.append(other.stdout.readline())


def _next_state(lease: Lease, n: int) -> None:
    job = lease.job
    act = n % 7
    if act == 0:
        lease.complete()
    elif act == 1:
        lease.discard("no")
    elif act == 2:
        lease.snooze(0)
    elif act == 3:
        lease.release()
        job.hold()
        job.unhold()
    elif act == 4:
        lease.release()
        job.cancel()
        try:
            job.revive()
        except WrongState:
            assert job.refresh().state == "cancelled"
    elif act == 5:
        lease.fail("again")
    else:
        lease.retry(0)


def test_the_key_of_a_call_is_made_of_its_arguments(sloth: Sloth):
    @sloth.task(name="thumb", unique=True)
    def thumb(path: str, width: int = 200) -> None: ...

    first = thumb.enqueue("a.png")
    assert thumb.enqueue("a.png").id == first.id
    assert thumb.enqueue("a.png", width=3).id != first.id
    long = thumb.enqueue("x" * 5000)
    assert thumb.enqueue("x" * 5000).id == long.id != thumb.enqueue("x" * 5001).id


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [(("a.png",), {}), ((), {"path": "a.png"}), (("a.png", 200), {}), (("a.png",), {"width": 200})],
)
def test_a_call_is_the_same_however_it_is_written(sloth: Sloth, args: Any, kwargs: Any):
    @sloth.task(name="thumb", unique=True)
    def thumb(path: str, width: int = 200) -> None: ...

    assert thumb.enqueue(*args, **kwargs).id == thumb.enqueue("a.png").id


def test_a_function_makes_the_key_of_some_of_the_arguments(sloth: Sloth):
    @sloth.task(name="thumb", unique=lambda path, width: path)
    def thumb(path: str, width: int = 200) -> None: ...

    job = thumb.enqueue("a.png")
    assert (thumb.enqueue("a.png", width=2).id, job.unique) == (job.id, "a.png")
    assert thumb.using(unique=None).enqueue("a.png", 1).id != job.id
    with pytest.raises(TypeError, match="thumb: its unique function"):
        thumb.using(unique=lambda: "").enqueue("a.png")


def test_a_key_cannot_be_made_of_a_payload(sloth: Sloth):
    with pytest.raises(ValueError, match="unique must be text"):
        sloth.queue("q").enqueue(1, unique=True)
