"""What the features ask of an engine. SQLite is the first; nothing above here knows which it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from ..clock import Clock, Millis
from ..models import NewJob, Policy, Room
from ..waiting import Bell

T = TypeVar("T")

Tx = Any
"""An open transaction, as the engine's verbs take it: a cursor."""

Row = tuple[Any, ...]


class Claimed(NamedTuple):
    """One job taken, as the claim left it."""

    id: int
    lane: int
    attempt: int
    fence: int
    holder: int
    worker: int
    claimed: Millis
    lease: Millis | None
    until: Millis | None
    timeout: Millis | None
    payload: str
    env: int | None = None
    """The number of its environment, for a command."""
    extras: int = 0


class Held(NamedTuple):
    """One live lease, as the store has it: enough to end it."""

    id: int
    lane: int
    attempt: int
    fence: int
    holder: int
    worker: int
    claimed: Millis
    until: Millis | None = None


class Holder(NamedTuple):
    """One process that may hold leases: who it is, and how to ask the kernel whether it lives."""

    id: int
    kind: str
    lock: str
    device: int
    inode: int
    boot: str
    machine: str
    pid: int
    started: int
    pidns: int
    label: str
    worker: int = 0
    """The worker that started it; itself, for a worker."""


class Standing(NamedTuple):
    """What is needed to judge the end of an attempt. `extras` are bits of `models`."""

    lane: int
    priority: int
    due: Millis
    attempts: int
    max_attempts: int
    base: float
    cap: Millis
    extras: int
    on_interrupt: int | None
    expires: Millis | None


class Known(NamedTuple):
    """All that a change of a job has to know of it; `asked` is when its moment was asked for."""

    id: int
    lane: int
    priority: int
    due: Millis
    base: Millis | None
    state: int
    attempts: int
    parked: int
    extras: int
    key: str | None
    max_attempts: int | None
    queue_max_attempts: int
    expires: Millis | None
    on_interrupt: int | None
    after_failed: int | None
    takes: int | None
    gate: str | None
    gate_limit: int | None
    held: Millis | None
    held_by: str | None
    spent: int
    asked: Millis


class QueueRow(NamedTuple):
    """One queue as the store has it. `paused` is since when, `paused_by` by whom."""

    id: int
    name: str
    paused: Millis | None
    paused_by: str | None
    policy: Policy


class Ask(NamedTuple):
    """What somebody asks of a running attempt: `cancel`, `send`, `eof`."""

    n: int
    job: int
    kind: str
    at: Millis
    who: str
    detail: str | None


class Edit(NamedTuple):
    """The columns of a queued job as they are to be."""

    lane: int
    priority: int
    due: Millis
    base: Millis | None
    max_attempts: int | None
    timeout: Millis | None
    payload: str
    env: int | None
    key: str | None
    asked: Millis


class Terms(NamedTuple):
    """On what terms a job is taken: who holds it, in whose name, until when if it ends."""

    holder: int
    worker: int
    lease: Millis | None
    until: Millis | None


class Glance(NamedTuple):
    """What one look at a lane tells: is a job ready, when is one due, how long are leases."""

    ready: int | None
    next_due: Millis | None
    lease: Millis | None

    def due(self, now: Millis) -> bool:
        """Whether there is anything to claim."""
        return self.ready is not None or self.late(now)

    def late(self, now: Millis) -> bool:
        """Whether scheduled jobs have come due and are still to be filed under ready."""
        return self.next_due is not None and self.next_due <= now


class Settlement(NamedTuple):
    """What the end of one attempt writes: everything is decided before it is carried out."""

    held: Held
    state: int
    attempts: int
    now: Millis
    due: Millis | None
    base: Millis | None
    result: str | None
    error: str | None
    message: str | None
    events: tuple[tuple[str, str | None, str | None], ...]
    hold: str | None = None


class JobVerbs(Protocol):
    """What an engine does with jobs. Each verb runs inside the transaction that it is given."""

    def add(self, tx: Tx, job: NewJob, now: Millis, base: Millis) -> int: ...
    def add_many(
        self, tx: Tx, job: NewJob, payloads: Sequence[str], now: Millis, base: Millis
    ) -> list[int]: ...
    def glance(self, tx: Tx, lane: int, now: Millis) -> Glance: ...
    def promote(self, tx: Tx, lanes: Iterable[int], now: Millis) -> int: ...
    def claim(
        self,
        tx: Tx,
        groups: Sequence[Sequence[int]],
        limit: int,
        now: Millis,
        terms_of: Callable[[int], Terms],
    ) -> list[Claimed]: ...
    def claim_lane(
        self, tx: Tx, lane: int, limit: int, now: Millis, terms_of: Callable[[Millis | None], Terms]
    ) -> list[Claimed]: ...
    def complete(
        self, tx: Tx, held: Held, now: Millis, result: str | None, message: str | None
    ) -> bool: ...
    def complete_many(
        self, tx: Tx, holder: int, fences: Mapping[int, int], now: Millis
    ) -> set[int]: ...
    def settle(self, tx: Tx, settlement: Settlement) -> bool: ...
    def progress(self, tx: Tx, held: Held, now: Millis, part: str, message: str | None) -> bool: ...
    def progress_of(self, tx: Tx, job: int) -> Row | None: ...
    def forget(self, tx: Tx, held: Held) -> None: ...
    def standing(self, tx: Tx, job: int) -> Standing | None: ...
    def extend(self, tx: Tx, held: Held, until: Millis) -> bool: ...
    def hand_over(self, tx: Tx, held: Held, holder: int) -> bool: ...
    def holders(self, tx: Tx) -> list[Holder]: ...
    def leases_of(self, tx: Tx, holder: int | None) -> list[Held]: ...
    def silent(self, tx: Tx, awake: Millis, boot: str) -> list[Held]: ...
    def first_expiry(self, tx: Tx, boot: str) -> Millis | None: ...
    def get(self, tx: Tx, job: int) -> Row | None: ...
    def state(self, tx: Tx, job: int) -> int | None: ...
    def states_of(self, tx: Tx, jobs: Sequence[int]) -> dict[int, int]: ...
    def live_of(self, tx: Tx, jobs: Sequence[int], limit: int) -> list[int]: ...
    def running(self, tx: Tx, job: int) -> bool: ...
    def is_ready(self, tx: Tx, lane: int, priority: int, due: Millis, id: int) -> bool: ...
    def first_of(self, tx: Tx, lane: int, now: Millis, ageing: Millis | None) -> int | None: ...
    def find(
        self,
        tx: Tx,
        lanes: Sequence[int],
        queue: int | None,
        state: str | None,
        limit: int,
        now: Millis,
    ) -> list[Row]: ...
    def counts(self, tx: Tx, lanes: Sequence[int], now: Millis) -> dict[int, dict[str, int]]: ...
    def waiting(self, tx: Tx, lane: int, now: Millis) -> tuple[int, int]: ...
    def any_gated(self, tx: Tx, lane: int) -> bool: ...
    def record(self, tx: Tx, job: int) -> Row | None: ...
    def events(self, tx: Tx, job: int) -> list[Row]: ...
    def rebase(self, tx: Tx, base: Millis, wall: Millis) -> int: ...


class WaitVerbs(Protocol):
    """What an engine does with jobs that wait for something, and with what follows from an end."""

    def known(self, tx: Tx, job: int) -> Known | None: ...
    def replace(self, tx: Tx, old: Known, job: NewJob, now: Millis, base: Millis) -> int: ...
    def with_key(self, tx: Tx, key: str) -> int | None: ...
    def hold(self, tx: Tx, job: Known, now: Millis, who: str) -> None: ...
    def unhold(self, tx: Tx, job: Known, now: Millis, who: str) -> None: ...
    def cancel(self, tx: Tx, job: Known, now: Millis, reason: str) -> None: ...
    def revive(self, tx: Tx, jobs: Sequence[Known], now: Millis, who: str) -> None: ...
    def edit(self, tx: Tx, job: Known, edit: Edit, now: Millis, who: str, what: str) -> None: ...
    def editable(self, tx: Tx, job: int) -> Edit: ...
    def expire(self, tx: Tx, now: Millis, limit: int) -> int: ...
    def next_expiry(self, tx: Tx) -> Millis | None: ...
    def gone_parents(self, tx: Tx, limit: int) -> list[int]: ...
    def meet_gone(self, tx: Tx, job: int, now: Millis) -> None: ...
    def parents(self, tx: Tx, job: int) -> list[int]: ...
    def children(self, tx: Tx, job: int) -> list[int]: ...
    def results_of_parents(self, tx: Tx, job: int) -> list[Row] | None: ...
    def pending(self, tx: Tx, job: int, limit: int) -> tuple[int, list[Row]]: ...
    def running_of_queue(self, tx: Tx, queue: int, limit: int) -> list[int]: ...
    def running_of_gate(self, tx: Tx, gate: str, limit: int) -> list[int]: ...
    def room(self, tx: Tx, queue: int, now: Millis) -> Room: ...
    def starts_ahead(self, tx: Tx, moment: Millis) -> bool: ...
    def environment(self, tx: Tx, env: int) -> str | None: ...
    def environment_of(self, tx: Tx, job: int) -> str | None: ...
    def ask(
        self, tx: Tx, job: int, kind: str, now: Millis, who: str, detail: str | None
    ) -> None: ...
    def cancel_asked(self, tx: Tx, job: int) -> Row | None: ...
    def asks_of(self, tx: Tx, worker: int) -> list[Ask]: ...
    def orphan_asks(self, tx: Tx) -> list[Row]: ...
    def take_ask(self, tx: Tx, n: int) -> None: ...
    def rebase(self, tx: Tx, base: Millis, wall: Millis) -> None: ...


class EndedJob(NamedTuple):
    """What decides whether a job is deleted."""

    id: int
    state: int
    finished: Millis
    queue: int
    kind: int


class PruneVerbs(Protocol):
    """What an engine does to forget jobs."""

    def ended_after(self, tx: Tx, id: int, limit: int) -> list[EndedJob]: ...
    def highest(self, tx: Tx) -> int: ...
    def free(self, tx: Tx, ids: Iterable[int]) -> list[int]: ...
    def delete(self, tx: Tx, ids: Iterable[int]) -> list[int]: ...
    def tidy(self, tx: Tx) -> None: ...


class NameVerbs(Protocol):
    """What an engine does with queues, lanes and holders."""

    def bind(self, tx: Tx) -> str: ...
    def meta(self, tx: Tx, key: str) -> str | None: ...
    def set_meta(self, tx: Tx, key: str, value: str) -> None: ...
    def queue(self, tx: Tx, name: str) -> tuple[int, Policy] | None: ...
    def make_queue(self, tx: Tx, name: str, policy: Policy, now: Millis) -> int: ...
    def change_queue(self, tx: Tx, queue: int, policy: Policy, now: Millis, told: str) -> None: ...
    def pause(self, tx: Tx, queue: int, since: Millis | None, who: str | None) -> None: ...
    def queues(self, tx: Tx) -> list[QueueRow]: ...
    def lane(self, tx: Tx, queue: int, kind: int, task: str, *, make: bool) -> int | None: ...
    def lanes(self, tx: Tx) -> list[Row]: ...
    def add_holder(self, tx: Tx, holder: Holder, now: Millis, tells: str | None = None) -> None: ...
    def tell_holder(self, tx: Tx, holder: int, tells: str | None) -> None: ...
    def live_holders(self, tx: Tx) -> list[Row]: ...
    def end_holder(self, tx: Tx, holder: int, now: Millis) -> None: ...
    def drop_ended(self, tx: Tx, before: Millis) -> None: ...
    def drop_helper(self, tx: Tx, holder: int) -> None: ...


class Store(Protocol):
    """One store: a file or a database. `jobs` and `names` are its verbs."""

    @property
    def clock(self) -> Clock: ...
    @property
    def bell(self) -> Bell: ...
    @property
    def jobs(self) -> JobVerbs: ...
    @property
    def waits(self) -> WaitVerbs: ...
    @property
    def pruning(self) -> PruneVerbs: ...
    @property
    def names(self) -> NameVerbs: ...
    @property
    def trusts_locks(self) -> bool:
        """Whether a free lock says that its holder is dead; else only time tells."""
        ...

    @property
    def bound(self) -> bool:
        """Whether somebody else ends the transaction."""
        ...

    @property
    def ended(self) -> bool:
        """Whether that transaction has come to its end."""
        ...

    def write(
        self,
        work: Callable[[Tx], T],
        *,
        durable: bool = True,
        tell: bool = True,
        single: bool = False,
        lazy: bool = False,
    ) -> T:
        """Run work in one write transaction and commit; nothing stays if it raises.

        `durable` says whether the commit must survive a power cut before this returns, `tell`
        whether others are woken by it, `single` that work is one statement, a transaction by
        itself; `lazy` that it may find nothing to write, so no lock, and may be called twice.
        """
        ...

    def flush(self) -> None:
        """Make what was committed with `durable=False` survive a power cut, as this store does."""
        ...

    def read(self, work: Callable[[Tx], T]) -> T:
        """Run work on a reader. Takes no write lock."""
        ...

    def look(self, work: Callable[[Tx], T]) -> T:
        """Like read(), on the writer's own connection if that is free: cheaper, as harmless."""
        ...

    def ring(self) -> None:
        """Wake everybody who waits for a commit."""
        ...

    def want(self) -> None:
        """Somebody is about to sleep: the next commit must ring. Look once more after this."""
        ...

    def watch(self) -> Any:
        """What rings the bell when others commit, when somebody dies, when the clock jumps."""
        ...

    def file(self, job: int, attempt: int, fence: int) -> str:
        """Where the output of an attempt is kept: a path without its ending."""
        ...
