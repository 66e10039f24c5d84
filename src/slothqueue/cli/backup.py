"""`sloth backup`: a copy of the store, with a bar to watch if it takes long."""

from __future__ import annotations

import os
import sys
from typing import Any

from .parsing import Parser
from .screen import one_line, size
from .session import Session

CLEAR = "\r\x1b[K"
STEPS = 20


def backup_options(parser: Parser) -> None:
    parser.option("file", metavar="FILE", help="where the copy goes; its directory must be there")
    parser.flag("--force", help="replace FILE if it is there")
    parser.describe(
        "FILE [--force]",
        "All of the store as it is at one moment, while others go on using it. FILE is\n"
        "whole and checked when it appears; until then, and if anything fails, there is\n"
        "nothing. Jobs that run now are queued again in the copy. The output of commands\n"
        "is not in it.",
        """
sloth backup /backup/jobs.db
sloth backup --force /backup/jobs.db
sloth --db /backup/jobs.db status
""",
    )


def backup_command(session: Session, options: Any) -> int:
    sloth = session.existing()
    bar = Bar(sys.stderr)
    try:
        made = sloth.backup(options.file, force=options.force, progress=bar.show)
    finally:
        bar.clear()
    if session.json:
        session.tell(made._asdict())
    else:
        session.say(f"{one_line(made.path)}, {size(made.bytes)}")
    if made.reissued:
        jobs = "1 job that runs now is" if made.reissued == 1 else f"{made.reissued} jobs that run"
        session.note(f"{jobs}{'' if made.reissued == 1 else ' now are'} queued again in the copy")
    if os.path.isdir(sloth.store.logs):
        session.note(f"the output of commands is not in it; it is in {sloth.store.logs}")
    return 0


class Bar:
    """One line on a terminal that tells how far something is; elsewhere nothing."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._wanted = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = ""

    def show(self, what: str, fraction: float) -> None:
        """Tell it, if it looks different from what is there."""
        done = int(STEPS * fraction)
        line = f"{what:<6} [{'#' * done}{' ' * (STEPS - done)}] {int(100 * fraction):3d}%"
        if self._wanted and line != self._shown:
            self._write(CLEAR + line)
            self._shown = line

    def clear(self) -> None:
        """Leave no trace of it."""
        if self._shown:
            self._write(CLEAR)
            self._shown = ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
