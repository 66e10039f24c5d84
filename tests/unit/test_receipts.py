"""What the word of a shim means for an attempt, and what may be a command at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slothqueue import processes, receipts
from slothqueue.commands import check_argv, check_cwd, check_env
from slothqueue.models import Ending
from slothqueue.processes import Process, below, look_at, one_line, send
from slothqueue.receipts import Receipt


def told(text: str) -> Receipt | None:
    return receipts._parse(text)


def test_the_files_of_an_attempt_are_named_after_job_attempt_and_fence():
    assert receipts.base("/logs", 7, 2, 99) == os.path.join("/logs", "7-2-99")


def test_a_missing_receipt_reads_as_none(tmp_path: Path):
    assert receipts.read(str(tmp_path / "1-1-1")) is None


@pytest.mark.parametrize(
    "text", ["", "\n" * 4096, "nonsense", "exit", "exit x", "exit 0\nseconds x"]
)
def test_what_no_shim_wrote_tells_nothing(tmp_path: Path, text: str):
    (tmp_path / "1-1-1.exit").write_text(text)
    assert receipts.read(str(tmp_path / "1-1-1")) is None


def test_every_line_of_a_receipt_is_read(tmp_path: Path):
    (tmp_path / "1-1-1.exit").write_text(
        "signal 9\nseconds 1.5\ntimeout 120000\nsignalled 12 sh\nsignalled 13 a b\nsurvivor 14 c\n"
        "cancelled by ann\ncut 77\nretry 75 signal\nkeep failed\n"
    )
    assert receipts.read(str(tmp_path / "1-1-1")) == Receipt(
        signal=9,
        timed_out=120_000,
        signalled=("12 sh", "13 a b"),
        survivors=("14 c",),
        seconds=1.5,
        cancelled="by ann",
        cut=77,
        retry=("75", "signal"),
        keep="failed",
    )


def test_an_empty_list_of_ends_to_try_again_is_a_list():
    account = told("exit 3\nretry \nseconds 1\n")
    assert account is not None and account.retry == ()
    assert told("exit 3\nretry\n") == Receipt(exit_code=3, retry=())


@pytest.mark.parametrize(
    ("end", "word"),
    [
        (Receipt(exit_code=75), "75"),
        (Receipt(signal=9), "signal"),
        (Receipt(signal=15, terminated=True), "signal"),
        (Receipt(exit_code=3, terminated=True), "signal"),
        (Receipt(signal=9, timed_out=100), "timeout"),
        (Receipt(exit_code=75, timed_out=100), "timeout"),
        (Receipt(exit_code=127, error="there is no program x"), "127"),
    ],
)
def test_only_what_was_named_is_tried_again(end: Receipt, word: str):
    words = {"75", "127", "3", "signal", "timeout"}
    assert receipts.ending(end).kind == "fail"
    assert receipts.ending(end._replace(retry=(word,))).kind == "fail"
    last = receipts.ending(end._replace(retry=tuple(words - {word})))
    assert (last.kind, last.result) == ("discard", receipts.ending(end).result)


@pytest.mark.parametrize("retry", [None, (), ("75",)])
def test_what_was_stopped_or_cancelled_is_no_matter_of_trying_again(retry: tuple[str, ...] | None):
    end = Receipt(signal=15, retry=retry)
    assert receipts.ending(end._replace(stopped="why")).kind == "release"
    assert receipts.ending(end._replace(cancelled="why")).kind == "release"


def test_a_cancelled_command_names_whom_it_signalled():
    end = Receipt(exit_code=0, cancelled="by ann", signalled=("12 sh",), survivors=("13 x",))
    assert receipts.ending(end) == Ending(
        "release",
        reason="by ann",
        error="was cancelled; signalled: 12 sh; still alive: 13 x",
    )


def test_what_was_not_kept_is_told_with_its_size():
    assert str(receipts.ending(Receipt(exit_code=0, cut=1_200_000_000)).message).endswith(
        "; 1.2 GB of its output was not kept"
    )
    error = receipts.ending(Receipt(exit_code=1, cut=5_000)).error
    assert error == "exited with code 1; 5 kB of its output was not kept"


def test_exit_code_0_completes_the_attempt():
    assert receipts.ending(Receipt(exit_code=0, seconds=3.2)) == Ending(
        "complete", result='{"exit_code": 0}', message="exited with code 0 after 3.2s"
    )


@pytest.mark.parametrize(
    ("receipt_", "code", "error"),
    [
        (Receipt(exit_code=3), 3, "exited with code 3"),
        (Receipt(signal=9), 137, "killed by signal 9 (SIGKILL)"),
        (Receipt(signal=250), 378, "killed by signal 250"),
        (Receipt(signal=15, timed_out=120_000), 124, "timed out after 2m"),
        (Receipt(exit_code=0, timed_out=1_500), 124, "timed out after 1.5s"),
        (Receipt(exit_code=127, error="there is no program x"), 127, "there is no program x"),
    ],
)
def test_every_other_end_fails_the_attempt(receipt_: Receipt, code: int, error: str):
    wanted = Ending("fail", result=f'{{"exit_code": {code}}}', error=error)
    assert receipts.ending(receipt_) == wanted


def test_a_timeout_names_whom_it_signalled_and_who_survived():
    account = Receipt(timed_out=2_000, signalled=("12 sh", "13 sleep"), survivors=("14 stuck",))
    assert receipts.ending(account).error == (
        "timed out after 2s; signalled: 12 sh, 13 sleep; still alive: 14 stuck"
    )


@pytest.mark.parametrize("end", [Receipt(exit_code=0), Receipt(exit_code=1), Receipt(signal=15)])
def test_a_command_that_was_stopped_is_given_back(end: Receipt):
    ending = receipts.ending(end._replace(stopped="its worker stops"))
    assert (ending.kind, ending.reason) == ("release", "its worker stops")


@pytest.mark.parametrize("end", [Receipt(exit_code=0), Receipt(signal=15), Receipt(error="x")])
def test_a_sigterm_to_the_shim_fails_the_attempt_unless_its_worker_stops(end: Receipt):
    told = end._replace(terminated=True)
    ending = receipts.ending(told)
    assert (ending.kind, ending.error) == ("fail", "ended by SIGTERM sent to its shim")
    assert ending.result == '{"exit_code": 143}'
    ending = receipts.ending(told, stopping=True)
    assert (ending.kind, ending.reason) == ("release", "its worker stops")


def test_a_sigterm_to_the_shim_is_read():
    account = told("signal 15\nseconds 1.0\nterminated SIGTERM\n")
    assert account == Receipt(signal=15, terminated=True, seconds=1.0)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("began 12 34\n\n\n", (12, 34)),
        ("began 12 34", (12, 34)),
        ("", None),
        ("\n\n", None),
        ("began 12\n", None),
        ("began 12 -1\n", None),
        ("began 1 2 3\n", None),
        ("exit 0\n", None),
    ],
)
def test_the_draft_of_a_receipt_names_the_command(
    tmp_path: Path, text: str, command: tuple[int, int] | None
):
    base = str(tmp_path / "1-1-1")
    assert receipts.began(base) is None
    (tmp_path / "1-1-1.exit.part").write_text(text)
    assert receipts.began(base) == command


def test_what_was_released_has_no_result():
    assert receipts.ending(Receipt(signal=15, stopped="why")).result is None


def test_an_end_that_nobody_saw_fails_the_attempt():
    account = told("error it did not end although it was killed\nseconds 12.0\ntimeout 1000\n")
    assert account is not None
    assert receipts.ending(account).kind == "fail"


def test_a_tree_is_listed_with_parents_before_children():
    parents = {2: 1, 3: 2, 4: 2, 5: 3, 6: 99}
    everyone = {pid: Process(pid, "x", parent=parent) for pid, parent in parents.items()}
    assert [process.pid for process in below(everyone, 1)] == [2, 3, 4, 5]


def test_a_background_worker_and_all_below_it_belong_to_no_tree(monkeypatch: pytest.MonkeyPatch):
    parents = {2: 1, 3: 2, 4: 3, 5: 4, 6: 2}
    tree = [Process(pid, "x", parent=parent) for pid, parent in parents.items()]
    monkeypatch.setattr(processes, "in_background", lambda process: process.pid == 3)
    assert [one.pid for one in processes.without_background(tree)] == [2, 6]
    assert [one.pid for one in processes.without_background(tree[::-1])] == [6, 2]


def test_only_the_leader_of_a_session_can_be_a_background_worker(monkeypatch: pytest.MonkeyPatch):
    mark = processes.BACKGROUND.decode()
    program = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    for leader in (True, False):
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            env=dict([mark.split("=")]),
            start_new_session=leader,
            stdout=subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            process.stdout.readline()
            found = look_at(process.pid)
            assert found is not None
            assert processes.in_background(found) is leader
        finally:
            process.kill()
            process.communicate()
    assert not processes.in_background(Process(1 << 30, "x"))


def machine(*rows: tuple[int, int, int]) -> dict[int, Process]:
    """A machine with these processes, each as pid, parent and session, and with its first one."""
    everyone = {1: Process(1, "init", state="S")}
    for pid, parent, session in rows:
        everyone[pid] = Process(pid, "x", state="S", parent=parent)
        everyone[pid].session = session
    return everyone


def pids(everyone: dict[int, Process], marked: set[int], session: int, me: int = 50) -> list[int]:
    return [one.pid for one in receipts.chosen(everyone, marked, sessions=(session,), me=me)]


OTHERS = ((20, 1, 0), (21, 20, 21), (50, 1, 50), (51, 50, 50))


def test_a_sweep_takes_the_marked_their_session_and_all_below_them():
    ours = ((31, 1, 30), (32, 1, 32), (33, 1, 30), (34, 33, 34))
    assert pids(machine(*OTHERS, *ours), {31, 32}, 30) == [31, 32, 33, 34]


@pytest.mark.parametrize("session", [-1, 0, 1, 21, 30, 50, 999])
def test_a_sweep_takes_nobody_for_a_number_alone(session: int):
    assert pids(machine(*OTHERS, (31, 1, 30)), set(), session) == []


def test_a_session_of_the_first_process_is_never_a_session_of_ours():
    assert pids(machine(*OTHERS, (22, 1, 0)), {22}, 0) == [22]


def test_a_session_whose_leader_lives_is_not_taken_as_a_whole():
    assert pids(machine(*OTHERS, (30, 1, 30), (31, 30, 30), (32, 1, 30)), {31}, 30) == [31]


def test_a_session_that_the_command_leads_is_its_own():
    assert pids(machine(*OTHERS, (30, 1, 30), (32, 1, 30)), {30}, 30) == [30, 32]


def test_a_leader_that_is_a_zombie_is_gone():
    everyone = machine(*OTHERS, (30, 50, 30), (31, 1, 30), (32, 1, 30))
    everyone[30].state = "Z"
    assert pids(everyone, {31}, 30) == [31, 32]


def test_a_sweep_spares_the_first_process_and_whoever_sweeps_with_parents_and_children():
    inside = ((31, 1, 30), (50, 31, 30), (51, 50, 30), (32, 1, 30))
    assert pids(machine(*inside), {1, 31, 32, 50, 51}, 30) == [32]


def test_orphans_that_came_to_the_sweeper_itself_are_taken():
    assert pids(machine((50, 1, 50), (31, 50, 30), (51, 50, 50)), {31}, 30) == [31]


def test_a_sweep_without_a_cookie_does_nothing():
    assert receipts.sweep("", 0) == []


@pytest.mark.parametrize("pid", [-1, 0, 1])
def test_everybody_our_own_group_and_the_first_process_cannot_be_signalled(pid: int):
    found = look_at(pid) or Process(pid, "x")
    assert send(found, 0) is False


def test_two_attempts_never_share_a_cookie():
    ways = [("s", 1, 23), ("s", 12, 3), ("s", 1, 24), ("t", 1, 23)]
    assert len({receipts.cookie(*way) for way in ways}) == 4


def test_a_line_stays_one_line():
    assert one_line("a\nb\x1b[0m\tc") == "a?b?[0m?c"


def test_a_list_of_text_is_a_command():
    assert check_argv(["ls", "-l", ""]) == ["ls", "-l", ""]
    assert check_argv((Path("/bin/ls"), "ä")) == ["/bin/ls", "ä"]
    assert check_argv(["echo", os.fsdecode(b"\xff")]) == ["echo", "\udcff"]


@pytest.mark.parametrize("argv", ["echo a; echo b", ["echo a; echo b"]])
def test_a_shell_command_is_one_text(argv: object):
    assert check_argv(argv, shell=True) == ["echo a; echo b"]


@pytest.mark.parametrize(
    ("argv", "shell", "says"),
    [
        ([], False, "empty"),
        ([""], False, "empty"),
        ([" "], True, "empty"),
        ("ls -l", False, "shell=True"),
        (b"ls", False, "shell=True"),
        (b"ls", True, "argv\\[0\\] must be text, not bytes"),
        (None, False, "not NoneType"),
        ({"ls"}, False, "not set"),
        (["ls", 3], False, "argv\\[1\\] must be text, not int"),
        (["ls", "a\0b"], False, "NUL"),
        (["ls", "\ud800"], False, "as bytes"),
        (["ls", "-l"], True, "2 items"),
    ],
)
def test_what_cannot_be_a_command_is_refused(argv: object, shell: bool, says: str):
    with pytest.raises(ValueError, match=says):
        check_argv(argv, shell)


def test_an_environment_is_text_to_text():
    assert check_env(None) is None
    assert check_env({"A": "1", "B": Path("/x")}) == {"A": "1", "B": "/x"}


@pytest.mark.parametrize("env", [["A=1"], {"A": 1}, {"A=B": "1"}, {"": "1"}, {"A": "\0"}, {1: "1"}])
def test_what_cannot_be_an_environment_is_refused(env: object):
    with pytest.raises(ValueError):
        check_env(env)


def test_a_working_directory_is_text_or_a_path():
    assert (check_cwd(None), check_cwd(Path("/x")), check_cwd("y")) == (None, "/x", "y")
    with pytest.raises(ValueError, match="cwd must be text"):
        check_cwd(3)
