"""Who is alive, by the kernel's word.

Every process that holds attempts has a file of its own in the store's live directory, created under
a fresh name and locked (`flock(2)`) for as long as the process lives. The kernel drops the lock on
any death, and no name is ever locked twice, so *dead is final*: it may be looked at outside a
transaction and acted on inside one. Testers take the lock shared, or two of them would see each
other as alive.
"""

from __future__ import annotations

import errno
import os
import weakref
from typing import NamedTuple

from .clock import Clock
from .errors import StoreFull, StoreReadOnly, StoreUnavailable
from .processes import Process, lives, look_at, slay
from .storage.base import Holder

try:
    import fcntl
except ImportError:  # Windows: no flock; everybody else is told by pid and start time
    fcntl = None  # type: ignore[assignment]


class Place(NamedTuple):
    """Where we are: what decides whether another holder can be judged from here."""

    boot: str
    machine: str
    pidns: int

    @classmethod
    def here(cls, clock: Clock) -> Place:
        return cls(clock.boot(), machine_id(), pid_namespace())


def machine_id() -> str:
    """This machine's name for itself; stays the same over reboots."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            with open(path, encoding="ascii") as file:
                if found := file.read().strip():
                    return found
        except OSError:
            continue
    return "host:" + host_name()


def host_name() -> str:
    import socket  # 2 ms that `sloth add` need not pay

    return socket.gethostname()


def whoever() -> str:
    """Who we are, for the history of what we change: `ada (pid 4711)`."""
    try:
        from pwd import getpwuid

        name = getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError, AttributeError):
        name = os.environ.get("USER") or os.environ.get("USERNAME") or "somebody"
    return f"{name} (pid {os.getpid()})"


def pid_namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def start_time(pid: int) -> int:
    """When a process started, in the kernel's own count; 0 if it is gone or we cannot tell.

    With the pid it names one process for good: pids come again, the pair does not. Source: proc(5),
    field 22 of /proc/PID/stat.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


class Incarnation:
    """One life of a handle as a holder of leases: a locked file and an id."""

    def __init__(self, live: str, clock: Clock) -> None:
        self._descriptor: int | None = None
        _lives.add(self)
        self.id = fresh_id()
        self.path = os.path.join(live, f"{os.urandom(16).hex()}.lock")
        make_private(live)
        self._descriptor = lock_new(self.path)
        self.place = Place.here(clock)
        status = os.fstat(self._descriptor)  # of the file itself: its name may be deleted by now
        self.holder = describe(
            self.id, "worker", self.path, os.getpid(), self.place, self.id, status
        )

    def close(self) -> None:
        """Be dead for everybody. Whatever we still hold is re-issued."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()  # a handle that nobody has any more holds nothing

    def abandon(self) -> None:
        """In a forked child: let go of the parent's lock without dropping it."""
        self.close()  # never LOCK_UN: that would unlock the parent too

    def __repr__(self) -> str:
        state = "closed" if self._descriptor is None else "alive"
        return f"Incarnation({self.holder.label}, {state})"


_lives: weakref.WeakSet[Incarnation] = weakref.WeakSet()


def _become_nobody() -> None:
    """In a forked child: a lock that it keeps would keep its dead parent alive for everybody."""
    for life in list(_lives):
        life.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_become_nobody)


def fresh_id() -> int:
    """A holder's id: random, so that it proves a lease beside the fence. Never zero."""
    return int.from_bytes(os.urandom(8), "big") >> 1 | 1


def make_private(directory: str) -> None:
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise _unusable(directory, error) from error


def lock_new(path: str) -> int:
    """Create a file that nobody has locked before, and lock it for our whole life."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise _unusable(os.path.dirname(path), error) from error
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def lock_directory(path: str) -> int | None:
    """Lock a directory until the descriptor is closed; None if somebody else has it, or took it.

    Where the file system knows no such locks, it is not locked.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        gone = not os.path.exists(path)
    except OSError as error:
        gone = error.errno in (errno.EWOULDBLOCK, errno.EACCES)
    if gone:
        os.close(descriptor)
    return None if gone else descriptor


def _unusable(directory: str, error: OSError) -> StoreUnavailable:
    """The directory of locks cannot be made or written to."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(f"the disk of {directory} is full. Free some space and try again.")
    kind = StoreUnavailable
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        kind = StoreReadOnly
    return kind(
        f"{directory} cannot be written: {error.strerror}. Workers need it beside the store; give "
        "this user write permission there."
    )


def describe(
    id: int,
    kind: str,
    path: str,
    pid: int,
    place: Place,
    worker: int,
    status: os.stat_result | None = None,
) -> Holder:
    """The row of a holder whose lock file is locked already."""
    status = status or os.stat(path)
    return Holder(
        id=id,
        kind=kind,
        lock=os.path.basename(path),
        device=status.st_dev,
        inode=status.st_ino,
        boot=place.boot,
        machine=place.machine,
        pid=pid,
        started=start_time(pid),
        pidns=place.pidns,
        label=f"{host_name()}:{pid}",
        worker=worker,
    )


def free(path: str) -> bool:
    """Whether nobody holds this lock file: its holder is dead, or it was taken away."""
    return _probe(path) in ("free", "missing")


def _probe(path: str, holder: Holder | None = None) -> str:
    """`held`, `free`, `missing` or `other` (another file under that name)."""
    try:
        descriptor = os.open(
            path, os.O_RDONLY | os.O_CLOEXEC
        )  # for writing would look like a death
    except OSError:
        return "missing"
    try:
        if holder is not None and os.fstat(descriptor).st_ino != holder.inode:
            return "other"
        if fcntl is None:
            return "other"
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return "free"
    except OSError as error:
        return "held" if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else "other"
    finally:
        os.close(descriptor)


def verdict(holder: Holder, place: Place, live: str) -> str:
    """`alive`, `restarted`, `gone`, `foreign` or `unknown`: what the kernel says of a holder."""
    if holder.boot != place.boot:
        return "restarted" if holder.machine == place.machine else "foreign"
    found = _probe(os.path.join(live, holder.lock), holder)
    if found == "free":
        return "gone"
    if found == "held":
        return "alive"
    if holder.pidns != place.pidns or not holder.started:
        return "unknown"
    return "alive" if start_time(holder.pid) == holder.started else "gone"


def end_process(holder: Holder, place: Place) -> None:
    """Kill a process that lives on without its lock, with its group, and wait until it is gone.

    Ten seconds at most. Nobody else is touched: its pid and start time name one process for good.
    """
    if holder.pidns != place.pidns or not holder.started:
        return

    def find() -> list[Process]:
        process = look_at(holder.pid)
        found = process is not None and process.start == holder.started and lives(process)
        return [process] if found and process is not None else []

    slay(find, ended=lambda: not find(), groups=True)
