"""A store in one SQLite file: who may write when, what is durable when, and what an error means.

* One write connection per process and handle; callers take turns. Readers come from a small pool.
* Commits are made with `synchronous=NORMAL`; with `durability="full"` the log is flushed through a
  descriptor of our own *after* the write lock is free and before the caller goes on, so nobody
  queues behind a disk. Automatic checkpoints are off; see `checkpoints.py` for ours.
* The database file and its `-shm` are only opened by SQLite: closing any other descriptor of theirs
  would drop all its locks in this process.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from .. import receipts
from ..clock import Clock
from ..errors import StoreUnavailable, WrongState
from ..waiting import Bell, BellFile
from . import opening
from .base import Tx
from .bound import BoundStore, Joined, ended_early, own_cursor
from .checkpoints import Checkpoints, log_bytes
from .flushing import Flusher
from .forking import stores
from .locking import begin, lazily, patiently, undo
from .readers import Readers, in_view
from .sqlite_errors import raise_ours, translate
from .sqlite_jobs import SqliteJobs
from .sqlite_names import SqliteNames
from .sqlite_pruning import SqlitePruning
from .sqlite_waits import SqliteWaits
from .turns import Turn

if TYPE_CHECKING:
    from .outlook import Outlook

T = TypeVar("T")

LOG_LIMIT = 64 * 1024 * 1024
FORK_PATIENCE = 10.0  # s, for the transactions and reads of other threads


class SqliteStore:
    """One file. Opens on first use; every method may be called from any thread."""

    name = "sqlite"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock,
        durability: str = "full",
        patience: float = 30.0,
        allow_unsafe_fs: bool = False,
        say: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.live, self.logs = self.path + "-live", self.path + "-logs"
        self.clock, self.patience = clock, patience
        self.durability, self.allow_unsafe_fs, self.say = durability, allow_unsafe_fs, say
        self.waits, self.names = SqliteWaits(), SqliteNames()
        self.jobs, self.pruning = SqliteJobs(self.waits), SqlitePruning()
        self.bell, self.bell_file = Bell(), BellFile(self.live)
        self.want = self.bell_file.want  # somebody is about to sleep: look once more after this
        self.bound = self.ended = False
        self.trusts_locks, self._was_open, self._lived = True, False, False
        self.broken: str | None = None
        self._joined = Joined()
        self._at_fork: list[tuple[Callable[[], None], Callable[[bool], None]]] = []
        self._start()
        stores.add(self)

    def _start(self) -> None:
        """The state of a handle that has no connection yet; also that of a forked child."""
        self._turn = Turn(self.path)
        self._writer: sqlite3.Connection | None = None
        self._tx: sqlite3.Cursor | None = None
        self._readers = Readers(self._open)
        self.commits = 0
        self._checkpoints = Checkpoints(self.path, self._connect)
        self._flusher = Flusher(self.path + "-wal")
        self._identity: opening.Identity | None = None
        self._checked = False
        self._crossing: str | None = None
        self._turn_is_the_forks = False

    # ---- writing --------------------------------------------------------------------------------

    def write(
        self,
        work: Callable[[Tx], T],
        *,
        durable: bool = True,
        tell: bool = True,
        single: bool = False,
        lazy: bool = False,
    ) -> T:
        """Run work in one write transaction; see `Store.write`."""
        self._take_turn()
        try:
            tx = self._tx or self._open_writer()
            try:
                if single:
                    value = patiently(work, tx, self.patience)
                elif lazy:
                    value = lazily(work, tx, self.patience)
                else:
                    patiently(begin, tx, self.patience)
                    value = work(tx)
                    tx.execute("commit")
            except BaseException as error:
                self._undo(tx)
                if isinstance(error, sqlite3.Error):
                    raise translate(error, self.path) from error
                raise
            commit = self._committed(tx)
        finally:
            self._turn.give()
        self._after(commit, durable, tell)
        return value

    @contextmanager
    def transaction(self) -> Iterator[BoundStore]:
        """A transaction for the caller's statements and ours; commits at the end of the block."""
        self._take_turn()
        turn = self._turn
        try:
            tx = self._tx or self._open_writer()
            try:
                patiently(begin, tx, self.patience)
                bound = BoundStore(self, tx, foreign=None)
                try:
                    yield bound
                finally:
                    bound.end()
                self.refuse_if_broken()
                if not tx.connection.in_transaction:
                    raise ended_early(self.path)
                tx.execute("commit")
            except BaseException as error:
                self._undo(tx)
                if isinstance(error, sqlite3.Error):
                    raise_ours(error, self.path)
                raise
            commit = self._committed(tx)
        finally:
            turn.give()  # in a forked child not the present one
        self._after(commit, True, True)

    def _after(self, commit: int, durable: bool, tell: bool) -> None:
        if tell:
            self.ring()
        if durable:
            self.flush(commit)

    def flush(self, commit: int | None = None) -> None:
        """Return when this commit, or every one so far, survives a power cut; see `Store.flush`."""
        if self.durability != "full":
            return
        try:
            self._flusher.flush(self.commits if commit is None else commit, lambda: self.commits)
        except OSError as error:
            raise StoreUnavailable(
                f"{self.path}: what was asked for is in the file, but the disk did not confirm it "
                f"({error}). It may be lost in a power cut. Check the disk."
            ) from error

    def ring(self) -> None:
        """Wake everybody who waits for a commit: in this process and in all others."""
        self.bell.ring()
        self.bell_file.ring_if_wanted()

    def _take_turn(self) -> None:
        self._turn.take(self.patience)
        self._check_identity()

    def _check_identity(self) -> None:
        """With the turn, which is given back if the file is no longer the one that we opened."""
        if self._identity is not None and self._identity.changed():
            try:
                self._drop_connections()
                self._identity, self._checked = None, False
                raise opening.replaced(self.path)
            finally:
                self._turn.give()

    def _undo(self, tx: sqlite3.Cursor) -> None:
        # A forked child must not touch the transaction of its parent, not even to roll it back.
        if not self.broken and not undo(tx):
            self._drop_connections()

    def _committed(self, tx: sqlite3.Cursor) -> int:
        self.commits += 1
        if not self._checkpoints.committed(tx):
            self._drop_connections()
        return self.commits

    def log_bytes(self) -> int:
        """The size of the write-ahead log."""
        return log_bytes(self.path)

    # ---- reading --------------------------------------------------------------------------------

    def read(self, work: Callable[[Tx], T]) -> T:
        """Run work on one consistent view of the store."""
        return self._with_reader(lambda tx: in_view(work, tx))

    def look(self, work: Callable[[Tx], T]) -> T:
        """Run one or two cheap statements, on the writer's warm connection if nobody uses it."""
        if not self._turn.try_for(0):
            return self._with_reader(work)
        self._check_identity()
        try:
            if self._tx is not None:
                return patiently(work, self._tx, self.patience)
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        finally:
            self._turn.give()
        return self._with_reader(work)

    def _with_reader(self, work: Callable[[Tx], T]) -> T:
        try:
            return self._readers.use(lambda tx: patiently(work, tx, self.patience))
        except sqlite3.Error as error:
            raise translate(error, self.path) from error

    # ---- opening and closing --------------------------------------------------------------------

    def _open_writer(self) -> sqlite3.Cursor:
        self._writer = self._open()
        self._tx = self._writer.cursor()
        self._checkpoints.begin(self._tx)
        # From the start, so that those who sleep and those who ring share one bell.
        id = self.names.meta(self._tx, "store") or ""
        if not opening.prepare_live(self.live, id, wait=not self._lived) and self.trusts_locks:
            self.trusts_locks = False
            self.say(f"locks do not work in {self.live}: every lease has a time limit there")
        self._lived = True
        return self._tx

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            opening.uri(self.path, "mode=rw"),
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        level = "full" if self.durability == "strict" else "normal"
        try:
            # Even this reads the file, and right after a crash somebody else may be recovering it.
            patiently(
                lambda tx: tx.execute(f"pragma synchronous={level}"),
                connection.cursor(),
                self.patience,
            )
            connection.execute("pragma wal_autocheckpoint=0")
            connection.execute(f"pragma journal_size_limit={LOG_LIMIT}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _open(self) -> sqlite3.Connection:
        """A connection; before the first, make sure that this is a store and ours to use."""
        self.refuse_if_broken()
        try:
            if self._checked:
                return self._connect()
            with opening.one_at_a_time:
                warning, self.trusts_locks = opening.check_place(
                    self.path, allow_unsafe_fs=self.allow_unsafe_fs
                )
                if self._was_open and not os.path.exists(self.path):
                    raise opening.replaced(self.path)
                opening.create(self.path)
                connection = self._connect()
                opening.set_up(connection, self.path, self.names, self.clock, self.patience)
                self._identity = opening.Identity(self.path)
                self._checked = self._was_open = True
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        if warning:
            self.say(warning)
        return connection

    def refuse_if_broken(self) -> None:
        if self.broken:
            raise WrongState(self.broken)

    def _drop_connections(self) -> None:
        # The last connection to go takes the log along, and others may be about to flush it.
        with contextlib.suppress(StoreUnavailable):
            self.flush()
        self._flusher.close()
        self._readers.drop()
        self._checkpoints.close()
        if self._writer is not None:
            self._writer.close()
        self._writer = self._tx = None

    def close(self) -> None:
        """Give back all connections. The handle opens again when it is used again."""
        self._turn.take(self.patience)
        try:
            if self._tx is not None:
                self._checkpoints.before_close(self._tx)
            self._readers.shut(self.patience)
            self._drop_connections()
        finally:
            self._readers.reopen()
            self._turn.give()
        self._flusher.close()
        self.bell_file.close()

    def file(self, job: int, attempt: int, fence: int) -> str:
        return receipts.base(self.logs, job, attempt, fence)

    # ---- other people's connections -------------------------------------------------------------

    def within(self, connection: Any) -> BoundStore:
        """The same store through the caller's own connection; the caller commits."""
        if not isinstance(connection, sqlite3.Connection):
            raise WrongState(
                f"within() takes a sqlite3.Connection on {self.path}, not "
                f"{type(connection).__name__}"
            )
        self.refuse_if_broken()
        bound = BoundStore(self, own_cursor(connection), foreign=connection)
        bound.check_file()
        self._joined.add(connection)
        return bound

    # ---- waiting and forking --------------------------------------------------------------------

    def watch(self) -> Outlook:
        """What rings our bell when others commit, when somebody dies, when the clock jumps."""
        from .outlook import Outlook

        return Outlook(self, self._open)

    def at_fork(self, before: Callable[[], None], after: Callable[[bool], None]) -> None:
        """Have these called before a fork and after; `after` is told whether it is the child."""
        self._at_fork.append((before, after))

    def before_fork(self) -> None:
        """No connection may cross a fork: wait for those in use, close all, open again later."""
        for before, _ in self._at_fork:
            before()
        self._crossing = self._why_not_to_fork()
        if self._crossing is None:
            self._drop_connections()

    def _why_not_to_fork(self) -> str | None:
        self._turn_is_the_forks = not self._turn.is_mine and self._turn.try_for(FORK_PATIENCE)
        if not self._turn_is_the_forks:
            return "while a transaction on it was open"
        if not self._readers.shut(FORK_PATIENCE):
            return "while a thread was reading from it"
        return "while a connection given to within() was open" if self._joined.open() else None

    def after_fork(self, *, child: bool) -> None:
        crossing, self._crossing = self._crossing, None
        if child:
            self._begin_anew(crossing)
        else:
            self._readers.reopen()
            if self._turn_is_the_forks:
                self._turn.give()
        self._turn_is_the_forks = False
        for _, after in self._at_fork:
            after(child)

    def _begin_anew(self, crossing: str | None) -> None:
        if crossing is not None:
            # Closing them here would drop locks of the parent, so they are kept for good.
            _kept_open.append((self._writer, self._checkpoints, self._readers))
            self.broken = (
                f"this process was forked {crossing}, so {self.path} cannot be used in it: its "
                "locks would not hold. Fork before, or start the child as a new program."
            )
        self._flusher.abandon()
        self.bell_file.close()
        self.bell = Bell()
        self._start()

    def __repr__(self) -> str:
        return f"SqliteStore({self.path!r}, durability={self.durability!r})"


_kept_open: list[Any] = []
