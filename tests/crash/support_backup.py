"""A backup that is killed at every call that it makes: `python -m tests.crash.support_backup ...`

Each run is a process of its own, forked from this one, which never has a connection. Prints how
many were killed, and ends with 1 and a traceback if a target was neither absent nor whole.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slothqueue import Sloth
from slothqueue.storage import backup

from .support import check_file

WATCHED = (backup.__file__, "shutil.py", "copies.py")
JOBS = 300


def prepare(folder: Path) -> None:
    """A store of some pages, with a running job, and an old backup of it with one job less."""
    with Sloth(folder / "work.db") as sloth:
        mail = sloth.queue("mail")
        mail.enqueue_many(["x" * 500] * (JOBS - 1))
        sloth.backup(folder / "old.db")
        mail.enqueue("the last")
        assert mail.claim()


def killed(folder: Path, n: int, force: bool) -> None:
    """Make the backup, and be killed before the n-th call in it."""
    backup.PAGES_AT_ONCE = 10
    left = n

    def count(frame: Any, event: str, _: Any) -> None:
        nonlocal left
        if event in ("call", "c_call") and frame.f_code.co_filename.endswith(WATCHED):
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sloth = Sloth(folder / "work.db")
    sloth.stats()
    sys.setprofile(count)
    sloth.backup(folder / "copy.db", force=force)


def look(folder: Path, force: bool, must: bool) -> None:
    """What is there now is whole or absent, and what lies about is recognized."""
    target = folder / "copy.db"
    strangers = {path.name for path in folder.iterdir()} - {"copy.db", "old.db"}
    known = ("work.db", backup.PREFIX)
    assert all(name.startswith(known) for name in strangers), strangers
    assert target.exists() or not (force or must)
    if target.exists():
        check_file(target)
        with Sloth(target) as copy:
            assert copy.check() == []
            assert copy.stats()["queued"] in ((JOBS - 1, JOBS) if force else (JOBS,))
    with Sloth(folder / "work.db") as sloth:
        assert sloth.check() == [] and len(sloth.jobs(limit=2 * JOBS)) == JOBS


def clean(folder: Path) -> None:
    """The next backup removes what all before it have left."""
    with Sloth(folder / "work.db") as sloth:
        sloth.backup(folder / "last.db")
    left = [path.name for path in folder.iterdir() if path.name.startswith(backup.PREFIX)]
    assert not left, left


def apart(program: Callable[[], None]) -> int:
    """Run it in a process of its own; its exit code, negative for a signal."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        program()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def series(folder: Path, force: bool, step: int) -> int:
    """Killed later and later, until it ends alive; how often it was killed."""
    assert apart(lambda: prepare(folder)) == 0
    n, kills, code = 1, 0, -signal.SIGKILL
    while code:
        for name in ("copy.db", "copy.db-wal", "copy.db-shm", "copy.db-journal"):
            (folder / name).unlink(missing_ok=True)
        if force:
            (folder / "copy.db").write_bytes((folder / "old.db").read_bytes())
        code = apart(lambda n=n: killed(folder, n, force))  # type: ignore[misc]
        assert code in (0, -signal.SIGKILL), f"at call {n} it ended with {code}"
        assert apart(lambda code=code: look(folder, force, not code)) == 0, f"killed at call {n}"  # type: ignore[misc]
        n, kills = n + step, kills + bool(code)
    assert apart(lambda: clean(folder)) == 0
    return kills


if __name__ == "__main__":
    print(series(Path(sys.argv[1]), sys.argv[2] == "force", int(sys.argv[3])))
