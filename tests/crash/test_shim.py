"""Real commands under real shims: what is left of them, and what is known of their end."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slothqueue import processes, receipts
from slothqueue.commands import Command
from slothqueue.liveness import Place
from slothqueue.models import Ending
from slothqueue.running import CommandRun
from slothqueue.storage.base import Claimed

from .support_shims import DEADLINE, HERE, Commands, asleep, switches, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

# Starts a daemon the old way (two forks, a session of its own, nothing open) and waits.
DAEMON = """\
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 256)
        time.sleep(999)
    os._exit(0)
os.wait()
print("ready", flush=True)
time.sleep(999)
"""
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 999; done"


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    started = Commands(tmp_path)
    yield started
    started.clean()


def children(shim: int) -> list[str]:
    """The names of all processes below a shim."""
    return [one.name for one in processes.below(processes.look_around(), shim)]


def is_locked(path: str) -> bool:
    file = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def test_exit_code_0_completes(commands: Commands):
    ending = commands.end(commands.start("true"))
    assert (ending.kind, ending.result) == ("complete", '{"exit_code": 0}')


def test_another_exit_code_fails_and_is_told(commands: Commands):
    ending = commands.end(commands.start("sh", "-c", "exit 3"))
    assert ending == Ending("fail", result='{"exit_code": 3}', error="exited with code 3")


def test_a_signal_is_told_by_its_name(commands: Commands):
    ending = commands.end(commands.start("sh", "-c", "kill -KILL $$"))
    assert (ending.result, ending.error) == (
        '{"exit_code": 137}',
        "killed by signal 9 (SIGKILL)",
    )


def test_a_shell_is_used_only_when_asked_for(commands: Commands):
    by_shell = commands.start("printf a; printf b >&2", shell=True)
    by_list = commands.start("printf", "%s", "$HOME; x")
    assert commands.end(by_shell).kind == commands.end(by_list).kind == "complete"
    assert (commands.log(by_shell), commands.log(by_list)) == (b"ab", b"$HOME; x")


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["no-such-program-of-ours"], 127, "there is no program 'no-such-program-of-ours' on its"),
        (["/no/such/program"], 127, "there is no program '/no/such/program'"),
        (["/etc/passwd"], 126, "/etc/passwd cannot be run: Permission denied"),
        (["/etc"], 126, "/etc cannot be run: Permission denied"),
    ],
)
def test_a_command_that_cannot_be_run_says_why(
    commands: Commands, argv: list[str], code: int, says: str
):
    ending = commands.end(commands.start(*argv))
    assert (ending.kind, ending.result) == ("fail", f'{{"exit_code": {code}}}')
    assert says in str(ending.error)


def test_a_script_without_its_interpreter_or_first_line_says_so(commands: Commands, tmp_path: Path):
    ends = []
    for name, text in (("first", "#!/no/such/interpreter\n"), ("second", "echo hello\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
        ends.append(commands.end(commands.start(str(tmp_path / name))))
    assert "needs an interpreter that is not there" in str(ends[0].error)
    assert "has no #! line" in str(ends[1].error)


def test_a_working_directory_that_is_gone_says_so(commands: Commands, tmp_path: Path):
    ending = commands.end(commands.start("true", cwd=str(tmp_path / "gone")))
    assert ending.error == f"its working directory {tmp_path / 'gone'} is gone"
    assert ending.result == '{"exit_code": 126}'


def test_a_command_runs_where_it_should_and_with_what_it_should(commands: Commands, tmp_path: Path):
    (tmp_path / "here").mkdir()
    shown = "pwd; echo $A $SLOTH_JOB $SLOTH_ATTEMPT $SLOTH_TOKEN; cat"
    command = commands.start(shown, shell=True, cwd=str(tmp_path / "here"), env={"A": "a"})
    assert commands.end(command).kind == "complete"
    assert commands.log(command).decode() == f"{tmp_path}/here\na 1 1 token-1\n"


def test_a_program_by_a_relative_path_is_looked_for_in_its_directory(
    commands: Commands, tmp_path: Path
):
    (tmp_path / "tool").write_text("#!/bin/sh\necho found\n")
    (tmp_path / "tool").chmod(0o755)
    command = commands.start("./tool", cwd=str(tmp_path))
    assert commands.end(command).kind == "complete"
    assert commands.log(command) == b"found\n"


def test_a_command_gets_plain_signals_and_no_descriptors_of_ours(commands: Commands):
    command = commands.start("sh", "-c", "cat /proc/self/status; ls /proc/self/fd")
    assert commands.end(command).kind == "complete"
    lines = commands.log(command).decode().split("\n")
    masks = dict(line.split(":\t") for line in lines if line.startswith("Sig"))
    internal = 0b11 << 31  # two that the C library keeps for itself and sets as it likes
    assert {int(masks[name], 16) & ~internal for name in ("SigBlk", "SigIgn", "SigCgt")} == {0}
    assert [line for line in lines if line.isdigit()] == ["0", "1", "2", "3"]  # 3 is ls reading


def test_log_and_receipt_are_private(commands: Commands):
    command = commands.start("true")
    commands.end(command)
    modes = {os.stat(command.base + suffix).st_mode & 0o777 for suffix in (".log", ".exit")}
    assert modes == {0o600}
    assert os.stat(commands.logs).st_mode & 0o777 == 0o700
    assert sorted(os.listdir(commands.logs)) == ["1-1-101.exit", "1-1-101.log"]


def test_ten_megabytes_of_random_bytes_arrive_as_they_were(commands: Commands, tmp_path: Path):
    data = os.urandom(10_000_000)
    (tmp_path / "data").write_bytes(data)
    command = commands.start("cat", str(tmp_path / "data"))
    assert commands.end(command).kind == "complete"
    assert commands.log(command) == data


def test_output_is_there_at_once_without_a_newline(commands: Commands):
    command = commands.start("sh", "-c", "printf x; sleep 60")
    commands.says(command, b"x")
    assert not command.gone


@pytest.mark.parametrize("what", ["files", "directory"])
def test_a_command_that_deletes_its_files_is_known_to_have_ended(commands: Commands, what: str):
    there = f"{commands.logs}/*" if what == "files" else str(commands.logs)
    ending = commands.end(commands.start(f"echo hello; rm -r {there}", shell=True))
    assert ending.kind == "complete"
    assert os.stat(commands.logs).st_mode & 0o777 == 0o700
    assert os.listdir(commands.logs) == ["1-1-101.exit"]


def test_an_end_that_can_be_left_in_no_file_is_told_to_the_worker(commands: Commands):
    text = f"rm -r {commands.logs}; touch {commands.logs}; exit 3"
    command = commands.start(text, shell=True)
    ending = commands.end(command)
    assert (ending.kind, ending.error) == ("fail", "exited with code 3")
    os.unlink(commands.logs)


def test_a_log_directory_that_was_cleared_away_before_go_is_made_again(commands: Commands):
    command = commands.start("echo", "hello", go=False)
    commands.ready(command)
    commands.logs.rmdir()
    command.go()
    assert commands.end(command).kind == "complete"
    assert commands.log(command) == b"hello\n"


def test_an_argument_that_is_too_long_is_named(commands: Commands):
    with pytest.raises(ValueError, match=r"argv\[1\] is 200001 bytes long.*put it into a file"):
        commands.start("true", "x" * 200_000)
    with pytest.raises(ValueError, match=r"env\['A'\] is 200003 bytes long"):
        commands.start("true", env={"A": "x" * 200_000})
    with pytest.raises(ValueError, match="the command with its environment is 4"):
        commands.start("true", *["y" * 1000] * 4000)


def test_a_log_directory_that_cannot_be_made_says_so(commands: Commands):
    commands.logs.touch()
    with pytest.raises(FileExistsError, match=r"output of commands cannot be made.*logs"):
        commands.start("true")


def test_nothing_runs_before_go(commands: Commands):
    command = commands.start("true", go=False)
    commands.ready(command)
    command.close()
    assert command.spawned.process.wait(DEADLINE) == 0
    assert not commands.logs.exists() or not os.listdir(commands.logs)


@pytest.mark.parametrize("order", ["stop", "SIGTERM"])
def test_a_shim_that_is_stopped_before_go_runs_nothing(commands: Commands, order: str):
    command = commands.start("true", go=False)
    commands.ready(command)
    if order == "stop":
        command.stop()
    else:
        command.spawned.signal(signal.SIGTERM)
    assert command.spawned.process.wait(DEADLINE) == 0
    assert command.ending() is None


def run_of(command: Command) -> CommandRun:
    """What a worker that has claimed the job has of it."""
    claimed = Claimed(1, 1, 1, 101, 9, 9, 0, None, None, None, "")
    return CommandRun(claimed, command, Place("boot", "machine", 1))


@pytest.mark.parametrize("when", ["at once", "once it is ready", "while it is handed over"])
def test_a_command_that_is_hurried_away_before_go_is_given_back(
    commands: Commands, tmp_path: Path, when: str
):
    command = commands.start("touch", str(tmp_path / "ran"), go=False)
    run, stopped = run_of(command), Ending("release", reason="its worker stops")
    if when != "at once":
        commands.ready(command)
    if when == "while it is handed over":
        assert run.taker() is not None
    run.end(stopped, hurry=True)
    run.begin()
    assert until(run.poll, "it ends") == stopped
    assert not (tmp_path / "ran").exists()


def test_a_command_whose_lock_is_deleted_before_go_is_given_back(commands: Commands):
    command = commands.start("true", go=False)
    run = run_of(command)
    commands.ready(command)
    os.unlink(command.spawned.lock)
    assert run.taker() is None
    ending = until(run.poll, "it ends")
    assert (ending.kind, ending.reason) == ("release", "its lock was deleted before it began")


def test_the_lock_is_held_exactly_as_long_as_the_shim_lives(commands: Commands):
    command = commands.start("sleep", "999")
    assert is_locked(command.spawned.lock)
    assert os.stat(command.spawned.lock).st_mode & 0o777 == 0o600
    until(lambda: children(command.spawned.pid) == ["sleep"], "it holds no copy of our files")
    command.spawned.signal(signal.SIGKILL)
    command.spawned.process.wait(DEADLINE)
    assert not is_locked(command.spawned.lock)


def test_a_name_that_was_used_is_never_locked_again(commands: Commands, tmp_path: Path):
    (tmp_path / "lock-1").touch()
    command = commands.start("true", go=False)
    assert command.spawned.process.wait(DEADLINE) != 0
    assert not command.receive()


def test_a_timeout_leaves_nothing_of_a_tree_with_a_session_of_its_own(commands: Commands):
    command = commands.start("sh", "-c", "sleep 999 & setsid sleep 999 & wait", timeout=300)
    ending = commands.end(command)
    assert (ending.kind, ending.result) == ("fail", '{"exit_code": 124}')
    assert str(ending.error).startswith("timed out after 300ms; signalled: ")
    assert str(ending.error).count("sleep") == 2
    assert commands.left(command) == []


def test_a_daemon_that_closed_everything_is_ended_with_its_command(commands: Commands):
    command = commands.start(sys.executable, "-c", DAEMON)
    commands.says(command, b"ready")
    assert len(commands.left(command)) == 3
    command.stop()
    assert commands.end(command).kind == "release"
    assert commands.left(command) == []


def test_a_command_that_ignores_term_is_killed_after_its_grace(commands: Commands):
    command = commands.start("sh", "-c", STUBBORN, timeout=300, grace=300)
    ending = commands.end(command)
    told = receipts.read(command.base)
    assert told is not None and (told.signal, told.timed_out) == (9, 300)
    assert told.seconds >= 0.6
    assert ending.result == '{"exit_code": 124}'
    assert commands.left(command) == []


def test_a_stopped_process_is_ended_within_its_grace(commands: Commands):
    command = commands.start("sh", "-c", "kill -STOP $$", grace=60_000)
    shell = until(lambda: [one for one in commands.left(command) if one.state == "T"], "stopped")
    command.stop()
    assert commands.end(command).kind == "release"
    assert processes.look_at(shell[0].pid) is None


def test_a_command_is_let_finish_its_cleaning_up(commands: Commands):
    text = "trap 'sleep 0.2; echo clean; exit 0' TERM; sleep 999 & echo ready; wait"
    command = commands.start("sh", "-c", text, grace=60_000)
    commands.says(command, b"ready")
    command.stop("the lease was lost")
    ending = commands.end(command)
    assert (ending.kind, ending.reason) == ("release", "the lease was lost")
    assert b"clean" in commands.log(command)


def test_whoever_missed_the_signal_is_asked_when_the_command_has_ended(commands: Commands):
    text = "trap 'sleep 999 & sleep 0.3; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    command = commands.start("sh", "-c", text, grace=60_000)
    commands.says(command, b"ready")
    command.stop()
    assert commands.end(command).kind == "release"
    assert commands.left(command) == []


def test_hurry_cuts_the_grace_short(commands: Commands):
    text = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done"
    command = commands.start("sh", "-c", text, grace=3_600_000)
    commands.says(command, b"ready")
    command.stop()
    commands.says(command, b"asked")
    command.hurry()
    assert commands.end(command).kind == "release"
    assert commands.left(command) == []


def test_sigterm_ends_the_tree_and_fails_the_attempt(commands: Commands):
    command = commands.start("sh", "-c", "echo ready; sleep 999; true")
    commands.says(command, b"ready")
    command.spawned.signal(signal.SIGTERM)
    ending = commands.end(command)
    assert (ending.kind, ending.result) == ("fail", '{"exit_code": 143}')
    assert str(ending.error).startswith("ended by SIGTERM sent to its shim; signalled: ")
    assert commands.left(command) == []


def test_a_command_that_ends_its_own_shim_by_sigterm_fails(commands: Commands):
    ending = commands.end(commands.start("sh", "-c", "trap 'exit 0' TERM; kill $PPID; sleep 999"))
    assert (ending.kind, ending.result) == ("fail", '{"exit_code": 143}')


def test_sigterm_while_the_worker_stops_too_gives_the_job_back(commands: Commands):
    command = commands.start("sleep", "999")
    commands.runs(command, "sleep")
    command.spawned.signal(signal.SIGTERM)
    command.spawned.process.wait(DEADLINE)
    ending = command.ending(stopping=True)
    assert ending is not None
    assert (ending.kind, ending.reason) == ("release", "its worker stops")


def test_a_shim_that_is_stopped_together_with_go_runs_nothing(commands: Commands, tmp_path: Path):
    command = commands.start("touch", str(tmp_path / "ran"), go=False)
    commands.ready(command)
    command.spawned.send(b"go\nstop its worker stops")
    assert commands.end(command).kind == "release"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_logout_or_an_interrupt_does_not_touch_the_command(commands: Commands, number: int):
    command = commands.start("sh", "-c", "echo ready; read x < fifo; exit 7", cwd=fifo(commands))
    commands.says(command, b"ready")
    command.spawned.signal(number)
    release(commands)
    assert commands.end(command).error == "exited with code 7"


def fifo(commands: Commands) -> str:
    os.mkfifo(commands.place / "fifo")
    return str(commands.place)


def release(commands: Commands) -> None:
    (commands.place / "fifo").write_text("go\n")


def test_a_command_outlives_its_worker_and_its_end_is_told(commands: Commands):
    command = commands.start("sh", "-c", "echo ready; read x < fifo; exit 5", cwd=fifo(commands))
    commands.says(command, b"ready")
    command.close()
    assert command.ending() is None
    release(commands)
    assert commands.end(command).error == "exited with code 5"


def test_what_a_command_leaves_in_the_background_is_left_alone(commands: Commands):
    command = commands.start("sh", "-c", "setsid sleep 999 >/dev/null 2>&1 & exit 0")
    assert commands.end(command).kind == "complete"
    until(lambda: [one.name for one in commands.left(command)] == ["sleep"], "sleep is left")


def test_a_killed_shim_leaves_no_receipt_and_a_sweep_ends_what_it_left(commands: Commands):
    command = commands.start(
        "sh", "-c", "sleep 999 & setsid sleep 999 & env -i sleep 999 & echo ready; wait"
    )
    tree = commands.kill_shim(command, "sh", "sleep", "sleep", "sleep")
    assert command.ending() is None
    swept = command.sweep()
    assert {int(name.split()[0]) for name in swept} == {process.pid for process in tree}
    until(lambda: not any(map(alive, tree)), "all were killed")
    assert command.sweep() == []


def alive(process: processes.Process) -> bool:
    again = processes.look_at(process.pid)
    return again is not None and again.start == process.start and processes.lives(again)


def test_a_sweep_ends_a_process_that_shed_its_environment_and_its_parent(commands: Commands):
    command = commands.start("sh", "-c", "(env -i sleep 998 &); exec sleep 999")
    tree = commands.kill_shim(command, "sleep", "sleep")
    assert len(command.sweep()) == 2
    until(lambda: not any(map(alive, tree)), "all were killed")


def test_a_command_without_our_environment_is_swept_with_all_it_has_started(commands: Commands):
    command = commands.start("env", "-i", "sh", "-c", "sleep 998 & setsid sleep 999 & wait")
    tree = commands.kill_shim(command, "sh", "sleep", "sleep")
    assert commands.left(command) == []
    assert len(command.sweep()) == 3
    until(lambda: not any(map(alive, tree)), "all were killed")


def test_a_process_of_another_start_is_not_taken_for_the_command(commands: Commands):
    command = commands.start("env", "-i", "sleep", "999")
    (tree,) = commands.kill_shim(command, "sleep")
    draft = Path(command.base + ".exit.part")
    assert draft.read_text().startswith(f"began {tree.pid} {tree.start}\n")
    draft.write_text(f"began {tree.pid} {tree.start + 1}\n")
    assert command.sweep() == []
    draft.write_text(f"began {tree.pid} {tree.start}\n")
    assert command.sweep() == [f"{tree.pid} sleep"]


def test_a_sweep_touches_nobody_else(commands: Commands):
    other, command = commands.start("sleep", "999"), commands.start("sleep", "999")
    commands.runs(other, "sleep")
    commands.kill_shim(command, "sleep")
    assert len(command.sweep()) == 1
    assert receipts.sweep("no such cookie", other.spawned.pid) == []
    assert len(commands.left(other)) == 2
    assert not other.gone


def test_a_session_whose_members_lack_the_cookie_is_not_ours(commands: Commands):
    other = commands.start("sleep", "999")
    commands.kill_shim(other, "sleep")
    assert receipts.sweep("a cookie of another attempt", other.spawned.pid) == []
    assert len(commands.left(other)) == 1


INSIDE = """\
import os
from slothqueue import receipts
print(receipts.sweep(os.environ["SLOTH_LEASE"], os.getsid(0)))
"""


def test_whoever_sweeps_from_inside_the_command_spares_itself(commands: Commands):
    env = {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = commands.start(sys.executable, "-c", INSIDE, env=env)
    assert commands.end(command).kind == "complete"
    assert commands.log(command) == b"[]\n"


# Never the same process for long, and not for ever if nobody catches it.
HOPPER = """\
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for n in range(50_000):
    if os.fork():
        os._exit(0)
"""


def test_a_process_that_forks_away_all_the_time_is_caught(commands: Commands):
    command = commands.start(
        "sh", "-c", '"$0" -c "$1"; exec sleep 999', sys.executable, HOPPER, timeout=500, grace=0
    )
    assert commands.end(command).result == '{"exit_code": 124}'
    assert commands.left(command) == []


def test_a_hundred_commands_leave_no_zombie(commands: Commands):
    for _ in range(10):
        batch = [commands.start("sh", "-c", "true & true", go=False) for _ in range(10)]
        for command in batch:
            commands.ready(command)
            command.go()
        assert {commands.end(command).kind for command in batch} == {"complete"}
    family = processes.below(processes.look_around(), HERE)
    assert [process for process in family if not processes.lives(process)] == []


def test_no_zombie_stays_while_a_command_runs(commands: Commands):
    command = commands.start("sh", "-c", "(true & true &) ; (true &); echo ready; exec sleep 999")
    commands.says(command, b"ready")
    commands.runs(command, "sleep")


def test_an_idle_shim_does_nothing(commands: Commands):
    command = commands.start("sleep", "999", timeout=3_600_000)
    commands.runs(command, "sleep")
    until(lambda: asleep(command.spawned.pid), "the shim sleeps")
    before = switches(command.spawned.pid)
    time.sleep(0.5)
    assert switches(command.spawned.pid) == before


def test_a_timeout_is_kept_while_the_worker_is_gone(commands: Commands):
    command = commands.start("sleep", "999", timeout=300)
    command.close()
    assert commands.end(command).result == '{"exit_code": 124}'
    assert commands.left(command) == []
