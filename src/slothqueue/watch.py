"""What wakes a process: the bell file, deaths of holders, jumps of the clock, writes of strangers.

One thread per open store, asleep in `poll(2)` on descriptors of the kernel; when nothing happens it
does not run at all. All of it is a hint, "look again": it may come too often, and it must never
stay away. Where inotify is missing the thread looks four times a second instead, and says so once.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterable

from . import kernel
from .clock import SystemClock
from .herald import HERALD, LOOK_AGAIN, Herald, Seat
from .senses import LOCK_SUFFIX, News, Senses, digest
from .waiting import BELL, Bell, BellFile

_PATIENCE = 10.0  # a settling may be in its last seconds when a watcher is closed

# The kernel tells of a closed file before it drops the file's lock, so one look is not enough.
LADDER = (0.001, 0.003, 0.012, 0.048, 0.186, 0.75)  # after 1, 4, 16, 64, 250 and 1000 ms


class Watcher:
    """Rings the bell of this process whenever something may have happened to its store.

    `data_version` reads that pragma on a connection that commits nothing itself, always in the
    watcher's thread. `settle` waits, for a bounded time, until whoever writes now has ended (`BEGIN
    IMMEDIATE; ROLLBACK`), in a thread of its own. `probe` says whether the holder of a lock file is
    gone. All three may raise. `say` gets one sentence when watching is not possible here.

    The live directory must exist. `jumps` counts resumes and settings of the clock.
    """

    def __init__(
        self,
        live: str,
        database: str,
        bell: Bell,
        data_version: Callable[[], int],
        settle: Callable[[], None],
        probe: Callable[[str], bool],
        say: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.polling = False
        self.jumps = 0
        self.error: Exception | None = None
        self._live, self._database = live, database
        self._bell, self._file = bell, BellFile(live)
        self._data_version, self._settle, self._probe, self._say = data_version, settle, probe, say
        self._said = False
        self._guard = threading.Lock()
        self._swap = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._helper: threading.Thread | None = None
        self._outcome: list[BaseException | None] = []
        self._senses: Senses | None = None
        self._herald: Herald | None = None
        self._seat: Seat | None = None
        self._suspects: set[str] = set()
        self._step = 0
        self._deaths: set[str] = set()
        self._reported: set[str] = set()
        self._unsure = False
        self._last: object = None
        self._now = SystemClock().awake  # how busy we are is real, whatever clock the store has
        self._heard = self._busy = 0

    # ---- for its owner

    def start(self) -> None:
        """Watch from now on; what happens after this returns is noticed. Twice is once."""
        with self._guard:
            if self._thread is not None:
                return
            self._stop.clear()
            self._try_to_open()
            self._thread = threading.Thread(target=self._run, name="slothqueue-watch", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the thread and close every descriptor. It may be started again."""
        with self._guard:
            thread, self._thread = self._thread, None
            if thread is None:
                return
            self._stop.set()
            self._wake()
            if thread is not threading.current_thread():
                thread.join(_PATIENCE)

    def abandon(self) -> None:
        """In the child of a fork: close what was inherited, touch nothing that the parent uses."""
        self._stop.set()
        self._thread = self._helper = None
        self._guard, self._swap = threading.Lock(), threading.Lock()
        self._close_all()

    def take_deaths(self) -> set[str]:
        """The lock files whose holders were found gone since the last time. One may come twice."""
        with self._swap:
            deaths, self._deaths = self._deaths, set()
        return deaths

    @property
    def unsure(self) -> bool:
        """Whether anybody may have died without being named."""
        return self._unsure

    def take_unsure(self) -> bool:
        """The same, and forget it: look at everybody after you asked."""
        if not self._unsure:  # never overwrite what is set at this moment
            return False
        self._unsure = False
        return True

    @property
    def herald(self) -> bool:
        """Whether this one is the herald of its store."""
        return self._herald is not None

    def __repr__(self) -> str:
        manner = "polling" if self.polling else "watching"
        if self._thread is None:
            manner = "asleep"
        return f"Watcher({self._live!r}, {manner}, herald={self.herald})"

    # ---- the thread

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._round()
        finally:
            self._close_all()

    def _round(self) -> None:
        try:
            if self._senses is None:
                self._poll()
            else:
                self._serve(self._senses)
        except Exception as error:
            self.error = error
            self._unsure = True
            self._close_all()
            self._bell.ring()
            self._stop.wait(LOOK_AGAIN)
            self._try_to_open()

    def _try_to_open(self) -> None:
        try:
            self._open()
        except OSError as error:
            self._give_up_watching(error)
        except (ImportError, AttributeError) as error:  # a Python without ctypes, say
            self._give_up_watching(OSError(str(error)))

    def _open(self) -> None:
        if not kernel.supported():
            raise OSError("this system has no inotify")
        self._senses = Senses(self._live)
        self.polling = False
        # Somebody who was going just before we watched may hold a lock for a moment longer.
        self._suspects = {HERALD, *self._lock_files()}
        self._step = 0
        self._senses.ladder.after(0)

    def _give_up_watching(self, error: OSError) -> None:
        self.polling = True
        self.error = error
        if not self._said:
            self._said = True
            self._say(kernel.why_not_watched(error, self._live))

    def _close_all(self) -> None:
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.join()  # it is about to write to one of our descriptors
        with self._swap:
            senses, self._senses = self._senses, None
        self._resign()
        if senses is not None:
            senses.close()
        self._file.close()
        self._outcome.clear()

    def _wake(self) -> None:
        with self._swap:  # the number may stand for another file once it is closed
            if self._senses is not None:
                os.eventfd_write(self._senses.wake, 1)

    def _serve(self, senses: Senses) -> None:
        poller = select.poll()
        duties = {
            senses.inotify.fd: self._hear,
            senses.jump.fd: self._jumped,
            senses.ladder.fd: self._climb,
            senses.window.fd: self._window_over,
            senses.wake: self._woken,
        }
        for fd in duties:
            poller.register(fd, select.POLLIN)
        while not self._stop.is_set():
            for fd, _ in poller.poll():
                duties[fd]()

    def _hear(self) -> None:
        # A bell that does not stop wakes us a thousand times a second and not for every ring.
        now = self._now()
        self._busy = self._busy + 1 if now - self._heard <= 1 else 0
        if self._busy > 8:
            self._stop.wait(0.001)
        self._heard = self._now()
        self.drain()

    def drain(self) -> None:
        """Take all events there are. (For the herald.)"""
        senses = self._watching()
        self._act(digest(senses.inotify.read(), senses.watches))

    def _watching(self) -> Senses:
        if self._senses is None:
            raise RuntimeError("this watcher is closed")
        return self._senses

    def _act(self, news: News) -> None:
        if news.moved:
            raise FileNotFoundError(f"{self._live} was moved or deleted")
        if news.rung:
            self._bell.ring()
        if news.rung and self._herald:  # before any look: these rings are older
            self._herald.rung()
        if news.overflow or news.lost_bell:
            self._start_over()
        if news.suspects:
            self._suspect(news.suspects)
        if news.written and self._herald:
            self._herald.written()

    def _start_over(self) -> None:
        # Events were lost, so anything may have happened.
        senses = self._watching()
        senses.watch_live()
        self._unsure = True
        self._bell.ring()
        self._suspect({HERALD, *self._lock_files()})
        if self._herald:
            self._herald.written()

    def _jumped(self) -> None:
        if self._watching().jump.read():
            self.jumps += 1
            self._bell.ring()

    def _woken(self) -> None:
        os.eventfd_read(self._watching().wake)
        outcomes, self._outcome = self._outcome, []
        for outcome in outcomes:
            if self._herald:
                self._herald.settled(outcome)

    # ---- deaths

    def _lock_files(self) -> set[str]:
        return {name for name in os.listdir(self._live) if name.endswith(LOCK_SUFFIX)}

    def _suspect(self, names: Iterable[str]) -> None:
        self._suspects |= set(names)
        self._step = 0
        self._look_at_suspects()
        self._watching().ladder.after(LADDER[0])

    def _climb(self) -> None:
        senses = self._watching()
        senses.ladder.read()
        self._look_at_suspects()
        if self._suspects and self._step < len(LADDER):
            senses.ladder.after(LADDER[self._step])
            self._step += 1
        else:
            self._suspects.clear()

    def _look_at_suspects(self) -> None:
        gone = {name for name in self._suspects if self._is_gone(name)}
        self._suspects -= gone
        self._report(gone - {HERALD})

    def _is_gone(self, name: str) -> bool:
        try:
            return self._elect() if name == HERALD else self._probe(name)
        except Exception as error:
            self.error = error
            self._unsure = True
            self._bell.ring()
            return False

    def _report(self, gone: set[str]) -> None:
        if not gone:
            return
        with self._swap:
            self._deaths |= gone
        self._bell.ring()

    # ---- the herald

    def _elect(self) -> bool:
        if self._seat is not None and self._seat.valid(self._live):
            return True
        self._resign()
        self._seat = Seat.take(self._live)
        if self._seat is None:
            return False
        self._herald = Herald(self)
        self._watching().database = os.path.realpath(self._database)
        self._herald.written()
        return True

    def _resign(self) -> None:
        self._herald = None
        seat, self._seat = self._seat, None
        if seat is not None:
            seat.close()

    def _window_over(self) -> None:
        self._watching().window.read()
        if self._herald:
            self._herald.alarmed()

    def version(self) -> int:
        """Watch the files of the database again, then read its version. (For the herald.)"""
        try:
            self._watching().watch_database()
        except OSError as error:
            self._give_up_watching(error)
            if self._herald:
                self._herald.blind = True
        return self._data_version()

    def ring(self) -> None:
        """Ring for everybody. (For the herald.)"""
        if not self._file.ring():
            self._bell.ring()

    def alarm(self, seconds: float) -> None:
        """Call the herald so long from now. (For the herald.)"""
        self._watching().window.after(seconds)

    def settle(self) -> None:
        """Wait in another thread until whoever writes has ended. (For the herald.)"""
        self._helper = threading.Thread(
            target=self._wait_for_writer,
            args=(self._watching().wake,),
            name="slothqueue-settle",
            daemon=True,
        )
        self._helper.start()

    def _wait_for_writer(self, wake: int) -> None:
        outcome: BaseException | None = None
        try:
            self._settle()
        except BaseException as error:
            outcome = error
        self._outcome.append(outcome)
        os.eventfd_write(wake, 1)

    # ---- where watching is not possible

    def _poll(self) -> None:
        now = (self._rings(), self._data_version())
        if now != self._last:
            self._last = now
            self._bell.ring()
        self._poll_deaths()
        self._stop.wait(LOOK_AGAIN)
        if kernel.supported():
            self._try_to_open()

    def _rings(self) -> int:
        try:
            return os.stat(os.path.join(self._live, BELL)).st_mtime_ns
        except FileNotFoundError:
            return 0

    def _poll_deaths(self) -> None:
        names = self._lock_files()
        self._reported &= names
        gone = {name for name in names - self._reported if self._is_gone(name)}
        self._reported |= gone
        self._report(gone)
