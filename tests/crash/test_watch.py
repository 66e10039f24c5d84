"""What wakes a process, tried with real processes, real locks and real commits of strangers."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from slothqueue import kernel
from slothqueue.waiting import Bell, BellFile
from slothqueue.watch import Watcher

pytestmark = pytest.mark.skipif(not kernel.supported(), reason="only Linux has inotify")

SOURCE = str(Path(kernel.__file__).parent.parent)
DEADLINE = 5.0  # a sixth of the fallback interval of a waiter


class Kit:
    """A watcher, wired as a store wires it."""

    def __init__(self, directory: Path) -> None:
        self.live, self.database = str(directory / "work.db-live"), str(directory / "work.db")
        os.makedirs(self.live, mode=0o700, exist_ok=True)
        self.bell = Bell()
        self.said: list[str] = []
        self.dead: set[str] = set()
        self.sick: Exception | None = None
        self.connection = sqlite3.connect(
            self.database, check_same_thread=False, isolation_level=None
        )
        self.watcher = Watcher(
            self.live,
            self.database,
            self.bell,
            self.data_version,
            self.settle,
            self.probe,
            self.said.append,
        )

    def data_version(self) -> int:
        if self.sick is not None:
            raise self.sick
        return int(self.connection.execute("pragma data_version").fetchone()[0])

    def settle(self) -> None:
        with contextlib.closing(sqlite3.connect(self.database, isolation_level=None)) as other:
            other.execute("begin immediate")
            other.execute("rollback")

    def probe(self, name: str) -> bool:
        try:
            descriptor = os.open(os.path.join(self.live, name), os.O_RDONLY)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        return True

    def until(self, true: Callable[[], object], seconds: float = DEADLINE) -> bool:
        """Mark, look, wait: whether it came true by a ring, without looking in between."""
        end = time.monotonic() + seconds
        while True:
            mark = self.bell.mark()
            if true():
                return True
            if not self.bell.wait(mark, max(0, end - time.monotonic())):
                return False

    def is_gone(self, name: str) -> bool:
        self.dead |= self.watcher.take_deaths()
        return name in self.dead

    def has_rows(self, count: int) -> bool:
        return bool(self.reader.execute("select count(*) from t").fetchone()[0] == count)

    @property
    def reader(self) -> sqlite3.Connection:
        if not hasattr(self, "_reader"):
            self._reader = sqlite3.connect(self.database, check_same_thread=False)
        return self._reader

    def close(self) -> None:
        self.watcher.close()
        self.connection.close()
        if hasattr(self, "_reader"):
            self._reader.close()


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    with contextlib.closing(sqlite3.connect(tmp_path / "work.db")) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table t (x)")
    kit = Kit(tmp_path)
    yield kit
    kit.close()


def eventually(true: Callable[[], object], seconds: float = DEADLINE) -> bool:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


class Program:
    """Another process that does one thing per line it is given, and answers each with a line."""

    def __init__(self, code: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([SOURCE, os.getcwd()])},
        )
        self.answer()

    def answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the other program ended early"
        return line.strip()

    def say(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self) -> str:
        self.say()
        return self.answer()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.process.wait()
        assert self.process.stdin is not None and self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()


RINGER = """
    import sys
    from slothqueue.waiting import BellFile
    bell = BellFile(sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        print(bell.ring(), flush=True)
"""
STRANGER = """
    import sqlite3, sys
    connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
    connection.execute("pragma synchronous = full")
    print("ready", flush=True)
    for line in sys.stdin:
        connection.execute("insert into t values (1)")
"""
OWN_WRITER = """
    import sqlite3, sys, threading
    from slothqueue.waiting import BellFile
    bell = BellFile(sys.argv[2])
    connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
    connection.execute("pragma synchronous = normal")
    connection.execute("create table if not exists other (x)")
    print("ready", flush=True)
    threading.Thread(target=lambda: sys.stdin.read() or sys.exit(), daemon=True).start()
    while True:
        connection.execute("insert into other values (1)")
        bell.ring()
"""
HOLDER = """
    import fcntl, os, sys
    descriptor = os.open(sys.argv[1], os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("ready", flush=True)
    sys.stdin.read()
"""
WATCHING = """
    import sys
    from pathlib import Path
    from tests.crash.test_watch import Kit
    kit = Kit(Path(sys.argv[1]))
    kit.watcher.start()
    print("ready", flush=True)
    for line in sys.stdin:
        print(kit.watcher.herald, flush=True)
"""


def test_a_ring_in_one_process_wakes_another(kit):
    kit.watcher.start()
    assert eventually(lambda: kit.watcher.herald)
    with Program(RINGER, kit.live) as other:
        for _ in range(50):
            mark = kit.bell.mark()
            assert other.ask() == "True"
            assert kit.bell.wait(mark, DEADLINE)


def commits_of_a_stranger(kit: Kit, count: int) -> None:
    with Program(STRANGER, kit.database) as stranger:
        for n in range(1, count + 1):
            stranger.say()
            assert kit.until(partial(kit.has_rows, n)), f"commit {n} was lost"


@pytest.mark.parametrize(
    "count", [20, pytest.param(200, marks=pytest.mark.slow("200 durable commits one by one"))]
)
def test_every_commit_of_a_stranger_wakes_us(kit, count):
    kit.watcher.start()
    commits_of_a_stranger(kit, count)


def test_every_commit_of_a_stranger_wakes_us_when_the_herald_is_elsewhere(kit, tmp_path):
    with Program(WATCHING, str(tmp_path)) as other:
        assert eventually(lambda: other.ask() == "True")
        kit.watcher.start()
        commits_of_a_stranger(kit, 20)
        assert not kit.watcher.herald


@pytest.mark.slow("a busy writer beside 100 durable commits")
def test_every_commit_of_a_stranger_wakes_us_beside_a_busy_writer_that_rings(kit):
    kit.watcher.start()
    with Program(OWN_WRITER, kit.database, kit.live):
        commits_of_a_stranger(kit, 100)


def test_a_commit_through_a_rollback_journal_wakes_us(kit):
    kit.connection.close()
    with contextlib.closing(sqlite3.connect(kit.database)) as connection:
        connection.execute("pragma journal_mode = delete")
    kit.connection = sqlite3.connect(kit.database, check_same_thread=False, isolation_level=None)
    kit.watcher.start()
    commits_of_a_stranger(kit, 10)


def test_a_log_that_was_deleted_and_made_again_is_still_watched(kit):
    kit.connection.close()
    kit.watcher.start()
    kit.sick = sqlite3.ProgrammingError("closed")
    assert eventually(lambda: not os.path.exists(kit.database + "-wal"))
    kit.connection = sqlite3.connect(kit.database, check_same_thread=False, isolation_level=None)
    kit.sick = None
    commits_of_a_stranger(kit, 10)


def test_a_herald_that_is_killed_has_a_successor(kit, tmp_path):
    with Program(WATCHING, str(tmp_path)) as other:
        assert eventually(lambda: other.ask() == "True")
        kit.watcher.start()
        commits_of_a_stranger(kit, 1)
        assert not kit.watcher.herald
        other.kill()
        assert eventually(lambda: kit.watcher.herald, 2)
    with Program(STRANGER, kit.database) as stranger:
        stranger.say()
        assert kit.until(partial(kit.has_rows, 2))


def test_a_herald_that_closes_has_a_successor_in_its_own_process(kit, tmp_path):
    kit.watcher.start()
    assert eventually(lambda: kit.watcher.herald)
    other = Kit(tmp_path)
    other.watcher.start()
    kit.watcher.close()
    assert eventually(lambda: other.watcher.herald)
    other.close()


@pytest.mark.parametrize(
    "count", [10, pytest.param(100, marks=pytest.mark.slow("starts a hundred programs"))]
)
def test_the_death_of_a_holder_is_noticed_at_once(kit, count):
    kit.watcher.start()
    for n in range(count):
        name = f"{n}.lock"
        with Program(HOLDER, os.path.join(kit.live, name)) as holder:
            assert not kit.is_gone(name)
            holder.kill()
            assert kit.until(partial(kit.is_gone, name), 2), f"death {n} was missed"


def test_many_deaths_at_one_moment_are_all_noticed(kit):
    kit.watcher.start()
    names = [f"{n}.lock" for n in range(12)]
    with contextlib.ExitStack() as stack:
        holders = [
            stack.enter_context(Program(HOLDER, os.path.join(kit.live, name))) for name in names
        ]
        for holder in holders:
            holder.kill()
        assert kit.until(lambda: all(kit.is_gone(name) for name in names), 2)


def test_a_holder_that_died_before_we_watched_is_named(kit):
    with Program(HOLDER, os.path.join(kit.live, "early.lock")) as holder:
        holder.kill()
    kit.watcher.start()
    assert kit.until(lambda: kit.is_gone("early.lock"), 2)


def test_a_lock_file_that_is_deleted_counts_as_a_death(kit):
    with Program(HOLDER, os.path.join(kit.live, "deleted.lock")):
        kit.watcher.start()
        os.unlink(os.path.join(kit.live, "deleted.lock"))
        assert kit.until(lambda: kit.is_gone("deleted.lock"), 2)


def test_a_living_holder_is_never_named(kit):
    with Program(HOLDER, os.path.join(kit.live, "alive.lock")):
        kit.watcher.start()
        os.close(os.open(os.path.join(kit.live, "alive.lock"), os.O_WRONLY))  # looks like a death
        assert not kit.until(lambda: kit.is_gone("alive.lock"), 0.1)


def exhausted(*_: object) -> None:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_without_inotify_it_is_looked_at_and_said_once(kit, monkeypatch):
    monkeypatch.setattr(kernel.Inotify, "__init__", exhausted)
    kit.watcher.start()
    assert kit.watcher.polling
    commits_of_a_stranger(kit, 2)
    with Program(HOLDER, os.path.join(kit.live, "polled.lock")) as holder:
        holder.kill()
        assert kit.until(lambda: kit.is_gone("polled.lock"))
    assert len(kit.said) == 1
    assert "Too many open files" in kit.said[0]


def test_watching_begins_once_inotify_is_to_be_had_again(kit, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(kernel.Inotify, "__init__", exhausted)
        kit.watcher.start()
    assert eventually(lambda: not kit.watcher.polling)
    assert eventually(lambda: kit.watcher.herald)


def test_a_herald_that_cannot_watch_the_files_looks_at_them(kit, monkeypatch):
    real = kernel.Inotify.watch

    def watch(self: kernel.Inotify, path: str, mask: int) -> int:
        if path.startswith(kit.live):
            return real(self, path, mask)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(kernel.Inotify, "watch", watch)
    kit.watcher.start()
    commits_of_a_stranger(kit, 2)
    assert kit.watcher.polling and kit.watcher.herald and len(kit.said) == 1


def test_events_that_the_kernel_could_not_keep_count_as_a_ring_and_as_doubt(kit):
    kit.watcher.start()
    assert eventually(lambda: kit.watcher.herald)
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 100_000:
        pytest.skip("the queue of this machine is too long to be filled")
    held, reached = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        held.wait(30)

    leave = kit.bell.subscribe(hold)
    BellFile(kit.live).ring()
    assert reached.wait(DEADLINE)
    files = [os.path.join(kit.live, name) for name in ("a.txt", "b.txt")]
    for n in range(limit + 10):
        os.close(os.open(files[n % 2], os.O_WRONLY | os.O_CREAT))
    with Program(HOLDER, os.path.join(kit.live, "unseen.lock")) as holder:
        holder.kill()
    leave()
    held.set()
    assert kit.until(lambda: kit.watcher.unsure)
    assert kit.watcher.take_unsure() and not kit.watcher.take_unsure()
    assert kit.until(lambda: kit.is_gone("unseen.lock"), 2)
    commits_of_a_stranger(kit, 2)


def test_a_bell_file_that_was_deleted_still_wakes(kit):
    kit.watcher.start()
    assert eventually(lambda: kit.watcher.herald)
    bell = BellFile(kit.live)
    for _ in range(3):
        os.unlink(bell.path)
        assert eventually(lambda: os.path.exists(bell.path))
        mark = kit.bell.mark()
        assert bell.ring()
        assert kit.bell.wait(mark, DEADLINE)
    bell.close()


def test_a_live_directory_that_was_moved_away_is_watched_again_when_it_is_back(kit):
    kit.watcher.start()
    assert eventually(lambda: kit.watcher.herald)
    os.rename(kit.live, kit.live + ".old")
    assert eventually(lambda: kit.watcher.polling)
    os.mkdir(kit.live, 0o700)
    assert eventually(lambda: kit.watcher.herald)
    commits_of_a_stranger(kit, 2)


def test_a_database_that_cannot_be_read_for_a_while_does_not_end_the_watch(kit):
    kit.watcher.start()
    commits_of_a_stranger(kit, 1)
    kit.sick = sqlite3.OperationalError("disk I/O error")
    mark = kit.bell.mark()
    with Program(STRANGER, kit.database) as stranger:
        stranger.say()
        assert kit.bell.wait(mark, DEADLINE)
        kit.sick = None
        stranger.say()
        assert kit.until(partial(kit.has_rows, 3))


def test_setting_the_clock_wakes_us(kit):
    kit.watcher.start()
    assert eventually(lambda: kit.watcher.herald)
    try:
        # To the very same time: the date of this machine stays what it is.
        time.clock_settime_ns(time.CLOCK_REALTIME, time.clock_gettime_ns(time.CLOCK_REALTIME))
    except OSError:
        pytest.skip("only root may set the clock")
    assert kit.until(lambda: kit.watcher.jumps >= 1)


def test_a_forked_child_that_abandons_leaves_its_parent_watching(kit):
    kit.watcher.start()
    assert eventually(lambda: kit.watcher.herald)
    before = len(os.listdir("/proc/self/fd"))
    child = os.fork()
    if child == 0:
        kit.watcher.abandon()
        os._exit(before - len(os.listdir("/proc/self/fd")))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) >= 7  # closed: five senses and the herald's two
    assert kit.watcher.herald
    commits_of_a_stranger(kit, 2)


def descriptors_and_threads() -> tuple[int, int]:
    return len(os.listdir("/proc/self/fd")), threading.active_count()


@pytest.mark.parametrize(
    "count", [20, pytest.param(1000, marks=pytest.mark.slow("opens and closes a thousand times"))]
)
def test_nothing_is_left_of_a_watcher_that_was_closed(kit, count):
    kit.watcher.start()
    assert eventually(lambda: kit.watcher.herald)
    kit.watcher.close()
    kit.data_version()
    kit.settle()  # SQLite keeps one descriptor of a closed connection while another is open
    before = descriptors_and_threads()
    for n in range(count):
        kit.watcher.start()
        kit.watcher.start()
        assert n % 10 or eventually(lambda: kit.watcher.herald)
        kit.watcher.close()
        kit.watcher.close()
    assert descriptors_and_threads() == before


def switches(thread: int) -> list[str]:
    lines = Path(f"/proc/self/task/{thread}/status").read_text().splitlines()
    return [line for line in lines if "ctxt_switches" in line]


@pytest.mark.slow("watches an idle thread for two seconds")
def test_an_idle_watcher_does_not_run_at_all(kit):
    kit.watcher.start()
    thread = next(t.native_id for t in threading.enumerate() if t.name == "slothqueue-watch")
    assert thread is not None
    time.sleep(1.5)  # the ladder of the start
    before = switches(thread)
    time.sleep(2)
    assert switches(thread) == before
