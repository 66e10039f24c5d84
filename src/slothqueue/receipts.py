"""How a command ended, by what its shim left behind; and what is still there when it left nothing.

The shim writes `BASE.exit` all at once, as lines of a word and a value: `exit 3`, `signal 9`,
`error TEXT`, `timeout MS`, `stopped WHY`, `cancelled WHY`, `terminated SIGTERM`, `cut BYTES` (of
its output), `signalled PID NAME`, `survivor PID NAME`, `seconds 1.2`; and what was asked for, so
that whoever settles need not know the job: `retry CODES`, `keep WHEN`. Until then `BASE.exit.part`
says which process the command is: `began PID START`. The command's output is in `BASE.log`, and its
errors in `BASE.err` if they are wanted apart (`outputs.py` reads both).
"""

from __future__ import annotations

import os
from typing import NamedTuple

from . import processes
from .clock import Millis
from .models import Ending
from .processes import Process
from .sizes import spoken_size
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
    cancelled: str | None = None
    cut: int = 0
    """Bytes of its output that were not kept."""
    retry: tuple[str, ...] | None = None
    """The only ends that are tried again: exit codes, `signal`, `timeout`; None if all are."""
    keep: str | None = None
    """Which logs stay: those of `failed` attempts, `never` any; None if all do."""


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
        cancelled=last.get("cancelled"),
        cut=int(last.get("cut", "0")),
        retry=tuple(last["retry"].split()) if "retry" in last else None,
        keep=last.get("keep"),
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

    Exit code 0 completes it and anything else fails it, for good if it is none of those that are to
    be tried again. A command that its worker asked to stop is given back, whatever it made of the
    signal; that it was cancelled and is not to come back, the store knows. A SIGTERM that somebody
    sent to the shim is no such asking: the command itself may have sent it, and would without end.
    Only where its worker is `stopping` too is it the service or the machine that goes down.
    """
    if told.cancelled is not None:
        return Ending("release", reason=told.cancelled, error=_with_names("was cancelled", told))
    if told.terminated and stopping:
        told = told._replace(terminated=False, stopped="its worker stops")
    if told.stopped is not None and told.timed_out is None:
        return Ending("release", reason=told.stopped, error=_with_names("was stopped", told))
    result = f'{{"exit_code": {code(told)}}}'
    if code(told) == 0:
        text = f"exited with code 0 after {_took(told)}"
        return Ending("complete", result=result, message=text + _what_was_cut(told))
    kind = "fail" if _is_tried_again(told) else "discard"
    return Ending(kind, result=result, error=_with_names(_what_happened(told), told))


def _is_tried_again(told: Receipt) -> bool:
    if told.retry is None:
        return True
    if told.timed_out is not None:
        return "timeout" in told.retry
    if told.terminated or told.signal is not None:
        return "signal" in told.retry
    return str(told.exit_code) in told.retry


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
    return text + _what_was_cut(told)


def _what_was_cut(told: Receipt) -> str:
    return f"; {spoken_size(told.cut)} of its output was not kept" if told.cut else ""


def drop_logs(base: str, told: Receipt) -> None:
    """Delete the output of an attempt that has ended so, unless it was to be kept."""
    if told.keep == "never" or (told.keep == "failed" and ending(told).kind == "complete"):
        for suffix in (".log", ".log.cut", ".err", ".err.cut"):
            try:
                os.unlink(base + suffix)
            except OSError:  # it was never made, or somebody was quicker
                continue


def stop_orphan(pid: int, start: int) -> bool:
    """Ask a shim whose worker is gone to end its command: TERM, its grace, KILL, and a receipt.

    `start` is when that process started, by the kernel's own count; nobody else is touched. False
    if it is there no more.
    """
    import signal  # as above

    process = processes.look_at(pid) if processes.LINUX else Process(pid, "shim")
    if process is None or (processes.LINUX and process.start != start):
        return False
    return processes.lives(process) and processes.send(process, signal.SIGTERM)


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
    # At a terminal the command leads a session of its own.
    sessions = (session,) if command is None else (session, command[0])
    found = chosen(everyone, marked, sessions=sessions, me=os.getpid())
    return processes.without_background(found)


def chosen(
    everyone: dict[int, Process], marked: set[int], *, sessions: tuple[int, ...], me: int
) -> list[Process]:
    """Who of everyone belongs to the attempt of the marked ones: those that carry its cookie, and
    its command.

    They themselves, the others in the sessions of the shim and the command if one of them is in it
    (the number of a session is not given out again while it has members), and all who descend from
    any of these.
    Nobody is chosen for a number alone, and nobody for not letting us look. The first process of
    the machine, we and our parents never are, nor our children if we run inside that attempt.
    """
    spared = _elders(everyone, me)
    tree: dict[int, Process] = {}
    fellows = (_fellows(everyone, marked, session) for session in sessions)
    for pid in marked.union(*fellows) - (spared - {me}):
        tree[pid] = everyone[pid]
        tree.update((process.pid, process) for process in processes.below(everyone, pid))
    if me in tree or spared & marked:
        spared |= {process.pid for process in processes.below(everyone, me)}
    return [tree[pid] for pid in sorted(tree.keys() - spared) if processes.lives(tree[pid])]


def _fellows(everyone: dict[int, Process], marked: set[int], session: int) -> set[int]:
    leader = everyone.get(session)
    if session <= 1:
        return set()
    if leader is not None and processes.lives(leader) and session not in marked:
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
