"""A command as an attempt: what may be one, how it is started, how its worker deals with it.

The command runs under a shim (`shim.py`), which holds the attempt and outlives us. This module is
imported to enqueue, too, so what it takes to start a process is imported when one is started.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import codec, orders
from .environment import captured, captured_here

if TYPE_CHECKING:
    from .clock import Millis
    from .models import Ending

SHELL = ("/bin/sh", "-c")
ONE_ARGUMENT = 128 * 1024  # bytes that Linux takes in one, with its end; execve(2)

MOST_UNREAD = 64 * 1024  # bytes that may be sent to a command and not read by it

# What Python runs as a shim: our package without its __init__, for the shim needs nothing of it. As
# an imported module, and not as a script, its compiled form is kept.
_BOOT = """\
import sys
package = type(sys)("slothqueue")
package.__path__ = [sys.argv[1]]
sys.modules["slothqueue"] = package
from slothqueue import shim
sys.exit(shim.main(sys.argv[2:]))
"""
_PYTHON = ("-I", "-S", "-E", "-X", "utf8", "-c", _BOOT)


def check_argv(argv: Any, shell: bool = False) -> list[str]:
    """The command as a list of text, of which a shell command has one item.

    Raises ValueError for what no process could be started with.
    """
    if isinstance(argv, (str, bytes)):
        if not shell:
            raise ValueError(
                f"a command is a list such as ['ls', '-l'], not {argv!r}; "
                "shell=True gives a text to the shell"
            )
        argv = [argv]
    if not isinstance(argv, Sequence):
        raise ValueError(f"a command is a list of text, not {type(argv).__name__}")
    words = [_text(word, f"argv[{place}]") for place, word in enumerate(argv)]
    if not words or not words[0].strip():
        raise ValueError("the command is empty; its first item must name a program")
    if shell and len(words) > 1:
        raise ValueError(
            f"with shell=True the command is one text, and this list has {len(words)} items; "
            "leave shell=True out to run a list as it is"
        )
    return words


def check_cwd(cwd: Any) -> str | None:
    """The working directory as text. Raises ValueError; does not look whether it is there."""
    return None if cwd is None else _text(cwd, "cwd")


def check_env(env: Any) -> dict[str, str] | None:
    """The variables as text. Raises ValueError for what no environment can hold."""
    if env is None:
        return None
    if not isinstance(env, Mapping):
        raise ValueError(f"env must be a mapping of text to text, not {type(env).__name__}")
    checked = {_text(name, "a name in env"): _text(env[name], f"env[{name!r}]") for name in env}
    for name in checked:
        if not name or "=" in name:
            raise ValueError(f"{name!r} cannot be the name of a variable in env")
    return checked


def _text(value: Any, what: str) -> str:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str):
        raise ValueError(f"{what} must be text, not {type(value).__name__}: {value!r}")
    if "\0" in value:
        raise ValueError(f"{what} holds a NUL byte, which no command can be given: {value!r}")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise ValueError(f"{what} cannot be given to a command as bytes: {value!r}") from None
    return value


def parted(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options that only a command has, and those of every job."""
    own = {name: value for name, value in options.items() if name in orders.OPTIONS}
    return own, {name: value for name, value in options.items() if name not in own}


def payload_of(
    argv: Any,
    environ: Mapping[str, str],
    *,
    cwd: Any = None,
    shell: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """What is stored of a command but for its variables, checked; `environ` is its submitter's.

    Raises ValueError, and TypeError for a name that is no option.
    """
    rest = orders.checked(environ, options)
    words = check_argv(argv, shell)
    where = os.path.abspath(check_cwd(cwd) or os.getcwd())
    return {"argv": words, "cwd": where, **({"shell": True} if shell else {}), **rest}


def environment_for(environ: Mapping[str, str], env: Any, clean: bool = False) -> dict[str, str]:
    """All variables that a command is to have, of its submitter's and what is given as `env`.

    Raises ValueError.
    """
    extra = check_env(env)
    if environ is not os.environ:
        return captured(environ, extra=extra, clean=clean)
    ours = captured_here(clean=clean)
    return {**ours, **extra} if extra else ours


_latest: tuple[dict[str, str], str] = ({}, "{}")


def environment_text(environ: Mapping[str, str], env: Any, clean: bool = False) -> str:
    """The same as it is stored: as JSON, which is made anew only for what is another."""
    global _latest
    variables, known = environment_for(environ, env, clean), _latest
    if variables is not known[0]:
        known = _latest = (variables, codec.encode(variables, "env"))
    return known[1]


class Command:
    """One attempt of a command under its shim, as its worker sees it.

    The shim is started at once, and the command only by `go()`, once the store knows who holds it.
    `environment` is all that the command gets, beside what we add; without one it is what older
    versions gave it: ours with the payload's on top. Raises ValueError for a payload that is no
    command, OSError when no process can be started.
    """

    def __init__(
        self,
        payload: Mapping[str, Any],
        *,
        job: int,
        attempt: int,
        fence: int,
        token: str,
        cookie: str,
        lock: str,
        logs: str,
        environment: Mapping[str, str] | None = None,
        timeout: Millis | None = None,
        grace: Millis = 10_000,
    ) -> None:
        from . import receipts
        from .spawn import Spawned
        from .starting import set_aside

        self.base = receipts.base(logs, job, attempt, fence)
        self.cookie = cookie
        self.ready = False
        self.takes_input = bool(payload.get("stdin"))
        self._sent = self._taken = 0
        self._heard: list[bytes] = []
        cwd = _directory(payload)
        told = {"JOB": str(job), "ATTEMPT": str(attempt), "TOKEN": token}
        variables = {f"SLOTH_{name}": value for name, value in told.items()}
        variables.update({receipts.COOKIE: cookie, "PWD": cwd})
        limit = "-" if timeout is None else str(timeout)
        argv = [lock, self.base, limit, str(grace), cwd, orders.for_shim(payload), "--"]
        argv += _words(payload)
        _make_private(logs)
        if environment is None:
            environment = {**os.environ, **(check_env(payload.get("env")) or {})}
        env = set_aside({**environment, **variables}, os.environ)
        python = [sys.executable, *_PYTHON, os.path.dirname(os.path.abspath(__file__))]
        try:
            self.spawned = Spawned([*python, *argv], lock=lock, env=env, quiet=True)
        except OSError as error:
            if error.errno != errno.E2BIG:
                raise
            raise ValueError(_too_long(payload, environment)) from None

    def receive(self) -> bool:
        """Take what the shim has said; True once it holds its lock. Never waits."""
        for line in self.spawned.receive():
            if line.startswith(b"took "):
                self._taken = int(line[5:])
            elif line == b"shut":
                self.takes_input = False
            else:
                self._heard.append(line)
        self.ready = b"ready" in self._heard
        return self.ready

    def keep_talking(self) -> None:
        """Hear what its input has taken, and send what could not be sent at once."""
        if self.takes_input:
            self.receive()
            self.spawned.flush()

    def go(self) -> bool:
        """Let the command start. False when the shim is gone or no longer listens."""
        return self.spawned.send(b"go")

    def stop(
        self, why: str = "its worker stops", *, grace: Millis | None = None, cancel: bool = False
    ) -> bool:
        """Ask the shim to end the whole tree; `why` goes into the history.

        `grace` is awake time between TERM and KILL, ten seconds unless told. What is stopped is
        given back; what is stopped to `cancel` it has ended.
        """
        word, wait = b"cancel" if cancel else b"stop", b"-" if grace is None else b"%d" % grace
        return self.spawned.send(b"%b %b %b" % (word, wait, " ".join(why.split()).encode()))

    def send(self, data: bytes) -> bool:
        """Give these bytes to the input of the command, after what was sent before. Never waits.

        False if it takes no input, ended it, or has not yet read so much of what was sent before
        that these do not fit: then nothing of them was sent. Raises ValueError for more than
        `MOST_UNREAD` bytes.
        """
        if len(data) > MOST_UNREAD:
            raise ValueError(f"at most {MOST_UNREAD} bytes can be sent at a time, not {len(data)}")
        self.receive()
        if not self.takes_input or self._sent - self._taken + len(data) > MOST_UNREAD:
            return False
        from binascii import b2a_base64

        self._sent += len(data)
        return self.spawned.send(b"send " + b2a_base64(data, newline=False))

    def end_input(self) -> bool:
        """Let the command see the end of its input once it has read all that was sent."""
        return self.takes_input and self.spawned.send(b"eof")

    def hurry(self) -> bool:
        """Cut the grace short."""
        return self.spawned.send(b"hurry")

    @property
    def gone(self) -> bool:
        """Whether the shim has ended: then `ending()` tells how the command did."""
        return self.spawned.gone

    def ending(self, *, stopping: bool = False) -> Ending | None:
        """How the attempt ended, by the word of its shim; None when the shim told nothing.

        While we are `stopping`, a SIGTERM to the shim is for the same reason.
        """
        from . import receipts

        told = receipts.read(self.base) or receipts.parse(self._told())
        return None if told is None else receipts.ending(told, stopping=stopping)

    def drop_logs(self) -> None:
        """Delete its output if it ended in such a way that it is not to be kept."""
        from . import receipts

        if (told := receipts.read(self.base)) is not None:
            receipts.drop_logs(self.base, told)

    def _told(self) -> str:
        """What the shim said over the link, because it could not leave it in a file."""
        self.receive()
        lines = [line.removeprefix(b"told ") for line in self._heard if line.startswith(b"told ")]
        return b"\n".join(lines).decode("utf-8", "replace")

    def sweep(self) -> list[str]:
        """Kill what a shim that was killed left running; returns each as `"PID NAME"`."""
        from . import receipts

        return receipts.sweep(self.cookie, self.spawned.pid, self.base)

    def close(self) -> None:
        """Give back what it costs us. A command that was let go runs on."""
        self.spawned.close()

    def __repr__(self) -> str:
        return f"Command({os.path.basename(self.base)}, {self.spawned!r})"


def _words(payload: Mapping[str, Any]) -> list[str]:
    shell = bool(payload.get("shell"))
    words = check_argv(payload.get("argv"), shell)
    return [*SHELL, *words] if shell else words


def _directory(payload: Mapping[str, Any]) -> str:
    """Where the command runs. The shim itself is in `/`, so this must not be relative."""
    cwd = check_cwd(payload.get("cwd"))
    try:
        return os.path.abspath(cwd or ".")
    except FileNotFoundError:  # our own directory was removed: no command may run elsewhere instead
        return cwd or "."


def _too_long(payload: Mapping[str, Any], env: Mapping[str, str]) -> str:
    words = enumerate(check_argv(payload.get("argv"), bool(payload.get("shell"))))
    sizes = {f"argv[{place}]": len(os.fsencode(word)) + 1 for place, word in words}
    for name, value in env.items():
        sizes[f"env[{name!r}]"] = len(os.fsencode(f"{name}={value}")) + 1
    what = max(sizes, key=sizes.__getitem__)
    size = sizes[what]
    if size <= ONE_ARGUMENT:
        what, size = "the command with its environment", sum(sizes.values())
    return (
        f"{what} is {size} bytes long, which is more than the system gives to a program; "
        "put it into a file and give the command the name of the file"
    )


def _make_private(logs: str) -> None:
    try:
        os.makedirs(logs, mode=0o700, exist_ok=True)
        if os.stat(logs).st_mode & 0o077:
            os.chmod(logs, 0o700)
    except OSError as error:
        tip = "see what is in its place, and who may write beside it"
        text = f"the directory for the output of commands cannot be made ({error.strerror}); {tip}"
        raise OSError(error.errno, text, logs) from None
