"""Sloth: opens a store and hands out its features."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from . import context
from .clock import Clock, SystemClock
from .context import refuse_while_loading
from .errors import StoreUnavailable
from .groups import Group
from .handles import Job
from .jobs import Jobs
from .lanes import Lanes
from .models import COUNTED, ENDED
from .options import UNSET as _UNSET
from .options import parents, policy_change
from .presence import Presence
from .pruning import Pruning
from .queues import Queue, check_name
from .storage.sqlite import SqliteStore
from .tasks import Options, Task, name_of, register, settings
from .timing import Duration, millis
from .upkeep import Upkeep
from .waker import Waker

if TYPE_CHECKING:
    from .reports import Backup, Finding
    from .worker import Worker

P = ParamSpec("P")
R = TypeVar("R")


def _warn(sentence: str) -> None:
    warnings.warn(sentence, RuntimeWarning, stacklevel=3)


class Sloth:
    """A store of jobs: one SQLite file, opened on first use.

    `durability`: "full" survives a power cut once a call returns, "process" survives `kill -9` only
    and is faster, "strict" lets nobody see a commit before it is on the disk. `busy_timeout` bounds
    the wait for the write lock; then StoreBusy. May be used from any thread, and after a fork.
    """

    _engine = SqliteStore

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        durability: str = "full",
        clock: Clock | None = None,
        busy_timeout: Duration = 30,
        allow_unsafe_fs: bool = False,
        say: Callable[[str], None] = _warn,
    ) -> None:
        if durability not in ("full", "process", "strict"):
            raise ValueError(f"durability is 'full', 'process' or 'strict', not {durability!r}")
        self.clock: Clock = clock or SystemClock()
        self.tasks: dict[str, Task[..., Any]] = {}
        self._store_id: str | None = None
        self.store = self._engine(
            _path(url),
            clock=self.clock,
            durability=durability,
            patience=millis(busy_timeout, what="busy_timeout") / 1000,
            allow_unsafe_fs=allow_unsafe_fs,
            say=say,
        )
        self.presence = Presence(self.store, self.store.live)
        self.waker = Waker(self.store)
        upkeep = Upkeep(self.store, self.presence, self.store.live, self._read_id)
        lanes = Lanes(self.store)
        self.verbs = Jobs(self.store, lanes, self.presence, upkeep, self.waker, self._read_id)
        presence, waker = self.presence, self.waker  # not self: the store must not keep us alive

        def after_fork(child: bool) -> None:
            if child:
                presence.abandon()
            waker.after_fork(child)

        self.store.at_fork(waker.before_fork, after_fork)

    @property
    def path(self) -> str:
        """The file of the store."""
        return self.store.path

    # ---- jobs -----------------------------------------------------------------------------------

    def queue(
        self,
        name: str = "default",
        *,
        lease: Duration | None = _UNSET,
        max_attempts: int | None = None,
        backoff: Any = None,
        concurrency: int | None = _UNSET,
        rate: Any = _UNSET,
        ageing: Duration | None = _UNSET,
        keep: Duration | None = _UNSET,
    ) -> Queue:
        """A queue by its name. Options given here are stored; without any, those stored are read.

        `lease` limits the time between heartbeats (None: a worker's lease lasts as long as it
        lives, one by hand 60 s of awake time); `backoff` is (base, longest wait): attempt n is
        tried again after base ** n seconds at most the longest wait. Across all workers, at most
        `concurrency` of its jobs run at once, and `rate`, such as (10, "1m"), start in any such
        time. Each `ageing` of waiting counts as one step of priority, so that nothing waits for
        ever. Jobs that are done or cancelled are kept for `keep`, a week unless told (None: for
        ever); failed ones until somebody revives or prunes them.
        """
        check_name(name)
        options: dict[str, Any] = {"max_attempts": max_attempts, "backoff": backoff}
        more: dict[str, Any] = {"lease": lease, "concurrency": concurrency, "rate": rate}
        more |= {"ageing": ageing, "keep": keep}
        options |= {name: value for name, value in more.items() if value is not _UNSET}
        if (change := policy_change(options)) and not context.loading:
            self.verbs.lanes.set_policy(name, lambda old: old._replace(**change), list(change))
        return Queue(name, self.verbs)

    def job(self, id: int) -> Job:
        """The job with this id. Raises JobNotFound."""
        refuse_while_loading()
        return self.verbs.get(id)

    def jobs(
        self, *, state: str | None = None, queue: str | None = None, limit: int = 100
    ) -> list[Job]:
        """Running jobs first, then waiting ones in start order, then ended ones, latest first.

        `state` is one of theirs, or says of queued ones what they wait for: `scheduled`, `blocked`
        or `held`.
        """
        refuse_while_loading()
        if state is not None and state not in COUNTED:
            raise ValueError(f"state is one of {', '.join(COUNTED)}, not {state!r}")
        return self.verbs.find(queue, state, limit)

    def group(self, jobs: Iterable[Job | int], then: Any = None) -> Group:
        """These jobs as one: counts, wait, cancel.

        `then` is a task, or a command as a list, that runs once all of them have ended, however;
        `task.using(pass_results=True)` gets what they returned as its arguments.
        """
        refuse_while_loading()
        ids = parents(list(jobs), "group")
        if then is None:
            return Group(ids, self.verbs)
        if isinstance(then, Task):
            after = [*ids, *(then.options.get("after") or ())]
            last = then.using(after=after, after_failed="run").enqueue()
        else:
            last = self.queue().enqueue_command(then, after=ids, after_failed="run")
        return Group(ids, self.verbs, last)

    def stats(self) -> dict[str, int]:
        """How many jobs of all queues are in each state."""
        refuse_while_loading()
        return self.verbs.counts(None)

    # ---- upkeep ---------------------------------------------------------------------------------

    def prune(
        self,
        older_than: Duration | None = None,
        *,
        states: Sequence[str] | None = None,
        queue: str | None = None,
    ) -> int:
        """Delete jobs that ended longer ago than this, with their history, results and logs.

        Without `older_than` only those that are done or cancelled, and as each queue's `keep` says;
        that is what workers do by themselves. `states` are of `done`, `failed`, `cancelled`. A job
        whose result another one waits for stays. Returns how many were deleted.
        """
        refuse_while_loading()
        steps = self.pruned(older_than, states=states, queue=queue)
        return max((total for total, _ in steps), default=0)

    def pruned(
        self,
        older_than: Duration | None = None,
        *,
        states: Sequence[str] | None = None,
        queue: str | None = None,
        dry: bool = False,
    ) -> Iterator[tuple[int, int]]:
        """The same in steps: yields how many were deleted so far, and up to which id. `dry` only
        counts."""
        for state in states or ():
            if state not in ENDED:
                raise ValueError(f"states are of {', '.join(sorted(ENDED))}, not {state!r}")
        if older_than is None and states is not None:
            raise ValueError("states goes with older_than; without it the queues' keep decides")
        age = None if older_than is None else millis(older_than, what="older_than")
        number = None if queue is None else self._queue_number(queue)
        return Pruning(self.store, self.store.logs).prune(age, states, number, dry=dry)

    def _queue_number(self, name: str) -> int:
        found = self.store.look(lambda tx: self.store.names.queue(tx, name))
        if found is None:
            raise ValueError(f"there is no queue {name!r} in this store")
        return found[0]

    # ---- functions ------------------------------------------------------------------------------

    def task(
        self,
        *wrong: Any,
        name: str | None = None,
        queue: str = "default",
        max_attempts: int | None = None,
        timeout: Duration | None = None,
        lease: Duration | None = None,
        unique: str | bool | Callable[..., str] | None = None,
        priority: int = 0,
        expires: Duration | None = None,
        concurrency_key: Any = None,
        on_interrupt: str = "retry",
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Make a function a task: `@sloth.task(...)`. Its name is `module.qualname` unless given.

        `timeout` limits an attempt in awake time, `lease` the time between heartbeats; the others
        are options of its jobs, as for `Queue.enqueue`, unless `using()` says otherwise.
        """
        if wrong:
            raise TypeError("write @sloth.task() with parentheses")
        options = Options(
            max_attempts=max_attempts,
            timeout=timeout,
            unique=unique,
            priority=priority,
            expires=expires,
            concurrency_key=concurrency_key,
            on_interrupt=on_interrupt,
        )
        said = settings(check_name(queue), lease, options)

        def decorate(function: Callable[P, R]) -> Task[P, R]:
            task = Task(function, name or name_of(function), said, self)
            register(self.tasks, task)
            return task

        return decorate

    def worker(
        self,
        queues: Sequence[str] | str | None = None,
        *,
        concurrency: int = 4,
        pool: str = "process",
        grace: Duration = 10,
    ) -> Worker:
        """A worker for these queues (all by default) that runs up to `concurrency` jobs at once.

        `pool` says where functions run: "process" or "thread". `grace` is how long running jobs may
        go on when the worker is told to stop.
        """
        from .worker import Worker

        return Worker(self, queues=queues, concurrency=concurrency, pool=pool, grace=grace)

    # ---- together with other rows ---------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A write transaction: what you execute and enqueue commits together, or not at all."""
        refuse_while_loading()
        with self.store.transaction() as bound:
            yield Transaction(bound, self.verbs)

    def within(self, connection: Any) -> Transaction:
        """The same through your own `sqlite3.Connection` on the same file; your commit decides."""
        refuse_while_loading()
        return Transaction(self.store.within(connection), self.verbs)

    # ---- upkeep ---------------------------------------------------------------------------------

    def backup(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        progress: Callable[[str, float], None] | None = None,
    ) -> Backup:
        """Copy the store as it is at this moment to a file, while others go on using it.

        The copy is checked, on the disk and whole when it appears under its name; until then, and
        if anything fails, that name is not touched. It is a store of its own: jobs that run now are
        queued again in it. The output of commands is not in it. `force` replaces a file that is
        there. `progress` is called with "copy" or "check", and how much of it is done, 0 to 1.

        Raises WrongState if there is something already, StoreFull, StoreReadOnly or
        StoreUnavailable if the place is no good, StoreCorrupt if this store is damaged.
        """
        from .copies import make_own
        from .reports import Backup
        from .storage.backup import back_up

        refuse_while_loading()
        store = self.store
        made = back_up(
            store,
            path,
            force=force,
            finish=lambda tx: make_own(store, tx),
            progress=progress or (lambda what, fraction: None),
        )
        return Backup(*made)

    def check(self, *, quick: bool = False) -> list[Finding]:
        """What is wrong with the file and with what is in it; empty if nothing is.

        Reads one moment of the store and changes nothing, so others may go on using it. `quick`
        leaves out what takes long in a large store: whether every index fits its table, and
        whether every payload is JSON.
        """
        from .storage.check import findings

        refuse_while_loading()
        return self.store.read(lambda tx: findings(tx, quick=quick))

    # ---- opening and closing --------------------------------------------------------------------

    def close(self) -> None:
        """Give everything back. Leases that are still held are re-issued to others."""
        self.waker.close()
        self.presence.close()
        self.store.close()

    def __enter__(self) -> Sloth:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _read_id(self) -> str:
        if self._store_id is None:
            self._store_id = self.store.look(lambda tx: self.store.names.meta(tx, "store")) or "?"
        return self._store_id

    def __repr__(self) -> str:
        return f"Sloth({self.store.path!r})"


class Transaction:
    """Jobs inside a transaction: of `sloth.transaction()`, or of your own connection."""

    def __init__(self, bound: Any, jobs: Jobs) -> None:
        self._bound = bound
        self.verbs = jobs.within(bound)

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        """Your own statement on the same connection; returns its cursor."""
        return self._bound.execute(sql, parameters)

    def queue(self, name: str = "default") -> Queue:
        """A queue whose jobs come to be when the transaction commits."""
        return Queue(check_name(name), self.verbs)


def _path(url: str | os.PathLike[str]) -> str:
    path = os.fspath(url)
    if not path or path == ":memory:" or "\0" in path:
        raise StoreUnavailable(
            f"{path!r} is not a file. A store is kept in a file: Sloth('work.db')"
        )
    if path.startswith(("postgresql://", "postgres://")):
        raise StoreUnavailable("this version keeps stores in SQLite files only: Sloth('work.db')")
    return os.path.expanduser(path.removeprefix("sqlite:///"))
