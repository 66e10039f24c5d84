"""What can be done to a job from outside, and to a queue: cancel, hold, revive, edit, pause."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .clock import Millis
from .codec import decode
from .errors import JobNotFound, WrongState
from .liveness import whoever
from .models import CANCELLED, COMMAND, DONE, FAILED, HELD, QUEUED, RUNNING, STATES
from .options import bare_key
from .settling import note_base
from .storage.base import Edit, Known, Row, Store, Tx
from .upkeep import SLICE, Upkeep

if TYPE_CHECKING:
    from .lanes import Lanes

T = TypeVar("T")

GRACE: Millis = 10_000
"""How long a cancelled attempt has to end by itself."""

KIND, STATE, PAYLOAD, MESSAGE = 2, 4, 14, 17
"""Their places in the row of a job."""

ANCESTRY = "its parent "
"""How the reason begins for which a child was cancelled with its parent."""


class Control:
    """Changes jobs of one store."""

    def __init__(self, store: Store, upkeep: Upkeep, lanes: Lanes) -> None:
        self.store, self.upkeep, self.lanes = store, upkeep, lanes

    def _with(self, id: int, work: Callable[[Tx, Known, Millis], T]) -> T:
        """Run work on what is known of the job, in one transaction. Raises JobNotFound."""
        store = self.store

        def act(tx: Tx) -> T:
            job = store.waits.known(tx, id)
            if job is None:
                raise JobNotFound.of(id)
            return work(tx, job, store.clock.wall())

        return store.write(act)

    # ---- cancel ---------------------------------------------------------------------------------

    def cancel(self, id: int, reason: str | None, grace: Millis) -> None:
        """End a waiting job, ask a running one to end; nothing happens to one that has ended."""
        who = _by(reason)
        if self._with(id, lambda tx, job, now: self._cancel(tx, job, now, who, grace)):
            self._see_to_orphans()

    def cancel_all(self, ids: Sequence[int], reason: str | None, grace: Millis) -> None:
        """The same for many, a slice in each transaction; those that are gone do not matter."""
        who, runs = _by(reason), False

        def work(tx: Tx, part: Sequence[int]) -> bool:
            now, known = self.store.clock.wall(), self.store.waits.known
            jobs = (known(tx, id) for id in part)  # as they are once the ones before are cancelled
            return bool([1 for job in jobs if job and self._cancel(tx, job, now, who, grace)])

        for start in range(0, len(ids), SLICE):
            part = ids[start : start + SLICE]
            runs = self.store.write(lambda tx, part=part: work(tx, part)) or runs  # type: ignore[misc]
        if runs:
            self._see_to_orphans()

    def _see_to_orphans(self) -> None:
        """The holder of what is to end may be dead, or a shim without a worker."""
        if not self.store.bound:
            self.upkeep.run()

    def _cancel(self, tx: Tx, job: Known, now: Millis, who: str, grace: Millis) -> bool:
        waits = self.store.waits
        if job.state == QUEUED:
            waits.cancel(tx, job, now, who)
        elif job.state == RUNNING:
            asked = waits.cancel_asked(tx, job.id)
            if asked is None or int(asked[1]) > grace:  # asked again, it can only be sooner
                waits.ask(tx, job.id, "cancel", now, who if asked is None else asked[0], str(grace))
        return job.state == RUNNING

    def send(self, id: int, kind: str, text: str | None) -> None:
        """Have the worker pass this on to the command's standard input. Raises WrongState."""
        if self.upkeep.is_orphan(id):
            raise WrongState(
                f"job {id} goes on without the worker that started it, and nobody else can write "
                "to its input; cancel it, or wait for its end"
            )
        who = whoever()

        def work(tx: Tx, job: Known, now: Millis) -> None:
            if job.state != RUNNING:
                raise WrongState(f"job {id} is {STATES[job.state]}, so nobody would read that")
            if not _listens(self.store.jobs.get(tx, id)):
                raise WrongState(
                    f"job {id} has no input that could be written to: add it with stdin=True, or "
                    "`sloth add --stdin`"
                )
            self.store.waits.ask(tx, id, kind, now, who, text)

        self._with(id, work)

    # ---- hold -----------------------------------------------------------------------------------

    def hold(self, id: int) -> None:
        """Keep a queued job from running. Raises WrongState."""
        who = whoever()

        def work(tx: Tx, job: Known, now: Millis) -> None:
            if job.state != QUEUED:
                raise WrongState(_not(job, "only a queued job can be held"))
            if not job.parked & HELD:
                self.store.waits.hold(tx, job, now, who)

        self._with(id, work)

    def unhold(self, id: int) -> None:
        """Let a held job go. Raises WrongState for one that is not queued."""
        who = whoever()

        def work(tx: Tx, job: Known, now: Millis) -> None:
            if job.state != QUEUED:
                raise WrongState(_not(job, "only a queued job can be held"))
            if job.parked & HELD:
                self.store.waits.unhold(tx, job, now, who)

        self._with(id, work)

    # ---- revive and edit ------------------------------------------------------------------------

    def revive(self, id: int, *, children: bool = False) -> None:
        """Put a failed or cancelled job back with a fresh budget; `children` too, that were
        cancelled with it. Raises WrongState."""
        who = whoever()

        def work(tx: Tx, job: Known, now: Millis) -> None:
            if job.state not in (FAILED, CANCELLED):
                raise WrongState(_not(job, "only a failed or cancelled job can be put back"))
            family = [job, *(self._descendants(tx, job) if children else ())]
            self._refuse_taken(tx, family)
            self.store.waits.revive(tx, family, now, who)

        self._with(id, work)

    def _descendants(self, tx: Tx, job: Known) -> Iterator[Known]:
        """Those that were cancelled with it, and with them in turn."""
        parents = [job.id]
        while parents:
            parent = parents.pop()
            for id in self.store.waits.children(tx, parent):
                child = self.store.waits.known(tx, id)
                row = self.store.jobs.get(tx, id)
                if child is not None and row is not None and went_with(row, parent):
                    parents.append(id)
                    yield child

    def _refuse_taken(self, tx: Tx, jobs: list[Known]) -> None:
        owners: dict[str, int] = {}
        for job in jobs:
            if job.key is None:
                continue
            other = owners.setdefault(job.key, self.store.waits.with_key(tx, job.key) or job.id)
            if other != job.id:
                raise WrongState(
                    f"job {job.id} cannot be put back: its key {bare_key(job.key)!r} belongs to "
                    f"job {other} by now. Cancel that one first, or leave this one"
                )

    def edit(self, id: int, change: Callable[[Edit], Edit], what: str) -> None:
        """Change a job that does not run and is not done. Raises WrongState, also for a moment of
        one that has ended."""
        who = whoever()

        def work(tx: Tx, job: Known, now: Millis) -> None:
            if job.state in (RUNNING, DONE):
                raise WrongState(_not(job, "it cannot be changed any more"))
            old = self.store.waits.editable(tx, id)
            new = change(old)
            if job.state != QUEUED and (new.due, new.base) != (old.due, old.base):
                raise WrongState(_not(job, "it is due at once when it is put back; edit it then"))
            if new.base is not None and new.base != old.base:
                note_base(self.store, tx, new.base)
            if new != old:
                self.store.waits.edit(tx, job, new, now, who, what)

        self._with(id, work)

    # ---- queues ---------------------------------------------------------------------------------

    def pause(self, queue: str, *, paused: bool) -> None:
        """Start no job of this queue any more, or start them again; it stays so across restarts."""
        names, lanes, clock, who = self.store.names, self.lanes, self.store.clock, whoever()

        def work(tx: Tx) -> None:
            number, since, _ = self._queue(tx, queue) or (lanes.make(tx, queue), None, None)
            if paused != (since is not None):
                when = clock.wall() if paused else None
                names.pause(tx, number, when, who if paused else None)

        self.store.write(work)

    def paused(self, queue: str) -> tuple[Millis, str] | None:
        """Since when and by whom a queue is paused."""
        found = self.store.look(lambda tx: self._queue(tx, queue))
        return None if found is None or found[1] is None else (found[1], found[2] or "")

    def _queue(self, tx: Tx, queue: str) -> tuple[int, Millis | None, Any] | None:
        rows = self.store.names.queues(tx)
        return next(((r.id, r.paused, r.paused_by) for r in rows if r.name == queue), None)


def _by(reason: str | None) -> str:
    return "by " + whoever() + (f": {reason}" if reason else "")


def went_with(row: Row, parent: int) -> bool:
    """Whether this job was cancelled because of this parent."""
    return row[STATE] == CANCELLED and str(row[MESSAGE]).startswith(f"{ANCESTRY}{parent} ")


def _listens(row: Row | None) -> bool:
    """Whether it is a command that was given an input."""
    return row is not None and row[KIND] == COMMAND and bool(decode(row[PAYLOAD]).get("stdin"))


def _not(job: Known, why: str) -> str:
    return f"job {job.id} is {STATES[job.state]}: {why}"
