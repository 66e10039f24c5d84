"""The stage of the stories: several handles on one store, and the dictionary beside them."""

from __future__ import annotations

import datetime as dt
import re
import shutil
import tempfile
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

from slothqueue import Job as RealJob
from slothqueue import JobNotFound, LeaseLost, ManualClock, Sloth, WrongState
from slothqueue import Lease as RealLease

from .dictionary import Dictionary
from .words import Job, Lease, Options

HANDLES = 3
QUEUES = {
    "a": Options(),
    "b": Options(lease=5_000, base=3, cap=10_000, max_attempts=2, keep=100_000),
    "few": Options(concurrency=2, max_attempts=3),
    "slow": Options(rate=(3, 10_000), keep=None),
    "old": Options(ageing=10_000),
}
KEYS = {"one": 1, "two": 2}
"""Concurrency keys, and how many of each run at once."""
VERBS = ["complete", "fail", "retry", "discard", "snooze", "release", "heartbeat"]

handles = st.integers(0, HANDLES - 1)
queues = st.sampled_from(sorted(QUEUES))
picks = st.integers(0, 10_000)
seconds = st.sampled_from([0, 1, 2, 5, 60, 4_000])
endings = st.sampled_from(["complete", "discard", "cancel", "die"])


class Stage(RuleBasedStateMachine):
    """What every story does. A claim takes a second, so that the rota may look each time."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="slothqueue-model-")
        self.clock = ManualClock()
        self.model = Dictionary(QUEUES)
        self.opened: list[Sloth] = []
        self.handles = [self.open() for _ in range(HANDLES)]
        self.leases: list[tuple[Lease, RealLease]] = []

    def open(self) -> Sloth:
        path = f"{self.folder}/work.db"
        self.opened.append(Sloth(path, clock=self.clock, durability="process"))
        return self.opened[-1]

    def teardown(self) -> None:
        for sloth in self.opened:
            sloth.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @initialize()
    def all_queues_exist(self) -> None:
        sloth = self.handles[0]
        sloth.queue("b", lease=5, backoff=(3, 10), max_attempts=2, keep=100)
        sloth.queue("few", concurrency=2, max_attempts=3)
        sloth.queue("slow", rate=(3, 10), keep=None)
        sloth.queue("old", ageing=10)
        for queue in QUEUES:
            self.put(queue)

    # ---- what there is ----------------------------------------------------------------------

    @property
    def base(self) -> int:
        return self.clock.wall() - self.clock.elapsed()

    @property
    def wall(self) -> int:
        return self.clock.wall()

    def some(self, pick: int, *states: str) -> Job | None:
        """One of the jobs in these states, mostly a late one: that is what stories are about."""
        found = [job for job in self.model.jobs.values() if job.state in states]
        if not found:
            return None
        latest = found[-4:] if pick % 3 else found
        return latest[pick % len(latest)]

    def held(self) -> list[tuple[Lease, RealLease]]:
        return [pair for pair in self.leases if self.model.holds(pair[0])]

    def lease_of(self, job: Job) -> tuple[Lease, RealLease]:
        return next(pair for pair in self.leases if pair[0] is job.lease)

    def real(self, job: Job, handle: int = 0) -> RealJob:
        return self.handles[handle].job(job.id)

    # ---- enqueue ----------------------------------------------------------------------------

    def put(self, queue: str, handle: int = 0, **options: Any) -> Job | None:
        """Enqueue on both sides; the new job, None if there is none."""
        refused = self._refused(queue, options)
        try:
            real = self.handles[handle].queue(queue).enqueue("payload", **options)
        except (WrongState, JobNotFound) as error:
            assert type(error) is refused, error
            return None
        assert refused is None, f"{options} should raise {refused}"
        owner = self.model.owner(queue, options["unique"]) if "unique" in options else None
        if owner is not None and options.get("on_conflict", "return") == "return":
            assert real.id == owner.id
            if {"delay", "expires"} & options.keys():
                self.model.note(self.base)
            return None
        if owner is not None:
            self.model.replace(owner, real.id, self.wall)
        job = self._job(real.id, queue, options)
        self.model.enqueue(job, self.wall, self.base, list(options.get("after", [])))
        self.same_messages()
        return job

    def _refused(self, queue: str, options: dict[str, Any]) -> type[Exception] | None:
        """What the dictionary says of options that cannot be."""
        owner = self.model.owner(queue, options["unique"]) if "unique" in options else None
        conflict, after = options.get("on_conflict", "return"), options.get("after", [])
        if owner is not None:
            if conflict == "return":
                return None
            if conflict == "error" or owner.state == "running":
                return WrongState
        if owner is not None and self.model.waits_for(after, owner.id):
            return WrongState
        return JobNotFound if any(id not in self.model.jobs for id in after) else None

    def _job(self, id: int, queue: str, options: dict[str, Any]) -> Job:
        due, ask = self.wall + 1000 * options.get("delay", 0), options.get
        if "run_at" in options:
            due = round(1000 * options["run_at"].timestamp())
        most = ask("max_attempts") or QUEUES[queue].max_attempts
        job = Job(id, queue, ask("priority", 0), due, most, asked=self.wall, budget=most)
        job.base = self.base if "delay" in options else None
        job.key, job.held = ask("unique"), ask("hold", False)
        if (expires := ask("expires")) is not None:
            job.expires, job.expires_base = self.wall + 1000 * expires, self.base
        job.gate = ask("concurrency_key")
        job.after_failed = ask("after_failed", "cancel")
        job.on_interrupt = ask("on_interrupt", "retry")
        return job

    def moment(self, later: float) -> dt.datetime:
        return dt.datetime.fromtimestamp(self.wall / 1000 + later, dt.UTC)

    def same_places(self) -> None:
        """Whose moment has come is filed as ready, or under its key; nobody else is."""
        sql = "select id from _sloth_ready union all select id from _sloth_gated"
        filed = self.handles[0].store.look(lambda tx: [row[0] for row in tx.execute(sql)])
        assert len(filed) == len(set(filed)), filed
        waiting = [job for job in self.model.jobs.values() if job.state == "queued"]
        due = {job.id for job in waiting if self.model.is_due(job, self.wall)}
        ready = {job.id for job in waiting if job.ready and not job.parked}
        assert ready <= set(filed) <= due
        for id in filed:
            self.model.jobs[id].ready = True

    # ---- claim and settle -------------------------------------------------------------------

    def look(self) -> None:
        """What the rota does, on the side of the dictionary."""
        clock = self.clock
        self.model.look(clock.wall(), clock.awake(), clock.boot(), self.base)

    def take(self, queue: str, limit: int = 0, handle: int = 0) -> None:
        """Claim so many at once, or one by claim()."""
        self.clock.advance(1)
        self.look()
        expected = self.model.starters(queue, self.wall, limit or 1)
        mine = self.handles[handle].queue(queue)
        leases = mine.claim_many(limit) if limit else [x for x in [mine.claim()] if x]
        taken = [lease.id for lease in leases]
        assert taken == [job.id for job in expected], f"{queue}: {taken}, not {expected}"
        for job, real in zip(expected, leases):
            length = QUEUES[queue].lease
            until = self.clock.awake() + length
            lease = Lease(job.id, real.fence, handle, self.clock.boot(), length, until)
            self.model.claim(job, lease, self.wall)
            assert real.attempt == job.attempts
            assert not real.stopping
            self.leases.append((lease, real))
        self.same_messages()
        self.same_places()

    def end(self, lease: Lease, real: RealLease, verb: str, delay: int = 0) -> None:
        """End or extend an attempt on both sides; refused where the lease is lost."""
        error = f"error {len(self.leases)}"
        calls = {
            "complete": lambda: real.complete({"by": lease.handle}),
            "fail": lambda: real.fail(error),
            "retry": lambda: real.retry(delay, error),
            "discard": lambda: real.discard(error),
            "snooze": lambda: real.snooze(delay),
            "release": real.release,
            "heartbeat": real.heartbeat,
        }
        kept = self.model.holds(lease)
        assert succeeded(calls[verb]) == kept, f"{verb} by {'the' if kept else 'no'} holder"
        if kept:
            job = self.model.jobs[lease.job]
            # An attempt that is taken back has its number again: it comes to no end under it.
            unspent = verb in ("release", "snooze") and job.asked_to_stop is None
            token = real.token if verb != "heartbeat" and not unspent else ""
            assert token not in job.tokens, "a token was given twice"
            job.tokens |= {token} - {""}
            self.model.settle(lease, verb, 1000 * delay, error, self.wall, self.base)
            lease.until = self.clock.awake() + lease.length
            self.same_messages()

    # ---- why one was cancelled --------------------------------------------------------------

    def same_messages(self) -> None:
        """Of what just ended."""
        for job in self.model.jobs.values():
            if job.because == "parent" and job.parent is None:
                self.same_message(job, self.real(job))

    def same_message(self, job: Job, found: RealJob) -> None:
        """Of several parents that ended badly at once, any may be named."""
        kind, _, text = (job.because or "").partition(":")
        said = found.message or ""
        if kind != "parent":
            by = {"by": "by .*: ", "replaced": "it was replaced by job "}.get(kind)
            pattern = "it expired before it could start" if by is None else by + text
            assert re.fullmatch(pattern, said), said
        elif job.parent is None:
            words = re.fullmatch(r"its parent (\d+) (failed|was cancelled|was deleted)", said)
            assert words and int(words[1]) in job.parents, said
            job.parent = int(words[1])
            parent = self.model.jobs.get(job.parent)
            how = {"failed": "failed", "cancelled": "was cancelled"}
            assert words[2] == (how[parent.state] if parent else "was deleted"), said

    # ---- change -----------------------------------------------------------------------------

    def cancel(self, job: Job, text: str = "enough") -> None:
        self.real(job).cancel(text)
        if job.state == "queued":
            self.model.cancel(job, self.wall, f"by:{text}")
        elif job.state == "running":
            job.asked_to_stop = job.asked_to_stop or f"by:{text}"
            self.look()
            assert job.lease is None or self.lease_of(job)[1].stopping
        self.same_messages()

    def revive(self, job: Job, *, children: bool = False, handle: int = 0) -> bool:
        """Put it back on both sides, if that can be."""
        allowed = job.state in ("failed", "cancelled")
        family = self.model.family(job, children)
        keys = [(one.queue, one.key) for one in family if one.key is not None]
        taken = any(self.model.owner(*key) for key in keys) or len(set(keys)) < len(keys)
        try:
            self.real(job, handle).revive(children=children)
        except WrongState:
            assert not allowed or taken, f"{job} was not put back"
            return False
        assert allowed and not taken
        self.model.revive(family, self.wall)
        return True

    def bring_to_an_end(self, job: Job, how: str) -> None:
        """Have a queued job end: by hand, or claimed and settled, or with its holder."""
        if how == "cancel" or job.state != "queued":
            return self.cancel(job)
        self.take(job.queue, 100)
        if job.lease is None:
            return self.cancel(job)
        if how == "die":
            return self.die(job.lease.handle)
        return self.end(*self.lease_of(job), how)

    def die(self, handle: int) -> None:
        self.handles[handle].close()
        self.handles[handle] = self.open()
        for lease, _ in self.leases:
            lease.alive = lease.alive and lease.handle != handle


def succeeded(call: Any) -> bool:
    """Whether the lease was still held."""
    try:
        call()
    except LeaseLost:
        return False
    return True
