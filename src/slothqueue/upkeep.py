"""The rota: takes back what the dead and the silent hold, and keeps delays true to the clock.

Anybody may run it: workers do, and so does whoever claims by hand or waits. Looking is read-only; a
transaction is opened only when there is something to take back, and what was seen is checked again
inside it by fence and holder.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import NamedTuple

from . import receipts
from .clock import Millis
from .liveness import end_process, free, verdict
from .models import REASONS, Ending
from .presence import Presence
from .settling import NOTICED, base, settle
from .storage.base import Held, Holder, Row, Store, Tx

BETWEEN_LOOKS: Millis = 1_000
"""Claims that find work look for the dead at most this often; those that find none, always."""

SHORTEST: Millis = 10
"""Nobody looks more often than this for what the last look could not take back."""

HEAD_START: Millis = 250
"""How long a living worker has to settle what its own child or shim left, before others do."""


MERCY: Millis = 1_000
"""A lease that a worker keeps by heartbeats is taken when it is still late after this long: if the
store was locked for a while, its worker had no chance before, and has it now."""

AN_HOUR = 3_600.0
"""A lock file without a row may belong to somebody who is just about to write it."""


SLICE = 500
"""Jobs that the rota cancels in one transaction."""

A_MONTH: Millis = 30 * 86_400_000
"""How long the names of ended workers are kept for the history of jobs."""


class Doomed(NamedTuple):
    """A holder whose leases are to be taken back, and why."""

    holder: Holder
    reason: str
    leases: tuple[Held, ...]


class Chores(NamedTuple):
    """What there may be to do: when the next lease ends (awake time) and the next job expires
    (wall), whether parents were deleted, and which attempts are to be cancelled."""

    lease: Millis | None
    expiry: Millis | None
    gone: bool
    asks: list[Row]


class Upkeep:
    """The rota of one handle."""

    def __init__(
        self, store: Store, presence: Presence, live: str, store_id: Callable[[], str]
    ) -> None:
        self._store, self._presence, self._live = store, presence, live
        self._store_id = store_id
        self._looked: Millis | None = None
        self._promised: Millis | None = None
        self._boot = ""
        self._first_seen: dict[int, Millis] = {}
        self._late: dict[tuple[int, int, Millis], Millis] = {}
        self.minded: set[int] = set()
        """Jobs whose timed leases a worker of this handle extends: who looks is not silent."""

    def due(self) -> bool:
        """Whether it is time for a look even though there is other work."""
        awake = self._store.clock.awake()
        if self._looked is None or self._boot != self._store.clock.boot():
            self._late = {}
            return True
        if self._promised is not None and awake >= self._promised:
            return True
        return awake - self._looked >= BETWEEN_LOOKS

    def next_look(self) -> Millis | None:
        """In how many ms of awake time a lease ends, if any is timed; then a look is `due()`."""
        chores = self._store.look(self._chores)
        expiry, awake = chores.lease, self._store.clock.awake()
        waits = [first + MERCY - awake for first in self._late.values()]
        if expiry is not None and not (self._late and expiry < awake):
            waits.append(expiry + 1 - awake)
        if self._first_seen:
            waits.append(HEAD_START)
        if chores.expiry is not None:
            waits.append(chores.expiry - self._store.clock.wall())
        if not waits:
            return None
        wait = max(min(waits), SHORTEST)
        self._promised = min(awake + wait, self._promised or awake + wait)
        return wait

    def _chores(self, tx: Tx) -> Chores:
        jobs, waits, boot = self._store.jobs, self._store.waits, self._store.clock.boot()
        gone, asks = bool(waits.gone_parents(tx, 1)), waits.orphan_asks(tx)
        return Chores(jobs.first_expiry(tx, boot), waits.next_expiry(tx), gone, asks)

    def run(self) -> int:
        """Look at every holder and every lease, take back what is due; how many jobs that were."""
        clock = self._store.clock
        self._looked, self._boot, self._promised = clock.awake(), clock.boot(), None
        self.watch_clock()
        doomed, chores = self._doomed(), self._store.look(self._chores)
        silent = chores.lease is not None and chores.lease < clock.awake()
        ended = self._end_waits(chores)
        self._stop_orphans(chores.asks)
        if not doomed and not silent:
            return ended
        for one in doomed:
            self._end_leftovers(one)
        taken = self._store.write(lambda tx: self._take_back(tx, doomed), tell=False)
        if taken:
            self._store.ring()
        for one in doomed:
            self._drop_logs(one)
            self._tidy(one.holder)
        return taken + ended

    def _end_waits(self, chores: Chores) -> int:
        """Cancel what has expired, and those whose parents were deleted; how many there were."""
        store, now = self._store, self._store.clock.wall()
        late = chores.expiry is not None and chores.expiry <= now
        if not late and not chores.gone:
            return 0

        def work(tx: Tx) -> int:
            gone = store.waits.gone_parents(tx, SLICE)
            for job in gone:
                store.waits.meet_gone(tx, job, now)
            return store.waits.expire(tx, now, SLICE) + len(gone)

        return store.write(work)

    def _stop_orphans(self, asks: list[Row]) -> None:
        """Commands that somebody wants cancelled, and whose worker is not there to do it."""
        if not asks:
            return
        holders = {holder.id: holder for holder in self._store.look(self._store.jobs.holders)}
        for _, held_by, worker in asks:
            shim, master = holders.get(held_by), holders.get(worker)
            orphan = master is None or self._verdict(master) in REASONS
            if orphan and shim is not None and self._is_shim_here(shim):
                receipts.stop_orphan(shim.pid, shim.started)

    def is_orphan(self, job: int) -> bool:
        """Whether this job is held, by a shim say, and the worker that started it is gone."""
        holders, leases = self._store.look(
            lambda tx: (self._store.jobs.holders(tx), self._store.jobs.leases_of(tx, None))
        )
        worker = next((held.worker for held in leases if held.id == job), None)
        masters = [holder for holder in holders if holder.id == worker]
        return any(self._verdict(master) in REASONS for master in masters)

    def _is_shim_here(self, holder: Holder) -> bool:
        return holder.kind == "shim" and holder.pidns == self._presence.place.pidns

    # ---- looking --------------------------------------------------------------------------------

    def _doomed(self) -> list[Doomed]:
        holders = self._store.look(self._store.jobs.holders)
        self._first_seen = {
            holder.id: self._first_seen[holder.id]
            for holder in holders
            if holder.id in self._first_seen
        }
        said = {holder.id: self._verdict(holder) for holder in holders}
        dead = [
            holder
            for holder in holders
            if said[holder.id] in REASONS and not self._has_head_start(holder, said)
        ]
        with_leases = (
            (holder, self._store.look(lambda tx, id=holder.id: self._store.jobs.leases_of(tx, id)))  # type: ignore[misc]
            for holder in dead
        )
        return [
            Doomed(holder, said[holder.id], tuple(leases))
            for holder, leases in with_leases
            if leases
        ]

    def _verdict(self, holder: Holder) -> str:
        """As `liveness.verdict`, but for where a free lock proves nothing."""
        if self._presence.is_ours(holder):
            return "alive"
        said = verdict(holder, self._presence.place, self._live)
        return "unknown" if said == "gone" and not self._store.trusts_locks else said

    def _has_head_start(self, holder: Holder, said: dict[int, str]) -> bool:
        """A child or a shim of a living worker is the worker's to settle: it knows how it ended."""
        if holder.worker == holder.id or said.get(holder.worker) != "alive":
            return False
        now = self._store.clock.awake()
        return now - self._first_seen.setdefault(holder.id, now) < HEAD_START

    # ---- acting ---------------------------------------------------------------------------------

    def _take_back(self, tx: Tx, doomed: list[Doomed]) -> int:
        taken = 0
        for one in doomed:
            leases = self._store.jobs.leases_of(tx, one.holder.id)
            taken += sum(self._settle(tx, held, one) for held in leases)
            if one.holder.worker == one.holder.id:
                self._store.names.end_holder(tx, one.holder.id, self._store.clock.wall())
            else:
                self._store.names.drop_helper(tx, one.holder.id)
        return taken + self._take_back_silent(tx)

    def _take_back_silent(self, tx: Tx) -> int:
        """Leases that ran out, unless their worker may only have had no chance to extend them."""
        clock, names = self._store.clock, self._store.names
        awake, known, taken = clock.awake(), self._late, 0
        workers = {row[0] for row in names.live_holders(tx) if row[-1] is not None}
        self._late = {}
        for held in self._store.jobs.silent(tx, awake, clock.boot()):
            if held.id in self.minded and held.worker == self._presence.id_if_any:
                continue
            late = (held.id, held.fence, held.until or 0)
            first = known.get(late, awake)
            if held.worker in workers and awake - first < MERCY:
                self._late[late] = first
                continue
            taken += settle(self._store, tx, held, reclaim("silent"))
        return taken

    def _settle(self, tx: Tx, held: Held, one: Doomed) -> bool:
        told = None
        if one.holder.kind == "shim":
            told = receipts.read(self._store.file(held.id, held.attempt, held.fence))
        ending = receipts.ending(told) if told else reclaim(one.reason, one.holder.label)
        return settle(self._store, tx, held, ending)

    def _end_leftovers(self, one: Doomed) -> None:
        """End what still runs of an attempt before the job runs again.

        A shim that was killed leaves its command running; a function that closes all files lets go
        of the lock of its child, and goes on.
        """
        if one.reason != "gone":
            return
        if one.holder.kind == "child":
            end_process(one.holder, self._presence.place)
        if one.holder.kind != "shim":
            return
        for held in one.leases:
            files = self._store.file(held.id, held.attempt, held.fence)
            if receipts.read(files) is None:
                cookie = receipts.cookie(self._store_id(), held.id, held.fence)
                receipts.sweep(cookie, one.holder.pid, files)

    def _drop_logs(self, one: Doomed) -> None:
        """The output of commands that is not to be kept, now that they are settled."""
        for held in one.leases if one.holder.kind == "shim" else ():
            files = self._store.file(held.id, held.attempt, held.fence)
            if told := receipts.read(files):
                receipts.drop_logs(files, told)

    def _tidy(self, holder: Holder) -> None:
        self._first_seen.pop(holder.id, None)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._live, holder.lock))

    # ---- collecting -----------------------------------------------------------------------------

    def collect(self) -> None:
        """Forget the dead who hold nothing, and lock files that nobody has told of for an hour."""
        rows = self._store.look(self._store.names.live_holders)
        known = [Holder(*row[: len(Holder._fields)]) for row in rows]
        dead = [holder for holder in known if self._verdict(holder) in REASONS]
        self._store.write(lambda tx: self._forget(tx, dead), durable=False, tell=False)
        self._collect_files({holder.lock for holder in known} - {holder.lock for holder in dead})

    def anybody_works(self) -> bool:
        """Whether a worker lives, here or elsewhere."""
        rows = self._store.look(self._store.names.live_holders)
        size = len(Holder._fields)
        working = [Holder(*row[:size]) for row in rows if row[-1] is not None]
        return any(self._verdict(holder) not in REASONS for holder in working)

    def _forget(self, tx: Tx, dead: list[Holder]) -> None:
        for holder in dead:
            if not self._store.jobs.leases_of(tx, holder.id):
                self._store.names.end_holder(tx, holder.id, self._store.clock.wall())
                self._store.names.drop_helper(tx, holder.id)
        self._store.names.drop_ended(tx, self._store.clock.wall() - A_MONTH)

    def _collect_files(self, known: set[str]) -> None:
        with contextlib.suppress(OSError), os.scandir(self._live) as entries:
            for entry in entries:
                if entry.name.endswith(".lock") and entry.name not in known:
                    self._collect_file(entry)

    def _collect_file(self, entry: os.DirEntry[str]) -> None:
        # By the clock of the file system, as its own time stamps are.
        age = os.stat(self._live).st_mtime - entry.stat().st_mtime
        if age > AN_HOUR and free(entry.path):
            os.unlink(entry.path)

    # ---- clocks ---------------------------------------------------------------------------------

    def watch_clock(self) -> None:
        """If the wall clock was set back, move the delays asked for before: none may grow by it.

        Nor does a start of what is the future by now count against a queue's rate.
        """
        if self._store.look(self._was_set_back):
            self._store.write(self._meet_clock, durable=False)

    def _was_set_back(self, tx: Tx) -> bool:
        store, clock = self._store, self._store.clock
        if store.waits.starts_ahead(tx, clock.wall() + NOTICED):
            return True
        noted = store.names.meta(tx, "base")
        if noted is None:  # nobody has ever asked for a delay
            return False
        # How far the clock has moved over a restart nobody can tell, so look at the delays
        # themselves.
        boot = store.names.meta(tx, "boot")
        return base(clock) < int(noted) - NOTICED or boot != clock.boot()

    def _meet_clock(self, tx: Tx) -> None:
        clock, names = self._store.clock, self._store.names
        now = base(clock)
        self._store.jobs.rebase(tx, now, clock.wall())
        names.set_meta(tx, "base", str(now))
        names.set_meta(tx, "boot", clock.boot())


def reclaim(reason: str, who: str | None = None, how: str | None = None) -> Ending:
    """The ending of an attempt whose holder did not end it."""
    error = REASONS[reason] + (f" ({who})" if who else "") + (f": {how}" if how else "")
    return Ending("reclaim", error=error, reason=reason)
