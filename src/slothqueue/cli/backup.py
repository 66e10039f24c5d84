"""`sloth backup`: a copy of the store, with a bar to watch if it takes long."""

from __future__ import annotations

import os
from typing import Any

from ..sizes import spoken_size
from .parsing import Parser
from .progress import Progress
from .screen import one_line
from .session import Session


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
    with Progress(soon=0) as progress:
        made = sloth.backup(options.file, force=options.force, progress=progress.show)
    if session.json:
        session.tell(made._asdict())
    else:
        session.say(f"{one_line(made.path)}, {spoken_size(made.bytes)}")
    if made.reissued:
        jobs = "1 job that runs now is" if made.reissued == 1 else f"{made.reissued} jobs that run"
        session.note(f"{jobs}{'' if made.reissued == 1 else ' now are'} queued again in the copy")
    if os.path.isdir(sloth.store.logs):
        session.note(f"the output of commands is not in it; it is in {sloth.store.logs}")
    return 0
