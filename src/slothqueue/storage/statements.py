"""Named SQL: `-- name: claim` starts a block, the statement that follows is its text."""

from __future__ import annotations

import os
from functools import cache

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def parse(text: str) -> dict[str, str]:
    """The blocks of one file by name. Raises ValueError for a name used twice or without a text."""
    blocks: dict[str, str] = {}
    for block in text.split("-- name:")[1:]:
        name, _, body = block.partition("\n")
        name = name.strip()
        statement = "\n".join(
            line for line in body.splitlines() if not line.lstrip().startswith("--")
        ).strip()
        if not statement or name in blocks:
            raise ValueError(f"SQL block {name!r} is empty or defined twice")
        blocks[name] = statement
    return blocks


@cache
def load(engine: str) -> dict[str, str]:
    """Every named statement of an engine; one dictionary for all who ask."""
    folder = os.path.join(_PACKAGE, "sql", engine)
    blocks: dict[str, str] = {}
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".sql"):
            continue
        found = parse(_read(os.path.join(folder, file)))
        if twice := found.keys() & blocks.keys():
            raise ValueError(f"SQL blocks defined in two files: {sorted(twice)}")
        blocks.update(found)
    return blocks


def migrations(engine: str) -> list[tuple[int, str, str]]:
    """The scripts that make the schema: (version, name, text), in order."""
    folder = os.path.join(_PACKAGE, "migrations", engine)
    files = sorted(file for file in os.listdir(folder) if file.endswith(".sql"))
    return [(int(file[:4]), file[5:-4], _read(os.path.join(folder, file))) for file in files]


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
