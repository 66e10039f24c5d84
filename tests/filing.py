"""What must hold of the places of jobs in the file, at every moment between two transactions."""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any


def rows(path: Any, sql: str, *parameters: Any) -> list[Any]:
    """What a plain client reads, or does."""
    connection = sqlite3.connect(path, timeout=5, isolation_level=None)
    try:
        return connection.execute(sql, parameters).fetchall()
    finally:
        connection.close()


_FILED = """select id from _sloth_ready union all select id from _sloth_sched
            union all select id from _sloth_gated union all select id from _sloth_running"""

_IN_VAIN = """select e.child, e.parent from _sloth_edge e join _sloth_job c on c.id = e.child
              left join _sloth_job p on p.id = e.parent
              where e.ended = 0 and c.state = 0 and coalesce(p.state, 9) > 0
              and e.parent not in (select job from _sloth_gone)"""

_BLOCKED_BY_NOBODY = """select id from _sloth_job j where state = 0 and parked & 2 > 0
    and not exists (select 1 from _sloth_edge e where e.child = j.id and e.ended = 0)"""

_ENDED_AND_EXPIRES = """select job from _sloth_expiry
    where not exists (select 1 from _sloth_job j where j.id = job and j.state = 0)"""

_ASKED_OF_NOBODY = """select job from _sloth_ask
    where not exists (select 1 from _sloth_running r where r.id = job)"""

_FOR_NOBODY = """select gate from _sloth_gated g where not exists
        (select 1 from _sloth_running r join _sloth_extra x on x.job = r.id where x.gate = g.gate)
    and not exists
        (select 1 from _sloth_ready r join _sloth_extra x on x.job = r.id where x.gate = g.gate)"""


def check_filing(path: Any) -> None:
    """Every live job is in one place or parked for a reason; nobody waits for what has ended."""
    places = Counter(row[0] for row in rows(path, _FILED))
    assert set(places.values()) <= {1}, f"in two places: {places}"
    live = dict(rows(path, "select id, parked from _sloth_job where state = 0"))
    nowhere = {id for id, parked in live.items() if id not in places and not parked & 3}
    assert not nowhere, f"filed nowhere without a reason: {nowhere}"
    assert set(places) <= set(live), f"filed and not live: {set(places) - set(live)}"
    both = {id for id in places if live[id] & 3}
    assert not both, f"parked and filed: {both}"
    gated = {row[0] for row in rows(path, "select id from _sloth_gated")}
    assert gated == {id for id, parked in live.items() if parked & 4}, gated
    for what, sql in {
        "waits in vain": _IN_VAIN,
        "blocked by nobody": _BLOCKED_BY_NOBODY,
        "ended and still expires": _ENDED_AND_EXPIRES,
        "asked of what does not run": _ASKED_OF_NOBODY,
        "kept back by a key that nobody has": _FOR_NOBODY,
    }.items():
        assert not rows(path, sql), f"{what}: {rows(path, sql)}"
