"""What JSON carries passes unchanged; everything else is refused, and the error names the place."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import json
import pathlib
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slothqueue.codec import decode, encode
from slothqueue.errors import NotSerializable

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_what_goes_in_comes_out(value: Any):
    back = decode(encode(value))
    assert back == value
    assert repr(back) == repr(value)  # 1, 1.0 and True are equal, and not the same


@given(st.dictionaries(st.none() | st.booleans() | st.integers() | st.floats(), st.none()))
def test_a_key_that_is_not_text_is_never_turned_into_text(value: dict[Any, None]):
    if not value:
        return
    with pytest.raises(NotSerializable, match=r"payload has the key .*; keys in JSON are text"):
        encode(value)


@given(st.dictionaries(st.sampled_from(["1", "true", "null", "-0.5", '"1":', "1e3"]), st.text()))
def test_text_keys_that_look_like_other_values_pass(value: dict[str, str]):
    assert decode(encode(value)) == value


def test_the_text_is_compact_and_readable():
    assert encode({"to": "Zoë", "n": [1, 2]}) == '{"to":"Zoë","n":[1,2]}'


def test_tuples_pass_and_come_back_as_lists():
    assert decode(encode((1, (2, 3)))) == [1, [2, 3]]


class Color(enum.Enum):
    RED = 1


class User:
    """Something of a user's own."""


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (dt.datetime(2030, 1, 1), "a datetime, which JSON does not know; give text, such as value"),
        (dt.date(2030, 1, 1), "a date, which JSON does not know; give text, such as value.iso"),
        (dt.timedelta(1), "a timedelta, which JSON does not know; give a number"),
        (decimal.Decimal(1), "a Decimal, which JSON does not know; give text, such as str(value)"),
        (uuid.UUID(int=1), "a UUID, which JSON does not know; give text, such as str(value)"),
        (pathlib.Path("a"), "a PosixPath, which JSON does not know; give text, such as str(value)"),
        (b"a", "a bytes, which JSON does not know; give text, such as base64"),
        ({1}, "a set, which JSON does not know; give a list, such as sorted(value)"),
        (Color.RED, "a Color, which JSON does not know; give None, numbers, text"),
        (User(), "a User, which JSON does not know; give None, numbers, text"),
        (len, "a builtin_function_or_method, which JSON does not know"),
        (float("nan"), "nan, a number that JSON does not have; give None or text"),
        (float("inf"), "inf, a number that JSON does not have"),
        (float("-inf"), "-inf, a number that JSON does not have"),
        ("a\udcff", r"'a\udcff', text with a lone surrogate; it has no UTF-8 form"),
        pytest.param(
            10**5000, "an integer with too many digits; give text, such as hex(value)", id="digits"
        ),
    ],
)
def test_what_is_not_json_is_refused_with_its_place_and_a_remedy(value: Any, told: str):
    with pytest.raises(NotSerializable) as caught:
        encode({"a": 1, "user": [{"when": None}, {"when": value}]})
    assert str(caught.value).startswith(f"payload.user[1].when is {told}")


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({1: 2}, "payload has the key 1, an int;"),
        ({"a": [{None: 2}]}, "payload.a[0] has the key None, a NoneType;"),
        ({"a": {(1, 2): 3}}, "payload.a has the key (1, 2), a tuple;"),
        ({"\ud800": 1}, r"a key of payload is '\ud800', text with a lone surrogate"),
        ({"two words": {1}}, "payload['two words'] is a set"),
        ({"1": b""}, "payload['1'] is a bytes"),
        ({"x" * 100: b""}, "payload['" + "x" * 56 + "...] is a bytes"),
    ],
)
def test_places_read_like_python(value: Any, place: str):
    with pytest.raises(NotSerializable) as caught:
        encode(value)
    assert str(caught.value).startswith(place)


def test_the_error_names_the_value_as_the_caller_does():
    with pytest.raises(NotSerializable, match=r"^result is a set"):
        encode({1}, "result")


def test_a_value_that_contains_itself_is_refused():
    inside: dict[str, Any] = {}
    inside["again"] = [inside]
    with pytest.raises(NotSerializable, match="nested too deeply, or contains itself"):
        encode(inside)


def test_a_bottomless_value_is_refused():
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(NotSerializable, match="nested too deeply, or contains itself"):
        encode(deep)
    while deep:  # taken apart by hand: freeing it at once is deep as well
        deep = deep[0]


def test_a_value_may_occur_twice():
    same = {"1": 1}
    assert decode(encode([same, same])) == [{"1": 1}, {"1": 1}]


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "-Infinity", "", "{", "1 2", "{'a': 1}"])
def test_what_is_not_json_text_is_not_read(text: str):
    with pytest.raises(ValueError):
        decode(text)


def test_foreign_json_with_spaces_and_escapes_is_read():
    assert decode(' {"a" : "\\u00e9"} \n') == {"a": "é"} == json.loads('{"a":"é"}')
