"""How many jobs run and start at once: of a queue, in a time, of a key; and whose turn it is."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from slothqueue import ManualClock, Sloth

from .keeping import check_filing, delete_row, rows, take
from .running import SOON, Aside, Gate, OpenSloth, idle

# ---- concurrency --------------------------------------------------------------------------------


def test_no_more_jobs_of_a_queue_run_at_once_than_it_allows(open_sloth: OpenSloth):
    one, other = open_sloth(), open_sloth()
    queue = one.queue("q", concurrency=3)
    queue.enqueue_many(list(range(10)))
    first = queue.claim_many(2)
    second = other.queue("q").claim_many(5)
    assert (len(first), len(second), queue.claim()) == (2, 1, None)
    first[0].complete()
    first[1].fail("no")
    assert len(other.queue("q").claim_many(9)) == 2


@pytest.mark.parametrize("end", ["complete", "fail", "retry", "snooze", "release", "discard"])
def test_every_end_of_an_attempt_makes_room(sloth: Sloth, end: str):
    queue = sloth.queue("q", concurrency=1, max_attempts=1)
    one, two = queue.enqueue_many([1, 2])
    lease = take(sloth, one)
    assert queue.claim() is None
    {
        "complete": lease.complete,
        "fail": lambda: lease.fail("no"),
        "retry": lambda: lease.retry(60),
        "snooze": lambda: lease.snooze(60),
        "release": lease.release,
        "discard": lambda: lease.discard("no"),
    }[end]()
    lease_now = queue.claim()
    assert lease_now is not None
    assert lease_now.id == (one.id if end == "release" else two.id)
    assert queue.claim() is None


def test_a_head_that_fails_for_good_does_not_stop_a_serial_queue(sloth: Sloth):
    ran: list[int] = []

    @sloth.task(queue="serial", max_attempts=1)
    def work(n: int) -> None:
        ran.append(n)
        if n == 0:
            raise RuntimeError("always")

    sloth.queue("serial", concurrency=1)
    jobs = [work.enqueue(n) for n in range(4)]
    assert idle(sloth) == 4
    assert ran == [0, 1, 2, 3]
    assert [job.refresh().state for job in jobs] == ["failed", "done", "done", "done"]


def test_a_limit_counts_over_all_that_a_queue_is_made_of(sloth: Sloth, gate: Gate, aside: Aside):
    @sloth.task(queue="q")
    def one() -> None:
        gate.pass_through()

    @sloth.task(queue="q")
    def two() -> None:
        gate.pass_through()

    sloth.queue("q", concurrency=2)
    for task in (one, two, one, two):
        task.enqueue()
    worker = aside(lambda: idle(sloth, concurrency=4))
    gate.wait_for(2)
    assert sloth.stats()["running"] == 2
    assert not gate.entered.acquire(timeout=0.2)
    gate.opened.set()
    assert worker.value() == 4


def test_a_limit_may_change_and_go_away(sloth: Sloth):
    queue = sloth.queue("q", concurrency=1)
    queue.enqueue_many(list(range(5)))
    assert len(queue.claim_many(5)) == 1
    sloth.queue("q", concurrency=3)
    assert len(queue.claim_many(5)) == 2
    sloth.queue("q", concurrency=2)
    assert queue.claim() is None
    sloth.queue("q", concurrency=None)
    assert len(queue.claim_many(5)) == 2


def test_who_waits_at_a_limit_is_woken_when_there_is_room(open_sloth: OpenSloth, aside: Aside):
    one, other = open_sloth(), open_sloth()
    queue = one.queue("q", concurrency=1)
    first, second = queue.enqueue_many([1, 2])
    lease = take(one, first)
    wait = aside(lambda: other.queue("q").wait(timeout="1h"))
    assert not wait.over(0.1)
    lease.complete()
    assert wait.value(SOON).id == second.id


HOLDER = """
import sys
from slothqueue import Sloth
sloth = Sloth(sys.argv[1], durability="process")
lease = sloth.queue("q").claim()
print(lease.id, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("limit", ["queue", "key"])
def test_a_holder_that_is_killed_makes_room_at_once(
    open_sloth: OpenSloth, aside: Aside, limit: str
):
    sloth = open_sloth(clock=None)
    queue = sloth.queue("q", concurrency=1 if limit == "queue" else None, max_attempts=1)
    options: Any = {"concurrency_key": "g"} if limit == "key" else {}
    first, second = queue.enqueue(1, **options), queue.enqueue(2, **options)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, sloth.path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as holder:  # fmt: skip
        assert holder.stdout
        assert int(holder.stdout.readline()) == first.id
        wait = aside(lambda: sloth.queue("q").wait(timeout="1h"))
        assert not wait.over(0.1)
        holder.send_signal(signal.SIGKILL)
        assert wait.value(SOON).id == second.id
    assert first.refresh().state == "failed"
    check_filing(sloth)


MANY = """
import sys
from slothqueue import Sloth
with Sloth(sys.argv[1], durability="process") as sloth:
    queue = sloth.queue("q")
    print("ready", flush=True)
    sys.stdin.readline()
    while sloth.stats()["done"] < 60:
        for lease in queue.claim_many(2):
            with sloth.transaction() as tx:
                n = tx.execute("select count(*) from _sloth_running r join _sloth_extra x "
                               "on x.job = r.id").fetchone()[0]
                m = tx.execute("select count(*) from _sloth_running").fetchone()[0]
                tx.execute("insert into seen values (?, ?)", (m, n))
            lease.complete()
"""


def test_no_limit_is_passed_by_four_processes_that_claim_at_once(open_sloth: OpenSloth):
    sloth = open_sloth(clock=None)
    queue = sloth.queue("q", concurrency=3)
    queue.enqueue_many(list(range(30)), concurrency_key=("g", 2))
    queue.enqueue_many(list(range(30)))
    with sloth.transaction() as tx:
        tx.execute("create table seen (m integer, n integer)")
    others = [
        subprocess.Popen(
            [sys.executable, "-c", MANY, sloth.path],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(4)
    ]  # fmt: skip
    for other in others:
        assert other.stdout
        assert other.stdout.readline() == "ready\n"
    for other in others:
        other.communicate("go\n", timeout=60)
    seen = rows(sloth, "select m, n from seen")
    assert len(seen) == 60
    assert max(m for m, _ in seen) <= 3
    assert max(n for _, n in seen) <= 2
    check_filing(sloth)


# ---- rate ---------------------------------------------------------------------------------------


def test_in_any_such_time_no_more_start_than_the_rate_allows(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q", rate=(3, "10s"))
    queue.enqueue_many(list(range(40)))
    starts: list[int] = []
    for step in range(800):
        for lease in queue.claim_many(2 if step % 3 else 5):
            starts.append(clock.wall())
            lease.complete()
        clock.advance((step * 7 % 5) / 10)
    for i, start in enumerate(starts):
        within = [other for other in starts[i:] if other < start + 10_000]
        assert len(within) <= 3
    assert len(starts) == 40


def test_the_window_slides_and_the_next_starts_just_when_it_may(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q", rate="2/10s")
    queue.enqueue_many(list(range(6)))
    assert len(queue.claim_many(1)) == 1
    clock.advance(4)
    assert len(queue.claim_many(5)) == 1
    clock.advance(5.999)
    assert queue.claim() is None
    clock.advance(0.001)
    assert len(queue.claim_many(5)) == 1
    clock.advance(3.999)
    assert queue.claim() is None
    clock.advance(0.001)
    assert len(queue.claim_many(5)) == 1


def test_who_waits_for_the_rate_claims_when_it_allows(
    sloth: Sloth, aside: Aside, pass_time: Any, clock: ManualClock
):
    queue = sloth.queue("q", rate=(1, "1m"))
    queue.enqueue_many([1, 2])
    assert queue.claim() is not None
    started = clock.awake()
    call = aside(lambda: queue.wait(timeout="1h"))
    pass_time(call, step=1)
    assert call.value().id == 2
    assert clock.awake() - started >= 60_000


def test_a_retry_is_a_start_and_a_failed_claim_is_none(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q", rate=(2, "1m"), backoff=(0, 0))
    job = queue.enqueue(1)
    take(sloth, job).fail("no")
    take(sloth, job).fail("no")
    for _ in range(5):
        assert queue.claim() is None
    clock.advance(60)
    take(sloth, job).complete()


@pytest.mark.parametrize("hours", [-12, 12])
def test_a_clock_that_is_set_does_not_stop_a_queue_with_a_rate(
    sloth: Sloth, clock: ManualClock, hours: int
):
    queue = sloth.queue("q", rate=(2, "1m"))
    queue.enqueue_many(list(range(9)))
    assert len(queue.claim_many(9)) == 2
    clock.step_wall(hours * 3600)
    clock.advance(1)
    assert len(queue.claim_many(9)) == (0 if hours < 0 else 2)
    clock.advance(60)
    assert len(queue.claim_many(9)) == 2


def test_the_starts_that_are_remembered_do_not_pile_up(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q", rate=(5, "1s"))
    queue.enqueue_many(list(range(100)))
    for _ in range(40):
        queue.claim_many(5)
        clock.advance(1)
    assert rows(sloth, "select count(*) from _sloth_start")[0][0] <= 5


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"concurrency": -1},
        {"concurrency": 1.5},
        {"concurrency": True},
        {"concurrency": False},
        {"concurrency": "3"},
        {"rate": 0},
        {"rate": 10},
        {"rate": ""},
        {"rate": "10"},
        {"rate": "10/"},
        {"rate": "/m"},
        {"rate": "x/m"},
        {"rate": "10/1m/2"},
        {"rate": (0, "1m")},
        {"rate": (1, 0)},
        {"rate": (1, -1)},
        {"rate": (1.5, "1m")},
        {"rate": (True, "1m")},
        {"rate": (1,)},
        {"rate": [1, 2, 3]},
        {"ageing": 0},
        {"ageing": -1},
        {"ageing": "x"},
        {"ageing": True},
        {"keep": 0},
        {"keep": "x"},
        {"keep": False},
    ],
    ids=repr,
)
def test_a_limit_that_makes_no_sense_changes_nothing(sloth: Sloth, options: dict[str, Any]):
    before = sloth.queue("q", concurrency=3, rate=(1, "1m"), ageing=60, keep="1d").options
    with pytest.raises(ValueError, match=next(iter(options))):
        sloth.queue("q", **options)
    with pytest.raises(ValueError, match=next(iter(options))):
        sloth.queue("fresh", **options)
    assert sloth.queue("q").options == before
    assert rows(sloth, "select name from _sloth_queue") == [("q",)]


def test_a_rate_may_be_written_in_several_ways(sloth: Sloth):
    for rate in ((10, "1m"), "10/1m", "10/m", "10 / 1m", [10, 60], (10, 60.0)):
        policy = sloth.queue("q", rate=rate).options
        assert (policy.rate, policy.per) == (10, 60_000)
    policy = sloth.queue("q", rate=None, concurrency=None, ageing=None, keep=None).options
    assert (policy.rate, policy.per, policy.concurrency) == (None, None, None)


# ---- concurrency_key ----------------------------------------------------------------------------


def keyed(sloth: Sloth, *payloads: Any, most: int = 1, queue: str = "q", **options: Any) -> Any:
    key = "g" if most == 1 else ("g", most)
    return [sloth.queue(queue).enqueue(p, concurrency_key=key, **options) for p in payloads]


def order_of(sloth: Sloth, queue: str = "q") -> list[int]:
    """The ids in which they start, each ended before the next."""
    order = []
    while lease := sloth.queue(queue).claim():
        order.append(lease.id)
        lease.complete()
        check_filing(sloth)
    return order


def test_jobs_of_a_key_run_one_after_the_other_in_order(sloth: Sloth):
    jobs = keyed(sloth, 1, 2, 3)
    other = sloth.queue("q").enqueue("other")
    leases = sloth.queue("q").claim_many(9)
    assert [lease.id for lease in leases] == [jobs[0].id, other.id]
    check_filing(sloth)
    late, urgent = keyed(sloth, "late")[0], keyed(sloth, "urgent", priority=1)[0]
    assert sloth.queue("q").claim() is None
    leases[0].complete()
    assert order_of(sloth) == [urgent.id, jobs[1].id, jobs[2].id, late.id]


def test_so_many_of_a_key_run_at_once(sloth: Sloth):
    jobs = keyed(sloth, *range(5), most=2)
    assert jobs[0].concurrency_key == ("g", 2)
    leases = sloth.queue("q").claim_many(9)
    assert [lease.id for lease in leases] == [jobs[0].id, jobs[1].id]
    leases[1].complete()
    assert [lease.id for lease in sloth.queue("q").claim_many(9)] == [jobs[2].id]
    check_filing(sloth)


def test_a_key_counts_within_its_queue(sloth: Sloth):
    one, other = keyed(sloth, 1)[0], keyed(sloth, 2, queue="other")[0]
    take(sloth, one)
    take(sloth, other)


@pytest.mark.parametrize(
    "end", ["complete", "fail", "retry", "snooze", "release", "discard", "cancel"]
)
def test_every_end_of_an_attempt_lets_the_next_of_its_key_try(sloth: Sloth, end: str):
    sloth.queue("q", max_attempts=1)
    one, two, three = keyed(sloth, 1, 2, 3)
    lease = take(sloth, one)
    assert sloth.queue("q").claim() is None
    if end == "cancel":
        one.cancel()
    {
        "complete": lease.complete,
        "fail": lambda: lease.fail("no"),
        "retry": lambda: lease.retry(60),
        "snooze": lambda: lease.snooze(60),
        "discard": lambda: lease.discard("no"),
    }.get(end, lease.release)()
    expected = [two.id, three.id]
    assert order_of(sloth) == ([one.id, *expected] if end == "release" else expected)


def test_a_snooze_of_nothing_goes_behind_the_others_of_its_key(sloth: Sloth, clock: ManualClock):
    one, two = keyed(sloth, 1, 2)
    lease = take(sloth, one)
    assert sloth.queue("q").claim() is None
    clock.advance(1)
    lease.snooze(0)
    assert order_of(sloth) == [two.id, one.id]


@pytest.mark.parametrize("act", ["hold", "cancel", "delete", "edit", "expire", "replace"])
def test_what_happens_to_the_one_in_front_does_not_strand_the_others_of_its_key(
    sloth: Sloth, clock: ManualClock, act: str
):
    one, two, three, four = [
        sloth.queue("q").enqueue(n, concurrency_key="g", unique=str(n), expires=60 + 60 * n)
        for n in range(4)
    ]
    lease = take(sloth, one)
    assert sloth.queue("q").claim() is None
    lease.complete()
    check_filing(sloth)
    {
        "hold": two.hold,
        "cancel": two.cancel,
        "delete": lambda: delete_row(sloth, two),
        "edit": lambda: two.edit(delay="1h"),
        "expire": lambda: clock.advance(120),
        "replace": lambda: sloth.queue("q").enqueue(
            9, concurrency_key="g", unique="1", on_conflict="replace", delay="1h"
        ),
    }[act]()
    assert order_of(sloth) == [three.id, four.id]


@pytest.mark.parametrize("act", ["hold", "cancel", "delete", "edit"])
def test_what_happens_to_one_that_is_kept_back_does_not_strand_the_others_of_its_key(
    sloth: Sloth, act: str
):
    one, two, three = keyed(sloth, 1, 2, 3)
    lease = take(sloth, one)
    assert sloth.queue("q").claim() is None
    {
        "hold": two.hold,
        "cancel": two.cancel,
        "delete": lambda: delete_row(sloth, two),
        "edit": lambda: two.edit(delay="1h"),
    }[act]()
    check_filing(sloth)
    assert sloth.queue("q").claim() is None
    lease.complete()
    assert order_of(sloth) == [three.id]


def test_a_running_job_whose_row_is_deleted_does_not_strand_the_others_of_its_key(sloth: Sloth):
    one, two, three = keyed(sloth, 1, 2, 3)
    take(sloth, one)
    assert sloth.queue("q").claim() is None
    delete_row(sloth, one)
    assert order_of(sloth) == [two.id, three.id]


def test_a_holder_that_dies_lets_the_next_of_its_key_try(open_sloth: OpenSloth):
    dead, sloth = open_sloth(), open_sloth()
    one, two = keyed(sloth, 1, 2, max_attempts=1)
    take(dead, one)
    assert sloth.queue("q").claim() is None
    dead.close()
    assert order_of(sloth) == [two.id]


def test_a_key_over_several_tasks_is_not_held_up_by_one_that_nobody_knows(
    open_sloth: OpenSloth,
):
    sloth, elsewhere = open_sloth(), open_sloth()
    ran: list[int] = []

    @sloth.task(queue="q")
    def known(n: int) -> None:
        ran.append(n)

    @elsewhere.task(queue="q")
    def unknown() -> None: ...

    for n in range(3):
        known.using(concurrency_key="g").enqueue(n)
        unknown.using(concurrency_key="g").enqueue()
    assert idle(sloth, concurrency=2) == 3
    assert ran == [0, 1, 2]
    check_filing(sloth)


def test_a_pause_does_not_strand_the_jobs_of_a_key(sloth: Sloth):
    one, two, three = keyed(sloth, 1, 2, 3)
    lease = take(sloth, one)
    assert sloth.queue("q").claim() is None
    sloth.queue("q").pause()
    lease.complete()
    assert sloth.queue("q").claim() is None
    sloth.queue("q").resume()
    assert order_of(sloth) == [two.id, three.id]


def test_a_revived_job_keeps_its_key(sloth: Sloth):
    one, _ = keyed(sloth, 1, 2)
    one.cancel()
    one.revive()
    lease = sloth.queue("q").claim()
    assert lease is not None
    assert sloth.queue("q").claim() is None
    lease.complete()
    assert sloth.queue("q").claim() is not None
    check_filing(sloth)


def test_thousands_of_one_key_do_not_hide_what_is_behind_them(sloth: Sloth):
    queue = sloth.queue("q")
    first = queue.enqueue("first", concurrency_key="g", priority=2)
    take(sloth, first)
    queue.enqueue_many(list(range(9_000)), concurrency_key="g", priority=1)
    behind = queue.enqueue("behind")
    take(sloth, behind)

    @sloth.task(queue="q")
    def work() -> None: ...

    work.using(concurrency_key="h", priority=1).enqueue()
    work.using(queue="q").enqueue()
    assert idle(sloth) == 2


def test_a_worker_finds_what_is_behind_thousands_of_one_key(sloth: Sloth, gate: Gate, aside: Aside):
    ran: list[int] = []

    @sloth.task(queue="q")
    def work(n: int) -> None:
        if n == 0:
            gate.pass_through()
        ran.append(n)

    many = work.using(concurrency_key="g", priority=1)
    with sloth.transaction() as tx:
        inside = many.within(tx)
        for n in range(4_500):
            inside.enqueue(n)
    last = work.enqueue(-1)
    worker = aside(lambda: sloth.worker(concurrency=2, pool="thread").run_until_idle())
    gate.wait_for()
    for _ in range(1_000):
        if last.refresh().ended:
            break
        threading.Event().wait(0.01)
    assert last.refresh().state == "done"
    for job in sloth.jobs(state="queued", limit=5_000):
        job.cancel()
    gate.opened.set()
    worker.value()
    check_filing(sloth)


def test_limits_of_a_queue_and_of_a_key_hold_together(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q", concurrency=2, rate=(3, "1m"))
    jobs = keyed(sloth, 1, 2)
    plain = queue.enqueue_many([3, 4])
    leases = queue.claim_many(9)
    assert [lease.id for lease in leases] == [jobs[0].id, plain[0].id]
    leases[0].complete()
    assert [lease.id for lease in queue.claim_many(9)] == [jobs[1].id]
    leases[1].complete()
    assert queue.claim() is None
    clock.advance(60)
    assert [lease.id for lease in queue.claim_many(9)] == [plain[1].id]
    check_filing(sloth)


# ---- turns and ageing ---------------------------------------------------------------------------


def test_queues_of_one_priority_take_turns(sloth: Sloth):
    order: list[str] = []

    @sloth.task()
    def note(name: str) -> None:
        order.append(name)

    for name, count in (("a", 6), ("b", 3), ("c", 1)):
        for _ in range(count):
            note.using(queue=name).enqueue(name)
    idle(sloth, concurrency=1)
    assert order == ["a", "b", "c", "a", "b", "a", "b", "a", "a", "a"]


@pytest.mark.parametrize("slots", [1, 3])
def test_a_queue_that_is_never_empty_leaves_others_their_turn(sloth: Sloth, slots: int):
    order: list[str] = []

    @sloth.task()
    def note(name: str) -> None:
        order.append(name)
        if name == "busy" and len(order) < 60:
            note.using(queue="busy").enqueue("busy")

    for _ in range(10):
        note.using(queue="busy").enqueue("busy")
    for _ in range(5):
        note.using(queue="quiet").enqueue("quiet")
    idle(sloth, concurrency=slots)
    places = [i for i, name in enumerate(order) if name == "quiet"]
    assert places[-1] <= 2 * 5 + 2 * slots


def test_without_ageing_priority_is_all(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q")
    low = queue.enqueue("low")
    for _ in range(50):
        clock.advance(3600)
        urgent = queue.enqueue("urgent", priority=1)
        take(sloth, urgent).complete()
    assert low.refresh().state == "queued"


@pytest.mark.parametrize("priority", [1, 5])
def test_with_ageing_nobody_waits_longer_than_the_difference_in_priority_times_it(
    sloth: Sloth, clock: ManualClock, priority: int
):
    """A job of priority 0 starts before any of priority p that is due p * ageing later."""
    queue = sloth.queue("q", ageing=60)
    low = queue.enqueue("low")
    born = clock.wall()
    while low.refresh().state == "queued":
        queue.enqueue("urgent", priority=priority)
        lease = queue.claim()
        assert lease is not None
        if lease.id != low.id:
            assert clock.wall() - born <= priority * 60_000
            lease.complete()
        clock.advance(10)
    assert (low.refresh().started_at.timestamp() * 1000 - born) == priority * 60_000  # type: ignore[union-attr]


def test_a_worker_keeps_the_bound_of_ageing_over_tasks_and_queues(sloth: Sloth, clock: ManualClock):
    order: list[str] = []

    @sloth.task(queue="a")
    def urgent(n: int) -> None:
        order.append("urgent")
        clock.advance(10)
        if n < 40:
            urgent.using(priority=2).enqueue(n + 1)

    @sloth.task(queue="a")
    def low() -> None:
        order.append("low")

    @sloth.task(queue="b")
    def other() -> None:
        order.append("other")

    for name in ("a", "b"):
        sloth.queue(name, ageing=60)
    low.enqueue()
    other.enqueue()
    urgent.using(priority=2).enqueue(0)
    idle(sloth, concurrency=1)
    assert order.index("low") <= 2 * 6 + 2
    assert order.index("other") <= 2 * 6 + 2
