"""What must hold of the filing of jobs at any moment, and short ways to end them in every way."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import Any

from slothqueue import Job, Lease, Sloth


def rows(sloth: Sloth, sql: str, *parameters: Any) -> list[Any]:
    """What a plain client reads, or does."""
    connection = sqlite3.connect(sloth.path, timeout=5, isolation_level=None)
    try:
        return connection.execute(sql, parameters).fetchall()
    finally:
        connection.close()


def delete_row(sloth: Sloth, job: Job | int) -> None:
    """What a foreign program does to a job."""
    rows(sloth, "delete from _sloth_job where id = ?", job if isinstance(job, int) else job.id)


FILED = """select id from _sloth_ready union all select id from _sloth_sched
           union all select id from _sloth_gated union all select id from _sloth_running"""


def check_filing(sloth: Sloth) -> None:
    """Every live job is in one place or parked for a reason; no edge waits for an ended parent."""
    places = Counter(row[0] for row in rows(sloth, FILED))
    assert set(places.values()) <= {1}, f"in two places: {places}"
    live = dict(rows(sloth, "select id, parked from _sloth_job where state = 0"))
    nowhere = {id for id, parked in live.items() if id not in places and not parked & 3}
    assert not nowhere, f"filed nowhere without a reason: {nowhere}"
    assert set(places) <= set(live), f"filed and not live: {set(places) - set(live)}"
    both = {id for id in places if live[id] & 3}
    assert not both, f"parked and filed: {both}"
    gated = {row[0] for row in rows(sloth, "select id from _sloth_gated")}
    assert gated == {id for id, parked in live.items() if parked & 4}, gated
    vain = """select e.child, e.parent from _sloth_edge e join _sloth_job c on c.id = e.child
              left join _sloth_job p on p.id = e.parent
              where e.ended = 0 and c.state = 0 and coalesce(p.state, 9) > 0
              and e.parent not in (select job from _sloth_gone)"""
    assert not rows(sloth, vain), f"waits in vain: {rows(sloth, vain)}"
    idle = """select id from _sloth_job j where state = 0 and parked & 2 > 0
              and not exists (select 1 from _sloth_edge e where e.child = j.id and e.ended = 0)"""
    assert not rows(sloth, idle), f"blocked by nobody: {rows(sloth, idle)}"
    expiry = """select job from _sloth_expiry where not exists
                (select 1 from _sloth_job j where j.id = job and j.state = 0)"""
    assert not rows(sloth, expiry), f"ended and still expires: {rows(sloth, expiry)}"


def take(sloth: Sloth, job: Job) -> Lease:
    """Claim just this job, which is the first of its queue."""
    lease = sloth.queue(job.queue).claim()
    assert lease is not None, job.why()
    assert lease.id == job.id, lease
    return lease


def fail_for_good(sloth: Sloth, job: Job) -> None:
    take(sloth, job).discard("boom")


ENDS: dict[str, Callable[[Sloth, Job], Any]] = {
    "done": lambda sloth, job: take(sloth, job).complete(),
    "failed": lambda sloth, job: take(sloth, job).fail("boom"),
    "discarded": fail_for_good,
    "cancelled": lambda sloth, job: job.cancel(),
    "cancelled while it ran": lambda sloth, job: (take(sloth, job), job.cancel()),
    "expired": lambda sloth, job: None,
    "deleted": delete_row,
}
