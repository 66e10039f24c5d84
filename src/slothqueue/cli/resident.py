"""The background worker of a store: a process of its own, started by `starting.py`.

    main([PATH, IDLE, LINK])

It runs the commands of all queues of the store PATH and ends itself after IDLE ms without work. On
the descriptor LINK it says what became of it. There is one at a time: who does not get the place
(`berth.py`) goes away quietly.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import time
from typing import TYPE_CHECKING

from ..processes import BACKGROUND
from ..timing import spoken
from . import berth
from .needs import crew
from .screen import one_line
from .starting import log_path, open_log
from .working import Line

if TYPE_CHECKING:
    from ..client import Sloth

MOST_LOG = 1_000_000
"""Bytes of the log; then it begins anew, and the one before is kept beside it."""

PATIENCE = 8_000
"""Milliseconds to wait for the one who has the place to say that it works, or to go."""

log = logging.getLogger("slothqueue.worker")


def main(words: list[str]) -> int:
    path, limit, link = words
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a logout is no reason to end
    os.environ.pop(BACKGROUND.decode().partition("=")[0], None)  # it marks us, not what we start
    mouth = Mouth(int(link))
    _tell_in_file(path)
    try:
        return _main(path, int(limit), mouth)
    except Exception as error:
        mouth.say(f"error {one_line(str(error)) or type(error).__name__}")
        log.exception("ended: %s", error)
        return 1


def _main(path: str, limit: int, mouth: Mouth) -> int:
    from ..client import Sloth

    with Sloth(path, say=log.warning) as sloth:
        place = _take_place(sloth, mouth)
        if place is None:
            return 0
        try:
            _work(sloth, limit, mouth)
        finally:
            os.close(place)
    return 0


def _take_place(sloth: Sloth, mouth: Mouth) -> int | None:
    """The place, once it is ours; None when another worker is there for all queues.

    Who has the place may be about to go, so its lock alone says nothing: it must be seen to work.
    """
    sloth.verbs.store_id()  # a store that cannot be used has no place to take
    until = sloth.clock.awake() + PATIENCE
    while (place := berth.take(sloth.store.live)) is None:
        others = [one.holder.pid for one in crew(sloth).workers if one.queues is None]
        if others:
            mouth.say(f"other {others[0]}")
            return None
        if sloth.clock.awake() > until:
            raise TimeoutError("another background worker is neither there nor gone")
        time.sleep(0.02)
    return place


def _work(sloth: Sloth, limit: int, mouth: Mouth) -> None:
    from .idling import run_until_unneeded

    worker = sloth.worker()
    # Seen by all before the one who started us is told so: it has nothing more to look for then.
    slots: dict[str, object] = {"concurrency": worker.concurrency, "pool": worker.pool}
    sloth.presence.tells = json.dumps(slots | {"queues": None, "tasks": []})
    if sloth.presence.id:
        mouth.say(f"worker {os.getpid()}")
    log.info(
        "background worker %d on %s; ends itself after %s without work",
        os.getpid(),
        sloth.path,
        spoken(limit),
    )
    run_until_unneeded(sloth, worker, limit)
    log.info("ended; %d attempts ended here", worker.settled)


class Mouth:
    """Where the first word is said, once; the one who asked may be gone by then."""

    def __init__(self, link: int) -> None:
        os.set_inheritable(link, False)
        self._link: int | None = link

    def say(self, line: str) -> None:
        link, self._link = self._link, None
        if link is None:
            return
        try:
            os.write(link, line.encode("utf-8", "replace")[:4000] + b"\n")
        except OSError:
            pass
        os.close(link)


# ---- its log ------------------------------------------------------------------------------------


def _tell_in_file(path: str) -> None:
    handler = LogFile(path + "-logs")
    handler.setFormatter(Line("%Y-%m-%d %H:%M:%S"))
    root = logging.getLogger("slothqueue")
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    root.propagate = False


class LogFile(logging.Handler):
    """Writes to our own output, which is the log, and begins it anew when it has grown."""

    def __init__(self, logs: str) -> None:
        super().__init__()
        self._logs = logs

    def emit(self, record: logging.LogRecord) -> None:
        try:
            now = os.fstat(1)
            if now.st_size > MOST_LOG or not now.st_nlink:
                self._begin_anew()
            os.write(1, f"{self.format(record)}\n".encode("utf-8", "backslashreplace"))
        except OSError:  # the disk is full, say: the work goes on
            return

    def _begin_anew(self) -> None:
        path = log_path(self._logs)
        if os.path.exists(path):
            os.replace(path, path + ".1")
        file = open_log(self._logs)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.close(file)
