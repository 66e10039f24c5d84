"""One word per idea: the words that other queues use for the same things are not used here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from .code import PACKAGE, Module, modules, nothing
from .test_floors import tree

# Each with the word that we use instead.
FORBIDDEN = {
    "ack": "complete",
    "nack": "fail or release",
    "defer": "enqueue with a delay",
    "dequeue": "claim",
    "rescue": "reclaim",
    "redrive": "revive",
    "receipt": "lease or token",
    "visibility_timeout": "lease",
    "broker": "store",
}

# Where such a word means something else, with what it means there.
MEANS_SOMETHING_ELSE: dict[tuple[str, str], str] = {
    ("receipts", "receipt"): "what a shim leaves behind: the exit status of its command",
}


def words_of(identifier: str) -> str:
    """An identifier as its words: `visibilityTimeout` and `VISIBILITY_TIMEOUT` are the same."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", identifier).lower()


def forbidden(identifier: str) -> str | None:
    """The forbidden word that an identifier has in it, if any."""
    words = f"_{words_of(identifier).strip('_')}_"
    return next((word for word in FORBIDDEN if f"_{word}_" in words), None)


def identifiers(module: Module) -> Iterator[tuple[str, str]]:
    """Every identifier that a module brings up, with its place."""
    yield module.name.rpartition(".")[2], f"{module.name}:1"
    for node in ast.walk(module.tree):
        for field in ("name", "id", "attr", "arg", "asname"):
            text = getattr(node, field, None)
            if isinstance(text, str):
                yield text, f"{module.name}:{getattr(node, 'lineno', '?')}"


def faults(package_modules: list[Module]) -> list[tuple[str, str, str]]:
    """Module, word and message for every forbidden word."""
    found = []
    for module in package_modules:
        for identifier, place in identifiers(module):
            word = forbidden(identifier)
            if word:
                message = f"{place}: `{identifier}`; our word is {FORBIDDEN[word]}"
                found.append((module.name, word, message))
    return found


def test_no_identifier_uses_the_words_of_others():
    nothing(
        message
        for module, word, message in faults(modules())
        if (module, word) not in MEANS_SOMETHING_ELSE
    )


def test_no_sql_uses_the_words_of_others():
    found = []
    for path in sorted(PACKAGE.rglob("*.sql")):
        text = re.sub(r"--.*", "", path.read_text(encoding="utf-8"))
        found += [f"{path.name}: {name}" for name in re.findall(r"\w+", text) if forbidden(name)]
    nothing(found)


def test_every_exception_is_needed():
    real = {(module, word) for module, word, _ in faults(modules())}
    nothing(sorted(set(MEANS_SOMETHING_ELSE) - real))


def test_a_forbidden_word_is_seen_in_every_dress(tmp_path: Path):
    text = """
class JobBroker: ...
def ack_job(visibility_timeout): ...
queue.dequeue()
RESCUE_AFTER = 1
"""
    found = {word for _, word, _ in faults(tree(tmp_path, jobs=text))}
    assert found == {"broker", "ack", "visibility_timeout", "dequeue", "rescue"}


def test_a_word_that_only_looks_alike_is_no_fault():
    assert [forbidden(name) for name in ("back_off", "package", "packed", "deferred")] == [None] * 4
