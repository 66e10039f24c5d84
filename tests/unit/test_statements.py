"""Named SQL, numbered scripts, and how both are read."""

from __future__ import annotations

import pytest

from slothqueue.storage import migrate, statements


def test_a_block_is_a_name_and_the_statement_below_it():
    text = """-- What this file is for.

-- name: first
-- Why it is so.
select 1,
       2

-- name: second
delete from t
"""
    assert statements.parse(text) == {"first": "select 1,\n       2", "second": "delete from t"}


@pytest.mark.parametrize(
    "text",
    ["-- name: a\nselect 1\n-- name: a\nselect 2\n", "-- name: a\n\n-- name: b\nselect 1\n"],
    ids=["twice", "empty"],
)
def test_a_name_used_twice_or_without_a_statement_is_refused(text: str):
    with pytest.raises(ValueError, match="'a'"):
        statements.parse(text)


def test_every_statement_of_the_engine_is_one_statement():
    blocks = statements.load("sqlite")
    assert len(blocks) > 20
    for name, statement in blocks.items():
        assert ";" not in statement, name
        assert "--" not in statement, name


def test_scripts_are_numbered_from_one_without_a_gap():
    found = statements.migrations("sqlite")
    assert [version for version, _, _ in found] == list(range(1, len(found) + 1))
    assert all(name and text for _, name, text in found)


def test_a_script_is_split_at_the_end_of_each_statement_and_not_inside_a_trigger():
    trigger = "create trigger t after insert on a begin\n  delete from b;\n  delete from c;\nend;\n"
    text = f"-- a comment\n\ncreate table a (x); -- about a\n{trigger}"
    assert list(migrate.split(text)) == ["create table a (x); -- about a\n", trigger]


def test_a_script_is_known_by_its_text():
    assert migrate.checksum("a") == migrate.checksum("a") != migrate.checksum("b")
