"""Programs that try a store in bad places: `python -m tests.crash.support_places VERB ...`"""

from __future__ import annotations

import codecs
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from slothqueue import LeaseLost, Sloth, SlothError, copies
from slothqueue.cli import main
from slothqueue.errors import StoreFull
from slothqueue.onlooking import Onlooker
from slothqueue.storage import backup

from .support import audit, rows

NOBODY = 65534


def attempt(path: str, verb: str) -> None:
    """Try one thing as a user without rights; print what came of it."""
    codecs.lookup("ascii")  # what is imported later may be out of reach then
    assert backup.__file__ and copies.__file__
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    sloth = Sloth(path, busy_timeout=1)
    mail = sloth.queue("mail")
    verbs = {"open": sloth.stats, "write": lambda: mail.enqueue(1).id, "claim": mail.claim}
    verbs["examine"] = lambda: json.dumps(list(Onlooker(path).examine()))
    verbs["look"] = Onlooker(path).stats
    verbs["backup"] = lambda: sloth.backup(os.path.dirname(os.path.dirname(path)) + "/copy.db")
    try:
        print(json.dumps(["fine", str(verbs[verb]())]))
    except SlothError as error:
        print(json.dumps([type(error).__name__, str(error)]))


class SmallDisk:
    """A file system of a megabyte or two, in a mount namespace of our own, with a ballast on it."""

    def __init__(self, folder: str) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=True)
        self.path, self.ballast = folder + "/work.db", Path(folder, "ballast")
        self.sloth = Sloth(self.path)
        self.sloth.queue("mail").enqueue("first")
        self.ballast.write_bytes(bytes(600_000))

    def fill(self) -> None:
        """Let nothing fit any more."""
        with open(self.ballast, "ab", buffering=0) as file:
            for size in (65_536, 4_096, 512, 1):
                while True:
                    try:
                        if file.write(bytes(size)) < size:
                            break
                    except OSError:
                        break

    def free(self) -> None:
        self.ballast.unlink()


def enqueue_until_full(folder: str) -> None:
    """Enqueue, fill up, free, go on; everything confirmed is there."""
    disk = SmallDisk(folder)
    mail, confirmed = disk.sloth.queue("mail"), []
    for n in range(10_000):
        try:
            confirmed.append(mail.enqueue({"n": n, "filler": "x" * 500}).id)
        except StoreFull as error:
            assert "disk" in str(error) and disk.path in str(error), error
            break
    else:
        raise AssertionError("it was never full")
    assert len(confirmed) > 100
    _refused(lambda: mail.enqueue_many([{"filler": "y" * 500}] * 50))
    disk.free()
    confirmed += [mail.enqueue("after").id]
    disk.sloth.close()
    jobs = audit(Sloth(disk.path))
    assert set(jobs) >= set(confirmed)
    assert len(jobs) <= len(confirmed) + 2, "what was refused is there"


def end_jobs_when_full(folder: str) -> None:
    """A lease survives a full disk: its end is refused, and works when there is space again."""
    disk = SmallDisk(folder)
    mail = disk.sloth.queue("mail")
    mail.enqueue_many([{"filler": "x" * 500}] * 20)
    leases: list[Any] = mail.claim_many(3)
    disk.fill()
    refusals = 0
    for lease in leases:
        for _ in range(200):
            refusals += _is_refused(lambda lease=lease: lease.fail("e" * 2_000))
    assert refusals, "it was never full"
    disk.free()
    for lease in leases:
        try:
            lease.complete()
        except LeaseLost:
            continue
    disk.sloth.close()
    found = audit(Sloth(disk.path))
    assert {found[lease.id].state for lease in leases} <= {"done", "queued"}
    assert rows(disk.path, "select count(*) from _sloth_running") == [(0,)]


def open_when_full(folder: str) -> None:
    """A new store on a full disk is refused with the reason, and works when there is space."""
    disk = SmallDisk(folder)
    disk.sloth.close()
    disk.fill()
    sloth = Sloth(folder + "/other.db")
    _refused(lambda: sloth.queue("mail").enqueue(1))
    disk.free()
    assert sloth.queue("mail").enqueue(1).id == 1


def backup_when_full(folder: str) -> None:
    """A backup without room is refused before it starts, or ends with the disk; nothing stays."""
    disk = SmallDisk(folder)
    disk.sloth.queue("mail").enqueue_many([{"filler": "x" * 500}] * 300)
    disk.fill()
    before = os.listdir(folder)
    _refused(lambda: disk.sloth.backup(folder + "/copy.db"))
    statvfs, os.statvfs = os.statvfs, lambda path: statvfs("/")
    _refused(lambda: disk.sloth.backup(folder + "/copy.db"))
    assert os.listdir(folder) == before, os.listdir(folder)
    disk.free()
    made = disk.sloth.backup(folder + "/copy.db")
    audit(Sloth(made.path))


def commands_when_full(folder: str) -> None:
    """The command line says so, too, still shows what there is, and goes on when there is room."""
    disk = SmallDisk(folder)
    add = ["add", "--db", disk.path, "--", "echo", "x" * 9_000]
    disk.fill()
    codes = [main(add) for _ in range(400)]
    assert codes[-1] == 75, codes
    assert main(["list", "--db", disk.path]) == 0
    assert main(["doctor", "--db", disk.path]) == 1
    assert main(["backup", "--db", disk.path, folder + "/copy.db"]) == 75
    disk.free()
    assert main(add) == 0
    assert len(disk.sloth.jobs(limit=1_000)) == 2 + codes.count(0)
    audit(disk.sloth)


def work_when_full(folder: str) -> None:
    """A worker waits for space instead of ending, and loses nothing."""
    import threading
    import time

    disk = SmallDisk(folder)
    sloth = disk.sloth
    for n in range(10):
        sloth.queue("work").enqueue_command(["/bin/sh", "-c", f"sleep 0.2; echo {n}"])
    worker = sloth.worker(concurrency=2)
    thread = threading.Thread(target=worker.run)
    thread.start()
    end = time.monotonic() + 30
    while sloth.queue("work").stats()["running"] == 0:
        assert time.monotonic() < end
        time.sleep(0.01)
    disk.fill()
    time.sleep(3)
    assert thread.is_alive(), "the worker ended"
    disk.free()
    while sloth.queue("work").stats()["done"] < 10:
        assert time.monotonic() < end + 30, sloth.queue("work").stats()
        time.sleep(0.02)
    worker.stop()
    thread.join(30)
    audit(sloth)
    sloth.close()


def _refused(action: Any) -> None:
    assert _is_refused(action), "it was not refused"


def _is_refused(action: Any) -> bool:
    try:
        action()
    except StoreFull:
        return True
    except LeaseLost:
        return False
    return False


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
