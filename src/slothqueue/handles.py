"""What users hold in their hands: a job, a lease. Both act through the feature that made them."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

from . import codec
from .errors import JobCancelled, JobFailed
from .models import BLOCKED, COMMAND, ENDED, HELD, KINDS, ON_INTERRUPT, STATES, TASK, Ending, Event
from .options import UNSET, bare_key, edit_of
from .storage.base import Claimed, Held, Row
from .timing import Duration, Moment, as_datetime, millis
from .titles import title

if TYPE_CHECKING:
    from .jobs import Jobs


class Job:
    """A frozen snapshot of one job; `refresh()` gives a newer one.

    Moments are aware datetimes in UTC. `priority`: higher starts sooner. `attempts` counts those
    that were spent, a running one included.
    """

    __slots__ = ("_existed", "_jobs", "_row")

    def __init__(self, row: Row, jobs: Jobs) -> None:
        self._row, self._jobs = row, jobs
        self._existed = False

    @property
    def id(self) -> int:
        return self._row[0]  # type: ignore[no-any-return]

    @property
    def queue(self) -> str:
        return self._row[1]  # type: ignore[no-any-return]

    @property
    def kind(self) -> str:
        """What it is made of: `payload`, `command` or `task`."""
        return KINDS[self._row[2]]

    @property
    def task(self) -> str | None:
        """The name of the task, for a call of one."""
        return self._row[3] or None

    @property
    def state(self) -> str:
        """queued, running, done, failed or cancelled."""
        return STATES[self._row[4]]

    @property
    def priority(self) -> int:
        return self._row[5]  # type: ignore[no-any-return]

    @property
    def run_at(self) -> dt.datetime:
        """The moment from which it may start, or might have."""
        return as_datetime(self._row[6])

    @property
    def created_at(self) -> dt.datetime:
        return as_datetime(self._row[7])

    @property
    def started_at(self) -> dt.datetime | None:
        """When its latest attempt was claimed."""
        return None if self._row[8] is None else as_datetime(self._row[8])

    @property
    def finished_at(self) -> dt.datetime | None:
        return None if self._row[9] is None else as_datetime(self._row[9])

    @property
    def attempts(self) -> int:
        return self._row[10]  # type: ignore[no-any-return]

    @property
    def max_attempts(self) -> int:
        """Its budget, or that of its queue."""
        own = self._row[11]
        return self._jobs.lanes.policy(self.queue).max_attempts if own is None else own

    @property
    def timeout(self) -> float | None:
        """Seconds of awake time that an attempt may take."""
        return None if self._row[12] is None else self._row[12] / 1000

    @property
    def worker(self) -> str | None:
        """Who runs it or ran it last, as host:pid."""
        return self._row[13]  # type: ignore[no-any-return]

    @property
    def payload(self) -> Any:
        """What was enqueued; of a command its argument list and place, of a task its arguments."""
        return codec.kept(self._row[14], f"the payload of job {self.id}")

    @property
    def error(self) -> str | None:
        """The error of the latest attempt that failed."""
        return self._row[16]  # type: ignore[no-any-return]

    @property
    def message(self) -> str | None:
        return self._row[17]  # type: ignore[no-any-return]

    @property
    def exit_code(self) -> int | None:
        """Of a command that has ended: its exit code, 128 + n for signal n, 124 for our timeout."""
        if self._row[2] != COMMAND or self._row[15] is None:
            return None
        return json.loads(self._row[15]).get("exit_code")  # type: ignore[no-any-return]

    @property
    def command(self) -> list[str] | None:
        """The argument list, for a command."""
        return self.payload["argv"] if self._row[2] == COMMAND else None

    @property
    def name(self) -> str:
        """A short name for people: the command line, the task, or the payload."""
        if self._row[2] == COMMAND:
            return title(self.kind, "", self._row[14])
        return str(self._row[3] if self._row[2] == TASK else self._row[14])

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def unique(self) -> str | None:
        """Its unique key, as it was given."""
        return bare_key(self._row[19])

    @property
    def existed(self) -> bool:
        """Whether `enqueue` found it by its key and wrote no other."""
        return self._existed

    @property
    def expires_at(self) -> dt.datetime | None:
        """After this no attempt of it starts."""
        return None if self._row[20] is None else as_datetime(self._row[20])

    @property
    def on_interrupt(self) -> str:
        """What happens when its process dies in the middle: `retry`, `hold` or `fail`."""
        return ON_INTERRUPT[self._row[21] or 0]

    @property
    def concurrency_key(self) -> tuple[str, int] | None:
        """Its key, and how many jobs of that key may run at once."""
        key = bare_key(self._row[22])
        return None if key is None else (key, self._row[23])

    @property
    def held(self) -> bool:
        """Whether somebody keeps it from running."""
        return bool(self._row[18] & HELD)

    @property
    def blocked(self) -> bool:
        """Whether it waits for other jobs to end."""
        return bool(self._row[18] & BLOCKED)

    @property
    def progress(self) -> tuple[float, str | None] | None:
        """What its function said last of how far it is: from 0 to 1, and a message; read now."""
        return self._jobs.progress_of(self.id)

    @property
    def parents(self) -> list[int]:
        """The ids of the jobs after which it runs; read now."""
        return self._jobs.parents(self.id)

    def refresh(self) -> Job:
        """The job as it is now. Raises JobNotFound if it was pruned."""
        return self._jobs.get(self.id)

    def result(self, timeout: Duration | None = None) -> Any:
        """What the job returned; waits for its end, for ever or for `timeout`.

        Of a task that this process knows, as the type that the task says it returns; otherwise the
        plain JSON. `None` is a result. Raises JobFailed with its last error, JobCancelled, or
        TimeoutError when it has not ended in time.
        """
        job = self._jobs.wait_for_end(self, timeout)
        if job.state == "failed":
            tries = "1 attempt" if job.attempts == 1 else f"{job.attempts} attempts"
            raise JobFailed(f"job {job.id} failed after {tries}: {job.error}")
        if job.state == "cancelled":
            raise JobCancelled(f"job {job.id} was cancelled: {job.message or 'on request'}")
        return None if job._row[15] is None else _result(job._row[2], job._row[3], job._row[15])

    def events(self) -> list[Event]:
        """Its whole history, oldest first."""
        return self._jobs.history(self.id)

    # ---- change ---------------------------------------------------------------------------------

    def cancel(self, reason: str | None = None, *, grace: Duration = 10) -> Job:
        """End it: a waiting job at once, a running one as soon as it can be made to.

        A running function is told (`current_job().stopping`) and ended after `grace`; a command
        gets SIGTERM at once and SIGKILL after `grace`. Nothing happens to a job that has ended, and
        to cancel twice is to cancel once. Its history says by whom. Raises JobNotFound.
        """
        said = None if reason is None else codec.bounded(str(reason))
        self._jobs.control.cancel(self.id, said, millis(grace, what="grace"))
        return self.refresh()

    def hold(self) -> Job:
        """Keep it from running until `unhold()`. Raises WrongState unless it is queued."""
        self._jobs.control.hold(self.id)
        return self.refresh()

    def unhold(self) -> Job:
        """Let it run again. Raises WrongState unless it is queued."""
        self._jobs.control.unhold(self.id)
        return self.refresh()

    def revive(self, *, children: bool = False) -> Job:
        """Put it back with a fresh budget, if it has failed or was cancelled; else WrongState.

        With `children` those jobs too that were cancelled because it had failed. One that has
        expired does not expire again.
        """
        self._jobs.control.revive(self.id, children=children)
        return self.refresh()

    def edit(
        self,
        *,
        payload: Any = UNSET,
        delay: Duration | None = None,
        run_at: Moment | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        timeout: Duration | None = UNSET,
    ) -> Job:
        """Change it before it runs (again). Raises WrongState if it runs or is done, ValueError for
        a payload that is no command, or no call, where it was one.

        One that has failed or was cancelled is due at once when it is put back: give it another
        moment after that.
        """
        clock, kind = self._jobs.store.clock, self._row[2]
        change, what = edit_of(kind, payload, delay, run_at, priority, max_attempts, timeout, clock)
        self._jobs.control.edit(self.id, change, what)
        return self.refresh()

    def send(self, text: str) -> None:
        """Write to the standard input of a running command that was added with `stdin=True`. Raises
        WrongState, also when its worker is gone: nobody else can."""
        self._jobs.control.send(self.id, "send", text)

    def send_eof(self) -> None:
        """Close the standard input of a running command."""
        self._jobs.control.send(self.id, "eof", None)

    def then(self, task: Any, /, *args: Any, **kwargs: Any) -> Job:
        """Enqueue this task to run once this job is done, with these arguments.

        `task.using(pass_results=True)` gets what this job returned as its first argument.
        """
        if not hasattr(task, "using"):
            raise TypeError(f"then() takes a task; enqueue {codec.short(task)} with after=[job]")
        after = [self, *(task.options.get("after") or ())]
        return task.using(after=after).enqueue(*args, **kwargs)  # type: ignore[no-any-return]

    def why(self) -> str:
        """In one sentence, why it does not run, and what would start it."""
        return self._jobs.why(self.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and self._row == other._row

    def __hash__(self) -> int:
        return hash(self._row)

    def __repr__(self) -> str:
        name = self.name[:60]
        return f"<Job {self.id} {self.state} in {self.queue!r}, attempt {self.attempts}: {name}>"


def _result(kind: int, task: str, text: str) -> Any:
    if kind != TASK:
        return codec.decode(text)
    from .typed import calls

    return calls.result(task, codec.decode(text))


class Lease:
    """The right to work on one job. What ends or extends it raises LeaseLost if it is lost."""

    __slots__ = ("_claimed", "_jobs", "queue")

    def __init__(self, claimed: Claimed, queue: str, jobs: Jobs) -> None:
        self._claimed, self.queue, self._jobs = claimed, queue, jobs

    @property
    def id(self) -> int:
        """Of the job."""
        return self._claimed.id

    @property
    def attempt(self) -> int:
        """1 for the first; a snooze or a release gives its number back."""
        return self._claimed.attempt

    @property
    def payload(self) -> Any:
        return codec.kept(self._claimed.payload, f"the payload of job {self.id}")

    @property
    def token(self) -> str:
        """Store, job and attempt: one name for this attempt everywhere, for idempotent effects."""
        return f"{self._jobs.store_id()}:{self._claimed.id}:{self._claimed.attempt}"

    @property
    def fence(self) -> int:
        """Grows at every claim of the job."""
        return self._claimed.fence

    @property
    def holder(self) -> int:
        """Who holds it: the number of this handle's present life."""
        return self._claimed.holder

    @property
    def job(self) -> Job:
        """A snapshot of the job, read now."""
        return self._jobs.get(self._claimed.id)

    @property
    def length(self) -> int | None:
        """How long it lasts from each heartbeat, in ms of awake time."""
        return self._claimed.lease

    @property
    def held(self) -> Held:
        return Held(*self._claimed[:7])

    @property
    def stopping(self) -> bool:
        """Whether somebody wants the job cancelled: come to an end soon, in any way. Read now."""
        return self._jobs.cancel_asked(self.id)

    def heartbeat(self) -> None:
        """Move the end of the lease out to its whole length from now."""
        self._jobs.heartbeat(self)

    def complete(self, result: Any = None, message: str | None = None) -> None:
        """The attempt succeeded: the job is done. `result` is JSON."""
        text = None if result is None else codec.encode(result, "result")
        said = None if message is None else codec.bounded(str(message))
        self._jobs.complete(self, text, said)

    def fail(self, error: str) -> None:
        """The attempt failed: again after the back-off, or for good if the budget is spent."""
        self._jobs.settle(self, Ending("fail", error=codec.bounded(str(error))))

    def retry(self, delay: Duration | None = None, error: str | None = None) -> None:
        """As fail(), with a delay of your own."""
        wait = None if delay is None else millis(delay, what="delay")
        self._jobs.settle(
            self,
            Ending("retry", error=None if error is None else codec.bounded(str(error)), delay=wait),
        )

    def discard(self, error: str) -> None:
        """The job fails for good, whatever is left of its budget."""
        self._jobs.settle(self, Ending("discard", error=codec.bounded(str(error))))

    def snooze(self, delay: Duration) -> None:
        """Give it back for later. Spends no attempt."""
        self._jobs.settle(self, Ending("snooze", delay=millis(delay, what="delay")))

    def release(self) -> None:
        """Give it back unrun; it is due again at once. Spends no attempt."""
        self._jobs.settle(self, Ending("release"))

    def __repr__(self) -> str:
        return f"<Lease on job {self.id} in {self.queue!r}, attempt {self.attempt}>"
