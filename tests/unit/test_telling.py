"""What a worker says of the end of an attempt."""

from __future__ import annotations

import errno

import pytest

from slothqueue import kernel
from slothqueue.models import CANCELLED, DONE, FAILED, QUEUED, Ending
from slothqueue.settling import Settled
from slothqueue.steps import Ended
from slothqueue.storage.base import Held
from slothqueue.telling import count, outcome, stopping

HELD = Held(id=7, lane=1, attempt=2, fence=1, holder=1, worker=1, claimed=0)
GONE = "its process is gone (shim 9)"


@pytest.mark.parametrize(
    ("ending", "became", "said"),
    [
        (Ending("complete"), Settled(DONE, None, None), "done"),
        (Ending("complete", message="sent"), Settled(DONE, None, None), "done: sent"),
        (Ending("complete", message="sent"), None, "was settled by another worker: sent"),
        (
            Ending("fail", error="E: x\n\nmore"),
            Settled(QUEUED, 4000, 3),
            "failed: E: x; again in 4s (attempt 2 of 3)",
        ),
        (Ending("fail", error="E: x"), Settled(CANCELLED, None, 3), "cancelled: E: x"),
        (Ending("retry"), Settled(QUEUED, 500, 3), "failed; again in 500ms (attempt 2 of 3)"),
        (
            Ending("discard", error="bad"),
            Settled(FAILED, None, 3),
            "failed for good: bad (attempt 2 of 3)",
        ),
        (
            Ending("reclaim", error=GONE),
            Settled(QUEUED, None, 3),
            f"re-issued: {GONE} (attempt 2 of 3)",
        ),
        (
            Ending("reclaim", error=GONE),
            Settled(FAILED, None, 2),
            f"failed for good: {GONE} (attempt 2 of 2)",
        ),
        (Ending("snooze", delay=60_000), Settled(QUEUED, 60_000, 3), "snoozed: again in 1m"),
        (
            Ending("release", reason="its worker stops", error="was stopped; signalled: 9 x"),
            Settled(QUEUED, None, 3),
            "given back: its worker stops",
        ),
        (Ending("fail", error="x"), None, "was settled by another worker: x"),
    ],
)
def test_the_end_of_an_attempt_is_told_with_what_follows(
    ending: Ending, became: Settled | None, said: str
):
    assert outcome(Ended(HELD, ending), became) == f"job 7 attempt 2: {said}"


def test_a_worker_that_stops_says_for_whom_and_how_long_it_waits():
    assert stopping(0, 10_000) == "stopping"
    assert stopping(1, 10_000) == ("stopping: 1 job is running, for up to 10s; stop again to hurry")
    assert stopping(2, 0) == "stopping: 2 jobs are running, and given back at once"


def test_one_is_not_told_as_many():
    assert [count(n, "job") for n in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "raise fs.inotify.max_user_instances"),
        (OSError(errno.ENOSPC, "No space left"), "raise fs.inotify.max_user_watches"),
        (OSError(errno.EACCES, "Permission denied"), ": /s-live: Permission denied"),
        (OSError(errno.ENOENT, "No such file", "/other"), ": /other: No such file"),
        (OSError("this system has no inotify"), ": /s-live: this system has no inotify"),
    ],
)
def test_only_a_limit_that_was_met_is_told_to_be_raised(error: OSError, said: str):
    told = kernel.why_not_watched(error, "/s-live")
    assert said in told
    assert ("raise" in told) == (error.errno in (errno.EMFILE, errno.ENOSPC))
