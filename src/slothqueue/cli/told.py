"""What is said of the attempts of a job under watch, and of its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .facts import reason
from .screen import one_line, since
from .session import Session

if TYPE_CHECKING:
    from ..handles import Job


class Told:
    """What was said about the attempts of a job so far."""

    def __init__(self, session: Session) -> None:
        self._session, self._failed = session, 0

    def look(self, job: Job) -> None:
        """Say that an attempt has failed and when the next one comes."""
        if job.state != "queued" or job.attempts <= self._failed:
            return
        self._failed = job.attempts
        again = since(job.run_at, self._session.now())
        self._session.note(
            f"attempt {job.attempts} of {job.max_attempts} failed: {_first(job.error)}; "
            f"again {again}"
        )

    def end(self, job: Job) -> None:
        """Say how the job has ended."""
        tries = f" after {job.attempts} attempts" if job.attempts > 1 else ""
        self._session.note(f"job {job.id} {job.state}{tries}: {_first(reason(job))}")


def are_apart(job: Job) -> bool:
    """Whether it keeps its errors apart from its output."""
    return job.kind == "command" and bool(job.payload.get("separate"))


def silence(job: Job) -> str:
    """A sentence for a job without output: why there is none, or how it ended all the same."""
    if job.kind != "command":
        return (
            f"job {job.id} is no command; what its code prints goes where its worker's output goes"
        )
    if job.attempts == 0:
        return f"job {job.id} has not started yet"
    if job.state == "running":
        return f"job {job.id} has written nothing yet"
    if (keep := job.payload.get("keep_log")) == "never" or (keep and job.state == "done"):
        return f"the output of job {job.id} was not to be kept; it is {job.state}"
    how = "its latest attempt failed" if job.state == "queued" else job.state
    return f"job {job.id} wrote nothing; {how}: {_first(reason(job))}"


def _first(text: str | None) -> str:
    return one_line((text or "no reason given").partition("\n")[0])
