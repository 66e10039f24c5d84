"""What was asked of a command, as `sloth show` tells it: its options, and its environment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..orders import MOST_OUTPUT
from ..sizes import spoken_size
from .parsing import Usage
from .screen import safe
from .session import Session

if TYPE_CHECKING:
    from ..handles import Job

WORDS = {"signal": "a signal", "timeout": "its time limit"}


def order_facts(payload: dict[str, Any]) -> dict[str, Any]:
    """All options of a command, flat; those that were not asked for as they are then."""
    return {
        "max_output": payload.get("max_output", MOST_OUTPUT),
        "separate": bool(payload.get("separate")),
        "tty": bool(payload.get("tty")),
        "stdin": bool(payload.get("stdin")),
        "retry_on": payload.get("retry_on"),
        "nice": payload.get("nice", 0),
        "keep_log": payload.get("keep_log", "always"),
    }


def order_fields(payload: dict[str, Any]) -> list[tuple[str, str]]:
    """The options that are not as usual, for people."""
    size = payload.get("tty")
    return [
        ("output", ", ".join(_output(payload))),
        ("terminal", f"{size[0]} columns, {size[1]} lines" if size else ""),
        ("input", "open: `sloth send` writes to it" if payload.get("stdin") else ""),
        ("retried", _retried(payload.get("retry_on"))),
        ("nice", str(payload.get("nice", ""))),
    ]


def _output(payload: dict[str, Any]) -> list[str]:
    kept = {"failed": "kept if it failed", "never": "not kept"}.get(payload.get("keep_log", ""), "")
    most = payload.get("max_output", MOST_OUTPUT)
    limit = "of any size" if most is None else f"at most {spoken_size(most)}"
    words = [
        kept,
        "" if most == MOST_OUTPUT else limit,
        "errors apart" if payload.get("separate") else "",
    ]
    return [word for word in words if word]


def _retried(ends: list[int | str] | None) -> str:
    if ends is None:
        return ""
    codes = ", ".join(str(end) for end in ends if isinstance(end, int))
    words = [f"exit code {codes}"] if codes else []
    words += [WORDS[end] for end in ends if isinstance(end, str)]
    if not words:
        return "never when it fails"
    *some, last = words
    return f"only after {', '.join(some)} or {last}" if some else f"only after {last}"


# ---- environment --------------------------------------------------------------------------------


def tell_environment(session: Session, job: Job) -> int:
    """Write the variables that were kept for a command. Raises Usage if there are none."""
    if job.kind != "command":
        raise Usage(f"job {job.id} is no command, so no environment is kept for it")
    store = session.store().store
    text = store.read(lambda tx: store.waits.environment_of(tx, job.id))
    if text is None:
        session.note(f"no environment is kept for job {job.id}: it gets that of its worker")
    env: dict[str, str] = json.loads(text or "{}")
    if session.json:
        session.tell({"job": job.id, "env": None if text is None else env})
    else:
        session.say(*(safe(f"{name}={value}") for name, value in sorted(env.items())))
    return 0
