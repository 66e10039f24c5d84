"""Children find the functions of any script, and end with the process that started them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slothqueue.codec import decode
from slothqueue.pool import reference

from .pool_support import (
    DEADLINE,
    FUNCTIONS,
    is_alive,
    is_free,
    until,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tells processes by /proc")


def script(directory: Path, text: str, *, run: list[str] | None = None) -> subprocess.Popen[str]:
    (directory / "app.py").write_text(text)
    return subprocess.Popen(
        [sys.executable, *(run or ["app.py"])],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
    )


def said_by(directory: Path, text: str, *, run: list[str] | None = None) -> list[Any]:
    with script(directory, text, run=run) as process:
        output, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    return [json.loads(line) for line in output.splitlines()]


UNGUARDED = """
import json, sys
from dataclasses import dataclass
from slothqueue.pool import Child, reference
from tests.crash.pool_support import outcome
from slothqueue.context import refuse_while_loading

@dataclass
class Point:
    x: "int"

class Shapes:
    @staticmethod
    def area(x):
        return [Point(x).x ** 2, __name__, sys.argv]

refuse_while_loading()
print(json.dumps("the script goes on"))

def too_late():
    return 1

child = Child("lock")
print(json.dumps(reference(Shapes.area)))
for function, args in ((Shapes.area, [3]), (Shapes.area, [4]), (too_late, [])):
    print(json.dumps(outcome(child, reference(function), *args)))
child.close()
"""


def test_a_script_without_a_guard_is_loaded_up_to_its_first_use_of_a_store(tmp_path: Path):
    goes_on, place, first, second, late = said_by(tmp_path, UNGUARDED, run=["app.py", "-v"])
    assert goes_on == "the script goes on"
    path = str(tmp_path / "app.py")
    assert place == {"module": "__main__", "qualname": "Shapes.area", "main": {"path": path}}
    assert decode(first["result"]) == [9, "__mp_main__", ["app.py", "-v"]]
    assert decode(second["result"])[0] == 16
    assert late["error"].startswith("WrongState: the task '__main__.too_late' was not found")
    assert f"({path}, line 17)" in late["error"]
    assert 'if __name__ == "__main__"' in late["error"]


GUARDED = """
import json
from slothqueue.pool import Child, reference
from tests.crash.pool_support import outcome
{imports}
def double(n):
    return {value}

if __name__ == "__main__":
    child = Child("lock")
    print(json.dumps([reference(double), outcome(child, reference(double), 2)]))
    child.close()
"""


def test_a_script_with_a_guard_is_loaded_as_a_whole(tmp_path: Path):
    [[_, ending]] = said_by(tmp_path, GUARDED.format(imports="", value="2 * n"))
    assert ending["result"] == "4"


TASKS = """
import json
from slothqueue import Sloth, current_job
from slothqueue.pool import Child, reference
from tests.crash.pool_support import outcome

sloth = Sloth("work.db")

@sloth.task()
def double(n):
    return 2 * n

@sloth.task(name="in the middle")
def middle():
    return [double.name, double(4), middle.enqueue().id]

sloth.queue("emails").enqueue({})
child = Child("lock")
for task, *args in ((double, 2), (middle,)):
    print(json.dumps([task.name, outcome(child, {**reference(task), "task": task.name}, *args)]))
child.close()
print(len(sloth.jobs()))
"""


@pytest.mark.parametrize(
    ("run", "name"), [(["app.py"], "app.double"), (["-m", "app"], "app.double")]
)
def test_tasks_have_the_same_names_in_a_child_and_enqueue_from_there(
    tmp_path: Path, run: list[str], name: str
):
    (first, doubled), (second, middle), count = said_by(tmp_path, TASKS, run=run)
    assert (first, doubled["result"]) == (name, "4")
    assert (second, decode(middle["result"] or "null")) == ("in the middle", [name, 8, 2]), middle
    assert count == 2  # each script line that enqueues did so once


def test_a_module_run_by_name_is_loaded_by_name(tmp_path: Path):
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "sibling.py").write_text("factor = 10")
    text = GUARDED.format(imports="from .sibling import factor", value="factor * n")
    for name, where in (("pkg.mod", "mod.py"), ("pkg", "__main__.py")):
        (package / where).write_text(text)
        [[place, ending]] = said_by(tmp_path, "", run=["-m", name])
        full = f"pkg.{where.removesuffix('.py')}"
        assert place == {"module": "__main__", "qualname": "double", "main": {"module": full}}
        assert ending["result"] == "20"
        (tmp_path / "lock").unlink()


def test_a_script_that_breaks_in_the_child_is_told_with_advice(tmp_path: Path):
    imports = "import sys\nif __name__ != '__main__': raise OSError('only once')\n"
    [[_, ending]] = said_by(tmp_path, GUARDED.format(imports=imports, value="1"))
    assert ending["error"].startswith("OSError: only once\n\nTraceback")
    assert "belongs under `if __name__" in ending["error"]


@pytest.mark.parametrize(
    "run", [["-c", "from slothqueue.pool import reference; f = lambda: 1\ndef g(): 1\n{}"], ["-"]]
)
def test_what_has_no_file_cannot_be_loaded(tmp_path: Path, run: list[str]):
    ask = "print(str([reference(f), reference(g)]).replace('None', 'null'))"
    output = subprocess.run(
        [sys.executable, *(part.format(ask) for part in run)],
        input=f"from slothqueue.pool import reference\nf = lambda: 1\ndef g(): 1\n{ask}\n",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert json.loads(output.stdout) == [None, None]


def test_functions_within_functions_and_odd_callables_cannot_be_loaded():
    def inner() -> None: ...

    for each in (inner, lambda: None, type("X", (), {})(), 3):
        assert reference(each) is None
    place = {"module": until.__module__, "qualname": "until", "main": None}
    assert reference(until) == place


WORKER = """
import os, signal, sys, time
from slothqueue.pool import Child
from tests.crash.pool_support import ordered, until

children = [Child("idle"), Child("busy")]
until(lambda: [each.receive() for each in children] and all(each.ready for each in children))
ordered(children[1], {"module": sys.argv[1], "qualname": "family", "main": None}, "pids")
until(lambda: os.path.exists("pids"))
if sys.argv[2:] and (fork := os.fork()) == 0:
    time.sleep(600)
print(*(each.pid for each in children), fork if sys.argv[2:] else "", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("fork", [[], ["fork"]])
def test_children_end_with_their_worker_even_if_a_fork_of_it_lives(tmp_path: Path, fork: list[str]):
    with script(tmp_path, WORKER, run=["app.py", FUNCTIONS, *fork]) as worker:
        assert worker.stdout is not None
        idle, busy, *forks = (int(pid) for pid in worker.stdout.readline().split())
        try:
            assert not is_free(tmp_path / "idle")
            assert not is_free(tmp_path / "busy")
            worker.kill()
            until(lambda: is_free(tmp_path / "idle") and is_free(tmp_path / "busy"), 5)
            family = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
            until(lambda: not any(is_alive(pid) for pid in [idle, busy, *family]), 5)
        finally:
            for pid in forks:
                os.kill(pid, signal.SIGKILL)
