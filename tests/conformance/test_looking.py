"""Jobs are found by what they wait for, and who asks for a key is told whose it is."""

from __future__ import annotations

import pytest

from slothqueue import Sloth


def ids(sloth: Sloth, state: str, queue: str | None = None) -> list[int]:
    return [job.id for job in sloth.jobs(state=state, queue=queue)]


def test_queued_jobs_are_found_by_what_they_wait_for(sloth: Sloth):
    queue = sloth.queue("q")
    due = queue.enqueue(1)
    later = queue.enqueue(2, delay="1h")
    held = queue.enqueue(3, hold=True)
    blocked = queue.enqueue(4, after=[due])
    both = queue.enqueue(5, after=[due], hold=True)
    sloth.queue("other").enqueue(6, hold=True)
    assert ids(sloth, "scheduled") == [later.id]
    assert ids(sloth, "held", "q") == [held.id, both.id]
    assert ids(sloth, "blocked") == [blocked.id, both.id]
    assert set(ids(sloth, "queued", "q")) == {
        due.id,
        later.id,
        held.id,
        blocked.id,
        both.id,
    }
    assert ids(sloth, "running") == []


def test_a_state_that_there_is_not_is_refused(sloth: Sloth):
    with pytest.raises(ValueError, match="scheduled, blocked, held"):
        sloth.jobs(state="ready")


def test_who_meets_the_job_with_the_key_is_told(sloth: Sloth):
    queue = sloth.queue("q")
    first = queue.enqueue(1, unique="k")
    again = queue.enqueue(2, unique="k")
    assert (first.existed, again.existed, again.id) == (False, True, first.id)
    assert not sloth.job(first.id).existed
    replaced = queue.enqueue(3, unique="k", on_conflict="replace")
    assert not replaced.existed
    assert replaced.id != first.id


def test_a_dry_run_of_pruning_counts_what_would_go(sloth: Sloth):
    queue = sloth.queue("q")
    jobs = [queue.enqueue(n) for n in range(3)]
    for job in jobs:
        job.cancel()
    waiting = queue.enqueue(4)
    after = queue.enqueue(5, after=[waiting])
    assert [total for total, _ in sloth.pruned(0, dry=True)] == [3]
    waiting.cancel()  # and the newest with it, which stays
    assert after.refresh().state == "cancelled"
    assert [total for total, _ in sloth.pruned(0, dry=True)] == [4]
    assert sloth.prune(0) == 4
    assert sloth.job(after.id).state == "cancelled"
