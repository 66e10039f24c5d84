"""Real children, real deaths: functions run, end, are killed, and nothing of them stays behind."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slothqueue.codec import decode
from slothqueue.models import Ending
from slothqueue.pool import Child

from .pool_support import (
    Children,
    heard,
    is_alive,
    is_free,
    ordered,
    outcome,
    until,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tells processes by /proc")


@pytest.fixture
def children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Children]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # for what is said about output
    made = Children(tmp_path)
    yield made
    made.close()


# ---- calls ---------------------------------------------------------------------------------------


def test_a_child_is_used_again_and_keeps_its_state(children: Children):
    child = children.new()
    assert [children.value(child, "count") for _ in range(100)] == [
        [child.pid, n] for n in range(1, 101)
    ]


def test_a_ready_child_holds_its_lock_until_it_ends(children: Children):
    child = children.new()
    until(lambda: child.receive() or child.ready)
    assert os.stat(child.lock).st_mode & 0o777 == 0o600
    assert not is_free(child.lock)
    child.close()
    assert child.ended_by() == "exited with code 0"
    assert is_free(child.lock)


def test_arguments_arrive_as_they_were_given(children: Children):
    value = children.value(children.new(), "echo", 1, "é\n", [None], self=1, job="x")
    assert value == [[1, "é\n", [None]], {"self": 1, "job": "x"}]


def test_a_function_in_a_child_gets_and_returns_what_its_annotations_say(children: Children):
    child = children.new()
    got = children.value(child, "tomorrow", "2030-01-31", sizes={"1": "YQ=="})
    assert got == ["2030-02-01", "YQ=="]
    ending = children.run(child, "tomorrow", "31.1.2030", sizes={})
    assert (ending["kind"], ending["error"]) == (
        "fail",
        "NotSerializable: tests.crash.pool_functions.tomorrow: day is '31.1.2030', and not a date; "
        "its form is 2030-01-31",
    )
    ending = children.run(child, "tomorrow", "2030-01-31", sizes={"1": 5})
    assert "sizes['1'] is 5, and not a bytes" in ending["error"]


def test_a_function_knows_its_job(children: Children):
    job, attempt, token = children.value(children.new(), "who")
    assert (job, attempt) == (7, 2)
    assert token.startswith("store:7:")


def test_ten_megabytes_travel_both_ways(children: Children):
    child = children.new()
    assert len(children.value(child, "make", 10_000_000)) == 10_000_000
    assert children.value(child, "echo", "é" * 5_000_000) == [["é" * 5_000_000], {}]


def test_a_function_tells_of_its_progress_and_not_after_its_end(children: Children):
    child = children.new()
    ordered(child, children.place("speak"))
    said = [heard(child) for _ in range(3)]
    assert said[:2] == [
        {"kind": "heartbeat"},
        {"kind": "progress", "fraction": 0.5, "message": "half"},
    ]
    assert said[2]["kind"] == "ended"
    # Its thread speaks while the next function runs, and nobody hears it.
    assert children.run(child, "nap", 0.2)["kind"] == "complete"


def test_a_function_that_is_asked_to_stop_sees_it_and_the_next_does_not(
    children: Children, tmp_path: Path
):
    child = children.new()
    for n in range(2):
        started = tmp_path / f"started-{n}"
        ordered(child, children.place("until_told"), str(started))
        until(started.exists)
        assert child.receive() == []
        child.stop()
        assert decode(heard(child)["ending"]["result"]) == "told"


def test_wishes_and_odd_errors_come_back_as_endings(children: Children):
    child = children.new()
    assert children.run(child, "wish") == Ending("retry", delay=30_000, error="busy")._asdict()
    assert children.run(child, "odd")["error"].startswith("Odd: (its text could not be made")
    assert children.run(child, "end", 3)["error"].startswith("SystemExit: 3\n\nTraceback")
    assert children.run(child, "make", {})["error"].startswith("TypeError: can't multiply")
    assert "result is a coroutine" in children.run(child, "later")["error"]
    assert children.value(child, "make", 1) == "x"


def test_a_function_that_is_not_there_is_told_with_advice(children: Children):
    error = children.run(children.new(), "nobody")["error"]
    assert error.startswith("WrongState: the task")
    assert "has no nobody there. Define it at the top level" in error
    assert "child.py" not in error


def test_a_module_that_cannot_be_imported_fails_the_attempt(children: Children, tmp_path: Path):
    (tmp_path / "broken_module.py").write_text("import json\n\n1 / 0\n")
    child = children.new()
    for _ in range(2):
        error = outcome(child, {"module": "broken_module", "qualname": "f", "main": None})["error"]
        assert error.startswith("ZeroDivisionError: division by zero\n\nTraceback")
        assert 'broken_module.py", line 3' in error
    missing = {"module": "no_such_module", "qualname": "f", "main": None}
    assert outcome(child, missing)["error"].startswith("ModuleNotFoundError: No module named")


def test_functions_have_no_input_and_do_not_reach_the_socket(
    children: Children, capfd: pytest.CaptureFixture[str]
):
    child = children.new()
    assert children.value(child, "read_input") == ""
    assert children.value(child, "disturb") is None
    assert children.value(child, "make", 1) == "x"
    assert capfd.readouterr().out == "said\nwithout a newline"


# ---- deaths --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "argument", "by"),
    [
        ("die", 9, "killed by signal 9 (SIGKILL)"),
        ("die", 11, "killed by signal 11 (SIGSEGV)"),
        ("leave", 3, "exited with code 3"),
        ("leave", 0, "exited with code 0"),
    ],
)
def test_a_function_that_ends_its_child_is_told_from_others_by_how(
    children: Children, name: str, argument: int, by: str
):
    child = children.new()
    assert children.run(child, name, argument) == {"kind": "gone", "by": by}
    assert is_free(child.lock)
    assert not ordered(child, children.place("count"))
    assert children.value(children.new(), "count")[1] == 1


def test_a_busy_child_that_is_killed_from_outside_is_seen_at_once(
    children: Children, tmp_path: Path
):
    child = children.new()
    ordered(child, children.place("until_told"), str(tmp_path / "started"))
    until((tmp_path / "started").exists)
    os.kill(child.pid, signal.SIGKILL)
    assert heard(child) == {"kind": "gone", "by": "killed by signal 9 (SIGKILL)"}


def test_killing_a_child_takes_what_its_function_has_started(children: Children, tmp_path: Path):
    child = children.new()
    ordered(child, children.place("family"), str(tmp_path / "pids"))
    until((tmp_path / "pids").exists)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert all(is_alive(pid) for pid in pids)
    child.kill()
    assert heard(child)["by"] == "killed by signal 9 (SIGKILL)"
    until(lambda: not any(is_alive(pid) for pid in pids))
    child.kill()  # once more does nothing


def test_a_stopped_child_can_be_killed(children: Children):
    child = children.new()
    children.value(child, "count")
    os.kill(child.pid, signal.SIGSTOP)
    child.kill()
    assert heard(child)["kind"] == "gone"


def test_a_process_that_a_function_left_behind_does_not_hold_its_lock(children: Children):
    child = children.new()
    pid = children.value(child, "daemon")
    try:
        child.close()
        assert child.ended_by() == "exited with code 0"
        assert is_alive(pid)
        assert is_free(child.lock)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_only_the_child_itself_speaks_to_the_worker(children: Children):
    assert children.value(children.new(), "let_a_fork_speak") == 0


def test_what_a_function_said_is_not_lost_when_it_is_killed(
    children: Children, capfd: pytest.CaptureFixture[str]
):
    assert children.run(children.new(), "say_and_die", "last words")["kind"] == "gone"
    assert capfd.readouterr().out == "last words\n"


def test_sigterm_is_left_to_the_worker_but_ends_what_functions_fork(children: Children):
    child = children.new()
    assert children.value(child, "die", signal.SIGTERM) == "alive"
    assert children.value(child, "fork_and_end_it") == -signal.SIGTERM


def test_a_function_out_of_memory_fails_and_the_next_runs(children: Children):
    child = children.new()
    ending = children.run(child, "exhaust")
    if ending["kind"] == "gone":
        child = children.new()
    else:
        assert ending["error"].startswith("MemoryError")
    assert children.value(child, "make", 1) == "x"


def test_two_children_never_share_a_lock(children: Children, capfd: pytest.CaptureFixture[str]):
    child = children.new()
    children.value(child, "count")
    second = Child(child.lock)
    assert heard(second) == {"kind": "gone", "by": "exited with code 1"}
    second.close()
    assert "FileExistsError" in capfd.readouterr().err


def test_closing_does_not_wait_for_the_threads_of_a_function(children: Children):
    child = children.new()
    assert children.run(child, "leave_a_thread")["kind"] == "complete"
    child.close(patience=0.1)
    assert child.ended_by() == "killed by signal 9 (SIGKILL)"


def test_closing_a_busy_child_ends_it_with_what_it_started(children: Children, tmp_path: Path):
    child = children.new()
    ordered(child, children.place("family"), str(tmp_path / "pids"))
    until((tmp_path / "pids").exists)
    child.close()
    assert child.ended_by() == "killed by signal 9 (SIGKILL)"
    assert is_free(child.lock)
    until(lambda: not any(is_alive(int(p)) for p in (tmp_path / "pids").read_text().split()))
