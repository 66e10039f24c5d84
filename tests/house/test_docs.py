"""What exists is documented, and what the documents point at exists."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import slothqueue
from slothqueue import testing
from slothqueue.cli import COMMANDS
from slothqueue.cli.completing import parser_of

from .code import PACKAGE, ROOT, nothing, read

REFERENCE = ROOT / "docs" / "reference"
_FENCED = re.compile(r"^(`{3,}|~{3,}).*?^\1", re.MULTILINE | re.DOTALL)
_LINK = re.compile(
    r"\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE
)


def documents(root: Path = ROOT) -> list[Path]:
    """The pages that people read."""
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])


def links(page: Path) -> Iterator[str]:
    """The links of a page that stay within the project."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    for match in _LINK.finditer(text):
        target = match.group(1) or match.group(2)
        if not re.match(r"[a-z][a-z0-9+.-]*:", target):
            yield target


def anchors(page: Path) -> set[str]:
    """The headings of a page as the parts of an address that they become."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#{1,6}\s+(.+?)\s*#*$", text, re.MULTILINE)
    return {_slug(heading) for heading in headings}


def _slug(heading: str) -> str:
    words = re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower()
    return re.sub(r"\s", "-", words)


def broken(root: Path = ROOT) -> list[str]:
    """Every link that leads nowhere."""
    return [
        f"{page.relative_to(root)}: {target}"
        for page in documents(root)
        for target in links(page)
        if not _leads_somewhere(page, target)
    ]


def _leads_somewhere(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    there = (page.parent / path).resolve() if path else page
    if not there.exists():
        return False
    return not anchor or there.suffix != ".md" or anchor in anchors(there)


def text_of(page: Path) -> str:
    """A page that must be there."""
    assert page.is_file(), f"{page.relative_to(ROOT)} is missing: every name of its kind goes there"
    return page.read_text(encoding="utf-8")


def missing(names: set[str], text: str) -> list[str]:
    """The names that a text does not have as whole words."""
    return sorted(name for name in names if not re.search(rf"(?<![\w.]){re.escape(name)}\b", text))


def commands() -> set[str]:
    """The commands of `sloth`."""
    return set(importlib.import_module("slothqueue.cli").COMMANDS)


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/index.md"])
def test_the_pages_that_everybody_looks_for_are_there(name: str):
    assert text_of(ROOT / name).startswith("# ")


def test_every_link_leads_somewhere():
    nothing(broken())


def test_every_command_is_in_the_reference():
    text = text_of(REFERENCE / "cli.md")
    nothing(missing({f"sloth {name}" for name in commands()}, text))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_the_reference(command: str):
    text = text_of(REFERENCE / "cli.md")
    section = text.partition(f"## `sloth {command}`\n")[2].partition("\n## ")[0]
    names = {name for one in parser_of(command)._actions for name in one.option_strings[-1:]}
    known = {"--db", "--json", "--help"}
    if "Takes the options of `sloth add`" in section:
        known |= {name for one in parser_of("add")._actions for name in one.option_strings}
    nothing([name for name in sorted(names - known) if name not in section])


def test_every_error_is_in_the_reference():
    body = read(PACKAGE / "errors.py", PACKAGE).tree.body
    names = {kind.name for kind in body if isinstance(kind, ast.ClassDef)}
    nothing(missing(names, text_of(REFERENCE / "errors.md")))


def test_every_public_name_is_in_the_reference():
    names = {*slothqueue.__all__, *testing.__all__} - {"__version__"}
    nothing(missing(names, text_of(REFERENCE / "api.md")))


def test_the_readme_begins_with_two_commands():
    text = text_of(ROOT / "README.md")
    assert "make demo" in text
    assert "make test" in text


def test_the_change_log_has_a_place_for_what_comes():
    assert "## [Unreleased]" in text_of(ROOT / "CHANGELOG.md")


def test_a_broken_link_is_seen(tmp_path: Path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(
        "# A title\n[1](docs/a.md) [2](docs/b.md) [3](https://example.org) [4](#a-title) [5](#b)\n"
        "[6](docs/a.md#the-heading) [7](docs/a.md#no-heading)\n```\n[8](nowhere.md)\n```\n"
    )
    (tmp_path / "docs" / "a.md").write_text("# The `heading`\n[up](../README.md)\n")
    assert broken(tmp_path) == [
        "README.md: docs/b.md",
        "README.md: #b",
        "README.md: docs/a.md#no-heading",
    ]


def test_a_name_that_is_only_part_of_another_is_missing():
    assert missing({"StoreBusy", "Sloth"}, "`StoreBusy` and `SlothError`") == ["Sloth"]
