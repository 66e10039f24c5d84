"""The verdict on the end of an attempt: a pure rule."""

from __future__ import annotations

import pytest

from slothqueue.models import DONE, FAILED, QUEUED, REASONS, Ending, Policy, Verdict, verdict

POLICY = Policy(max_attempts=4, base=2.0, cap=3_600_000)


def kinds(judged: Verdict) -> list[str]:
    return [kind for kind, _, _ in judged.events]


def test_an_attempt_that_succeeded_ends_the_job():
    judged = verdict(Ending("complete", result="1"), 1, POLICY)
    assert (judged.state, judged.spent, judged.delay, judged.events) == (DONE, True, None, ())


@pytest.mark.parametrize(("attempt", "delay"), [(1, 2_000), (2, 4_000), (3, 8_000)])
def test_a_failed_attempt_is_followed_by_another(attempt: int, delay: int):
    judged = verdict(Ending("fail", error="no\ntrace"), attempt, POLICY)
    assert (judged.state, judged.spent, judged.delay) == (QUEUED, True, delay)
    assert kinds(judged) == ["failed_attempt", "retried"]
    assert judged.events[0] == ("failed_attempt", "no", "no\ntrace")


@pytest.mark.parametrize("kind", ["fail", "retry", "reclaim"])
@pytest.mark.parametrize("attempt", [4, 5])
def test_the_last_attempt_of_the_budget_is_the_last(kind: str, attempt: int):
    judged = verdict(Ending(kind, error="no", reason="gone", delay=5), attempt, POLICY)
    assert (judged.state, judged.spent, judged.delay) == (FAILED, True, None)
    assert kinds(judged)[-1] == "failed"


@pytest.mark.parametrize("kind", ["fail", "retry", "reclaim"])
def test_the_attempt_before_it_is_not(kind: str):
    assert verdict(Ending(kind, error="no", reason="gone"), 3, POLICY).state == QUEUED


def test_a_delay_of_its_own_replaces_the_back_off_even_if_it_is_zero():
    assert verdict(Ending("retry", delay=5), 1, POLICY).delay == 5
    assert verdict(Ending("retry", delay=0), 1, POLICY).delay == 0
    assert verdict(Ending("retry"), 1, POLICY).delay == 2_000


@pytest.mark.parametrize("reason", REASONS)
def test_what_is_taken_back_keeps_its_place_and_tells_the_reason(reason: str):
    judged = verdict(Ending("reclaim", error="why", reason=reason), 1, POLICY)
    assert (judged.state, judged.spent, judged.delay) == (QUEUED, True, None)
    assert judged.events == (("reclaimed", reason, "why"),)


@pytest.mark.parametrize("attempt", [1, 4, 99])
def test_what_is_given_back_spends_nothing_even_at_the_end_of_the_budget(attempt: int):
    released = verdict(Ending("release"), attempt, POLICY)
    snoozed = verdict(Ending("snooze", delay=9), attempt, POLICY)
    assert (released.state, released.spent, released.delay) == (QUEUED, False, None)
    assert (snoozed.state, snoozed.spent, snoozed.delay) == (QUEUED, False, 9)
    assert (kinds(released), kinds(snoozed)) == (["released"], ["snoozed"])


def test_a_discarded_job_fails_with_all_its_budget_left():
    judged = verdict(Ending("discard", error="bad"), 1, POLICY)
    assert (judged.state, judged.spent) == (FAILED, True)
    assert judged.events == (("failed", "discarded", "bad"),)


def test_a_failure_without_a_word_has_no_reason():
    assert verdict(Ending("retry"), 1, POLICY).events[0] == ("failed_attempt", None, None)
    assert verdict(Ending("fail", error=""), 1, POLICY).events[0][1] is None


def test_the_reasons_are_in_the_order_in_which_they_are_looked_at():
    assert list(REASONS) == ["restarted", "gone", "silent"]
