"""Deliberate faults that the model must notice: a test that cannot fail proves nothing.

Each is a substitution in the named SQL, or a pure rule replaced by a wrong one. A fault whose text
is no longer there is an error: keep them in step with what they break.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slothqueue import models, settling, timing, upkeep
from slothqueue.models import Ending, Policy, Verdict
from slothqueue.storage import migrate, sqlite_claims, sqlite_jobs

Patch = pytest.MonkeyPatch
Fault = Callable[[Patch], None]
FAULTS: dict[str, Fault] = {}


def fault(name: str) -> Callable[[Fault], Fault]:
    def keep(function: Fault) -> Fault:
        FAULTS[name] = function
        return function

    return keep


def replace(patch: Patch, statement: str, old: str, new: str) -> None:
    """Change the text of one named statement."""
    text = sqlite_jobs.SQL[statement]
    assert old in text, f"the fault does not fit {statement!r} any more: {text}"
    patch.setitem(sqlite_jobs.SQL, statement, text.replace(old, new))


def rewrite(patch: Patch, old: str, new: str) -> None:
    """Change the text of the schema."""
    right = migrate.scripts()
    assert any(old in text for _, _, text in right), f"the fault does not fit any more: {old!r}"
    wrong = [(version, name, text.replace(old, new)) for version, name, text in right]
    patch.setattr(migrate, "scripts", lambda: wrong)


def judge(patch: Patch, wrong: Callable[[Verdict, Ending, int, Policy], Verdict]) -> None:
    """Replace the verdict on the end of an attempt; `wrong` gets the right one."""
    right = models.verdict
    patch.setattr(
        settling,
        "verdict",
        lambda ending, attempt, policy, wishes: wrong(
            right(ending, attempt, policy, wishes), ending, attempt, policy
        ),
    )


# ---- leases ---------------------------------------------------------------------------------


@fault("settle ignores the fence")
def _(patch: Patch) -> None:
    replace(patch, "end_lease", "fence = ?2", "?2 > 0")
    replace(patch, "complete", "fence = ?5 and holder", "?5 > 0 and holder")
    replace(patch, "complete_many", "r.fence = e.value", "e.value > 0")


@fault("settle ignores the holder")
def _(patch: Patch) -> None:
    replace(patch, "end_lease", "holder = ?3", "?3 <> 0")
    replace(patch, "complete", "and holder = ?7", "and ?7 <> 0")


@fault("heartbeat ignores the fence")
def _(patch: Patch) -> None:
    replace(patch, "extend_lease", "fence = ?2", "?2 > 0")


@fault("heartbeat extends nothing")
def _(patch: Patch) -> None:
    replace(patch, "extend_lease", "set until = ?4", "set until = min(until, ?4)")


@fault("a lease ends a moment too early")
def _(patch: Patch) -> None:
    replace(patch, "first_expiry", "min(r.until)", "min(r.until) - 1")
    replace(patch, "silent_leases", "r.until < ?1", "r.until <= ?1")


@fault("complete leaves the job running")
def _(patch: Patch) -> None:
    rewrite(patch, "delete from _sloth_running where id = new.id;", "select 1;")


@fault("a dead holder is told to be silent")
def _(patch: Patch) -> None:
    right = upkeep.reclaim

    def wrong(reason: str, *more: Any) -> Ending:
        return right("silent" if reason == "gone" else reason, *more)

    patch.setattr(upkeep, "reclaim", wrong)


# ---- claim ----------------------------------------------------------------------------------


@fault("claim ignores the due moment")
def _(patch: Patch) -> None:
    early = "(select due - 3600000 from _sloth_sched"
    replace(patch, "glance", "(select due from _sloth_sched", early)
    replace(patch, "heads", "(select due from _sloth_sched", early)
    replace(patch, "due_jobs", "due <= ?2", "due - 3600000 <= ?2")


@fault("claim ignores the priority")
def _(patch: Patch) -> None:
    replace(patch, "heads", "order by r.priority, r.due", "order by r.due")


@fault("claim does not count the attempt")
def _(patch: Patch) -> None:
    replace(patch, "heads", "j.attempts", "max(j.attempts - 1, 0)")
    replace(patch, "run_heads", "j.attempts + 1", "max(j.attempts, 1)")


@fault("the fence does not grow")
def _(patch: Patch) -> None:
    right = sqlite_claims._claimed
    patch.setattr(sqlite_claims, "_claimed", lambda *given: right(*given)._replace(fence=7))
    replace(patch, "run_heads", "max(j.fence + 1, ?3)", "iif(?3 > 0, 7, 7)")


# ---- what follows ---------------------------------------------------------------------------


@fault("reclaim allows one attempt too many")
def _(patch: Patch) -> None:
    def wrong(judged: Verdict, ending: Ending, attempt: int, policy: Policy) -> Verdict:
        if ending.kind != "reclaim":
            return judged
        return models.verdict(
            ending, attempt, policy._replace(max_attempts=policy.max_attempts + 1)
        )

    judge(patch, wrong)


@fault("release spends an attempt")
def _(patch: Patch) -> None:
    judge(patch, lambda judged, ending, *_: judged._replace(spent=True))


@fault("the back-off has another base")
def _(patch: Patch) -> None:
    right = timing.back_off
    patch.setattr(models, "back_off", lambda n, *, base, cap: right(n, base=base + 1, cap=cap))


@fault("the error of the attempt is not kept")
def _(patch: Patch) -> None:
    replace(patch, "end_attempt", "error = coalesce(?9, error)", "error = coalesce(error, ?9)")


@fault("a delay grows when the clock is set back")
def _(patch: Patch) -> None:
    replace(patch, "sched_behind", "s.base > ?1", "s.base > ?1 + 86400000")


@fault("a moment moves when the clock is set back")
def _(patch: Patch) -> None:
    right = sqlite_jobs._values

    def wrong(job: Any, now: int, base: int) -> tuple[object, ...]:
        return right(job._replace(relative=True), now, base)

    patch.setattr(sqlite_jobs, "_values", wrong)
