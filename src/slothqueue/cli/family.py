"""Whom a job waits for, who waits for it, and who was cancelled with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..control import went_with
from ..models import CANCELLED, STATES

if TYPE_CHECKING:
    from ..client import Sloth
    from ..handles import Job
    from ..storage.base import Tx

FINISHED = 9
"""Its place in the row of a job."""

SHOWN = 8
MOST = 10_000


def count(jobs: int) -> str:
    """`1 job`, `2 jobs`."""
    return "1 job" if jobs == 1 else f"{jobs} jobs"


def went_along(sloth: Sloth, job: Job, *, just_now: bool = False) -> list[int]:
    """Jobs that were cancelled because this one ended as it did; theirs included. `just_now`: when
    it ended the last time, and not before."""
    if job.state not in ("failed", "cancelled"):
        return []
    waits, jobs = sloth.store.waits, sloth.store.jobs

    def look(tx: Tx) -> list[int]:
        found: list[int] = []
        parents, ended = [job.id], job._row[FINISHED] if just_now else None
        while parents and len(found) < MOST:
            parent = parents.pop()
            for id in waits.children(tx, parent):
                if _is_of(jobs.get(tx, id), parent, ended):
                    found.append(id)
                    parents.append(id)
        return found

    return sloth.store.read(look)


def _is_of(child: Any, parent: int, ended: int | None) -> bool:
    """Whether it was cancelled with this parent, at this moment if one is given."""
    if child is None or ended not in (None, child[FINISHED]):
        return False
    return went_with(child, parent)


def stayed(sloth: Sloth, ids: list[int]) -> list[int]:
    """Those of these jobs that are cancelled."""
    jobs = sloth.store.jobs
    return sloth.store.read(lambda tx: [id for id in ids if jobs.state(tx, id) == CANCELLED])


class Family:
    """The parents and the children of one job."""

    def __init__(self, sloth: Sloth, job: Job) -> None:
        waits, jobs = sloth.store.waits, sloth.store.jobs

        def look(tx: Tx) -> tuple[list[int], list[int], dict[int, str]]:
            parents, children = waits.parents(tx, job.id), waits.children(tx, job.id)
            shown = [*parents[:SHOWN], *children[:SHOWN]]
            return parents, children, {id: _state(jobs, tx, id) for id in shown}

        self.parents, self.children, self._states = sloth.store.read(look)

    def told(self, ids: list[int]) -> str:
        """`#3 (done), #4 (running)`; of many, the first ones and how many more."""
        named = [f"#{id} ({self._states[id]})" for id in ids[:SHOWN]]
        return ", ".join([*named, f"{len(ids) - SHOWN} more"] if len(ids) > SHOWN else named)


def _state(jobs: Any, tx: Tx, id: int) -> str:
    state = jobs.state(tx, id)
    if state is None:
        return "deleted"
    return "running" if jobs.running(tx, id) else STATES[state]
