"""What is kept of a submitter's environment, and what is read from a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slothqueue.environment import CLEAN, captured, captured_here, looks_secret, read_env_file

# fmt: off
SECRET = [
    "GITHUB_TOKEN", "GITHUBTOKEN", "NPM_TOKENS", "token", "API_KEY", "OPENAI_API_KEY",
    "APIKEY_OF_MINE", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "DB_PASSWORD", "PGPASSWORD",
    "MYSQL_PWD", "SMTP_PASS", "PASS", "SSH_PASSPHRASE", "CLIENT_SECRET",
    "GOOGLE_APPLICATION_CREDENTIALS", "NPM_AUTH", "HTTP_AUTH_HEADER", "PRIVATE_KEY",
    "SSH_PRIVATEKEY", "my_password", "SESSION_COOKIE", "JWT", "SIGNING_KEY", "RAILS_MASTER_KEY",
    "PASSWD_FILE",
]
# fmt: on
# fmt: off
PLAIN = [
    "PATH", "HOME", "LANG", "SSH_AUTH_SOCK", "TOKENIZERS_PARALLELISM", "AUTHOR",
    "GIT_AUTHOR_NAME", "XAUTHORITY", "KEYBOARD", "KEY", "BYPASS", "COMPASS_URL", "PASSAGE",
    "MONKEY", "PYTHONPATH", "LD_PRELOAD", "VIRTUAL_ENV", "DISPLAY", "EDITOR", "COOKIECUTTER",
]
# fmt: on


@pytest.mark.parametrize("name", SECRET)
def test_a_name_that_looks_like_a_secret_is_left_out(name: str):
    assert looks_secret(name)
    assert captured({name: "x", "A": "1"}) == {"A": "1"}


@pytest.mark.parametrize("name", PLAIN)
def test_a_name_that_does_not_is_kept(name: str):
    assert captured({name: "x"}) == {name: "x"}


@pytest.mark.parametrize("clean", [False, True])
def test_what_is_given_by_name_is_kept_whatever_it_is_called(clean: bool):
    given = {"API_TOKEN": "x", "SHLVL": "7", "PATH": "/mine", "EMPTY": ""}
    assert captured({"PATH": "/p"}, extra=given, clean=clean) == given


@pytest.mark.parametrize(
    "name",
    ["_", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "TMUX", "MAKEFLAGS", "NOTIFY_SOCKET"]
    + [f"SLOTH_{name}" for name in ("LEASE", "JOB", "ATTEMPT", "TOKEN")],
)
def test_what_belongs_to_one_process_or_terminal_is_left_out(name: str):
    assert captured({name: "x", "SLOTH_DB": "a.db"}) == {"SLOTH_DB": "a.db"}


def test_a_clean_environment_has_only_what_every_program_wants():
    environ = dict.fromkeys(CLEAN, "x") | {"LC_TIME": "de", "LD_PRELOAD": "y", "EDITOR": "vi"}
    assert captured(environ, clean=True) == dict.fromkeys(CLEAN, "x") | {"LC_TIME": "de"}


def test_what_is_no_text_is_left_out():
    odd = os.fsdecode(b"\xff")
    assert captured({"A": odd, odd: "1", "B": "ä"}) == {"B": "ä"}


def test_capturing_changes_nothing_of_what_it_is_given():
    environ, extra = {"A": "1", "B_TOKEN": "2"}, {"C": "3"}
    captured(environ, extra=extra)["D"] = "4"
    assert (environ, extra) == ({"A": "1", "B_TOKEN": "2"}, {"C": "3"})


def test_what_is_captured_here_follows_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("A_NAME", "1")
    monkeypatch.setenv("A_TOKEN", "1")
    first = captured_here()
    assert first == captured(os.environ)
    assert captured_here() is first
    assert captured_here(clean=True) == captured(os.environ, clean=True) != first
    monkeypatch.setenv("A_NAME", "2")
    assert captured_here()["A_NAME"] == "2"
    assert first["A_NAME"] == "1"
    monkeypatch.delenv("A_NAME")
    assert "A_NAME" not in captured_here()


LINES = [
    ("A=1", "1"),
    ("export A=1", "1"),
    ("  A=1  ", "1"),
    ("A=", ""),
    ("A=a b", "a b"),
    ("A=a # b", "a"),
    ("A=a#b", "a#b"),
    ("A=# b", ""),
    ("A=x=y", "x=y"),
    ("A='a # b'", "a # b"),
    ("A='a\\nb' # c", "a\\nb"),
    ('A="a\\nb\\t\\"c\\" \\$d \\\\ \\e"', 'a\nb\t"c" $d \\ \\e'),
    ('A=""', ""),
    ("A=$HOME", "$HOME"),
    ("A=ä\r", "ä"),
]


@pytest.mark.parametrize(("line", "value"), LINES)
def test_a_line_of_a_file_is_read_as_elsewhere(tmp_path: Path, line: str, value: str):
    (tmp_path / "env").write_text(f"# comment\n\n{line}\n", encoding="utf-8", newline="\n")
    assert read_env_file(tmp_path / "env") == {"A": value}


def test_the_last_of_two_lines_counts_and_a_mark_at_the_start_does_not(tmp_path: Path):
    (tmp_path / "env").write_bytes(b"\xef\xbb\xbfA=1\nB=2\nA=3")
    assert read_env_file(tmp_path / "env") == {"A": "3", "B": "2"}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"A", "'A' is not NAME=VALUE"),
        (b"export A", "is not NAME=VALUE"),
        (b"1A=2", "'1A' cannot be the name"),
        (b"A B=2", "'A B' cannot be the name"),
        (b"=2", "'' cannot be the name"),
        (b"A = 2", "'A ' cannot be the name"),
        (b"A='x", "quotes do not end"),
        (b'A="x" y', "quotes do not end"),
        (b"A=\xff", "not UTF-8"),
        (b"A=a\0b", "NUL"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(tmp_path: Path, line: bytes, says: str):
    (tmp_path / "env").write_bytes(b"A=1\n" + line + b"\nB=2\n")
    with pytest.raises(ValueError, match=r"env, line 2: .*") as caught:
        read_env_file(tmp_path / "env")
    assert says in str(caught.value)


def test_a_file_that_is_not_there_says_so(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        read_env_file(tmp_path / "env")
