"""A queue as its users see it: options that are stored, jobs by hand, commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict

from . import codec
from .clock import Millis
from .context import refuse_while_loading
from .handles import Job, Lease
from .jobs import Jobs
from .models import COMMAND, PAYLOAD, NewJob, Policy
from .timing import Duration, Moment, millis, moment, some_millis

Names = tuple[str, int, str]
MOST_ATTEMPTS = 1_000_000


class QueueOptions(TypedDict, total=False):
    max_attempts: int | None
    timeout: float | None


def enqueue(
    jobs: Jobs,
    names: Names,
    text: str,
    *,
    delay: Duration | None = None,
    run_at: Moment | None = None,
    priority: int = 0,
    max_attempts: int | None = None,
    timeout: Duration | None = None,
) -> Job:
    """Check the options and write the job. Raises ValueError for options that make no sense."""
    now = jobs.store.clock.wall()
    lane = jobs.lanes.id(*names)
    job = new_job(lane, text, now, delay, run_at, priority, max_attempts, timeout)
    return jobs.add(job, names, now)


def enqueue_many(
    jobs: Jobs,
    names: Names,
    texts: Sequence[str],
    *,
    delay: Duration | None = None,
    run_at: Moment | None = None,
    priority: int = 0,
    max_attempts: int | None = None,
    timeout: Duration | None = None,
) -> list[Job]:
    """Check the options and write a job for each text, in one transaction with one wake-up."""
    if not texts:
        return []
    now = jobs.store.clock.wall()
    lane = jobs.lanes.id(*names)
    first = new_job(lane, texts[0], now, delay, run_at, priority, max_attempts, timeout)
    return jobs.add_many(first, texts, names, now)


def new_job(
    lane: int,
    text: str,
    now: Millis,
    delay: Duration | None,
    run_at: Moment | None,
    priority: int,
    max_attempts: int | None,
    timeout: Duration | None,
) -> NewJob:
    """A job as it will be written."""
    due, relative = now, False
    if delay is not None or run_at is not None:
        due, relative = _due(now, delay, run_at)
    if priority != 0:
        _check_count(priority, "priority", -1_000_000, 1_000_000)
    if max_attempts is not None:
        _check_count(max_attempts, "max_attempts", 1, MOST_ATTEMPTS)
    limit = None if timeout is None else some_millis(timeout, what="timeout")
    return NewJob(lane, -priority, due, relative, max_attempts, limit, text)


def _due(now: Millis, delay: Duration | None, run_at: Moment | None) -> tuple[Millis, bool]:
    if delay is None:
        return moment(run_at), False  # type: ignore[arg-type]
    if run_at is not None:
        raise ValueError("give delay or run_at, not both")
    return now + millis(delay, what="delay"), True


def _check_count(value: Any, what: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{what} must be a whole number from {least} to {most}, and is {value!r}")
    return value


def policy_change(options: Mapping[str, Any]) -> dict[str, Any]:
    """The queue options that were given, checked and in the store's own terms."""
    change: dict[str, Any] = {}
    if "lease" in options:
        change["lease"] = lease_length(options["lease"])
    if options.get("max_attempts") is not None:
        count = _check_count(options["max_attempts"], "max_attempts", 1, MOST_ATTEMPTS)
        change["max_attempts"] = count
    if options.get("backoff") is not None:
        change["base"], change["cap"] = _backoff(options["backoff"])
    return change


def lease_length(value: Duration | None) -> Millis | None:
    """How long a lease lasts without a heartbeat; None if it is not limited."""
    if value is None:
        return None
    return some_millis(value, what="lease")


def _backoff(value: Any) -> tuple[float, Millis]:
    """`(2, "1h")`, or 2 with the usual cap of an hour."""
    base, cap = value if isinstance(value, (tuple, list)) and len(value) == 2 else (value, "1h")
    if isinstance(base, bool) or not isinstance(base, (int, float)) or not 0 <= base <= 1_000_000:
        raise ValueError(f"backoff is (base, longest wait) such as (2, '1h'), not {value!r}")
    return float(base), millis(cap, what="the longest wait of backoff")


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

    def enqueue(
        self,
        payload: Any,
        *,
        delay: Duration | None = None,
        run_at: Moment | None = None,
        priority: int = 0,
        max_attempts: int | None = None,
    ) -> Job:
        """Write one job for a hand-written worker; when this returns, it survives `kill -9`.

        `payload` is JSON. `delay` is from now, `run_at` a moment; `priority`: higher starts sooner.
        Raises NotSerializable, ValueError, StoreUnavailable.
        """
        refuse_while_loading()
        return enqueue(
            self._jobs,
            self._names,
            codec.encode(payload),
            delay=delay,
            run_at=run_at,
            priority=priority,
            max_attempts=max_attempts,
        )

    def enqueue_many(
        self,
        payloads: Sequence[Any],
        *,
        delay: Duration | None = None,
        run_at: Moment | None = None,
        priority: int = 0,
        max_attempts: int | None = None,
    ) -> list[Job]:
        """Write them all in one transaction, with one wake-up; or none of them."""
        refuse_while_loading()
        encode = codec.encode
        texts = [encode(payload, f"payloads[{i}]") for i, payload in enumerate(payloads)]
        return enqueue_many(
            self._jobs,
            self._names,
            texts,
            delay=delay,
            run_at=run_at,
            priority=priority,
            max_attempts=max_attempts,
        )

    def enqueue_command(
        self,
        argv: Sequence[str] | str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        shell: bool = False,
        timeout: Duration | None = None,
        delay: Duration | None = None,
        run_at: Moment | None = None,
        priority: int = 0,
        max_attempts: int | None = None,
    ) -> Job:
        """Write a command: a list of arguments, or one text for `/bin/sh` with `shell=True`.

        It runs in `cwd` (now this process's directory unless given), with the variables of `env` on
        top of its worker's. `timeout` is awake time; then the whole tree of processes is ended.
        """
        import os

        from . import commands

        refuse_while_loading()
        payload = {
            "argv": commands.check_argv(argv, shell),
            "cwd": os.path.abspath(commands.check_cwd(cwd) or os.getcwd()),
            "env": commands.check_env(env),
            "shell": shell,
        }
        return enqueue(
            self._jobs,
            (self.name, COMMAND, ""),
            codec.encode({key: value for key, value in payload.items() if value}),
            delay=delay,
            run_at=run_at,
            priority=priority,
            max_attempts=max_attempts,
            timeout=timeout,
        )

    def claim(self) -> Lease | None:
        """Take the first due job, None if there is none; never waits."""
        refuse_while_loading()
        leases = self._jobs.claim(self.name)
        return leases[0] if leases else None

    def claim_many(self, limit: int) -> list[Lease]:
        """Take up to `limit` due jobs, in start order; never waits."""
        refuse_while_loading()
        _check_count(limit, "limit", 1, 100_000)
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
        """How many jobs are queued, scheduled (those of queued that wait), running, done, ..."""
        return self._jobs.counts(self.name)

    def dead_letters(self, *, limit: int = 50) -> list[Job]:
        """Jobs that failed for good, the latest first."""
        return self._jobs.find(self.name, "failed", limit)

    @property
    def options(self) -> Policy:
        """What the store says of this queue: max_attempts, base, cap (ms), lease (ms)."""
        return self._jobs.lanes.policy(self.name)

    def __repr__(self) -> str:
        return f"<Queue {self.name!r}>"
