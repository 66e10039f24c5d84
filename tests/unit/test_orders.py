"""What may be asked of a command, and how its shim is told."""

from __future__ import annotations

import os
from typing import Any

import pytest

from slothqueue import codec, shim
from slothqueue.commands import environment_for, environment_text, payload_of
from slothqueue.orders import MOST_OUTPUT, checked, for_shim


def test_what_is_as_usual_is_not_stored():
    usual: dict[str, Any] = {
        "clean_env": False,
        "max_output": "64MB",
        "separate": False,
        "tty": False,
        "stdin": False,
        "retry_on": None,
        "nice": 0,
        "keep_log": "always",
    }
    assert checked({}, {}) == checked({}, usual) == {}
    assert for_shim({}) == ""
    assert MOST_OUTPUT == shim.MOST_OUTPUT


@pytest.mark.parametrize(
    ("options", "stored", "told"),
    [
        ({"max_output": "1GB"}, {"max_output": 10**9}, "most 1000000000"),
        ({"max_output": 4096}, {"max_output": 4096}, "most 4096"),
        ({"max_output": None}, {"max_output": None}, "most -"),
        ({"separate": True}, {"separate": True}, "errors"),
        ({"tty": True}, {"tty": [80, 24]}, "terminal 80 24"),
        ({"stdin": True}, {"stdin": True}, "input"),
        ({"nice": 19}, {"nice": 19}, "nice 19"),
        ({"keep_log": "never"}, {"keep_log": "never"}, "keep never"),
        ({"retry_on": []}, {"retry_on": []}, "retry"),
        ({"retry_on": (75, "signal")}, {"retry_on": [75, "signal"]}, "retry 75 signal"),
    ],
)
def test_what_was_asked_for_is_stored_and_told(
    options: dict[str, Any], stored: dict[str, Any], told: str
):
    assert checked({}, options) == stored
    assert for_shim(stored) == told


def test_several_are_told_as_several():
    payload = {"nice": 5, "tty": [132, 50], "stdin": True}
    assert for_shim(payload).split(";") == ["terminal 132 50", "input", "nice 5"]


@pytest.mark.parametrize(
    ("environ", "size_"),
    [
        ({"COLUMNS": "132", "LINES": "50"}, [132, 50]),
        ({"COLUMNS": "132"}, [132, 24]),
        ({"COLUMNS": "0", "LINES": "x"}, [80, 24]),
        ({"COLUMNS": "70000", "LINES": "-1"}, [80, 24]),
    ],
)
def test_a_terminal_is_as_large_as_that_of_its_submitter(environ: dict[str, str], size_: list[int]):
    assert checked(environ, {"tty": True}) == {"tty": size_}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_output": 0}, "at least 4096 bytes, and is 0; None keeps all"),
        ({"max_output": "1kB"}, "at least 4096"),
        ({"max_output": -1}, "max_output must be bytes or text such as '64MB'"),
        ({"max_output": "much"}, "'much'"),
        ({"max_output": True}, "True"),
        ({"separate": 1}, "separate is True or False"),
        ({"stdin": "yes"}, "stdin is True or False"),
        ({"tty": None}, "tty is True or False"),
        ({"tty": True, "separate": True}, "leave out separate or tty"),
        ({"clean_env": "x"}, "clean_env is True or False"),
        ({"nice": 20}, "nice must be a whole number from 0 to 19, and is 20"),
        ({"nice": -1}, "nice"),
        ({"nice": True}, "nice"),
        ({"retry_on": "signal"}, "retry_on is a list such as"),
        ({"retry_on": 75}, "retry_on is a list such as"),
        ({"retry_on": [0]}, "exit codes from 1 to 255, 'signal' and 'timeout', and not 0"),
        ({"retry_on": [256]}, "256"),
        ({"retry_on": [True]}, "True"),
        ({"retry_on": [75, "killed"]}, "'killed'"),
        ({"keep_log": "sometimes"}, "'always', 'failed' or 'never', not 'sometimes'"),
        ({"keep_log": None}, "None"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], says: str):
    with pytest.raises(ValueError) as caught:
        checked({}, options)
    assert says in str(caught.value)


def test_a_name_that_is_no_option_is_refused():
    with pytest.raises(TypeError, match="'colour' is no option of a command"):
        payload_of(["ls"], {}, colour=True)


def test_a_payload_has_all_but_the_environment():
    assert payload_of(["ls"], {"A": "1"}, cwd="/", nice=1) == {
        "argv": ["ls"],
        "cwd": "/",
        "nice": 1,
    }
    assert payload_of("ls | wc", {}, cwd="/", shell=True)["shell"] is True


def test_the_environment_is_of_the_submitter_with_what_was_given_on_top(
    monkeypatch: pytest.MonkeyPatch,
):
    assert environment_for({"A": "1", "B_TOKEN": "2"}, {"C": "3"}) == {"A": "1", "C": "3"}
    assert environment_for({"A": "1"}, {"C": "3"}, clean=True) == {"C": "3"}
    monkeypatch.setenv("MY_NAME", "1")
    assert environment_for(os.environ, None)["MY_NAME"] == "1"
    assert environment_for(os.environ, {"MY_NAME": "2"})["MY_NAME"] == "2"
    assert environment_for(os.environ, None)["MY_NAME"] == "1"
    with pytest.raises(ValueError):
        environment_for(os.environ, {"A=B": "1"})


def test_the_text_of_an_environment_follows_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MY_NAME", "1")
    first = environment_text(os.environ, None)
    assert environment_text(os.environ, None) is first
    assert codec.decode(environment_text(os.environ, {"MY_NAME": "2"}))["MY_NAME"] == "2"
    assert codec.decode(environment_text(os.environ, None, clean=True)).get("MY_NAME") is None
    assert environment_text(os.environ, None) == first
    monkeypatch.setenv("MY_NAME", "3")
    assert codec.decode(environment_text(os.environ, None))["MY_NAME"] == "3"
