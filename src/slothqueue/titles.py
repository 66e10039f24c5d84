"""What people call a job: a command as one would type it, a call, a payload.

A title is there for whatever is in the row of a job: one that another program has spoilt must not
keep the others from being listed.
"""

from __future__ import annotations

import json
from typing import Any

from .codec import decode

SPOILT = (ValueError, RecursionError, LookupError, TypeError, AttributeError)
"""What comes of a payload that is no JSON, or not what we have written."""


def title(kind: str, name: str, payload: str) -> str:
    """By its kind, its task, and the text of its payload; that text itself if it says nothing."""
    try:
        if kind == "command":
            return command_line(decode(payload))
        return f"{name}({_arguments(decode(payload))})" if kind == "task" else payload
    except SPOILT:
        return f"{name} {payload}" if kind == "task" else payload


def command_line(payload: dict[str, Any]) -> str:
    """A command as one would type it: quoted, but for a text that is the shell's own."""
    words: list[str] = payload["argv"]
    if payload.get("shell"):
        return words[0]
    from shlex import join

    return join(words)


def _arguments(payload: dict[str, Any]) -> str:
    """The arguments of a call as one would write them."""
    named = payload["kwargs"].items()
    words = [json.dumps(value, ensure_ascii=False) for value in payload["args"]]
    words += [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in named]
    return ", ".join(words)
