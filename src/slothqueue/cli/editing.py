"""`sloth edit`: changes a job before it runs, by options or in an editor."""

from __future__ import annotations

import json
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from ..commands import check_argv
from ..errors import WrongState
from ..timing import spoken
from ..titles import command_line
from .adding import moment_at
from .background import see_to, start_option
from .many import Failed, attempt
from .parsing import Parser, Usage, duration, job_id, none_or, some_duration, whole
from .screen import since
from .session import Session

if TYPE_CHECKING:
    from ..handles import Job

UNSET: Any = object()


def edit_options(parser: Parser) -> None:
    parser.option("id", metavar="ID", type=job_id, help="the job, as `sloth add` printed it")
    parser.option(
        "--priority",
        metavar="N",
        type=whole(-1_000_000, 1_000_000),
        help="higher starts sooner",
    )
    parser.option("--in", dest="delay", metavar="T", type=duration, help="start it so much later")
    parser.option("--at", metavar="TIME", help="start it at this time, as in `sloth add`")
    parser.option(
        "--retries",
        metavar="N",
        type=whole(0, 999_999),
        help="how often to try again, counted from the first attempt",
    )
    parser.option(
        "--timeout",
        metavar="T",
        type=none_or(some_duration),
        default=UNSET,
        help="end it after so long; none for no limit",
    )
    start_option(parser)
    parser.takes_command(behind_dashes=True)
    parser.describe(
        "ID [--priority N] [--in T | --at TIME] [--retries N]\n"
        "                  [--timeout T] [--no-start] [-- CMD...]",
        "Changes a job that neither runs nor is done. Without options the command is\n"
        "opened in $VISUAL or $EDITOR as one would type it; if it comes back empty or as\n"
        "it was, or the editor fails, nothing is changed.",
        """
sloth edit 5
sloth edit 5 --priority 10 --in 0
sloth edit 5 --timeout none -- make -j4 all
EDITOR=nano sloth edit 5
""",
    )


def edit_command(session: Session, options: Any) -> int:
    def edit(job: Job) -> tuple[Job, str]:
        changes = _changes(session, options)
        if options.command:
            changes["payload"] = _with_command(job, options.command)
        if not changes:
            told = edit_in_editor(session, job)
            return job.refresh(), f"job {job.id}{told or EMPTY}"
        after = job.edit(**changes)
        return after, f"job {job.id}{_difference(session, job, after)}"

    changed: list[Job] = []

    def edit_and_note(job: Job) -> tuple[Job, str]:
        after, told = edit(job)
        changed.append(after)
        return after, told

    code = attempt(session, lambda: session.job(options.id), edit_and_note)
    see_to(session, [job for job in changed if not (job.held or job.blocked)])
    return code


def _changes(session: Session, options: Any) -> dict[str, Any]:
    if options.delay is not None and options.at is not None:
        raise Usage("give --in or --at, not both")
    changes: dict[str, Any] = {
        "priority": options.priority,
        "delay": options.delay,
        "run_at": None if options.at is None else moment_at(session, options.at),
        "max_attempts": None if options.retries is None else options.retries + 1,
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    return changes if options.timeout is UNSET else {**changes, "timeout": options.timeout}


# ---- the command --------------------------------------------------------------------------------


def _with_command(job: Job, words: list[str]) -> dict[str, Any]:
    """The payload with another command. Raises Usage."""
    if job.kind != "command":
        raise Usage(f"job {job.id} is no command, so there is none to change")
    payload: dict[str, Any] = job.payload
    if payload.get("shell") and len(words) != 1:
        raise Usage(f"job {job.id} is a line of shell: give it as one text, in quotes")
    return {**payload, "argv": check_argv(words, bool(payload.get("shell")))}


EMPTY = " is as it was, for its text came back empty"


def edit_in_editor(session: Session, job: Job) -> str | None:
    """Let a person change the command, or the payload; returns what has changed in words, None if
    it came back empty.

    Raises WrongState, Failed if the editor failed, and Usage for what makes no sense.
    """
    if job.state in ("running", "done"):  # before anybody types for nothing
        raise WrongState(f"job {job.id} is {job.state}: it cannot be changed any more")
    name = f"job-{job.id}." + ("sh" if job.kind == "command" else "json")
    after = _edited(_text_of(job), name)
    if not after.strip():
        return None
    payload = _read(job, after)
    changed = job if payload == job.payload else job.edit(payload=payload)
    return _difference(session, job, changed)


def _text_of(job: Job) -> str:
    if job.kind == "task":
        raise Usage(
            f"job {job.id} calls a function, whose arguments are no text to edit; its options "
            f"can be changed, see `sloth edit --help`"
        )
    if job.kind == "command":
        return command_line(job.payload) + "\n"
    return json.dumps(job.payload, indent=2, ensure_ascii=False) + "\n"


def _read(job: Job, text: str) -> Any:
    """What was written, as a payload. Raises Usage."""
    try:
        if job.kind != "command":
            return json.loads(text)
        shell = bool(job.payload.get("shell"))
        return _with_command(job, [text.strip()] if shell else shlex.split(_joined(text)))
    except ValueError as error:
        raise Usage(f"what came back makes no sense, so nothing was changed: {error}") from None


def _joined(text: str) -> str:
    """The text without the ends of lines that go on, as a shell reads it."""
    kept, quote, at = [], "", 0
    while at < len(text):
        pair = text[at : at + 2]
        if pair == "\\\n" and quote != "'":
            at += 2
            continue
        size = 2 if pair[0] == "\\" and quote != "'" else 1
        if size == 1 and pair[0] in "'\"" and quote in ("", pair[0]):
            quote = "" if quote else pair[0]
        kept.append(text[at : at + size])
        at += size
    return "".join(kept)


# ---- the editor ---------------------------------------------------------------------------------


def _edited(text: str, name: str) -> str:
    """The text as it comes back from the editor. Raises Failed."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="sloth-") as folder:  # private, and gone afterwards
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        _run(_editor(), path)
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except (OSError, ValueError) as error:
            raise Failed(
                f"what the editor left cannot be read, so nothing was changed: {error}"
            ) from None


def _editor() -> str:
    for name in ("VISUAL", "EDITOR"):
        if (told := os.environ.get(name, "").strip()) != "":
            return told
    if not sys.stdin.isatty():
        raise Usage("there is no editor: set VISUAL or EDITOR, or write the command behind --")
    return "vi"


def _run(editor: str, path: str) -> None:
    """Run it as a shell would, for it may have options. Ctrl-C is for the editor."""
    import signal
    import subprocess

    # Neither we nor the shell may end of it; to ignore it would be inherited, so both catch it.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        script = f'trap : INT\n{editor} "$@"'
        code = subprocess.call(["/bin/sh", "-c", script, editor, path])
    finally:
        signal.signal(signal.SIGINT, before)
    if code:
        how = f"ended with code {code}" if code > 0 else f"was ended by signal {-code}"
        raise Failed(f"the editor {editor!r} {how}, so nothing was changed")


# ---- what has changed ---------------------------------------------------------------------------


def _difference(session: Session, old: Job, new: Job) -> str:
    """`: priority 0 -> 5, timeout none -> 2h`."""
    before, after = _described(session, old), _described(session, new)
    told = [
        f"{name} {before[name]} -> {after[name]}"
        for name in before
        if before[name] != after[name] or (name == "due" and old.run_at != new.run_at)
    ]
    if not told:
        return " is as it was"
    again = f"; `sloth retry {old.id}` puts it back" if old.ended else ""
    return ": " + ", ".join(told) + session.ours(again)


def _described(session: Session, job: Job) -> dict[str, str]:
    limit = job.timeout
    return {
        "command" if job.kind == "command" else "payload": job.name,
        "priority": str(job.priority),
        "due": since(job.run_at, session.now()),
        "retries": str(job.max_attempts - 1),
        "timeout": "none" if limit is None else spoken(round(limit * 1000)),
    }
