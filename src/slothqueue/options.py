"""What can be asked for a job: checked, and turned into what is written."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict

from . import codec
from .clock import Clock, Millis
from .errors import JobNotFound
from .models import AFTER_FAILED, COMMAND, KINDS, ON_INTERRUPT, TASK, Extra, NewJob
from .storage.base import Edit
from .timing import Duration, Moment, as_datetime, millis, moment, some_millis

MOST_ATTEMPTS = 1_000_000
MOST_PRIORITY = 1_000_000
LONGEST_KEY = 1_000
ON_CONFLICT = ("return", "replace", "error")


class JobOptions(TypedDict, total=False):
    """What `enqueue` and its kin take beside the work itself.

    `delay` is from now, `run_at` a moment; give one. `priority`: higher starts sooner.
    `max_attempts` and `timeout` (awake time of one attempt) limit the attempts. `unique` is a key
    that one live job of the queue may have; of a task True makes it of the arguments, and a
    function may make it of them. `on_conflict` says what a second one does: `return` that job,
    `replace` it unless it runs, or `error`. `after` are jobs (or their ids) that must be done
    first; `after_failed` says what happens when one of them ends otherwise: `cancel` or `run`.
    After `expires`, a duration or a moment, no attempt starts. `concurrency_key` is text, or text
    and how many jobs of it may run at once (1). `on_interrupt`: `retry`, `hold` or `fail` when the
    process dies in the middle. `hold` keeps the job until somebody lets it go.
    """

    delay: Duration | None
    run_at: Moment | None
    priority: int
    max_attempts: int | None
    timeout: Duration | None
    unique: str | bool | Callable[..., str] | None
    on_conflict: str
    after: Any
    after_failed: str
    expires: Duration | Moment | None
    concurrency_key: str | tuple[str, int] | None
    on_interrupt: str
    hold: bool


UNSET: Any = object()
NAMES = frozenset(JobOptions.__annotations__)


def new_job(
    lane: int,
    queue: str,
    text: str,
    now: Millis,
    base: Millis,
    options: Mapping[str, Any],
    *,
    who: str = "",
    takes: bool = False,
    env: str | None = None,
) -> NewJob:
    """A job as it will be written. Raises ValueError for what makes no sense, TypeError for names
    that are none of `JobOptions`."""
    if not options and not takes:
        return NewJob(lane, 0, now, False, None, None, text, None, env, None)
    if unknown := options.keys() - NAMES:
        raise TypeError(
            f"there is no option {sorted(unknown)[0]!r}; there are {', '.join(sorted(NAMES))}"
        )
    ask = options.get
    delay, run_at = ask("delay"), ask("run_at")
    due, relative = now, False
    if delay is not None or run_at is not None:
        due, relative = _due(now, delay, run_at)
    priority = ask("priority", 0)
    check_count(priority, "priority", -MOST_PRIORITY, MOST_PRIORITY)
    attempts, timeout = ask("max_attempts"), ask("timeout")
    if attempts is not None:
        check_count(attempts, "max_attempts", 1, MOST_ATTEMPTS)
    limit = None if timeout is None else some_millis(timeout, what="timeout")
    _one_of(ask("on_conflict", "return"), "on_conflict", ON_CONFLICT)
    key, extra = ask("unique"), _extra(queue, now, base, options, who, takes)
    return NewJob(
        lane,
        -priority,
        due,
        relative,
        attempts,
        limit,
        text,
        None if key is None else _key(queue, key, "unique"),
        env,
        None if extra == Extra() else extra,
    )


def _extra(
    queue: str, now: Millis, base: Millis, options: Mapping[str, Any], who: str, takes: bool
) -> Extra:
    ask = options.get
    gate, gate_limit = _gate(queue, ask("concurrency_key"))
    expires, since = _expires(ask("expires"), now, base)
    on_interrupt = _one_of(ask("on_interrupt", "retry"), "on_interrupt", ON_INTERRUPT)
    after_failed = _one_of(ask("after_failed", "cancel"), "after_failed", AFTER_FAILED)
    held = who if _flag(ask("hold"), "hold") else None
    after = parents(ask("after"))
    return Extra(
        expires, since, on_interrupt, after_failed, int(takes), gate, gate_limit, held, after
    )


def _due(now: Millis, delay: Duration | None, run_at: Moment | None) -> tuple[Millis, bool]:
    if delay is None:
        return moment(run_at), False  # type: ignore[arg-type]
    if run_at is not None:
        raise ValueError("give delay or run_at, not both")
    return now + millis(delay, what="delay"), True


def _expires(asked: Any, now: Millis, base: Millis) -> tuple[Millis | None, Millis | None]:
    """When it expires, and, for a duration, under which clock that was said."""
    if asked is None:
        return None, None
    if _is_date(asked):
        return moment(asked, what="expires"), None
    try:
        return now + millis(asked, what="expires"), base
    except ValueError as error:
        raise ValueError(f"{error}, or as a moment: '2030-01-31T08:00:00+01:00'") from None


def _is_date(asked: Any) -> bool:
    if isinstance(asked, str):
        return asked.strip()[4:5] == "-" or "T" in asked
    return isinstance(asked, dt.datetime)


def _gate(queue: str, asked: Any) -> tuple[str | None, int | None]:
    if asked is None:
        return None, None
    key, most = (asked, 1) if isinstance(asked, str) else _pair(asked)
    check_count(most, "the number of concurrency_key", 1, MOST_ATTEMPTS)
    return _key(queue, key, "concurrency_key"), most


def _pair(asked: Any) -> tuple[Any, Any]:
    if isinstance(asked, (tuple, list)) and len(asked) == 2:
        return asked[0], asked[1]
    raise ValueError(f"concurrency_key is text, or text and a number, not {asked!r}")


def _key(queue: str, key: Any, what: str) -> str:
    """Keys count within their queue, whose name has no line ends."""
    if not isinstance(key, str) or not key or len(key) > LONGEST_KEY:
        raise ValueError(f"{what} must be text of 1 to {LONGEST_KEY} characters, not {key!r}")
    try:
        key.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} {key!r} has no UTF-8 form") from None
    return f"{queue}\n{key}"


def bare_key(key: str | None) -> str | None:
    """The key as its user wrote it."""
    return None if key is None else key.partition("\n")[2]


def parents(after: Any, what: str = "after") -> tuple[int, ...]:
    """The ids of these jobs: one or many, as jobs or as ids. Raises ValueError, JobNotFound."""
    if after is None:
        return ()
    return tuple(_id(getattr(one, "id", one), what) for one in _each(after))


def _id(id: Any, what: str) -> int:
    if isinstance(id, bool) or not isinstance(id, int):
        raise ValueError(f"{what} takes jobs or their ids, not {id!r}")
    if not 0 < id < 1 << 63:
        raise JobNotFound.of(id)
    return id


def _each(after: Any) -> Iterable[Any]:
    jobs = getattr(after, "jobs", None)
    if jobs is not None:  # a group
        return list(jobs)
    one = hasattr(after, "id") or isinstance(after, (str, bytes))
    return [after] if one or not isinstance(after, Iterable) else after


def check_count(value: Any, what: str, least: int, most: int) -> int:
    """A whole number within these bounds. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{what} must be a whole number from {least} to {most}, and is {value!r}")
    return value


def _flag(value: Any, what: str) -> bool:
    """Raises ValueError for what is true or false by accident."""
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{what} is True or False, not {value!r}")
    return bool(value)


def _one_of(value: Any, what: str, words: Sequence[str]) -> int:
    """The place of the word. Raises ValueError."""
    if value not in words:
        raise ValueError(f"{what} is one of {', '.join(words)}, not {value!r}")
    return words.index(value)


# ---- change -------------------------------------------------------------------------------------


def edit_of(
    kind: int,
    payload: Any,
    delay: Duration | None,
    run_at: Moment | None,
    priority: int | None,
    max_attempts: int | None,
    timeout: Duration | None,
    clock: Clock,
) -> tuple[Callable[[Edit], Edit], str]:
    """What turns a job into the one that is asked for, and the words for it. Raises ValueError."""
    now, base = clock.wall(), clock.wall() - clock.elapsed()
    new: dict[str, Any] = {}
    told: list[str] = []
    if payload is not UNSET:
        _check_payload(kind, payload)
        new["payload"] = codec.encode(payload)
        told.append("payload")
    if delay is not None or run_at is not None:
        due, relative = _due(now, delay, run_at)
        new |= {"due": due, "base": base if relative else None, "asked": now}
        told.append(f"run_at {as_datetime(due).isoformat(timespec='seconds')}")
    if priority is not None:
        new["priority"] = -check_count(priority, "priority", -MOST_PRIORITY, MOST_PRIORITY)
        told.append(f"priority {priority}")
    if max_attempts is not None:
        new["max_attempts"] = check_count(max_attempts, "max_attempts", 1, MOST_ATTEMPTS)
        told.append(f"max_attempts {max_attempts}")
    if timeout is not UNSET:
        new["timeout"] = None if timeout is None else some_millis(timeout, what="timeout")
        told.append(f"timeout {timeout}")
    return lambda old: old._replace(**new), ", ".join(told)


_SHAPES: dict[int, tuple[dict[str, type], str]] = {
    COMMAND: ({"argv": list, "cwd": str}, "{**job.payload, 'argv': ['ls', '-l']}"),
    TASK: ({"args": list, "kwargs": dict}, "{'args': [1, 2], 'kwargs': {}}"),
}


def _check_payload(kind: int, payload: Any) -> None:
    """Raises ValueError for what is no command, or no call: it could be neither run nor shown."""
    shape, example = _SHAPES.get(kind, ({}, ""))
    fits = not shape or (
        isinstance(payload, dict)
        and all(isinstance(payload.get(name), type) for name, type in shape.items())
    )
    words = payload["argv"] if fits and kind == COMMAND else ["-"]
    if not fits or not words or not all(isinstance(word, str) for word in words):
        raise ValueError(
            f"the payload of a {KINDS[kind]} is such as {example}, not {codec.short(payload)}"
        )


# ---- queues -------------------------------------------------------------------------------------


def policy_change(options: Mapping[str, Any]) -> dict[str, Any]:
    """The queue options that were given, checked and in the store's own terms."""
    change: dict[str, Any] = {}
    if "lease" in options:
        change["lease"] = lease_length(options["lease"])
    if options.get("max_attempts") is not None:
        count = check_count(options["max_attempts"], "max_attempts", 1, MOST_ATTEMPTS)
        change["max_attempts"] = count
    if options.get("backoff") is not None:
        change["base"], change["cap"] = _backoff(options["backoff"])
    if "concurrency" in options:
        most = options["concurrency"]
        change["concurrency"] = most and check_count(most, "concurrency", 1, MOST_ATTEMPTS)
        if most is not None and not most:
            raise ValueError("concurrency must be at least 1; pause() keeps a queue from running")
    if "rate" in options:
        change["rate"], change["per"] = _rate(options["rate"])
    for name in ("ageing", "keep"):
        if name in options:
            asked = options[name]
            change[name] = None if asked is None else some_millis(asked, what=name)
    return change


def _rate(asked: Any) -> tuple[int | None, Millis | None]:
    """`(10, "1m")` or `"10/1m"`: so many starts in any such time."""
    if asked is None:
        return None, None
    parts = asked.split("/") if isinstance(asked, str) else asked
    if not isinstance(parts, (tuple, list)) or len(parts) != 2:
        raise ValueError(f"rate is so many starts in a time, such as '10/1m', not {asked!r}")
    starts, per = parts
    if isinstance(starts, str) and starts.strip().isdecimal():
        starts = int(starts)
    if isinstance(per, str) and per.strip() in ("s", "m", "h", "d"):
        per = "1" + per.strip()
    return check_count(starts, "the starts of rate", 1, 100_000), some_millis(
        per, what="the time of rate"
    )


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
