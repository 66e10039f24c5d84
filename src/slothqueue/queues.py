"""A queue as its users see it: options that are stored, jobs by hand, commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from . import codec
from .clock import Millis
from .context import refuse_while_loading
from .handles import Job, Lease
from .jobs import Jobs
from .liveness import whoever
from .models import COMMAND, PAYLOAD, NewJob, Policy
from .options import JobOptions, check_count, new_job
from .settling import base
from .timing import Duration

if TYPE_CHECKING:
    from .orders import CommandOptions

Names = tuple[str, int, str]


def enqueue(
    jobs: Jobs,
    names: Names,
    text: str,
    options: Mapping[str, Any],
    *,
    env: str | None = None,
    takes: bool = False,
) -> Job:
    """Check the options and write the job. Raises ValueError for options that make no sense."""
    now = jobs.store.clock.wall()
    if not options and env is None and not takes:  # as most are
        job = NewJob(jobs.lanes.id(*names), 0, now, False, None, None, text)
        return jobs.add(job, names, now)
    job = make(jobs, names, text, now, options, env=env, takes=takes)
    return jobs.add(job, names, now, options.get("on_conflict", "return"))


def enqueue_many(
    jobs: Jobs,
    names: Names,
    texts: Sequence[str],
    options: Mapping[str, Any],
    *,
    env: str | None = None,
    takes: bool = False,
) -> list[Job]:
    """The same for many, in one transaction with one wake-up, or none."""
    if options.get("unique") is not None:
        raise ValueError("unique is the key of one job: enqueue them one by one")
    if not texts:
        return []
    now = jobs.store.clock.wall()
    first = make(jobs, names, texts[0], now, options, env=env, takes=takes)
    return jobs.add_many(first, texts, names, now)


def make(
    jobs: Jobs,
    names: Names,
    text: str,
    now: Millis,
    options: Mapping[str, Any],
    *,
    env: str | None = None,
    takes: bool = False,
) -> NewJob:
    """A job as it will be written."""
    lane = jobs.lanes.id(*names)
    who = whoever() if options.get("hold") else ""
    since = base(jobs.store.clock)
    return new_job(lane, names[0], text, now, since, options, who=who, takes=takes, env=env)


def check_name(name: Any, what: str = "a queue's name") -> str:
    """A name that people can type and read. Raises ValueError."""
    if not isinstance(name, str) or not name.strip() or len(name) > 200 or not name.isprintable():
        raise ValueError(f"{what} must be printable text of 1 to 200 characters, not {name!r}")
    return name


class Queue:
    """One queue of a store. Made by `sloth.queue(name)`; costs nothing until it is used."""

    def __init__(self, name: str, jobs: Jobs) -> None:
        self.name, self._jobs = name, jobs
        self._names: Names = (name, PAYLOAD, "")

    def enqueue(self, payload: Any, **options: Unpack[JobOptions]) -> Job:
        """Write one job for a hand-written worker; when this returns, it survives `kill -9`.

        `payload` is JSON; the options are those of `JobOptions`: `delay`, `run_at`, `priority`,
        `max_attempts`, `unique`, `on_conflict`, `after`, `after_failed`, `expires`,
        `concurrency_key`, `on_interrupt`, `hold`. Raises NotSerializable, ValueError, JobNotFound
        for a parent, WrongState for a key that is taken, StoreUnavailable.
        """
        refuse_while_loading()
        return enqueue(self._jobs, self._names, codec.encode(payload), options)

    def enqueue_many(self, payloads: Sequence[Any], **options: Unpack[JobOptions]) -> list[Job]:
        """Write them all in one transaction, with one wake-up; or none of them."""
        refuse_while_loading()
        encode = codec.encode
        texts = [encode(payload, f"payloads[{i}]") for i, payload in enumerate(payloads)]
        return enqueue_many(self._jobs, self._names, texts, options)

    def enqueue_command(
        self,
        argv: Sequence[str] | str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        shell: bool = False,
        **options: Unpack[CommandOptions],
    ) -> Job:
        """Write a command: a list of arguments, or one text for `/bin/sh` with `shell=True`.

        It runs in `cwd` (now this process's directory unless given), with this process's
        environment but for what looks secret or belongs to this process alone, and with the
        variables of `env` on top; with `clean_env=True` only with PATH, HOME and a few more of
        ours. `timeout` is awake time; then the whole tree of processes is ended.

        Of its output `max_output` is kept (64 MB; bytes or text such as "1GB"; None for all), head
        and tail. `separate=True` keeps errors in a file of their own, `tty=True` gives it a
        terminal, `stdin=True` an input that can be sent to. `retry_on` lists the exit codes (and
        "signal", "timeout") after which it may be tried again, [] for none. `nice` is from 0 to 19.
        `keep_log` is "always", "failed" (when it has failed) or "never". Raises ValueError.
        """
        import os

        from . import commands

        refuse_while_loading()
        own, rest = commands.parted(options)
        text = codec.encode(commands.payload_of(argv, os.environ, cwd=cwd, shell=shell, **own))
        variables = commands.environment_text(os.environ, env, own.get("clean_env", False))
        return enqueue(self._jobs, (self.name, COMMAND, ""), text, rest, env=variables)

    def enqueue_commands(
        self,
        commands: Sequence[Sequence[str] | str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        shell: bool = False,
        **options: Unpack[CommandOptions],
    ) -> list[Job]:
        """Write many commands that are asked for alike, in one transaction with one wake-up; or
        none of them. As `enqueue_command`."""
        import os

        from .commands import environment_text, parted, payload_of

        refuse_while_loading()
        own, rest = parted(options)
        each = (payload_of(argv, os.environ, cwd=cwd, shell=shell, **own) for argv in commands)
        texts = [codec.encode(payload) for payload in each]
        variables = environment_text(os.environ, env, own.get("clean_env", False))
        return enqueue_many(self._jobs, (self.name, COMMAND, ""), texts, rest, env=variables)

    def claim(self) -> Lease | None:
        """Take the first due job, None if there is none; never waits."""
        refuse_while_loading()
        leases = self._jobs.claim(self.name)
        return leases[0] if leases else None

    def claim_many(self, limit: int) -> list[Lease]:
        """Take up to `limit` due jobs, in start order; never waits."""
        refuse_while_loading()
        check_count(limit, "limit", 1, 100_000)
        return self._jobs.claim(self.name, limit)

    def wait(self, timeout: Duration | None = None) -> Lease:
        """Take the first due job, waiting for it. Raises TimeoutError when `timeout` runs out."""
        refuse_while_loading()
        return self._jobs.wait(self.name, timeout)

    def __iter__(self) -> Iterator[Lease]:
        """Jobs as they become due, for ever; sleeps between."""
        while True:
            yield self.wait()

    def complete_many(self, leases: Sequence[Lease]) -> list[Lease]:
        """Complete many in one transaction; returns those that were still held."""
        return self._jobs.complete_many(leases)

    def stats(self) -> dict[str, int]:
        """How many jobs are in each state, and of the queued ones how many are `scheduled` (for
        later), `blocked` (by others) or `held`."""
        return self._jobs.counts(self.name)

    def dead_letters(self, *, limit: int = 50) -> list[Job]:
        """Jobs that failed for good, the latest first."""
        return self._jobs.find(self.name, "failed", limit)

    @property
    def options(self) -> Policy:
        """What the store says of this queue; times in ms."""
        return self._jobs.lanes.policy(self.name)

    # ---- pause ----------------------------------------------------------------------------------

    def pause(self) -> None:
        """Start none of its jobs any more, until `resume()`; what runs goes on.

        It stays so across restarts.
        """
        self._jobs.control.pause(self.name, paused=True)

    def resume(self) -> None:
        """Let its jobs start again."""
        self._jobs.control.pause(self.name, paused=False)

    @property
    def paused(self) -> bool:
        """Whether it is paused; read now."""
        return self._jobs.control.paused(self.name) is not None

    def drain(self, timeout: Duration | None = None) -> None:
        """Pause it and wait until none of its jobs runs any more. Raises TimeoutError."""
        self._jobs.patience.refuse_inside("wait for a queue")  # before it is paused
        self.pause()
        self._jobs.wait_for_quiet(self.name, timeout)

    def __repr__(self) -> str:
        return f"<Queue {self.name!r}>"
