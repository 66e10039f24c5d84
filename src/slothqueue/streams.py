"""What stands between a shim and its command where a plain file is not enough: input, a terminal.

It is loaded by the shim when it is needed, and stands alone. Sources: `pty(7)`, `termios(3)`.
"""

import os
import select
import sys
from collections.abc import Callable

from .starting import NO_INPUT, Refusal, onto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Ears(Protocol):
        """What is needed of the ears of a shim."""

        letters: list[bytes | None]
        arrived: Callable[[], object]

        def watch(self, file: int, call: Callable[[], object], events: int = ...) -> None: ...
        def ignore(self, file: int) -> None: ...
        def say(self, line: bytes) -> None: ...


END_OF_INPUT = b"\x04"  # typed at a terminal
_READS = 64  # of a terminal at a time: who writes without end must not keep us from all else


class Streams:
    """The files of a command that has a terminal, an input, or both. Raises Refusal."""

    def __init__(self, options: dict[str, str], logs: list[int], ears: "Ears") -> None:
        self._terminal: Terminal | None = None
        self._theirs: int | None = None
        try:
            self.io = self._open(options, logs, ears)
        except OSError as error:  # too many files, no terminal left
            what = "terminal" if "terminal" in options else "input"
            raise Refusal(126, f"it cannot be given its {what}: {error.strerror}") from None

    def _open(self, options: dict[str, str], logs: list[int], ears: "Ears") -> "list[Any]":
        if size := options.get("terminal"):
            self._terminal = Terminal(size, logs[0], ears)
            show = (os.POSIX_SPAWN_OPEN, 1, self._terminal.path, os.O_RDWR, 0)
            io: list[Any] = [show, (os.POSIX_SPAWN_DUP2, 1, 2)]
        else:
            io = onto(logs)
        return [*io, self._input(ears) if "input" in options else NO_INPUT]

    def _input(self, ears: "Ears") -> "Any":
        if self._terminal is not None:
            Input(os.dup(self._terminal.file), ears, terminal=True)
            return (os.POSIX_SPAWN_DUP2, 1, 0)
        self._theirs, ours = os.pipe()
        Input(ours, ears, terminal=False)
        return (os.POSIX_SPAWN_DUP2, self._theirs, 0)

    def begun(self) -> None:
        """The command has its own by now: nobody but it may keep its input from ending."""
        if self._theirs is not None:
            os.close(self._theirs)

    def finish(self) -> None:
        """Write down what was shown to the end."""
        if self._terminal is not None:
            self._terminal.show()


class Input:
    """What was sent to a command and it has not read yet. Never waits for it.

    The worker sends no more than we may keep, so we tell it how many bytes were taken in all. The
    input of a `terminal` has no end, but what is typed there to say so.
    """

    def __init__(self, file: int, ears: "Ears", *, terminal: bool) -> None:
        os.set_blocking(file, False)
        self._file, self._ears, self._terminal = file, ears, terminal
        self._waiting, self._taken = b"", 0
        self._is_open, self._ends, self._is_watched = True, False, False
        ears.arrived = self._receive
        self._receive()

    def _receive(self) -> None:
        letters, self._ears.letters = self._ears.letters, []
        for letter in letters:
            if letter is not None:
                self._waiting += b"" if self._ends else letter
            elif self._terminal:
                self._waiting += END_OF_INPUT
            else:
                self._ends = True
        self._push()

    def _push(self) -> None:
        if not self._is_open:
            return
        before = self._taken
        try:
            while self._waiting:
                count = os.write(self._file, self._waiting)
                self._waiting, self._taken = self._waiting[count:], self._taken + count
        except BlockingIOError:
            pass
        except OSError:  # nobody reads it, and nobody will
            self._waiting, self._ends = b"", True
        if self._taken > before:
            self._ears.say(b"took %d" % self._taken)
        self._listen()

    def _listen(self) -> None:
        if self._waiting and not self._is_watched:
            self._ears.watch(self._file, self._push, select.POLLOUT)
        elif self._is_watched and not self._waiting:
            self._ears.ignore(self._file)
        self._is_watched = bool(self._waiting)
        if self._ends and not self._waiting:
            os.close(self._file)
            self._is_open = False
            self._ears.say(b"shut")


class Terminal:
    """A terminal for the command, of this size (`COLUMNS LINES`); what it shows goes to its log.

    Lines end as they were written, without a carriage return.
    """

    def __init__(self, size: str, log: int, ears: "Ears") -> None:
        import fcntl
        import termios

        # We keep their end open, too: so ours never hangs up while the command lives.
        self.file, self._theirs = os.openpty()
        os.set_blocking(self.file, False)
        self._log = log
        how = termios.tcgetattr(self._theirs)
        how[1] &= ~termios.OPOST
        termios.tcsetattr(self._theirs, termios.TCSANOW, how)
        columns, lines = (int(number).to_bytes(2, sys.byteorder) for number in size.split())
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, lines + columns + bytes(4))
        self.path = os.ttyname(self._theirs)
        ears.watch(self.file, self.show)

    def show(self) -> None:
        """Write down what has been shown by now."""
        try:
            for _ in range(_READS):
                _write(self._log, os.read(self.file, 65536))
        except OSError:  # that is all
            return


def _write(file: int, data: bytes) -> None:
    """Write it all, or as much as there is room for: the command is not to wait for a full disk."""
    try:
        while data:
            data = data[os.write(file, data) :]
    except OSError:
        return
