"""The shim of a command: a small process of ours that holds one attempt and outlives its worker.

    shim.main([LOCK, BASE, TIMEOUT, GRACE, CWD, "--", ARGV..., LINK])

It locks LOCK for its whole life, says `ready` on the socket LINK and runs nothing before `go`
comes. Then it runs ARGV with its output on BASE.log, tells in BASE.exit how that ended
(`receipts.py` reads it) and goes. A worker that dies after `go` changes nothing.

`stop WHY`, SIGTERM, or TIMEOUT milliseconds of awake time (`-`: none) end the whole tree: TERM to
every process, GRACE milliseconds, then KILL until none is left; `hurry` ends the grace. What a
command that ends by itself leaves in the background is left alone, and so is, in any case, the
background worker of a store that the command has started by queueing a job. If the shim is killed,
the command is found by its environment, which is the shim's, by its session, which is too, and by
the draft of the receipt, BASE.exit.part, which names it. On a full disk the receipt has its room
from the start, or is tried for a minute; where it cannot be left, the worker is told it by LINK.

It imports next to nothing, for it is started once per command. Source: `prctl(2)` for the
subreaper.
"""

import errno
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
    look_at,
    one_line,
    send,
    slay,
    without_background,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:  # the functions without the enums, which take nearly as long to import as Python to start
    import _signal as signal

FULL_DISK_PATIENCE = 60.0
ROOM = 4096  # bytes kept for the receipt from the start, so that a full disk cannot lose the end
_PASSING = {getattr(errno, name, -1) for name in ("ENOSPC", "EDQUOT", "ENOMEM", "ENFILE", "EIO")}
FOREVER = 2**30  # more seconds than anybody waits, and the most milliseconds for one poll


class Ears:
    """All that the shim hears, on one poll: lines of its worker, signals, the ends of children."""

    def __init__(self, link: int) -> None:
        os.set_inheritable(link, False)
        self.link = link
        self.go = self.hurry = self.deaf = self.terminated = False
        self.stop: str | None = None  # why, as a line of the receipt
        self._partial = b""
        self._signals, bell = os.pipe()
        os.set_blocking(self._signals, False)
        os.set_blocking(bell, False)
        self._poll = select.poll()
        self._poll.register(link, select.POLLIN)
        self._poll.register(self._signals, select.POLLIN)
        signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)  # the bell does the work
        for number in (signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)

    def wait(self, seconds: float) -> None:
        """Sleep until something is heard, at most this long."""
        for source, _ in self._poll.poll(int(min(1000 * max(seconds, 0) + 1, FOREVER))):
            if source == self.link:
                self._hear_worker()
            else:
                self._hear_signals()

    def _hear_signals(self) -> None:
        if signal.SIGTERM in os.read(self._signals, 4096):
            self.terminated = True
            self.stop = self.stop or "terminated SIGTERM"

    def _hear_worker(self) -> None:
        try:
            piece = os.read(self.link, 4096)
        except OSError:
            piece = b""
        if not piece:
            self.deaf = True
            self._poll.unregister(self.link)
        *lines, self._partial = (self._partial + piece).split(b"\n")
        for line in lines:
            self._obey(line)

    def _obey(self, line: bytes) -> None:
        word, _, rest = line.partition(b" ")
        if word == b"stop":
            why = one_line(rest.decode("utf-8", "replace"))
            self.stop = self.stop or f"stopped {why or 'its worker asked for it'}"
        self.go = self.go or word == b"go"
        self.hurry = self.hurry or word == b"hurry"

    def tell(self, text: bytes) -> None:
        """Say to our worker, if it is there, what could not be left in a file."""
        try:
            os.write(self.link, b"".join(b"told %b\n" % line for line in text.splitlines()))
        except OSError:
            return


class Shim:
    """One command from `go` to its receipt."""

    def __init__(self, ears: Ears, *, timeout: str, grace: str) -> None:
        self.ears = ears
        self.timeout = timeout
        self.grace = int(grace) / 1000
        self.pid = 0
        self.status: int | None = None
        self.lines: list[str] = []
        self.started = time.monotonic()

    def run(self, argv: list[str], *, cwd: str, log: str, paper: "Paper") -> None:
        """Start the command and stay with it to the end."""
        if self.ears.stop is not None:
            self.lines = ["error it was stopped before it began", self.ears.stop]
            return
        try:
            output = _open_log(log)
            _enter(cwd)
            self.pid = _spawn(argv, output)
        except Refusal as refusal:
            code, text = refusal.args
            self.lines = [f"exit {code}", f"error {one_line(text)}"]
            return
        paper.draft(self.pid)
        self._watch()
        self.lines.insert(0, self._how_it_ended())

    def _watch(self) -> None:
        until = self.started + (FOREVER if self.timeout == "-" else int(self.timeout) / 1000)
        while self._reap() and not self._is_decided() and time.monotonic() < until:
            self.ears.wait(until - time.monotonic())
        if self.status is None or self._shares_our_end():
            self.lines = [self.ears.stop or f"timeout {self.timeout}"]
        if self.status is None:
            self._end()

    def _is_decided(self) -> bool:
        return self.status is not None or self.ears.stop is not None

    def _shares_our_end(self) -> bool:
        """Who ends all on a machine sends SIGTERM to the command and to us at once."""
        code = os.waitstatus_to_exitcode(self.status or 0)
        return self.ears.terminated and code == -signal.SIGTERM

    def _end(self) -> None:
        """End the whole tree: politely, and after the grace for certain."""
        asked = [process for process in self._tree() if self._ask(process)]
        until = time.monotonic() + self.grace
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


class Refusal(Exception):
    """Why the command could not be started: what a shell would have ended with, and the text."""


def _open_log(path: str) -> int:
    try:
        _make(os.path.dirname(path))
        return os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Refusal(126, f"its log {path} cannot be opened: {error.strerror}") from None


def _make(folder: str) -> None:
    """Put the directory back if somebody has cleared it away, but not what it is in."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        return


def _enter(cwd: str) -> None:
    try:
        os.chdir(cwd)
    except OSError as error:
        what = "is gone" if error.errno == errno.ENOENT else f"cannot be used: {error.strerror}"
        raise Refusal(126, f"its working directory {cwd} {what}") from None


def _spawn(argv: list[str], output: int) -> int:
    io = (
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, output, 2),
    )
    usual = set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}
    try:
        return os.posix_spawnp(
            argv[0], argv, os.environ, file_actions=io, setpgroup=0, setsigmask=(), setsigdef=usual
        )
    except OSError as error:
        raise _refusal(argv[0], error) from None
    finally:
        os.close(output)
        os.chdir("/")


def _refusal(name: str, error: OSError) -> Refusal:
    tip = "; --shell gives a text to the shell" if set(name) & set(" \t\n|&;<>$") else ""
    if error.errno == errno.ENOENT and "/" not in name:
        path = os.environ.get("PATH", os.defpath)[:200]
        return Refusal(127, f"there is no program {name!r} on the PATH of the worker ({path}){tip}")
    if error.errno == errno.ENOENT and os.path.lexists(name):
        return Refusal(127, f"{name} needs an interpreter that is not there; see its first line")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return Refusal(127, f"there is no program {name!r}{tip}")
    if error.errno == errno.ENOEXEC:
        return Refusal(126, f"{name} is not a program: it has no #! line and is no binary of ours")
    return Refusal(126, f"{name} cannot be run: {error.strerror}")


class Paper:
    """The place for the receipt, taken while there is room and filled in at the end."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.file: int | None = None
        self._try(b"\n" * ROOM, self._write)  # if there is none now, there may be when it is needed

    def draft(self, pid: int) -> None:
        """Note which process is the command, for whoever finds us killed."""
        process = look_at(pid)
        if process is not None:
            self._try(b"began %d %d\n" % (pid, process.start), self._write)

    def fill(self, text: bytes) -> bool:
        """Write the receipt, all of it or nothing; with patience when the disk is full."""
        until, wait = time.monotonic() + FULL_DISK_PATIENCE, 0.05
        while (number := self._leave(text)) in _PASSING and time.monotonic() < until:
            time.sleep(wait)
            wait = min(2 * wait, 1.0)
        return number == 0

    def _leave(self, text: bytes) -> int:
        number = self._try(text, self._write_and_name)
        if number != errno.ENOENT:
            return number
        self._forget()  # somebody cleared the draft away, or all of the directory
        return self._try(text, self._write_and_name)

    def _try(self, text: bytes, how: Callable[[bytes], object]) -> int:
        try:
            how(text)
        except OSError as error:
            return error.errno or errno.EINVAL
        return 0

    def _write_and_name(self, text: bytes) -> None:
        file = self._write(text)
        os.ftruncate(file, len(text))
        getattr(os, "fdatasync", os.fsync)(file)
        os.rename(self.path + ".part", self.path)

    def _write(self, text: bytes) -> int:
        if self.file is None:
            _make(os.path.dirname(self.path))
            self.file = os.open(self.path + ".part", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        done = 0
        while done < len(text):
            done += os.pwrite(self.file, text[done:], done)
        return self.file

    def _forget(self) -> None:
        if self.file is not None:
            os.close(self.file)
        self.file = None


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
    lock, base, timeout, grace, cwd, _, *argv, link = words
    _hold(lock)
    ears = Ears(int(link))
    os.write(ears.link, b"ready\n")
    _adopt()
    while not (ears.go or ears.deaf or ears.stop):
        ears.wait(FOREVER)
    if not ears.go:
        return 0
    paper, shim = Paper(base + ".exit"), Shim(ears, timeout=timeout, grace=grace)
    shim.run(argv, cwd=cwd, log=base + ".log", paper=paper)
    shim.lines.insert(1, f"seconds {time.monotonic() - shim.started:.3f}")
    text = "".join(f"{line}\n" for line in shim.lines[:60]).encode("utf-8", "replace")
    if paper.fill(text):
        return 0
    ears.tell(text)
    return 1
