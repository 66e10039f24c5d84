"""How a command ended, by what its shim left behind; and what is still there when it left nothing.

The shim writes `BASE.exit` all at once, as lines of a word and a value: `exit 3`, `signal 9`,
`error TEXT`, `timeout MS`, `stopped WHY`, `terminated SIGTERM`, `signalled PID NAME`,
`survivor PID NAME`, `seconds 1.2`. Until then `BASE.exit.part` says which process the command is:
`began PID START`. The command's output is in `BASE.log`.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from . import processes
from .clock import Millis
from .models import Ending
from .processes import Process
from .timing import spoken

COOKIE = "SLOTH_LEASE"
"""The variable by which every process of an attempt can be recognized."""


class Receipt(NamedTuple):
    """What a shim tells about its command. Without `exit_code` and `signal` nobody saw its end."""

    exit_code: int | None = None
    signal: int | None = None
    timed_out: Millis | None = None
    stopped: str | None = None
    terminated: bool = False
    error: str | None = None
    signalled: tuple[str, ...] = ()
    survivors: tuple[str, ...] = ()
    seconds: float = 0.0


def base(logs: str, job: int, attempt: int, fence: int) -> str:
    """The path, without its suffix, of the files of one attempt."""
    return os.path.join(logs, f"{job}-{attempt}-{fence}")


def cookie(store: str, job: int, fence: int) -> str:
    """What the processes of one attempt carry, and no others: the fence is that of one attempt."""
    return f"{store}-{job}-{fence}"


def read(base: str) -> Receipt | None:
    """What the shim of this attempt told; None when it told nothing (it was killed, or runs)."""
    text = _text(base + ".exit")
    return None if text is None else parse(text)


def began(base: str) -> tuple[int, int] | None:
    """The pid and the start of the command's process, by the draft of its shim, if there is one."""
    word, *numbers = (_text(base + ".exit.part") or "").partition("\n")[0].split(" ")
    if word != "began" or len(numbers) != 2 or not all(map(str.isdecimal, numbers)):
        return None
    return int(numbers[0]), int(numbers[1])


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(65536)
    except (FileNotFoundError, NotADirectoryError):
        return None


def parse(text: str) -> Receipt | None:
    """What these lines tell; None if that is nothing."""
    try:
        return _parse(text)
    except ValueError:  # not written by a shim, so it tells nothing
        return None


def _parse(text: str) -> Receipt | None:
    told: dict[str, list[str]] = {}
    for line in text.splitlines():
        word, _, value = line.partition(" ")
        told.setdefault(word, []).append(value)
    if not told.keys() & {"exit", "signal", "error"}:
        return None
    last = {word: values[-1] for word, values in told.items()}
    return Receipt(
        exit_code=_number(last.get("exit")),
        signal=_number(last.get("signal")),
        timed_out=_number(last.get("timeout")),
        stopped=last.get("stopped"),
        terminated="terminated" in told,
        error=last.get("error"),
        signalled=tuple(told.get("signalled", ())),
        survivors=tuple(told.get("survivor", ())),
        seconds=float(last.get("seconds", "0")),
    )


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def code(told: Receipt) -> int:
    """The exit code as a shell would give it: 128+n for a signal, 124 for our own timeout."""
    if told.timed_out is not None:
        return 124
    if told.terminated:
        return 143
    if told.signal is not None:
        return 128 + told.signal
    return 1 if told.exit_code is None else told.exit_code


def ending(told: Receipt, *, stopping: bool = False) -> Ending:
    """What the end of the command means for its attempt.

    Exit code 0 completes it and anything else fails it. A command that its worker asked to stop is
    given back, whatever it made of the signal. A SIGTERM that somebody sent to the shim is no such
    asking: the command itself may have sent it, and would without end. Only where its worker is
    `stopping` too is it the service or the machine that goes down.
    """
    if told.terminated and stopping:
        told = told._replace(terminated=False, stopped="its worker stops")
    if told.stopped is not None and told.timed_out is None:
        return Ending("release", reason=told.stopped, error=_with_names("was stopped", told))
    result = f'{{"exit_code": {code(told)}}}'
    if code(told) == 0:
        return Ending("complete", result=result, message=f"exited with code 0 after {_took(told)}")
    return Ending("fail", result=result, error=_with_names(_what_happened(told), told))


def _took(told: Receipt) -> str:
    return spoken(round(1000 * told.seconds))


def _what_happened(told: Receipt) -> str:
    if told.timed_out is not None:
        return f"timed out after {spoken(told.timed_out)}"
    if told.terminated:
        return "ended by SIGTERM sent to its shim"
    if told.signal is not None:
        return f"killed by signal {told.signal}{_signal_name(told.signal)}"
    return told.error or f"exited with code {told.exit_code}"


def _signal_name(number: int) -> str:
    import signal  # it is slow to import, and needed only here

    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:
        return ""


def _with_names(text: str, told: Receipt) -> str:
    if told.signalled:
        text += f"; signalled: {', '.join(told.signalled)}"
    if told.survivors:
        text += f"; still alive: {', '.join(told.survivors)}"
    return text


def sweep(cookie: str, session: int, base: str | None = None) -> list[str]:
    """Kill what a killed shim left running; returns each as `"PID NAME"`.

    `session` is the pid of the shim, which was the leader of that session, and `base` is where its
    files are; `chosen` says who is taken for a process of this attempt. The command itself may have
    cleared its environment, so it is known by its pid and its start, too. Takes ten seconds at
    most; who is still there then is named as such. Without /proc nobody can be told apart for
    certain, so nobody is touched.
    """
    if not cookie or not processes.LINUX:
        return []
    mark = f"{COOKIE}={cookie}".encode()
    command = began(base) if base else None

    def find() -> list[Process]:
        # Twice, for a process can hide from one look by forking behind it.
        return _look(mark, session, command) or _look(mark, session, command)

    return _names(processes.slay(find, ended=lambda: not find(), groups=False), find())


def _look(mark: bytes, session: int, command: tuple[int, int] | None) -> list[Process]:
    everyone = processes.look_around()
    marked = {pid for pid in everyone if _is_marked(pid, mark)}
    marked |= {pid for pid, one in everyone.items() if (pid, one.start) == command}
    found = chosen(everyone, marked, session=session, me=os.getpid())
    return processes.without_background(found)


def chosen(
    everyone: dict[int, Process], marked: set[int], *, session: int, me: int
) -> list[Process]:
    """Who of everyone belongs to the attempt of the marked ones: those that carry its cookie, and
    its command.

    They themselves, the others in the session of the shim if one of them is in it (the number of a
    session is not given out again while it has members), and all who descend from any of these.
    Nobody is chosen for a number alone, and nobody for not letting us look. The first process of
    the machine, we and our parents never are, nor our children if we run inside that attempt.
    """
    spared = _elders(everyone, me)
    tree: dict[int, Process] = {}
    for pid in (marked | _fellows(everyone, marked, session)) - (spared - {me}):
        tree[pid] = everyone[pid]
        tree.update((process.pid, process) for process in processes.below(everyone, pid))
    if me in tree or spared & marked:
        spared |= {process.pid for process in processes.below(everyone, me)}
    return [tree[pid] for pid in sorted(tree.keys() - spared) if processes.lives(tree[pid])]


def _fellows(everyone: dict[int, Process], marked: set[int], session: int) -> set[int]:
    leader = everyone.get(session)
    if session <= 1 or (leader is not None and processes.lives(leader)):
        return set()
    members = {process.pid for process in everyone.values() if process.session == session}
    return members if members & marked else set()


def _elders(everyone: dict[int, Process], me: int) -> set[int]:
    elders = {0, 1}
    while me in everyone and me not in elders:
        elders.add(me)
        me = everyone[me].parent
    return elders


def _names(slain: list[Process], left: list[Process]) -> list[str]:
    still = {process.pid for process in left}
    return [f"{process}{' (still there)' * (process.pid in still)}" for process in slain]


def _is_marked(pid: int, mark: bytes) -> bool:
    """Whether the process carries the cookie, as far as we may see."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:
        return False
