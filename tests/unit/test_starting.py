"""How a shim sets up its command: what it keeps from itself, and what it says when it cannot."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from slothqueue.shim import Ears
from slothqueue.starting import Refusal, put_back, set_aside, spawn
from slothqueue.streams import Streams

GIVEN = {
    "PATH": "/bin",
    "LD_PRELOAD": "a.so",
    "PYTHONHOME": "/no",
    "LC_ALL": "de_DE.UTF-8",
    "LC_CTYPE": "C",
    "EMPTY": "",
}


@pytest.mark.parametrize("ours", [{}, {"LD_LIBRARY_PATH": "/ours", "LD_PRELOAD": "b.so", "A": "1"}])
def test_what_is_put_aside_comes_back_and_nothing_else_comes_with_it(ours: dict[str, str]):
    assert put_back(set_aside(GIVEN, ours)) == GIVEN


def test_a_shim_loads_what_its_worker_did_and_not_what_its_command_will():
    shim = set_aside(GIVEN, {"LD_LIBRARY_PATH": "/ours", "PATH": "/else", "PYTHONPATH": "/p"})
    assert shim["LD_LIBRARY_PATH"] == "/ours"
    assert shim["PATH"] == "/bin"
    assert shim["LC_ALL"] == "C"
    assert "LD_PRELOAD" not in shim


@pytest.fixture
def ears() -> Any:
    class Deaf:
        def __init__(self) -> None:
            self.letters: list[bytes | None] = []

        def watch(self, *given: object) -> None: ...
        def ignore(self, file: int) -> None: ...
        def say(self, line: bytes) -> None: ...

    return Deaf()


@pytest.mark.parametrize(
    ("what", "call", "options"),
    [("terminal", "openpty", {"terminal": "80 24"}), ("input", "pipe", {"input": ""})],
)
def test_a_command_that_cannot_have_what_it_needs_is_refused(
    monkeypatch: pytest.MonkeyPatch, ears: Ears, what: str, call: str, options: dict[str, str]
):
    def fail() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(Refusal) as caught:
        Streams(options, [1], ears)
    code, text = caught.value.args
    assert (code, text) == (126, f"it cannot be given its {what}: Too many open files")


def test_what_is_shown_right_before_the_end_is_written_down(tmp_path: Path, ears: Ears):
    log = os.open(tmp_path / "log", os.O_CREAT | os.O_RDWR)
    streams = Streams({"terminal": "80 24"}, [log], ears)
    streams.begun()
    path = next(one[2] for one in streams.io if one[0] == os.POSIX_SPAWN_OPEN)
    file = os.open(path, os.O_WRONLY | os.O_NOCTTY)
    os.write(file, b"last\nwords")
    os.close(file)
    streams.finish()
    assert os.pread(log, 100, 0) == b"last\nwords"
    os.close(log)


def test_a_system_without_sessions_for_what_it_spawns_says_so(monkeypatch: pytest.MonkeyPatch):
    def fail(*given: object, **options: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(os, "posix_spawnp", fail)
    with pytest.raises(Refusal, match="terminal of its own"):
        spawn(["true"], [], nice=0, session=True)
