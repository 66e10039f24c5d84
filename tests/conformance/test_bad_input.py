"""Bad input is refused with nothing written, and what looks like nothing means what it says."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from slothqueue import JobNotFound, ManualClock, NotSerializable, Sloth

from .telling import every_job

START = dt.datetime(2025, 1, 1, tzinfo=dt.UTC)

NAIVE = dt.datetime(2030, 1, 1)


class Odd:
    pass


@pytest.mark.parametrize(
    "payload",
    [float("nan"), float("inf"), b"x", {1}, Odd(), {1: 2}, {"a": [float("-inf")]}, "\ud800"],
)
def test_what_is_not_json_is_refused_and_nothing_is_written(sloth: Sloth, payload: object):
    queue = sloth.queue()
    with pytest.raises(NotSerializable):
        queue.enqueue(payload)
    with pytest.raises(NotSerializable, match=r"payloads\[1\]"):
        queue.enqueue_many([{"fine": 1}, payload])
    assert every_job(sloth) == []


@pytest.mark.parametrize(
    "options",
    [
        {"delay": -1},
        {"delay": "-5m"},
        {"delay": "soon"},
        {"delay": ""},
        {"delay": float("nan")},
        {"delay": float("inf")},
        {"delay": 10**400},
        {"delay": True},
        {"delay": [1]},
        {"delay": dt.timedelta(seconds=-1)},
        {"delay": dt.timedelta.max},
        {"delay": "2000000000w"},
        {"run_at": NAIVE},
        {"run_at": NAIVE.isoformat()},
        {"run_at": "tomorrow"},
        {"run_at": 0},
        {"run_at": "2030-01-01T00:00:00Z", "delay": 0},
        {"priority": 1.5},
        {"priority": "high"},
        {"priority": ""},
        {"priority": None},
        {"priority": True},
        {"priority": 2**63},
        {"max_attempts": 0},
        {"max_attempts": -1},
        {"max_attempts": 2.0},
        {"max_attempts": False},
    ],
    ids=repr,
)
def test_an_option_that_makes_no_sense_is_refused_and_nothing_is_written(
    sloth: Sloth, options: dict[str, Any]
):
    queue = sloth.queue()
    for call in (
        lambda: queue.enqueue(1, **options),
        lambda: queue.enqueue_many([1, 2], **options),
    ):
        with pytest.raises(ValueError, match=next(iter(options))):
            call()
    assert every_job(sloth) == []


@pytest.mark.parametrize("id", [0, -1, 99, 2**63, 2**200, "7", None, 1.5])
def test_an_unknown_id_is_said_to_be_unknown(sloth: Sloth, id: int):
    sloth.queue().enqueue(1)
    with pytest.raises(JobNotFound, match="no job"):
        sloth.job(id)


@pytest.mark.parametrize("limit", [0, -1, 1.5, "x", None, True, 10**9])
def test_a_number_of_jobs_to_claim_that_makes_no_sense_is_refused(sloth: Sloth, limit: int):
    with pytest.raises(ValueError, match="limit"):
        sloth.queue().claim_many(limit)


@pytest.mark.parametrize("call", ["retry", "snooze"])
@pytest.mark.parametrize("delay", [-1, "never", float("nan"), True])
def test_a_lease_survives_a_delay_that_makes_no_sense(sloth: Sloth, call: str, delay: object):
    job = sloth.queue().enqueue(1)
    lease = sloth.queue().claim()
    assert lease is not None
    with pytest.raises(ValueError, match="delay"):
        getattr(lease, call)(delay)
    lease.complete()
    assert job.refresh().state == "done"


def test_a_lease_survives_a_result_that_is_not_json(sloth: Sloth):
    job = sloth.queue().enqueue(1)
    lease = sloth.queue().claim()
    assert lease is not None
    with pytest.raises(NotSerializable, match="result"):
        lease.complete({"x": float("nan")})
    assert job.refresh().state == "running"
    lease.complete({"x": 1})
    assert job.result() == {"x": 1}


# ---- options that look like nothing (scenario 45) -------------------------------------------


def test_zero_means_zero(sloth: Sloth, clock: ManualClock):
    queue = sloth.queue("q", backoff=(5, "1h"))
    now = queue.enqueue("now", delay=0, priority=0)
    assert (now.run_at, now.priority) == (START, 0)
    lease = queue.claim()
    assert lease is not None
    lease.retry(delay=0)  # and not the usual back-off
    lease = queue.claim()
    assert lease is not None
    assert lease.attempt == 2
    lease.snooze(0)
    lease = queue.claim()
    assert lease is not None
    assert lease.attempt == 2
    lease.complete(result=0, message="")
    assert now.result(timeout=0) == 0
    assert now.refresh().message == ""


@pytest.mark.parametrize("result", [None, False, 0, "", [], {}])
def test_a_result_that_looks_like_nothing_is_a_result(sloth: Sloth, result: object):
    job = sloth.queue().enqueue(1)
    lease = sloth.queue().claim()
    assert lease is not None
    lease.complete(result)
    assert job.result(timeout=0) == result
    assert type(job.result()) is type(result)


@pytest.mark.parametrize(
    "options",
    [
        {"max_output": 0},
        {"separate": True, "tty": True},
        {"stdin": "yes"},
        {"clean_env": 1},
        {"retry_on": ["killed"]},
        {"nice": 20},
        {"keep_log": "sometimes"},
        {"env": {"A=B": "1"}},
    ],
)
def test_a_command_with_options_that_make_no_sense_is_not_written(
    sloth: Sloth, options: dict[str, Any]
):
    with pytest.raises(ValueError):
        sloth.queue().enqueue_command(["true"], **options)
    with pytest.raises(TypeError, match="no option 'colour'"):
        sloth.queue().enqueue_command(["true"], colour=True)  # type: ignore[call-arg]
    assert every_job(sloth) == []
