"""What a worker and its children load of the user's program, and what they leave out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slothqueue import Sloth

SHARED = """
from slothqueue import Sloth
sloth = Sloth("work.db")
mail = sloth.queue("mail", max_attempts=2)  # options are no reason to stop
@sloth.task()
def double(n):
    return 2 * n
"""


def run(cwd: Path, *argv: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, *argv],
        cwd=cwd,
        env=environ,
        timeout=timeout,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def worker(cwd: Path, app: str) -> subprocess.CompletedProcess[str]:
    return run(cwd, "-m", "slothqueue", "worker", "--app", f"{app}:sloth", "--until-idle")


def jobs(cwd: Path) -> list[tuple[str, str]]:
    with Sloth(cwd / "work.db") as sloth:
        return sorted((job.state, job.name) for job in sloth.jobs())


def test_an_app_that_enqueues_while_it_is_imported_enqueues_nothing_more(tmp_path: Path):
    (tmp_path / "a.py").write_text(SHARED + "job = double.enqueue(21)\nprint(job.id)\n")
    assert run(tmp_path, "a.py").stdout == "1\n"
    done = worker(tmp_path, "a")
    assert done.returncode == 0, done.stderr
    assert jobs(tmp_path) == [("done", "a.double")]
    assert "a.py, line 8" in done.stderr


def test_an_app_that_starts_a_worker_while_it_is_imported_starts_none(tmp_path: Path):
    text = (
        SHARED + "job = double.enqueue(21)\nsloth.worker().run_until_idle()\nprint(job.result())\n"
    )
    (tmp_path / "a.py").write_text(text)
    assert run(tmp_path, "a.py").stdout == "42\n"
    done = worker(tmp_path, "a")
    assert done.returncode == 0, done.stderr
    assert jobs(tmp_path) == [("done", "a.double")]


def test_a_child_that_dies_again_and_again_does_not_make_jobs(tmp_path: Path):
    text = SHARED.replace("return 2 * n", "import os; os.kill(os.getpid(), 9)")
    (tmp_path / "a.py").write_text(text + 'if __name__ != "other": double.enqueue(1)\n')
    run(tmp_path, "a.py")
    assert worker(tmp_path, "a").returncode == 0
    assert jobs(tmp_path) == [("failed", "a.double")]


def test_a_package_is_loaded_with_its_relative_imports(tmp_path: Path):
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "store.py").write_text('from slothqueue import Sloth\nsloth = Sloth("work.db")\n')
    (package / "jobs.py").write_text(
        "from .store import sloth\n@sloth.task()\ndef double(n):\n    return 2 * n\n"
    )
    run(tmp_path, "-c", "from shop.jobs import double; double.enqueue(4)")
    assert worker(tmp_path, "shop.jobs").returncode == 0
    assert jobs(tmp_path) == [("done", "shop.jobs.double")]


def test_what_is_defined_below_the_first_use_is_missed_with_advice(tmp_path: Path):
    text = SHARED.replace("return 2 * n", "return late(n)")
    text += "double.using(max_attempts=1).enqueue(1)\ndef late(n):\n    return n\n"
    (tmp_path / "a.py").write_text(text + "sloth.worker().run_until_idle()\n")
    run(tmp_path, "a.py")
    with Sloth(tmp_path / "work.db") as sloth:
        error = sloth.job(1).error or ""
    assert error.startswith("NameError")
    assert "a.py, line 8" in error


def test_ctrl_c_ends_a_script_that_runs_until_idle(tmp_path: Path):
    text = SHARED.replace("return 2 * n", 'open("begun", "w"); import time; time.sleep(60)')
    text += "job = double.enqueue(1)\nsloth.worker(grace=0.1).run_until_idle()\njob.result()\n"
    (tmp_path / "a.py").write_text(text)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killer = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "one = subprocess.Popen([sys.executable, 'a.py'])\n"
        "until = time.monotonic() + 30\n"
        "while not os.path.exists('begun') and time.monotonic() < until: time.sleep(0.02)\n"
        "one.send_signal(signal.SIGINT)\n"
        "sys.exit(one.wait(30) == 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", killer], cwd=tmp_path, env=environ, timeout=90, capture_output=True
    )
    assert done.returncode == 0
    assert b"KeyboardInterrupt" in done.stderr
    assert jobs(tmp_path) == [("queued", "a.double")]


def test_a_later_definition_of_a_session_takes_the_place_of_the_first(sloth: Sloth):
    exec("@sloth.task(name='f')\ndef f():\n    return 1\n", {"sloth": sloth})
    exec("\n\n@sloth.task(name='f')\ndef f():\n    return 2\n", {"sloth": sloth})
    assert sloth.tasks["f"].function() == 2


@pytest.mark.parametrize("kind", ["task", "command"])
def test_who_waits_for_a_job_that_nobody_runs_is_told(tmp_path: Path, kind: str):
    enqueue = "double.enqueue(1)" if kind == "task" else "mail.enqueue_command(['true'])"
    (tmp_path / "a.py").write_text(SHARED + f"{enqueue}.result(timeout=3)\n")
    told = run(tmp_path, "a.py").stderr
    assert "no worker is running" in told
    assert "TimeoutError" in told
