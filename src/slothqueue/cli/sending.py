"""`sloth send`: writes to the standard input of a running command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import WrongState
from .many import attempt
from .parsing import Parser, Usage, job_id
from .session import Session

if TYPE_CHECKING:
    from ..handles import Job


def send_options(parser: Parser) -> None:
    parser.option("id", metavar="ID", type=job_id, help="the job, as `sloth add` printed it")
    parser.option("text", metavar="TEXT", nargs="?", help="what to write, and a line end")
    parser.flag("--no-newline", help="write no line end behind it")
    parser.flag("--eof", help="then close its input")
    parser.describe(
        "ID [TEXT] [--no-newline] [--eof]",
        "Writes to the input of a command that runs and was added with an input. Its\n"
        "worker passes it on at once. What begins with a dash goes behind --.",
        """
sloth send 5 yes
sloth send 5 'the last line' --eof
sloth send 5 --no-newline -- -1
""",
    )


def send_command(session: Session, options: Any) -> int:
    if options.text is None and not options.eof:
        raise Usage("there is nothing to send; give a text, or --eof to close the input")
    if options.text is None and options.no_newline:
        raise Usage("--no-newline goes with a text")

    def send(job: Job) -> tuple[Job, str]:
        _refuse_if_deaf(job)
        if options.text is not None:
            job.send(options.text + ("" if options.no_newline else "\n"))
        if options.eof:
            job.send_eof()
        return job, f"job {job.id}: {_said(options)}"

    return attempt(session, lambda: session.job(options.id), send)


def _said(options: Any) -> str:
    if options.text is None:
        return "its input was closed"
    return "sent, and its input closed" if options.eof else "sent"


def _refuse_if_deaf(job: Job) -> None:
    """Raises WrongState for a job that has no input."""
    if job.kind != "command":
        raise WrongState(f"job {job.id} is no command, so it has no input to write to")
    if not job.payload.get("stdin"):
        raise WrongState(f"job {job.id} was added without an input, so it would never read that")
