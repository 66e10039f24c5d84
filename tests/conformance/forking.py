"""Runs a call in a forked child and hears from it through a pipe."""

from __future__ import annotations

import json
import os
import select
import signal
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from slothqueue import WrongState

PATIENCE = 20


def forked(work: Callable[[], Any]) -> Any:
    """What this call returns in a forked child, or the text of what it raises, by name."""
    ear, mouth = os.pipe()
    pid = os.fork()
    if pid == 0:
        report(mouth, work)
    os.close(mouth)
    try:
        ready, _, _ = select.select([ear], [], [], PATIENCE)
        if not ready:
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        said = b"".join(iter(lambda: os.read(ear, 65536), b""))
    finally:
        os.close(ear)
    assert ready, "the child was silent"
    outcome = json.loads(said)
    if "trace" in outcome:
        raise AssertionError(outcome["trace"])
    return outcome["value"]


def report(mouth: int, work: Callable[[], Any]) -> NoReturn:
    """Tell through the pipe what a call returns or raises, and end this process."""
    try:
        told = json.dumps({"value": work()})
    except BaseException:
        told = json.dumps({"trace": traceback.format_exc()})
    os.write(mouth, told.encode())
    os._exit(0)


def refused(call: Callable[[], object]) -> str:
    """The message of the WrongState that a call raises."""
    try:
        call()
    except WrongState as error:
        return str(error)
    return "it was not refused"
