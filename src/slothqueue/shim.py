"""The shim of a command: a small process of ours that holds one attempt and outlives its worker.

    shim.main([LOCK, BASE, TIMEOUT, GRACE, CWD, OPTIONS, "--", ARGV..., LINK])

It locks LOCK for its whole life, says `ready` on the socket LINK and runs nothing before `go`
comes. Then it runs ARGV with its output on BASE.log, tells in BASE.exit how that ended
(`receipts.py` reads it) and goes. A worker that dies after `go` changes nothing. OPTIONS is empty,
or `word value;word value`: `most BYTES` (of output), `errors` (apart, in BASE.err), `terminal
COLUMNS LINES`, `input`, `nice N`; `keep` and `retry` are for the receipt alone.

`stop MS WHY`, `cancel MS WHY`, SIGTERM, or TIMEOUT milliseconds of awake time (`-`: none) end the
whole tree: TERM to every process, MS or else GRACE milliseconds, then KILL until none is left;
`hurry` ends the grace. What a command that ends by itself leaves in the background is left alone,
and so is, in any case, the background worker of a store that the command has started by queueing a
job. `send BASE64` and `eof` are for the input of the command, which says `took BYTES` and `shut`.

If the shim is killed, the command is found by its environment, which is the shim's, by its session,
and by the draft of the receipt, BASE.exit.part, which names it. On a full disk the receipt has its
room from the start, or is tried for a minute; where it cannot be left, the worker is told it by
LINK.

It imports next to nothing before it is ready, for it is started once per command, and what is
needed later while its worker writes down who it is. Source: `prctl(2)` for the subreaper.
"""

import os
import select
import time
from collections.abc import Callable

from .processes import (
    LINUX,
    Process,
    below,
    catches_term,
    lives,
    look_around,
    one_line,
    send,
    slay,
    without_background,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal

    from .caps import Caps
    from .papers import Paper
    from .streams import Streams
else:  # the functions without the enums, which take nearly as long to import as Python to start
    import _signal as signal

MOST_OUTPUT = 64_000_000  # bytes that are kept unless something else is asked for
FOREVER = 2**30  # more seconds than anybody waits, and the most milliseconds for one poll


class Ears:
    """All that the shim hears, on one poll: lines of its worker, signals, the ends of children."""

    def __init__(self, link: int) -> None:
        os.set_inheritable(link, False)
        os.set_blocking(link, False)
        self.link = link
        self.go = self.hurry = self.deaf = self.terminated = False
        self.stop: str | None = None  # why, as a line of the receipt
        self.grace: str = "-"
        self.letters: list[bytes | None] = []  # for the command; None is the end of its input
        self.arrived: Callable[[], object] = lambda: None
        self._partial = b""
        self._signals, bell = os.pipe()
        os.set_blocking(self._signals, False)
        os.set_blocking(bell, False)
        self._poll = select.poll()
        self._calls: dict[int, Callable[[], object]] = {}
        self._alarm: tuple[float, Callable[[], object]] | None = None
        self.watch(link, self._hear_worker)
        self.watch(self._signals, self._hear_signals)
        signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)  # the bell does the work
        for number in (signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)

    def watch(self, file: int, call: Callable[[], object], events: int = select.POLLIN) -> None:
        """Have this called whenever the file is ready."""
        self._calls[file] = call
        self._poll.register(file, events)

    def ignore(self, file: int) -> None:
        """Listen to it no more."""
        self._poll.unregister(file)
        del self._calls[file]

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        """Have this called in so many seconds, and nothing else that was to be called later."""
        self._alarm = (time.monotonic() + seconds, call)

    def wait(self, seconds: float) -> None:
        """Sleep until something is heard, at most this long."""
        if self._alarm is not None:
            seconds = min(seconds, self._alarm[0] - time.monotonic())
        for source, _ in self._poll.poll(int(min(1000 * max(seconds, 0) + 1, FOREVER))):
            if source in self._calls:
                self._calls[source]()
        if self._alarm is not None and self._alarm[0] <= time.monotonic():
            (_, call), self._alarm = self._alarm, None
            call()

    def _hear_signals(self) -> None:
        if signal.SIGTERM in os.read(self._signals, 4096):
            self.terminated = True
            self.stop = self.stop or "terminated SIGTERM"

    def _hear_worker(self) -> None:
        try:
            piece = os.read(self.link, 65536)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self.deaf = True
            self.ignore(self.link)
        *lines, self._partial = (self._partial + piece).split(b"\n")
        for line in lines:
            self._obey(line)

    def _obey(self, line: bytes) -> None:
        word, _, rest = line.partition(b" ")
        if word in (b"stop", b"cancel"):
            self._hear_stop(word, rest.decode("utf-8", "replace"))
        elif word == b"send":
            from binascii import a2b_base64

            self.letters.append(a2b_base64(rest))
        elif word == b"eof":
            self.letters.append(None)
        if self.letters:
            self.arrived()
        self.go = self.go or word == b"go"
        self.hurry = self.hurry or word == b"hurry"

    def _hear_stop(self, word: bytes, rest: str) -> None:
        grace, _, why = rest.partition(" ")
        why = one_line(why) or "its worker asked for it"
        if word == b"cancel":  # that counts, whatever else it was to end for
            self.stop = self.stop if self.is_cancelled else f"cancelled {why}"
        self.stop = self.stop or f"stopped {why}"
        self.grace = grace if self.grace == "-" else self.grace

    @property
    def is_cancelled(self) -> bool:
        return self.stop is not None and self.stop.startswith("cancelled")

    def say(self, line: bytes) -> None:
        """Say to our worker, if it is there and listens, what it may miss."""
        try:
            os.write(self.link, line + b"\n")
        except OSError:
            return

    def tell(self, text: bytes) -> None:
        """Say to our worker, if it is there, what could not be left in a file."""
        os.set_blocking(self.link, True)
        self.say(b"\n".join(b"told %b" % line for line in text.splitlines()))


class Shim:
    """One command from `go` to its receipt."""

    def __init__(self, ears: Ears, *, timeout: str, grace: str, options: dict[str, str]) -> None:
        self.ears = ears
        self.timeout = timeout
        self.grace = grace
        self.options = options
        self.pid = 0
        self.status: int | None = None
        self.lines: list[str] = []
        self.started = time.monotonic()
        self.caps: Caps | None = None
        self.streams: Streams | None = None

    def run(self, argv: list[str], *, cwd: str, base: str, paper: "Paper") -> None:
        """Start the command and stay with it to the end."""
        if self.ears.stop is not None:
            self.lines = ["error it was stopped before it began", self.ears.stop]
            return
        from . import starting

        try:
            logs = [starting.open_log(base + suffix) for suffix in self._suffixes()]
            starting.enter(cwd)
            self.pid = self._start(argv, logs)
        except starting.Refusal as refusal:
            code, text = refusal.args
            self.lines = [f"exit {code}", f"error {one_line(text)}"]
            return
        finally:
            os.chdir("/")
        paper.draft(self.pid)
        self._cap(base, logs)
        self._watch()
        self._finish()
        self.lines.insert(0, self._how_it_ended())

    def _suffixes(self) -> list[str]:
        return [".log", ".err"] if "errors" in self.options else [".log"]

    def _start(self, argv: list[str], logs: list[int]) -> int:
        from .starting import NO_INPUT, onto, spawn

        nice = int(self.options.get("nice", "0"))
        if not self.options.keys() & {"input", "terminal"}:
            return spawn(argv, [NO_INPUT, *onto(logs)], nice=nice)
        from .streams import Streams

        self.streams = Streams(self.options, logs, self.ears)
        pid = spawn(argv, self.streams.io, session="terminal" in self.options, nice=nice)
        self.streams.begun()
        return pid

    def _cap(self, base: str, logs: list[int]) -> None:
        from .caps import Cap, Caps

        most = self.options.get("most", str(MOST_OUTPUT))
        if most == "-":
            return
        self.caps = Caps(
            [Cap(log, base + suffix, int(most)) for log, suffix in zip(logs, self._suffixes())],
            watch=self.ears.watch,
            ignore=self.ears.ignore,
            later=self.ears.later,
        )

    def _finish(self) -> None:
        """What was shown is written down, and what is too much cut."""
        if self.streams is not None:
            self.streams.finish()
        if self.caps is not None and (lost := self.caps.finish()):
            self.lines.insert(0, f"cut {lost}")

    def _watch(self) -> None:
        until = self.started + (FOREVER if self.timeout == "-" else int(self.timeout) / 1000)
        while self._reap() and not self._is_decided() and time.monotonic() < until:
            self.ears.wait(until - time.monotonic())
        why = self.ears.stop or f"timeout {self.timeout}"
        if self.status is None:
            self._end()
        elif not self._shares_our_end():
            return
        self.lines.insert(0, (self.ears.is_cancelled and self.ears.stop) or why)

    def _is_decided(self) -> bool:
        return self.status is not None or self.ears.stop is not None

    def _shares_our_end(self) -> bool:
        """Who ends all on a machine sends SIGTERM to the command and to us at once."""
        code = os.waitstatus_to_exitcode(self.status or 0)
        return self.ears.terminated and code == -signal.SIGTERM

    def _end(self) -> None:
        """End the whole tree: politely, and after the grace for certain."""
        asked = [process for process in self._tree() if self._ask(process)]
        grace = self.grace if self.ears.grace == "-" else self.ears.grace
        until = time.monotonic() + int(grace) / 1000
        self._wait(until, over=lambda: not self._reap() or self.status is not None)
        # Who was just being forked was missed, or was asked while its parent's handler took it and
        # lost it at exec. What the command started to clean up is done by now.
        known = {process.pid for process in asked}
        missed = (one for one in self._tree() if one.pid not in known or not catches_term(one))
        asked += [one for one in missed if self._ask(one)]
        self._wait(until, over=self._gone)
        killed = slay(self._tree, ended=self._gone, groups=True, pause=self.ears.wait)
        left = [] if self._gone() else self._tree()
        told = [f"survivor {one}" for one in left] + [f"signalled {one}" for one in asked + killed]
        self.lines += dict.fromkeys(told)

    def _wait(self, until: float, *, over: Callable[[], bool]) -> None:
        while not (self.ears.hurry or over()) and time.monotonic() < until:
            self.ears.wait(until - time.monotonic())

    def _ask(self, process: Process) -> bool:
        done = send(process, signal.SIGTERM)
        if process.state == "T":  # it must run to hear that it should end
            send(process, signal.SIGCONT)
        return done

    def _tree(self) -> list[Process]:
        if LINUX:
            return [process for process in without_background(self._below()) if lives(process)]
        return [] if self._gone() else [Process(-self.pid, "process group")]

    def _below(self) -> list[Process]:
        return below(look_around(), os.getpid())

    def _gone(self) -> bool:
        # We inherit the orphans of the tree, so that without a child nothing of it is left.
        if self._reap():
            return LINUX and self._has_only_guests() and self._has_only_guests()
        return LINUX or not send(Process(-self.pid, "group"), 0)

    def _has_only_guests(self) -> bool:
        """Whether background workers are all that is left; a look may miss who forks behind it."""
        found = [process for process in self._below() if lives(process)]
        return bool(found) and not without_background(found)

    def _reap(self) -> bool:
        """Wait for all children that have ended; False when there are no others."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.pid:
                self.status = status

    def _how_it_ended(self) -> str:
        if self.status is None:
            return "error it did not end although it was killed"
        code = os.waitstatus_to_exitcode(self.status)
        return f"exit {code}" if code >= 0 else f"signal {-code}"


def _hold(path: str) -> None:
    import fcntl  # here, for this module is imported where there is none, too

    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)


def _adopt() -> None:
    """Become the one to whom the kernel gives every orphan of our tree."""
    try:
        import ctypes  # after `ready`, while our worker writes down who we are
    except ImportError:  # a Python built without it: who is orphaned gets away
        return
    if LINUX:
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def main(words: list[str]) -> int:
    lock, base, timeout, grace, cwd, told, _, *argv, link = words
    _hold(lock)
    ears = Ears(int(link))
    os.write(ears.link, b"ready\n")
    _adopt()
    from . import caps, papers, starting  # noqa: F401  # they are there when they are needed

    while not (ears.go or ears.deaf or ears.stop):
        ears.wait(FOREVER)
    if not ears.go:
        return 0
    options = dict(line.partition(" ")[::2] for line in told.split(";") if line)
    paper = papers.Paper(base + ".exit")
    shim = Shim(ears, timeout=timeout, grace=grace, options=options)
    shim.run(argv, cwd=cwd, base=base, paper=paper)
    shim.lines.insert(1, f"seconds {time.monotonic() - shim.started:.3f}")
    shim.lines[2:2] = [f"{word} {options[word]}" for word in ("keep", "retry") if word in options]
    text = "".join(f"{line}\n" for line in shim.lines[:60]).encode("utf-8", "replace")
    if paper.fill(text):
        return 0
    ears.tell(text)
    return 1
