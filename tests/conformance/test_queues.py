"""Queues: names, options that are stored, counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slothqueue import ManualClock, Sloth
from slothqueue.models import COUNTED, Policy

from .telling import every_job

OpenSloth = Callable[..., Sloth]


def test_two_handles_agree_on_the_options_of_a_queue(open_sloth: OpenSloth):
    one, other = open_sloth(), open_sloth()
    one.queue("q", lease="90s", max_attempts=9, backoff=(3, "1m"))
    assert other.queue("q").options == Policy(max_attempts=9, base=3.0, cap=60_000, lease=90_000)
    assert other.queue("unheard of").options == Policy(4, 2.0, 3_600_000, None)


def test_the_last_who_asks_for_options_wins_and_it_is_recorded(
    open_sloth: OpenSloth, clock: ManualClock
):
    one, other = open_sloth(), open_sloth()
    one.queue("q", lease="90s", max_attempts=9)
    other.queue("q", max_attempts=2)
    assert one.queue("q").options == Policy(max_attempts=2, lease=90_000)
    one.queue("q", lease=None)
    assert other.queue("q").options == Policy(max_attempts=2, lease=None)
    told = one.store.read(lambda tx: one.store.names.queue_changes(tx, 1))
    assert [detail for _, detail in told] == ["max_attempts: 9 -> 2", "lease: 90000 -> None"]


def test_asking_again_with_the_same_options_records_nothing(open_sloth: OpenSloth):
    one, other = open_sloth(), open_sloth()
    for sloth in (one, other, one):
        sloth.queue("q", max_attempts=9, backoff=2)
    assert one.store.read(lambda tx: one.store.names.queue_changes(tx, 1)) == []


def test_new_options_are_for_the_jobs_that_are_there_already(open_sloth: OpenSloth):
    one, other = open_sloth(), open_sloth()
    job, own = one.queue("q").enqueue(1), one.queue("q").enqueue(2, max_attempts=7)
    other.queue("q", max_attempts=1, backoff=0)
    for lease in one.queue("q").claim_many(2):
        lease.fail("no")
    assert (job.refresh().state, job.refresh().max_attempts) == ("failed", 1)
    assert (own.refresh().state, own.refresh().max_attempts) == ("queued", 7)
    assert one.queue("q").claim() is not None  # a base of zero means no wait


def test_options_survive_the_handle_that_set_them(open_sloth: OpenSloth):
    with open_sloth() as sloth:
        sloth.queue("q", lease=5, max_attempts=3)
    assert open_sloth().queue("q").options == Policy(max_attempts=3, lease=5_000)


@pytest.mark.parametrize(
    "options",
    [
        {"lease": 0},
        {"lease": "0s"},
        {"lease": 0.0001},
        {"lease": ""},
        {"lease": False},
        {"lease": -1},
        {"lease": "soon"},
        {"lease": float("nan")},
        {"max_attempts": 0},
        {"max_attempts": 1.5},
        {"max_attempts": True},
        {"backoff": -1},
        {"backoff": "fast"},
        {"backoff": (2,)},
        {"backoff": (2, "1h", 3)},
        {"backoff": (2, -1)},
        {"backoff": (float("nan"), 1)},
        {"backoff": (float("inf"), 1)},
        {"backoff": True},
    ],
    ids=repr,
)
def test_an_option_that_makes_no_sense_changes_nothing(sloth: Sloth, options: dict[str, object]):
    before = sloth.queue("q", lease=7, max_attempts=3).options
    with pytest.raises(ValueError, match=r"lease|max_attempts|backoff"):
        sloth.queue("q", **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"lease|max_attempts|backoff"):
        sloth.queue("fresh", **options)  # type: ignore[arg-type]
    assert sloth.queue("q").options == before


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\0b", "x" * 201, None, 7, b"q"])
def test_a_name_that_nobody_can_type_is_refused(sloth: Sloth, name: str):
    with pytest.raises(ValueError, match="name"):
        sloth.queue(name)
    with sloth.transaction() as tx, pytest.raises(ValueError, match="name"):
        tx.queue(name)


@pytest.mark.parametrize(
    "name", ["'; drop table x", "ä ö", "%", "a" * 200, "default ", "\U0001f9a5"]
)
def test_any_name_that_can_be_typed_is_a_name(sloth: Sloth, name: str):
    job = sloth.queue(name).enqueue(1)
    assert job.refresh().queue == name
    assert [found.id for found in sloth.jobs(queue=name)] == [job.id]
    assert sloth.queue(name).claim() is not None


def test_a_queue_costs_nothing_until_it_is_used(sloth: Sloth):
    sloth.queue("q")
    assert sloth.queue("q").claim() is None
    assert sloth.jobs(queue="q") == []
    assert set(sloth.queue("q").stats().values()) == {0}


def test_counts_tell_how_many_jobs_are_in_each_state(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q", max_attempts=1)
    queue.enqueue_many([1, 2, 3, 4, 5])
    queue.enqueue("later", delay=60)
    sloth.queue("other").enqueue(1)
    queue.claim_many(1)[0].complete()
    queue.claim_many(1)[0].fail("no")
    queue.claim()
    counts = {"queued": 3, "scheduled": 1, "running": 1, "done": 1, "failed": 1}
    counts = dict.fromkeys(COUNTED, 0) | counts
    assert queue.stats() == counts
    assert sloth.stats() == {**counts, "queued": 4}
    clock.advance(60)
    assert queue.stats() == {**counts, "scheduled": 0}


def test_jobs_are_listed_running_first_then_in_start_order_then_ended_latest_first(
    sloth: Sloth, clock: ManualClock
):
    queue = sloth.queue("q")
    queue.enqueue_many(["done 1", "done 2", "failed", "running"])
    leases = queue.claim_many(4)
    for lease in leases[:2]:
        clock.advance(1)
        lease.complete()
    clock.advance(1)
    leases[2].discard("no")
    queue.enqueue("later", delay=60)
    queue.enqueue("waiting")
    queue.enqueue("urgent", priority=1)
    payloads = [job.payload for job in sloth.jobs()]
    assert payloads == ["running", "urgent", "waiting", "later", "failed", "done 2", "done 1"]
    assert [job.payload for job in sloth.jobs(limit=3)] == payloads[:3]
    assert sloth.jobs(limit=0) == []
    for state, expected in {
        "queued": ["urgent", "waiting", "later"],
        "running": ["running"],
        "done": ["done 2", "done 1"],
        "failed": ["failed"],
        "cancelled": [],
    }.items():
        assert [job.payload for job in sloth.jobs(state=state, queue="q")] == expected
    assert sloth.jobs(queue="unheard of") == []
    assert [job.payload for job in queue.dead_letters(limit=1)] == ["failed"]


def test_a_question_that_makes_no_sense_is_refused(sloth: Sloth):
    with pytest.raises(ValueError, match="state"):
        sloth.jobs(state="sleeping")
    for limit in (-1, 1.5, None, True):
        with pytest.raises(ValueError, match="limit"):
            sloth.jobs(limit=limit)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="limit"):
            sloth.queue("q").dead_letters(limit=limit)  # type: ignore[arg-type]
    assert every_job(sloth) == []


@pytest.mark.parametrize("timeout", [0, "0s", 0.0001])
def test_a_command_without_any_time_is_refused(sloth: Sloth, timeout: float | str):
    with pytest.raises(ValueError, match="timeout must be longer than zero"):
        sloth.queue("q").enqueue_command(["true"], timeout=timeout)
    assert sloth.jobs() == []


def test_a_command_is_named_as_one_would_type_it(sloth: Sloth):
    queue = sloth.queue("q")
    assert queue.enqueue_command(["echo", "a b", "$x"]).name == "echo 'a b' '$x'"
    assert queue.enqueue_command("sort a | uniq", shell=True).name == "sort a | uniq"
