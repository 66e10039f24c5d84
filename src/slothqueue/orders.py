"""What may be asked of a command beside what it is: checked, stored, and told to its shim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from .options import JobOptions
from .sizes import size

LEAST_OUTPUT = 4096
MOST_OUTPUT = 64_000_000
_KEEP = ("always", "failed", "never")
_ENDS = ("signal", "timeout")


class OwnOptions(TypedDict, total=False):
    """What only a command can be asked for."""

    clean_env: bool
    max_output: int | str | None
    separate: bool
    tty: bool
    stdin: bool
    retry_on: Sequence[int | str] | None
    nice: int
    keep_log: Literal["always", "failed", "never"]


class CommandOptions(JobOptions, OwnOptions, total=False):
    """What `enqueue_command` takes beside the command itself."""


OPTIONS = frozenset(OwnOptions.__annotations__)


def checked(environ: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given and are not as usual, as the payload has them.

    `environ` tells the size of the terminal. Raises ValueError, and TypeError for a name that is no
    option.
    """
    _yes_or_no(options, "clean_env")  # nothing of it is stored
    unknown = options.keys() - OPTIONS
    if unknown:
        raise TypeError(f"{min(unknown)!r} is no option of a command")
    told = {
        "max_output": _most(options.get("max_output", MOST_OUTPUT)),
        "separate": _yes_or_no(options, "separate"),
        "tty": _yes_or_no(options, "tty") and _terminal(environ),
        "stdin": _yes_or_no(options, "stdin"),
        "retry_on": _retry(options.get("retry_on")),
        "nice": _nice(options.get("nice", 0)),
        "keep_log": _keep(options.get("keep_log", "always")),
    }
    if told["separate"] and told["tty"]:
        raise ValueError("a terminal shows output and errors as one; leave out separate or tty")
    usual = {"max_output": MOST_OUTPUT, "retry_on": None, "nice": 0, "keep_log": "always"}
    return {name: value for name, value in told.items() if value != usual.get(name, False)}


def _yes_or_no(options: Mapping[str, Any], name: str) -> bool:
    value = options.get(name, False)
    if not isinstance(value, bool):
        raise ValueError(f"{name} is True or False, not {value!r}")
    return value


def _most(value: Any) -> int | None:
    if value is None:
        return None
    count = size(value, what="max_output")
    if count < LEAST_OUTPUT:
        raise ValueError(
            f"max_output must be at least {LEAST_OUTPUT} bytes, and is {value!r}; None keeps all"
        )
    return count


def _terminal(environ: Mapping[str, str]) -> list[int]:
    """Columns and lines of the submitter's terminal, if they are told."""
    sizes = (environ.get("COLUMNS", ""), environ.get("LINES", ""))
    usual = (80, 24)
    return [
        int(told) if told.isdecimal() and 0 < int(told) < 65536 else other
        for told, other in zip(sizes, usual)
    ]


def _retry(value: Any) -> list[int | str] | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValueError(f"retry_on is a list such as [75, 'signal'], not {value!r}")
    for one in value:
        is_code = isinstance(one, int) and not isinstance(one, bool) and 1 <= one <= 255
        if not is_code and one not in _ENDS:
            raise ValueError(
                f"retry_on has exit codes from 1 to 255, 'signal' and 'timeout', and not {one!r}"
            )
    return list(value)


def _nice(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 19:
        raise ValueError(f"nice must be a whole number from 0 to 19, and is {value!r}")
    return value


def _keep(value: Any) -> str:
    if value not in _KEEP:
        raise ValueError(f"keep_log is 'always', 'failed' or 'never', not {value!r}")
    return str(value)


def for_shim(payload: Mapping[str, Any]) -> str:
    """The options of a payload as a shim reads them. Raises ValueError."""
    told: dict[str, str] = {}
    if "max_output" in payload:
        most = _most(payload["max_output"])
        told["most"] = "-" if most is None else str(most)
    if payload.get("separate"):
        told["errors"] = ""
    if payload.get("tty"):
        told["terminal"] = "{:d} {:d}".format(*payload["tty"])
    if payload.get("stdin"):
        told["input"] = ""
    if nice := _nice(payload.get("nice", 0)):
        told["nice"] = str(nice)
    if (keep := _keep(payload.get("keep_log", "always"))) != "always":
        told["keep"] = keep
    if (retry := _retry(payload.get("retry_on"))) is not None:
        told["retry"] = " ".join(map(str, retry))
    return ";".join(f"{word} {value}".rstrip() for word, value in told.items())
