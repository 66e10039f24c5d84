"""Writes docs/reference/api.md from the code. From the root: `python -m docs.make_reference`.

Signatures are those of the reviewed surface (`tests/house/surface.py`), texts are the docstrings.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import slothqueue
from tests.house import surface

STORED = Path(__file__).with_name("reference") / "api.md"

CALLABLE = ("Sloth", "Retry", "Snooze", "Discard", "ManualClock")
"""Classes that users make themselves; the others are handed out."""

ORDER = (
    *("Sloth", "Queue", "JobOptions", "Job", "Lease", "Event", "Group", "Transaction"),
    *("Task", "current_job", "CurrentJob", "Retry", "Snooze", "Discard", "register"),
    *("Worker", "Finding", "Backup", "ManualClock"),
)

HEAD = """\
# Python

Made from the code; every public name is here. `from slothqueue import ...`; `slothqueue.testing`
has `ManualClock` as well. Nothing else is public.

* `Duration`: seconds (`int` or `float`), a `timedelta`, or text such as `"10m"`, `"2h30m"`.
* `Moment`: an aware `datetime`, or ISO text with an offset.
* `Clock`: what `ManualClock` is; without one, the clocks of this machine.
* `Policy`: a named tuple `max_attempts`, `base`, `cap`, `lease`, `concurrency`, `rate`, `per`,
  `ageing`, `keep`; times in ms, None where there is no limit.
"""


def page() -> str:
    """The whole page."""
    signatures = dict(_signatures())
    names = [name for name in slothqueue.__all__ if name not in ORDER]
    parts = [HEAD]
    for name in ORDER:
        parts += _section(name, signatures)
    parts += ["## Errors\n", "What each means and what to do: [errors](errors.md).\n"]
    parts.append("\n".join(f"* `{name}`: {_first_line(name)}" for name in sorted(names)) + "\n")
    return "\n".join(parts)


def _first_line(name: str) -> str:
    return (inspect.getdoc(getattr(slothqueue, name)) or "").partition("\n")[0]


def _signatures() -> Iterator[tuple[str, str]]:
    """`Job.events` with `(self) -> list[Event]`, for every line of the surface."""
    for line in surface.lines():
        if line.startswith("slothqueue.") and not line.startswith("slothqueue.testing."):
            name, signature = re.match(r"slothqueue\.([\w.]+)(.*)", line).groups()  # type: ignore[union-attr]
            yield name, _readable(signature)


def _readable(signature: str) -> str:
    signature = re.sub(r"ForwardRef\('([^']*)'\)", r"\1", signature)
    signature = signature.replace("*wrong: Any, ", "*, ").removesuffix("  [classmethod]")
    signature = signature.replace("Iterator[Transaction]", "ContextManager[Transaction]")
    return re.sub(r"\((self|cls)(, )?", "(", signature)


def _section(name: str, signatures: dict[str, str]) -> Iterator[str]:
    thing = getattr(slothqueue, name)
    yield f"## {name}\n"
    if name in CALLABLE or not isinstance(thing, type):
        yield _code(name + _constructor(name, thing, signatures))
    yield _text(thing)
    if not isinstance(thing, type) or issubclass(thing, BaseException):
        return
    fields = []
    if issubclass(thing, dict):
        fields = [_field(key, None, signatures[f"{name}.{key}"]) for key in thing.__annotations__]
    for member, value in () if fields else surface.members(thing).items():
        signature = signatures.get(f"{name}.{member}")
        if signature is None or (member.startswith("__") and member != "__call__"):
            continue
        if not signature.startswith("("):
            fields.append(_field(member, value, signature))
        else:
            yield f"### {name}.{member}\n"
            yield _code(member + signature)
            yield _text(value)
    if fields:
        yield "| | | |\n|---|---|---|\n" + "\n".join(fields) + "\n"


def _constructor(name: str, thing: Any, signatures: dict[str, str]) -> str:
    signature = signatures.get(name) or _readable(str(inspect.signature(thing)).replace("'", ""))
    return signature.removesuffix(" -> None")


def _field(member: str, value: Any, signature: str) -> str:
    kind = signature.removeprefix(": ").replace("|", "\\|").replace("field", "")
    text = " ".join((inspect.getdoc(value) or "").split()) if isinstance(value, property) else ""
    return f"| `{member}` | {f'`{kind}`' if kind else ''} | {text} |"


def _code(text: str) -> str:
    """A signature; one parameter a line if it is long."""
    if len(text) > 96:
        inner, _, result = text.partition("(")[2].rpartition(")")
        parts = re.split(r", (?=\*|\w+:|\w+=)", inner)
        lines = "".join(f"    {part},\n" for part in parts)
        text = f"{text.partition('(')[0]}(\n{lines}){result}"
    return f"```text\n{text}\n```\n"


def _text(thing: Any) -> str:
    return (inspect.getdoc(thing) or "") + "\n"


if __name__ == "__main__":
    STORED.write_text(page(), encoding="utf-8")
