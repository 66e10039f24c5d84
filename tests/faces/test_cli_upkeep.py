"""`sloth backup`: what it says, how it ends, and what it leaves."""

from __future__ import annotations

import io
import signal
from pathlib import Path

import pytest

from slothqueue import Sloth
from slothqueue.cli.backup import Bar

from .cli_support import Cli, Terminal, until


@pytest.fixture
def sloth(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


# ---- backup -------------------------------------------------------------------------------------


def test_a_backup_tells_where_it_is_and_what_is_not_in_it(sloth: Cli):
    sloth("run", "--", "true")
    done = sloth("backup", "copy.db")
    assert done.text.startswith(f"{sloth.folder}/copy.db, ") and "work.db-logs" in done.err
    assert sloth("list", "--db", "copy.db", "--json").objects[0]["state"] == "done"
    (told,) = sloth("backup", "other.db", "--json").objects
    size = (sloth.folder / "other.db").stat().st_size
    assert told == {"path": f"{sloth.folder}/other.db", "bytes": size, "reissued": 0}


def test_a_backup_tells_what_runs(sloth: Cli):
    sloth.add("--", "sleep", "60")
    with sloth.worker():
        until(lambda: sloth.job(1)["state"] == "running", "it runs")
        done = sloth("backup", "copy.db")
        assert "1 job that runs now is queued again in the copy" in done.err
        assert sloth("status", "--db", "copy.db", "--json").objects[0]["workers"] == 0
    reasons = [
        each["reason"] for each in sloth("show", "1", "--db", "copy.db", "--json").objects[1:]
    ]
    assert reasons[-1] == "copied"


def test_a_backup_replaces_a_file_only_if_told_to(sloth: Cli):
    sloth.add("--", "true")
    (sloth.folder / "copy.db").write_text("mine")
    assert "--force" in sloth.refused("backup", "copy.db", code=5)
    sloth("backup", "--force", "copy.db")
    assert sloth("list", "--db", "copy.db", "--json").objects[0]["id"] == 1
    assert "itself" in sloth.refused("backup", "--force", "work.db", code=5)
    assert "mkdir -p" in sloth.refused("backup", "no/copy.db", code=75)
    assert "FILE" in sloth.refused("backup", code=2)


def test_a_backup_of_nothing_gives_3(sloth: Cli):
    assert "no jobs yet" in sloth.refused("backup", "copy.db", code=3)
    assert not (sloth.folder / "copy.db").exists() and not sloth.db.exists()


def test_a_bar_is_shown_on_a_terminal_and_ctrl_c_leaves_nothing(sloth: Cli):
    with Sloth(sloth.db, durability="process") as store:
        for _ in range(60):
            store.queue("mail").enqueue_many(["x" * 1_000] * 1_000)
    with Terminal(sloth, "backup", "copy.db") as terminal:
        terminal.read_until("copy   [")
        terminal.process.send_signal(signal.SIGSTOP)
        terminal.type("\x03")
        terminal.process.send_signal(signal.SIGCONT)
        assert terminal.finish() == 130
    assert all(path.name.startswith("work.db") for path in sloth.folder.iterdir())
    with Terminal(sloth, "backup", "copy.db") as terminal:
        assert terminal.finish() == 0
    assert "100%" in terminal.seen and terminal.seen.endswith(" MB\r\n")
    assert "\r" not in sloth("backup", "other.db").err


def test_the_bar_is_drawn_when_it_changes_and_goes_away():
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Screen()
    bar = Bar(stream)
    for fraction in (0, 0.001, 0.5, 0.501):
        bar.show("copy", fraction)
    bar.clear()
    shown = stream.getvalue().split("\r\x1b[K")
    assert shown == ["", f"copy   [{' ' * 20}]   0%", f"copy   [{'#' * 10}{' ' * 10}]  50%", ""]
