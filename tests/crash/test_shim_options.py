"""What may be asked of a command beside what it is, under real shims."""

from __future__ import annotations

import functools
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slothqueue import outputs, processes, receipts
from slothqueue.caps import SUFFIX
from slothqueue.commands import MOST_UNREAD, Command
from slothqueue.liveness import Place
from slothqueue.models import Ending
from slothqueue.outputs import Cut
from slothqueue.running import CommandRun
from slothqueue.storage.base import Claimed

from .support_shims import DEADLINE, HERE, Commands, asleep, switches, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    started = Commands(tmp_path)
    yield started
    started.clean()


def on_disk(path: str) -> int:
    return os.stat(path).st_blocks * 512


# ---- environment --------------------------------------------------------------------------------


def environment(commands: Commands, command: Command) -> dict[str, str]:
    assert commands.end(command).kind == "complete"
    lines = commands.log(command).decode().split("\0")
    return dict(line.split("=", 1) for line in lines if line)


def test_a_command_has_the_environment_it_is_given_and_nothing_of_its_worker(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OF_THE_WORKER", "1")
    given = {"A": "a b=c\nd", "PATH": "/usr/bin:/bin"}
    command = commands.start("env", "-0", cwd=str(tmp_path), environment=given)
    assert environment(commands, command) == {
        **given,
        "PWD": str(tmp_path),
        "SLOTH_JOB": "1",
        "SLOTH_ATTEMPT": "1",
        "SLOTH_TOKEN": "token-1",
        "SLOTH_LEASE": command.cookie,
    }


def test_the_program_is_looked_up_on_the_path_that_it_is_given(commands: Commands, tmp_path: Path):
    (tmp_path / "tool").write_text("#!/bin/sh\necho mine\n")
    (tmp_path / "tool").chmod(0o755)
    command = commands.start("tool", environment={"PATH": str(tmp_path)})
    assert commands.end(command).kind == "complete"
    assert commands.log(command) == b"mine\n"


def test_what_would_break_a_python_reaches_the_command_and_not_its_shim(commands: Commands):
    given = {
        "LD_LIBRARY_PATH": "/no/such",
        "PYTHONHOME": "/no/such",
        "PYTHONPATH": "/no/such",
        "MALLOC_ARENA_MAX": "1",
        "LC_ALL": "C.UTF-8",
        "PATH": "/usr/bin:/bin",
    }
    command = commands.start("env", "-0", environment=given)
    assert environment(commands, command).items() >= given.items()
    sleeps = commands.start("sleep", "999", environment=given)
    commands.runs(sleeps, "sleep")
    shim = Path(f"/proc/{sleeps.spawned.pid}/environ").read_bytes().split(b"\0")
    assert not [line for line in shim if line.startswith((b"LD_LIB", b"PYTHONHOME", b"MALLOC"))]
    assert len(commands.left(sleeps)) == 2  # both carry the cookie


def test_what_preloads_a_library_that_is_not_there_says_so_in_the_log_alone(commands: Commands):
    given = {"LD_PRELOAD": "/no/such/library.so", "PATH": "/usr/bin:/bin"}
    command = commands.start("true", environment=given)
    assert commands.end(command).kind == "complete"
    assert commands.log(command).count(b"/no/such/library.so") == 1


# ---- output -------------------------------------------------------------------------------------

CAP = 65_536


def test_endless_output_stays_within_its_size_and_the_cut_is_told(commands: Commands):
    command = commands.start("sh", "-c", "echo first; exec yes", max_output=CAP)
    path = command.base + ".log"
    until(lambda: commands.log(command, ".log" + SUFFIX), "something is cut")
    sizes = []
    end = time.monotonic() + 3
    while time.monotonic() < end:
        sizes.append(on_disk(path))
        time.sleep(0.02)
    command.stop(cancel=True)
    ending = commands.end(command)
    grown = os.stat(path).st_size
    assert grown > 100 * CAP  # it did write on
    assert max(sizes) < grown / 4
    assert on_disk(path) <= CAP + 3 * 4096
    head, cut, tail = outputs.pieces(path)
    assert isinstance(cut, Cut)
    assert head.length + tail.length == CAP
    assert head.length + cut.length + tail.length == grown
    assert commands.log(command).startswith(b"first\ny\ny\n")
    assert commands.log(command).endswith(b"y\n" * 100)
    told = receipts.read(command.base)
    assert told is not None and told.cut == cut.length
    assert str(ending.error).endswith(" of its output was not kept")


def test_what_is_read_while_it_is_cut_is_what_was_written(commands: Commands):
    command = commands.start("sh", "-c", "seq 100000000", max_output=CAP)
    commands.says(command, b"1\n2\n3\n")
    path, found, total = command.base + ".log", b"", 0
    with open(path, "rb", buffering=0) as file:
        reader = outputs.Reader(file.fileno(), path)
        while total < 50 * CAP:
            piece = reader.read(4096)
            total += piece.length if isinstance(piece, Cut) else len(piece)
            found = b"" if isinstance(piece, Cut) else found + piece
            assert b"\0" not in found
    command.stop(cancel=True)
    commands.end(command)
    assert total <= reader.offset <= os.stat(path).st_size


def test_output_that_fits_is_whole(commands: Commands):
    command = commands.start("sh", "-c", "head -c 65536 /dev/zero | tr '\\0' x", max_output=CAP)
    assert commands.end(command).message is not None
    assert commands.log(command) == b"x" * CAP
    assert outputs.pieces(command.base + ".log") == [(0, CAP)]
    assert sorted(os.listdir(commands.logs)) == ["1-1-101.exit", "1-1-101.log"]


def test_output_without_a_limit_is_whole(commands: Commands):
    text = "head -c 100000 /dev/zero | tr '\\0' x; sleep 0.3"
    command = commands.start("sh", "-c", text, max_output=None)
    assert commands.end(command).kind == "complete"
    assert len(commands.log(command)) == 100_000


def test_a_command_that_ends_at_once_keeps_no_more_than_it_may(commands: Commands):
    command = commands.start("sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x", max_output=CAP)
    ending = commands.end(command)
    assert "934.5 kB of its output was not kept" in str(ending.message)
    assert outputs.pieces(command.base + ".log")[1] == Cut(1_000_000 - CAP)
    assert on_disk(command.base + ".log") <= CAP + 3 * 4096


def test_a_daemon_writes_on_when_its_shim_has_gone(commands: Commands):
    text = "(sleep 0.5; echo late; echo later) & exit 0"
    command = commands.start("sh", "-c", text)
    assert commands.end(command).kind == "complete"
    commands.says(command, b"late\nlater\n")


def test_errors_are_kept_apart_when_asked_for(commands: Commands):
    command = commands.start("sh", "-c", "echo out; echo err >&2", separate=True)
    assert commands.end(command).kind == "complete"
    assert (commands.log(command), commands.log(command, ".err")) == (b"out\n", b"err\n")
    assert os.stat(command.base + ".err").st_mode & 0o777 == 0o600


def test_each_of_two_logs_has_its_own_limit(commands: Commands):
    text = "head -c 200000 /dev/zero >&2; echo out"
    command = commands.start("sh", "-c", text, separate=True, max_output=CAP)
    assert commands.end(command).kind == "complete"
    assert outputs.pieces(command.base + ".log") == [(0, 4)]
    assert outputs.pieces(command.base + ".err")[1] == Cut(200_000 - CAP)


def test_a_command_that_writes_little_is_hardly_looked_at(commands: Commands):
    text = "import time\nwhile 1: print('x', flush=True); time.sleep(0.002)"
    command = commands.start(sys.executable, "-c", text)
    commands.says(command, b"x\n" * 10)
    before, wrote = switches(command.spawned.pid), len(commands.log(command))
    until(lambda: len(commands.log(command)) > wrote + 800, "it writes 400 times")
    # Two each time it is woken: one to look, one when it listens again.
    assert switches(command.spawned.pid) - before < 80


# ---- terminal -----------------------------------------------------------------------------------


def test_a_terminal_is_one_for_output_and_errors(commands: Commands):
    text = "test -t 1 && test -t 2 && ! test -t 0 && stty size < /dev/tty && echo end"
    command = commands.start("sh", "-c", text, tty=[132, 50])
    assert commands.end(command).kind == "complete"
    assert commands.log(command) == b"50 132\nend\n"


def test_all_that_a_terminal_shows_is_written_down(commands: Commands):
    command = commands.start("seq", "200000", tty=[80, 24])
    assert commands.end(command).kind == "complete"
    assert commands.log(command) == b"".join(b"%d\n" % n for n in range(1, 200_001))


def test_a_terminal_has_the_same_limit(commands: Commands):
    command = commands.start("seq", "100000", tty=[80, 24], max_output=CAP)
    assert commands.end(command).kind == "complete"
    head, cut, tail = outputs.pieces(command.base + ".log")
    assert head.length + tail.length == CAP and isinstance(cut, Cut)
    assert commands.log(command).endswith(b"\n99999\n100000\n")


def test_a_terminal_that_is_stopped_leaves_nothing(commands: Commands):
    command = commands.start("sh", "-c", "setsid sleep 999 & sleep 998", tty=[80, 24])
    commands.runs(command, "sh", "sleep", "sleep")
    command.stop()
    assert commands.end(command).kind == "release"
    assert commands.left(command) == []


def test_a_command_at_a_terminal_is_swept_with_its_session(commands: Commands):
    text = "trap '' HUP; (env -i sleep 998 &); exec env -i sleep 999"
    command = commands.start("sh", "-c", text, tty=[80, 24])
    tree = commands.kill_shim(command, "sleep", "sleep")
    assert all(map(alive, tree))  # the hangup of their terminal did not end them
    assert len(command.sweep()) == 2
    until(lambda: not any(map(alive, tree)), "all are gone")


def alive(process: processes.Process) -> bool:
    again = processes.look_at(process.pid)
    return again is not None and again.start == process.start and processes.lives(again)


def test_a_terminal_takes_input_and_shows_it(commands: Commands):
    command = commands.start("sh", "-c", "read x; echo got $x; cat", tty=[80, 24], stdin=True)
    assert command.send(b"hello\n")
    commands.says(command, b"hello\ngot hello\n")
    assert command.send(b"more\n") and command.end_input()
    assert commands.end(command).kind == "complete"
    assert commands.log(command).count(b"more\n") == 2


# ---- input --------------------------------------------------------------------------------------


def test_what_is_sent_arrives_in_order_and_the_end_after_it(commands: Commands):
    command = commands.start("cat", stdin=True)
    assert command.send(b"one ") and command.send(bytes(range(256))) and command.send(b"")
    assert command.end_input()
    assert commands.end(command).kind == "complete"
    assert commands.log(command) == b"one " + bytes(range(256))


def test_input_stays_open_until_it_is_ended(commands: Commands):
    command = commands.start("cat", stdin=True)
    command.send(b"a")
    commands.says(command, b"a")
    command.send(b"b")
    commands.says(command, b"ab")
    assert not command.gone


def test_a_command_that_does_not_read_does_not_block_its_shim(commands: Commands):
    command = commands.start("sleep", "999", stdin=True)
    sent = 0
    for _ in range(10):
        sent += command.send(b"x" * MOST_UNREAD)
        until(lambda: command.receive() or True, "it hears")
    # What fits into the pipe is taken from us, and as much again is kept by the shim.
    assert 1 <= sent <= 3
    assert not command.send(b"x" * MOST_UNREAD)
    command.stop()
    assert commands.end(command).kind == "release"


def test_what_did_not_fit_fits_when_the_command_has_read(commands: Commands):
    data = os.urandom(20 * MOST_UNREAD)
    command = commands.start("cat", stdin=True)
    for start in range(0, len(data), MOST_UNREAD):
        piece = data[start : start + MOST_UNREAD]
        until(functools.partial(command.send, piece), "it fits")
    command.end_input()
    assert commands.end(command).kind == "complete"
    assert commands.log(command) == data


def test_a_shim_sleeps_when_all_that_was_sent_has_been_read(commands: Commands):
    text = "sleep 0.3; head -c 131072 > /dev/null; echo done; sleep 999"
    command = commands.start("sh", "-c", text, stdin=True)
    for _ in range(2):
        until(functools.partial(command.send, b"x" * MOST_UNREAD), "it fits")
    commands.says(command, b"done")
    until(lambda: asleep(command.spawned.pid), "the shim sleeps")


def test_more_than_can_ever_fit_is_refused(commands: Commands):
    command = commands.start("cat", stdin=True)
    with pytest.raises(ValueError, match="at most 65536 bytes"):
        command.send(b"x" * (MOST_UNREAD + 1))


def test_a_command_without_input_and_one_that_closed_it_take_nothing(commands: Commands):
    plain = commands.start("sleep", "999")
    assert not plain.send(b"x") and not plain.end_input()
    closed = commands.start("sh", "-c", "exec 0<&-; echo ready; sleep 999", stdin=True)
    commands.says(closed, b"ready")
    closed.send(b"x")
    until(lambda: not closed.send(b"y"), "the shim says that nobody reads")


def run_of(command: Command) -> CommandRun:
    claimed = Claimed(1, 1, 1, 101, 9, 9, 0, None, None, None, "")
    return CommandRun(claimed, command, Place("boot", "machine", 1))


def test_a_run_sends_on_whatever_it_is_given_as_fast_as_its_command_reads(commands: Commands):
    command = commands.start("sh", "-c", "sleep 0.3; cat", go=False, stdin=True)
    run = run_of(command)
    run.send("early ")
    commands.ready(command)
    run.begin()
    text = "much ä " * 100_000
    run.send(text)
    run.send(None)
    ending = until(run.poll, "it ends")
    assert ending.kind == "complete"
    assert commands.log(command).decode() == "early " + text


def test_a_run_whose_command_takes_no_input_keeps_nothing_of_it(commands: Commands):
    command = commands.start("sleep", "999")
    run = run_of(command)
    run.begin()
    run.send("x" * 100_000)
    run.send(None)
    assert run._unsent == []


def test_an_end_of_the_worker_does_not_end_the_input(commands: Commands):
    command = commands.start("sh", "-c", "echo ready; cat; echo ended", stdin=True)
    commands.says(command, b"ready")
    command.close()
    time.sleep(0.3)  # it would have ended by now
    assert not command.gone and commands.log(command) == b"ready\n"


# ---- the end ------------------------------------------------------------------------------------


def test_a_cancelled_command_is_told_by_whom_and_who_was_signalled(commands: Commands):
    command = commands.start("sh", "-c", "sleep 999; true")
    commands.runs(command, "sh", "sleep")
    command.stop("cancelled by ann", cancel=True)
    ending = commands.end(command)
    assert (ending.kind, ending.reason) == ("release", "cancelled by ann")
    assert str(ending.error).startswith("was cancelled; signalled: ")
    assert str(ending.error).count("sleep") == 1
    assert commands.left(command) == []


def test_a_stop_has_its_own_grace(commands: Commands):
    text = "trap '' TERM; echo ready; while :; do sleep 999; done"
    command = commands.start("sh", "-c", text, grace=3_600_000)
    commands.says(command, b"ready")
    command.stop("cancelled", grace=100, cancel=True)
    assert str(commands.end(command).error).startswith("was cancelled; signalled: ")


def test_hurry_cuts_the_grace_of_a_cancel(commands: Commands):
    text = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done"
    command = commands.start("sh", "-c", text)
    commands.says(command, b"ready")
    command.stop("cancelled", grace=3_600_000, cancel=True)
    commands.says(command, b"asked")
    command.hurry()
    assert str(commands.end(command).error).startswith("was cancelled; signalled: ")


@pytest.mark.parametrize("order", ["stop first", "cancel first"])
def test_what_is_cancelled_does_not_come_back_although_its_worker_stops(
    commands: Commands, order: str
):
    text = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done"
    command = commands.start("sh", "-c", text, grace=3_600_000)
    commands.says(command, b"ready")
    command.stop("why", cancel=order == "cancel first")
    commands.says(command, b"asked")
    command.stop("why", cancel=order == "stop first")
    command.hurry()
    assert str(commands.end(command).error).startswith("was cancelled; signalled: ")


def test_a_cancel_through_a_run_is_told_as_it_was_asked(commands: Commands):
    command = commands.start("sleep", "999", go=False)
    run = run_of(command)
    commands.ready(command)
    run.begin()
    commands.runs(command, "sleep")
    assert (run.cancel(0, 500), run.cancel(1, 500)) == (500, None)
    ending = until(run.poll, "it ends")
    assert (ending.kind, ending.reason) == ("release", "it was cancelled")
    assert str(ending.error).startswith("was cancelled; signalled: ")


def test_an_orphan_is_stopped_by_its_pid_and_start_alone(commands: Commands):
    command = commands.start("sleep", "999")
    commands.runs(command, "sleep")
    command.close()
    shim = processes.look_at(command.spawned.pid)
    assert shim is not None
    assert not receipts.stop_orphan(shim.pid, shim.start + 1)
    assert not command.gone
    assert receipts.stop_orphan(shim.pid, shim.start)
    assert commands.end(command).result == '{"exit_code": 143}'
    assert not receipts.stop_orphan(shim.pid, shim.start)


def test_only_the_ends_that_were_named_are_tried_again(commands: Commands):
    ends = {
        "exit 75": "fail",
        "exit 3": "discard",
        "kill -KILL $$": "fail",
        "sleep 999": "discard",
        "exit 0": "complete",
    }
    for text, kind in ends.items():
        ending = commands.end(
            commands.start("sh", "-c", text, retry_on=[75, "signal"], timeout=500)
        )
        assert (text, ending.kind) == (text, kind)


def test_nothing_is_tried_again_when_nothing_was_named(commands: Commands):
    ending = commands.end(commands.start("sh", "-c", "exit 75", retry_on=[]))
    assert ending == Ending("discard", result='{"exit_code": 75}', error="exited with code 75")
    assert commands.end(commands.start("no-such-program", retry_on=[])).kind == "discard"


@pytest.mark.parametrize(
    ("keep", "code", "kept"),
    [
        ("failed", 0, False),
        ("failed", 1, True),
        ("never", 0, False),
        ("never", 1, False),
        ("always", 0, True),
    ],
)
def test_logs_are_kept_as_asked(commands: Commands, keep: str, code: int, kept: bool):
    text = f"head -c 100000 /dev/zero; echo x >&2; exit {code}"
    command = commands.start(
        "sh", "-c", text, keep_log=keep, separate=True, max_output=CAP, go=False
    )
    run = run_of(command)
    commands.ready(command)
    run.begin()
    until(run.poll, "it ends")
    left = {"1-1-101.log", "1-1-101.log.cut", "1-1-101.err"} if kept else set()
    assert set(os.listdir(commands.logs)) == {"1-1-101.exit", *left}


def test_a_nice_command_has_it_from_the_start_and_its_shim_has_not(commands: Commands):
    command = commands.start("sh", "-c", "nice; sh -c nice; echo ready; sleep 999", nice=7)
    commands.says(command, b"ready")
    assert commands.log(command) == b"7\n7\nready\n"
    assert os.getpriority(os.PRIO_PROCESS, command.spawned.pid) == 0


def test_a_nice_command_that_cannot_be_run_says_why(commands: Commands):
    ending = commands.end(commands.start("/no/such/program", nice=1))
    assert ending.error == "there is no program '/no/such/program'"


def test_a_command_that_exhausts_its_memory_has_failed_and_the_next_one_runs(commands: Commands):
    text = f"ulimit -v 300000; exec {sys.executable} -c 'x = bytearray(10**9)'"
    ending = commands.end(commands.start("sh", "-c", text))
    assert (ending.kind, ending.error) == ("fail", "exited with code 1")
    assert b"MemoryError" in commands.log(commands.all[0])
    assert commands.end(commands.start("true")).kind == "complete"


def test_a_hundred_killed_commands_leave_no_zombie(commands: Commands):
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft > 200
    others = {process.pid for process in processes.below(processes.look_around(), HERE)}
    for _ in range(10):
        batch = [commands.start("sh", "-c", "sleep 999 & wait", go=False) for _ in range(10)]
        for command in batch:
            commands.ready(command)
            command.go()
        for number, command in enumerate(batch):
            tree = commands.runs(command, "sh", "sleep")
            if number % 2:
                command.stop("cancelled", grace=0, cancel=True)
            else:
                os.kill(tree[0].pid, signal.SIGKILL)
        kinds = [commands.end(command).kind for command in batch]
        assert kinds == ["fail", "release"] * 5
    family = processes.below(processes.look_around(), HERE)
    ours = [process for process in family if process.pid not in others]
    assert [process for process in ours if not processes.lives(process)] == []
    for command in commands.all:
        command.spawned.process.wait(DEADLINE)
