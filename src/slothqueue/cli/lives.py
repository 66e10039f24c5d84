"""Who runs a job right now: which process, and whether its worker is still there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..liveness import verdict

if TYPE_CHECKING:
    from ..client import Sloth
    from ..storage.base import Holder


class Life(NamedTuple):
    """The process of one running job. `shim` is the process of ours above a command."""

    pid: int | None
    shim: int | None
    orphan: bool
    """Whether its worker is gone, so that it runs on by itself."""

    @property
    def process(self) -> str:
        """For people: `pid 7 (under shim 5)`."""
        if self.pid is None:
            return "" if self.shim is None else f"shim {self.shim}"
        return f"pid {self.pid}" + ("" if self.shim is None else f" (under shim {self.shim})")


NOBODY = Life(None, None, False)
ORPHAN = "worker gone, runs on"


def life_facts(life: Life) -> dict[str, int | None]:
    """The same for programs."""
    return {"pid": life.pid, "shim": life.shim}


def lives(sloth: Sloth) -> dict[int, Life]:
    """The processes of all running jobs that have one of their own."""
    jobs, store, place = sloth.store.jobs, sloth.store, sloth.presence.place
    seen = store.read(
        lambda tx: [
            (one, [held.id for held in jobs.leases_of(tx, one.id)]) for one in jobs.holders(tx)
        ]
    )
    said = {holder.id: verdict(holder, place, store.live) for holder, _ in seen}
    return {
        id: _life(holder, said, here=holder.pidns == place.pidns)
        for holder, ids in seen
        if holder.kind != "worker"
        for id in ids
    }


def _life(holder: Holder, said: dict[int, str], *, here: bool) -> Life:
    orphan = said.get(holder.worker, "gone") in ("gone", "restarted")
    alive = said[holder.id] == "alive"
    if holder.kind != "shim":
        return Life(holder.pid if alive else None, None, False)
    if not alive:
        return NOBODY
    return Life(_first_child(holder.pid) if here else None, holder.pid, orphan)


def _first_child(pid: int) -> int | None:
    """The command of a shim: its oldest child. Source: proc(5), /proc/PID/task/TID/children."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return int(file.read().split()[0])
    except (OSError, IndexError, ValueError):
        return None
