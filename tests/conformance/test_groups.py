"""Several jobs as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from slothqueue import JobCancelled, ManualClock, Sloth


def test_a_group_of_what_is_no_job_is_refused_by_name(sloth: Sloth):
    with pytest.raises(ValueError, match="group takes jobs or their ids, not 'x'"):
        sloth.group([sloth.queue("q").enqueue(1), "x"])  # type: ignore[list-item]


def test_a_group_counts_its_jobs(sloth: Sloth):
    queue = sloth.queue("q", max_attempts=1)
    group = sloth.group(queue.enqueue_many([1, 2, 3, 4]))
    leases = queue.claim_many(3)
    leases[0].complete()
    leases[1].fail("no")
    group.jobs[3].cancel()
    counts = {state: n for state, n in group.counts().items() if n}
    assert counts == {"running": 1, "done": 1, "failed": 1, "cancelled": 1}
    assert not group.ended


def test_a_group_is_waited_for_until_all_have_ended(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q")
    group = sloth.group(queue.enqueue_many([1, 2]))
    first, second = queue.claim_many(2)
    first.complete(result="one")
    with pytest.raises(TimeoutError, match="2 jobs"):
        group.wait(timeout=0)
    second.complete(result="two")
    assert group.wait(timeout=0)["done"] == 2
    assert group.results() == ["one", "two"]


def test_a_group_whose_job_is_revived_is_waited_for_again(
    sloth: Sloth, monkeypatch: pytest.MonkeyPatch
):
    queue = sloth.queue("q", max_attempts=1)
    group = sloth.group(queue.enqueue_many([1, 2, 3]))
    first, second, third = queue.claim_many(3)
    steps: dict[int, Callable[[], object]] = {
        1: lambda: (third.complete(), first.fail("no")),
        3: lambda: (first.job.revive(), second.complete()),
        6: lambda: queue.complete_many(queue.claim_many(1)),
    }
    asked: list[list[int]] = []
    live_of = sloth.verbs.live_of

    def hear(ids: Sequence[int], *limit: int) -> list[int]:
        """Answers, and then something happens."""
        asked.append(list(ids))
        answer = live_of(ids, *limit)
        steps.get(len(asked), lambda: None)()
        return answer

    monkeypatch.setattr(sloth.verbs, "live_of", hear)
    assert group.wait()["done"] == 3
    one, two, three = group.ids
    every = [one, two, three]
    assert asked == [[three], [three], every, [two], [two], every, [one], [one], every]


def test_a_cancelled_group_starts_nothing_any_more(sloth: Sloth):
    queue = sloth.queue("q")
    group = sloth.group(queue.enqueue_many([1, 2]))
    group.cancel("not today")
    assert group.ended
    assert queue.claim() is None
    with pytest.raises(JobCancelled, match="not today"):
        group.results()


def test_a_large_group_is_cancelled_in_few_transactions(sloth: Sloth):
    queue = sloth.queue("q")
    jobs = queue.enqueue_many(list(range(1_200)))
    lease = queue.claim()
    assert lease is not None
    child = queue.enqueue("child", after=jobs[5])
    group = sloth.group([*jobs, child])
    before = sloth.store.commits
    group.cancel("not today", grace=0)
    assert sloth.store.commits - before <= 5
    assert lease.stopping
    assert (group.counts()["cancelled"], group.counts()["running"]) == (1_200, 1)
    assert child.refresh().message == f"its parent {jobs[5].id} was cancelled"


def test_what_comes_after_a_group_runs_however_its_jobs_ended(sloth: Sloth):
    queue = sloth.queue("q")
    seen: list[object] = []

    @sloth.task()
    def report(*results: object) -> None:
        seen.append(results)

    first, second = queue.enqueue_many([1, 2])
    group = sloth.group([first, second.id], then=report.using(pass_results=True))
    assert group.then is not None
    queue.claim_many(1)[0].complete(result={"n": 1})
    assert group.then.refresh().blocked
    second.cancel()
    assert sloth.worker(pool="thread").run_until_idle() == 1
    assert seen == [({"n": 1}, None)]


def test_a_command_may_come_after_a_group(sloth: Sloth):
    group = sloth.group([sloth.queue("q").enqueue(1)], then=["true"])
    assert group.then is not None
    assert group.then.command == ["true"]
    assert group.then.parents == list(group.ids)


def test_a_chain_passes_results_where_it_is_asked_to(sloth: Sloth):
    @sloth.task()
    def double(number: int) -> int:
        return 2 * number

    @sloth.task()
    def add(one: int, other: int) -> int:
        return one + other

    first = double.enqueue(3)
    second = first.then(double.using(pass_results=True))
    third = second.then(add.using(pass_results=True), 1)
    alone = third.then(double, 5)
    assert [job.state for job in (second, third, alone)] == ["queued"] * 3
    sloth.worker(pool="thread").run_until_idle()
    assert [job.result() for job in (first, second, third, alone)] == [6, 12, 13, 10]


def test_a_call_that_could_not_take_the_results_is_refused_when_it_is_enqueued(sloth: Sloth):
    @sloth.task()
    def nothing() -> None: ...

    first = nothing.enqueue()
    with pytest.raises(TypeError, match=r"nothing.*1 of them results that are passed on"):
        first.then(nothing.using(pass_results=True))
    with pytest.raises(TypeError, match="after="):
        first.then(["true"])
    assert sloth.stats()["queued"] == 1


def test_many_commands_are_written_at_once_or_none(sloth: Sloth):
    queue = sloth.queue("q")
    jobs = queue.enqueue_commands([["echo", "1"], ["echo", "2"]], priority=3, timeout="1m")
    assert [job.command for job in jobs] == [["echo", "1"], ["echo", "2"]]
    assert {(job.priority, job.timeout) for job in sloth.jobs()} == {(3, 60)}
    with pytest.raises(ValueError, match="empty"):
        queue.enqueue_commands([["true"], []])
    assert len(sloth.jobs()) == 2


def test_all_of_a_group_are_cancelled_though_some_are_pruned_meanwhile(
    sloth: Sloth, monkeypatch: pytest.MonkeyPatch
):
    jobs = sloth.queue("q").enqueue_many([1, 2, 3])
    group = sloth.group(jobs)
    monkeypatch.setattr(sloth.verbs, "live_of", lambda ids: list(ids))  # as they were just before
    jobs[0].cancel()
    jobs[1].cancel()
    assert sloth.prune(0) == 2
    group.cancel()
    assert jobs[2].refresh().state == "cancelled"


def test_what_follows_has_the_parents_that_it_was_given_too(sloth: Sloth):
    @sloth.task()
    def last() -> None: ...

    one, two, three = sloth.queue("q").enqueue_many([1, 2, 3])
    assert one.then(last.using(after=three)).parents == [one.id, three.id]
    then = sloth.group([one, two], then=last.using(after=[three])).then
    assert then is not None
    assert then.parents == [one.id, two.id, three.id]
