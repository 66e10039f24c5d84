"""What an annotation names comes back as that type, or is refused where it is given."""

from __future__ import annotations

import collections
import collections.abc as abc
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import os
import pathlib
import sys
import typing
import uuid
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slothqueue
from slothqueue.codec import decode, encode
from slothqueue.errors import NotSerializable
from slothqueue.typed import calls
from slothqueue.typed.annotations import converter
from slothqueue.typed.fitting import Unfit


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Corner(enum.Enum):
    TOP = (0, 0)
    END = (1, 1)


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Place(NamedTuple):
    path: pathlib.Path
    line: int = 1


@dataclasses.dataclass
class User:
    name: str
    when: dt.datetime
    friends: list[User] = dataclasses.field(default_factory=list)
    best: User | None = None


class Options(TypedDict):
    since: dt.date
    until: NotRequired[dt.date]


class Money:
    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and other.cents == self.cents

    __hash__ = None  # type: ignore[assignment]


UserId = NewType("UserId", uuid.UUID)
NOON = dt.datetime(2030, 1, 31, 12, 30, 0, 5)
ADA = User("ada", NOON, [User("bob", NOON)], User("eve", NOON))


LIST: Any = list
TUPLE: Any = tuple
SET: Any = frozenset
DICT: Any = dict
EITHER: Any = typing.Union
FEW = 3


def through(annotation: Any, value: Any) -> Any:
    """The value after a journey as text."""
    how = converter(annotation)
    return how.load(decode(encode(how.dump(value))))


def refusal(annotation: Any, value: Any) -> str:
    with pytest.raises(Unfit) as caught:
        converter(annotation).dump(value)
    return caught.value.told("it")


ROUND: list[tuple[Any, Any, Any]] = [
    # annotation, value, its JSON
    (dt.datetime, NOON, "2030-01-31T12:30:00.000005"),
    (dt.datetime, NOON.replace(tzinfo=dt.UTC), "2030-01-31T12:30:00.000005+00:00"),
    (dt.date, dt.date(2030, 1, 31), "2030-01-31"),
    (dt.time, dt.time(12, 30), "12:30:00"),
    (dt.timedelta, dt.timedelta(days=1, seconds=9000, microseconds=500000), "P1DT2H30M0.5S"),
    (dt.timedelta, dt.timedelta(microseconds=-1), "-PT0.000001S"),
    (dt.timedelta, dt.timedelta(0), "PT0S"),
    (uuid.UUID, uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (decimal.Decimal, decimal.Decimal("-1.50"), "-1.50"),
    (decimal.Decimal, decimal.Decimal("1E+30"), "1E+30"),
    (bytes, b"\0\xff", "AP8="),
    (bytearray, bytearray(b"a"), "YQ=="),
    (pathlib.Path, pathlib.Path("a/b"), "a/b"),
    (pathlib.PurePosixPath, pathlib.PurePosixPath("/a"), "/a"),
    (pathlib.PureWindowsPath, pathlib.PureWindowsPath("c:\\a"), "c:\\a"),
    (Color, Color.RED, "red"),
    (Level, Level.HIGH, 2),
    (Corner, Corner.END, "END"),
    (Rights, Rights.READ | Rights.WRITE, 3),
    (User, User("ada", NOON), None),
    (User, ADA, None),
    (Place, Place(pathlib.Path("a")), {"path": "a", "line": 1}),
    (Options, {"since": dt.date(2030, 1, 1)}, {"since": "2030-01-01"}),
    (tuple[int, dt.date], (1, dt.date(2030, 1, 1)), [1, "2030-01-01"]),
    (tuple[dt.date, ...], (dt.date(2030, 1, 1),), ["2030-01-01"]),
    (tuple, (1, 2), [1, 2]),
    (typing.Tuple[int, str], (1, "a"), [1, "a"]),  # noqa: UP006
    (set[int], {3, 1, 2}, [1, 2, 3]),
    (set, {1, "a"}, None),
    (frozenset[dt.date], frozenset({dt.date(2030, 1, 1)}), ["2030-01-01"]),
    (abc.Set[Color], {Color.RED}, ["red"]),
    (list[bytes], [b"", b"a"], ["", "YQ=="]),
    (typing.List[int], [1], [1]),  # noqa: UP006
    (abc.Sequence[dt.date], [dt.date(2030, 1, 1)], ["2030-01-01"]),
    (collections.deque[int], collections.deque([1, 2]), [1, 2]),
    (dict[int, dt.date], {-1: dt.date(2030, 1, 1)}, {"-1": "2030-01-01"}),
    (dict[bool, int], {True: 1, False: 0}, {"true": 1, "false": 0}),
    (dict[float, int], {1.5: 1, 1e300: 2}, {"1.5": 1, "1e+300": 2}),
    (dict[int | None, int], {None: 1, 7: 2}, {"null": 1, "7": 2}),
    (dict[Level, Color], {Level.LOW: Color.RED}, {"1": "red"}),
    (dict[dt.date, list[uuid.UUID]], {dt.date(2030, 1, 1): []}, {"2030-01-01": []}),
    (abc.Mapping[str, bytes], {"a": b"a"}, {"a": "YQ=="}),
    (collections.OrderedDict[str, int], collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    (Optional[dt.date], None, None),  # noqa: UP045
    (dt.date | None, dt.date(2030, 1, 1), "2030-01-01"),
    (os.PathLike[str], pathlib.Path("a"), "a"),
    (dt.date | dt.datetime, dt.date(2030, 1, 1), "2030-01-01"),
    (dt.date | dt.datetime, NOON, "2030-01-31T12:30:00.000005"),
    (str | dt.datetime, NOON, "2030-01-31T12:30:00.000005"),
    (str | dt.datetime, "noon", "noon"),
    (str | pathlib.Path, "noon", "noon"),
    (Color | str, Color.RED, "red"),
    (Level | int, 7, 7),
    (Level | int, Level.LOW, 1),
    (int | list[dt.date] | None, [dt.date(2030, 1, 1)], ["2030-01-01"]),
    (User | Place | None, Place(pathlib.Path("a"), 2), {"path": "a", "line": 2}),
    (Literal["a", 1, None, Color.RED], Color.RED, "red"),
    (Literal["a", 1], 1, 1),
    (Annotated[dt.date, "a note"], dt.date(2030, 1, 1), "2030-01-01"),
    (UserId, UserId(uuid.UUID(int=1)), "00000000-0000-0000-0000-000000000001"),
    (Any, {"a": [1, None]}, {"a": [1, None]}),
    (list[Any], [1, "a"], [1, "a"]),
    (object, 1, 1),
    (abc.Hashable, 1, 1),
]


def named(each: Any) -> str:
    """The same in every process: sets have an order of their own in each."""
    return type(each).__name__ if isinstance(each, set | frozenset) else str(each)[:40]


@pytest.mark.parametrize(("annotation", "value", "data"), ROUND, ids=named)
def test_what_an_annotation_names_comes_back_as_that_type(annotation: Any, value: Any, data: Any):
    written = decode(encode(converter(annotation).dump(value)))
    if data is not None:
        assert written == data
    back = through(annotation, value)
    assert back == value
    assert type(back) is type(value)
    assert repr(back) == repr(value) or isinstance(value, set)


@pytest.mark.parametrize(
    ("annotation", "value", "told"),
    [
        (dt.datetime, "2030-01-31", "it is '2030-01-31', and not a datetime"),
        (dt.datetime, dt.date(2030, 1, 1), "it is a date, and not a datetime"),
        (int, "5", "it is '5', and not an int"),
        (int, 5.0, "it is 5.0, and not an int"),
        (str, None, "it is None, and not a str"),
        (str | None, 5, "it is 5, and not a str or None"),
        (list[int], (1, 2), "it is a tuple, and not a list"),
        (list[int], [1, "a"], "it[1] is 'a', and not an int"),
        (list[Literal["a"]], ["a", "b"], "it[1] is 'b', and not a Literal; those are 'a'"),
        (dict[Literal["a"], int], {"b": 1}, "it has the key 'b': it is 'b', and not a Literal"),
        (dict[str, int], {1: 1}, "it has the key 1: it is 1, and not a str"),
        (dict[str, int], {"a": "b"}, "it.a is 'b', and not an int"),
        (abc.Sequence[str], "abc", "it is 'abc', and not a list"),
        (tuple[int, str], (1,), "it has a length of 1, and not of 2"),
        (set[dt.date], {1}, "it[0] is 1, and not a date"),
        (set, {(1, 2)}, "it has more than plain values in it; annotate what is in the set"),
        (Color, "red", "it is 'red', and not a Color; those are 'red', 'blue'"),
        (Literal["a", 1], True, "it is True, and not a Literal; those are 'a', 1"),
        (decimal.Decimal, decimal.Decimal("NaN"), "it is NaN, a number that JSON does not have"),
        (decimal.Decimal, decimal.Decimal("-Infinity"), "it is -Infinity, a number that JSON does"),
        (User, User("ada", "noon"), "it.when is 'noon', and not a datetime"),  # type: ignore[arg-type]
        (User, {"name": "ada"}, "it is a dict, and not a User"),
        (dict[str, User], {"b c": User("b", NOON, [1])}, "it['b c'].friends[0] is 1, and"),  # type: ignore[list-item]
        (dict[int, int], {"a": 1}, "it has the key 'a': it is 'a', and not an int"),
        (dict[float, int], {float("nan"): 1}, "it has the key nan: it is nan, a number that"),
        (dict[tuple[int, int], int], {(1, 2): 3}, "it has the key (1, 2): it has no text form"),
        (dict[int | str, int], {1: 1}, "it has the key 1: it would come back as another one"),
        (Options, {"until": NOON.date()}, "it is without 'since', which Options needs; it has"),
        (Options, {"since": NOON.date(), "by": 1}, "it has 'by', which Options does not know"),
        (
            Money,
            Money(1),
            "it is a Money, which has no JSON form; tell how, by slothqueue.register",
        ),
        (Money, 1, "it is 1, and not a Money"),
        (type[int], int, "it is a type, which has no JSON form; tell how"),
        (abc.Callable[[], int], len, "it is a builtin_function_or_method, which has no JSON form"),
        (str | dt.date, "2030-01-01", "it is '2030-01-01', whose JSON would come back as a date"),
        (str | pathlib.Path, pathlib.Path("a"), "it is a PosixPath, whose JSON would come back as"),
        (list[int] | set[int], {1}, "it is a set, whose JSON would come back as a list"),
        (Level | int, 1, "it is 1, whose JSON would come back as a Level; annotate it as int"),
        (User | dt.date, User("ada", 5), "it.when is 5, and not a datetime"),  # type: ignore[arg-type]
        (decimal.Decimal | None, decimal.Decimal("NaN"), "it is NaN, a number that JSON"),
        (dt.date | decimal.Decimal | User, decimal.Decimal("NaN"), "it is NaN, a number that"),
        (Options | dt.date, {"by": 1}, "it is without 'since', which Options needs; it has by"),
        (Money | dt.date, Money(1), "it is a Money, which has no JSON form; tell how, by"),
        (User | dt.date, 5, "it is 5, and not a User or date"),
    ],
    ids=named,
)
def test_what_does_not_fit_is_refused_with_its_place(annotation: Any, value: Any, told: str):
    assert refusal(annotation, value).startswith(told)


def test_a_subclass_that_would_come_back_as_its_base_is_refused():
    loud: Any = dataclasses.make_dataclass("Louder", [("volume", int, 11)], bases=(User,))
    assert refusal(User, loud("ada", NOON, volume=3)) == "it is a Louder, and not a User"

    class Exact(dt.datetime):
        def isoformat(self, *_: Any) -> str:
            return "2031-01-01T00:00:00"

    assert "would not come back" in refusal(dt.datetime, Exact(2030, 1, 1))


@pytest.mark.parametrize(
    ("annotation", "data", "told"),
    [
        (User, {"nick": "ada"}, "it is without 'name', which User needs; it has nick"),
        (
            User,
            {"name": "ada", "when": NOON.isoformat(), "x": 1},
            "it has 'x', which User does not know",
        ),
        (User, {"name": "ada", "when": 5}, "it.when is 5, and not a datetime"),
        (dt.datetime, "2030-01-31", "it is '2030-01-31', and not a datetime; its form is 2030-01"),
        (dt.date, "2030-W01-1", "it is '2030-W01-1', and not a date"),
        (dt.timedelta, "P", "it is 'P', and not a timedelta; its form is PT1H30M"),
        (dt.timedelta, "P9999999999D", "it is 'P9999999999D', and not a timedelta"),
        (uuid.UUID, "{00000000-0000-0000-0000-000000000001}", "it is '{0000"),
        (decimal.Decimal, "sNaN", "it is 'sNaN', and not a Decimal"),
        (bytes, "a b", "it is 'a b', and not a bytes; its form is base64"),
        (Color, "green", "it is 'green', and not a Color"),
        (Rights, 8, "it is 8, and not a Rights"),
        (set[Any], [[1]], "it is no set: unhashable type"),
        (dict[int, int], {"01": 1}, "it has the key '01': it is '01', and not an int"),
        (dict[Literal["a"], int], {"b": 1}, "it has the key 'b': it is 'b', and not a Literal"),
        (dict[str, int], {"a": "b"}, "it.a is 'b', and not an int"),
        (tuple[int, int], [1], "it has a length of 1, and not of 2"),
        (list[list[int]], [[1], ["a"]], "it[1][0] is 'a', and not an int"),
    ],
    ids=named,
)
def test_json_that_does_not_fit_is_refused_with_its_place(annotation: Any, data: Any, told: str):
    with pytest.raises(Unfit) as caught:
        converter(annotation).load(data)
    assert caught.value.told("it").startswith(told)


def test_what_a_constructor_raises_is_told_with_the_place():
    @dataclasses.dataclass
    class Even:
        n: int

        def __post_init__(self) -> None:
            if self.n % 2:
                raise ValueError("it is odd")

    with pytest.raises(Unfit) as caught:
        converter(list[Even]).load([{"n": 2}, {"n": 3}])
    assert caught.value.told("it") == "it[1] could not be read as an Even: ValueError: it is odd"


def test_fields_that_the_constructor_does_not_take():
    @dataclasses.dataclass
    class Counted:
        n: int
        twice: int = dataclasses.field(init=False)
        kind: typing.ClassVar[str] = "counted"

        def __post_init__(self) -> None:
            self.twice = 2 * self.n

    @dataclasses.dataclass
    class Salted:
        n: int
        salt: dataclasses.InitVar[int]

    assert through(Counted, Counted(2)) == Counted(2)
    assert converter(Counted).dump(Counted(2)) == {"n": 2}
    assert "salt is an InitVar" in refusal(Salted, Salted(1, salt=2))


# ---- types of the user's own ---------------------------------------------------------------------


@pytest.fixture
def registered() -> Iterator[None]:
    from slothqueue.typed import annotations

    slothqueue.register(Money, lambda money: {"cents": money.cents}, lambda d: Money(d["cents"]))
    yield
    del annotations._registered[Money]
    for forget in annotations.forget:
        forget()


@pytest.mark.usefixtures("registered")
def test_a_registered_type_travels_by_its_two_functions():
    assert through(list[Money], [Money(5)]) == [Money(5)]
    assert converter(Money | None).dump(Money(5)) == {"cents": 5}
    with pytest.raises(Unfit) as caught:
        converter(dict[str, Money]).load({"price": {}})
    told = caught.value.told("it")
    assert told == "it.price could not be read as a Money: KeyError: 'cents'"
    with pytest.raises(TypeError, match="takes a class"):
        slothqueue.register("Money", str, Money)  # type: ignore[arg-type]


def test_a_type_may_be_registered_after_it_was_asked_for():
    class Odd:
        pass

    def take(odd: Odd) -> Odd:
        return Odd()

    with pytest.raises(NotSerializable, match=r"take: odd is an Odd, which has no JSON form"):
        calls.of(take, "take").text((Odd(),), {})
    slothqueue.register(Odd, lambda odd: None, lambda data: Odd())
    assert calls.of(take, "take").text((Odd(),), {}) == '{"args":[null],"kwargs":{}}'


def test_attrs_pydantic_and_msgspec_travel_by_what_they_have():
    attrs: Any = pytest.importorskip("attrs")
    struct: Any = pytest.importorskip("msgspec").Struct
    pydantic: Any = pytest.importorskip("pydantic")
    model: Any = pydantic.BaseModel

    @attrs.define
    class Point:
        x: int
        _when: dt.date = dt.date(2030, 1, 1)

    class Move(struct):  # type: ignore[misc]
        steps: dict[int, dt.date]
        raw: bytes = b""

    class Form(model):  # type: ignore[misc]
        when: dt.datetime
        sizes: dict[int, list[uuid.UUID]] = pydantic.Field({}, alias="s")

    point: Any = Point
    one: Any
    for one in (point(1), Move({1: NOON.date()}, b"a"), Form(when=NOON, s={1: [uuid.UUID(int=1)]})):
        kind: Any = type(one)
        assert through(LIST[kind], [one]) == [one]
        assert type(through(kind, one)) is kind
    with pytest.raises(Unfit) as caught:
        converter(list[Form]).load([{"when": NOON.isoformat(), "s": {"1": ["x"]}}])
    assert caught.value.told("it").startswith("it[0].s['1'][0] does not fit Form: Input should be")
    with pytest.raises(Unfit, match="could not be read as a Move: ValidationError: Expected"):
        converter(Move).load({"steps": 1})
    with pytest.raises(Unfit, match="without 'x', which Point needs"):
        converter(Point).load({})


def test_a_model_that_hides_a_field_is_refused_and_not_cut():
    pydantic: Any = pytest.importorskip("pydantic")
    model: Any = pydantic.BaseModel

    class Secret(model):  # type: ignore[misc]
        name: str = ""
        word: str = pydantic.Field("", exclude=True)

    assert through(Secret, Secret(name="a")) == Secret(name="a")
    assert "would not come back the same" in refusal(Secret, Secret(name="a", word="b"))


def test_models_of_the_first_pydantic():
    model: Any = pytest.importorskip("pydantic.v1").BaseModel

    class Old(model):  # type: ignore[misc]
        when: dt.datetime

    assert through(Old, Old(when=NOON)) == Old(when=NOON)
    with pytest.raises(Unfit, match="does not fit Old: invalid datetime format"):
        converter(Old).load({"when": "noon"})


# ---- calls ---------------------------------------------------------------------------------------


def travel(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call it with arguments that have been text."""
    text = calls.of(function, "job").text(args, kwargs)
    args, kwargs = calls.arguments(function, "job", decode(text))  # type: ignore[assignment]
    return function(*args, **kwargs)


def test_every_kind_of_parameter_is_converted():
    def take(
        first: dt.date,
        /,
        queue: bytes,
        *rest: dt.date,
        self: Color,
        timeout: int = 5,
        **more: Level,
    ) -> Any:
        return first, queue, rest, self, timeout, more

    day = dt.date(2030, 1, 1)
    expected = (day, b"a", (day, day), Color.RED, 5, {"delay": Level.LOW, "first": Level.HIGH})
    got = travel(take, day, b"a", day, day, self=Color.RED, delay=Level.LOW, first=Level.HIGH)
    assert got == expected


@pytest.mark.parametrize(
    ("args", "kwargs", "told"),
    [
        ((1,), {}, "job: first is 1, and not a date"),
        ((NOON.date(), NOON.date(), 3), {}, "job: rest[1] is 3, and not a date"),
        ((NOON.date(),), {"user": User("a", 1)}, "job: user.when is 1, and not a datetime"),  # type: ignore[arg-type]
        ((NOON.date(),), {"level": 1}, "job: level is 1, and not a Level"),
        ((NOON.date(),), {"free": [1, NOON]}, "job: free[1] is a datetime, which JSON does not "),
        ((NOON.date(),), {"free": {1: 1}}, "job: free has the key 1, an int"),
        ((NOON.date(),), {"number": float("inf")}, "job: number is inf, a number that JSON"),
        (
            (NOON.date(),),
            {"free": Money(1)},
            "job: free is a Money, which JSON does not know; tell",
        ),
        ((NOON.date(),), {"free": len}, "job: free is a builtin_function_or_method, which JSON"),
    ],
)
def test_a_refusal_names_the_task_the_argument_and_the_place(
    args: tuple[Any, ...], kwargs: dict[str, Any], told: str
):
    def take(
        first: dt.date,
        *rest: dt.date,
        user: User | None = None,
        free=None,
        number: float = 0,
        **more: Level,
    ) -> None: ...

    with pytest.raises(NotSerializable) as caught:
        calls.of(take, "job").text(args, kwargs)
    assert str(caught.value).startswith(told)


def test_a_value_without_an_annotation_is_told_to_have_one():
    def take(free, paths: list[Any]): ...

    for value, name in (
        (NOON, "datetime"),
        (pathlib.Path("a"), "Path"),
        (b"", "bytes"),
        ({1}, "set"),
        (ADA, "User"),
        (Color.RED, "Color"),
    ):
        with pytest.raises(NotSerializable, match=f"free is .*; annotate it as {name}, and it "):
            calls.of(take, "job").text((value, []), {})
        with pytest.raises(NotSerializable, match=rf"paths\[0\] is .*; annotate it as {name}"):
            calls.of(take, "job").text((1, [value]), {})


def test_a_default_of_none_means_that_none_may_be_given():
    def take(when: dt.date = None, n: int = None) -> Any:  # type: ignore[assignment]  # noqa: RUF013
        return when, n

    assert travel(take, None, n=None) == (None, None)


def test_what_contains_itself_is_refused():
    ring = User("ada", NOON)
    ring.friends.append(ring)

    def take(user: User) -> None: ...

    with pytest.raises(NotSerializable, match="user is nested too deeply, or contains itself"):
        calls.of(take, "job").text((ring,), {})


def test_an_annotation_that_cannot_be_read_lets_json_pass_and_says_why_nothing_else():
    def take(a: Nowhere, b: dt.date) -> Any:  # type: ignore[name-defined]  # noqa: F821
        return a, b

    assert travel(take, [1], dt.date(2030, 1, 1)) == ([1], dt.date(2030, 1, 1))
    with pytest.raises(NotSerializable) as caught:
        travel(take, [dt.date(2030, 1, 1)], dt.date(2030, 1, 1))
    assert str(caught.value).startswith(
        "job: a has an annotation that cannot be read here, 'Nowhere' (NameError: name 'Nowhere' "
        "is not defined), so that only JSON passes; but it[0] is a date, which JSON does not know"
    )


def test_names_around_a_function_are_seen_by_its_annotations():
    @dataclasses.dataclass
    class Local:
        when: dt.date

    def keep(local: Local) -> Local:
        return Local(local.when)

    assert travel(keep, Local(dt.date(2030, 1, 1))) == Local(dt.date(2030, 1, 1))


class Methods:
    def bound(self, when: dt.date) -> Any:
        return when

    @classmethod
    def of_class(cls, when: dt.date) -> Any:
        return when

    @staticmethod
    def static(when: dt.date) -> Any:
        return when

    def __call__(self, when: dt.date) -> Any:
        return when


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return inner


@pytest.mark.parametrize(
    "function",
    [
        Methods().bound,
        Methods.of_class,
        Methods.static,
        Methods(),
        wrapped(Methods().bound),
        functools.partial(lambda n, when: when, 1),
        functools.partial(Methods.static),
    ],
)
def test_whatever_can_be_called_is_read(function: Callable[..., Any]):
    when: Any = "noon" if "lambda" in repr(function) else dt.date(2030, 1, 1)
    assert travel(function, when) == when


@pytest.mark.parametrize("payload", [None, [], {"args": 1}, {"kwargs": []}])
def test_a_payload_that_is_no_call_is_told_so(payload: Any):
    with pytest.raises(NotSerializable, match="job: its payload must be"):
        calls.arguments(len, "job", payload)


def test_the_keys_of_an_unpacked_typed_dict_are_converted():
    def take(n: int, **options: typing.Unpack[Options]) -> Any:
        return options

    assert travel(take, 1, since=NOON.date()) == {"since": NOON.date()}
    with pytest.raises(NotSerializable, match="job: until is 5, and not a date"):
        travel(take, 1, since=NOON.date(), until=5)


class Clock:
    def __init__(self, when: dt.date) -> None:
        self.when = when


def test_what_is_called_may_be_a_class():
    assert travel(Clock, dt.date(2030, 1, 1)).when == dt.date(2030, 1, 1)


def test_a_wrapper_is_read_as_what_it_wraps():
    def inner(when: dt.date) -> dt.date:
        return when

    def outer(*args, **kwargs):
        return inner(*args, **kwargs)

    outer.__wrapped__ = inner  # type: ignore[attr-defined]
    assert travel(outer, dt.date(2030, 1, 1)) == dt.date(2030, 1, 1)
    assert calls.result_text(outer, "job", dt.date(2030, 1, 1)) == '"2030-01-01"'


def test_a_plain_function_is_never_looked_into():
    def plain(a: int, b: str = "x", *c: float, **d: Any) -> dict: ...  # type: ignore[type-arg, empty-body]

    before = len(calls._calls)
    assert calls.arguments(plain, "job", {"args": [1], "kwargs": {}}) == ([1], {})
    assert calls.result_text(plain, "job", {"a": 1}) == '{"a":1}'
    assert len(calls._calls) == before


# ---- results -------------------------------------------------------------------------------------


def returned(function: Callable[..., Any], value: Any) -> Any:
    how = calls.of(function, "job")
    return how.result(decode(how.result_text(value)))


def test_a_result_comes_back_as_the_function_says():
    def typed() -> tuple[dt.date, Color]: ...  # type: ignore[empty-body]

    async def later() -> User: ...  # type: ignore[empty-body]

    def awaited() -> abc.Awaitable[bytes]: ...  # type: ignore[empty-body]

    assert returned(typed, (dt.date(2030, 1, 1), Color.RED)) == (dt.date(2030, 1, 1), Color.RED)
    assert returned(later, ADA) == ADA
    assert returned(awaited, b"a") == b"a"


def test_a_result_that_breaks_its_promise_passes_when_json_brings_it_back():
    def day() -> dt.date: ...  # type: ignore[empty-body]

    assert returned(day, None) is None
    assert returned(day, {"a": 1}) == {"a": 1}
    for value, told in (
        ("2030-01-01", "result is '2030-01-01', and not a date"),
        (NOON, "result is a datetime, which would not come back from its date form"),
        (float("nan"), "result is nan, and not a date"),
    ):
        with pytest.raises(NotSerializable) as caught:
            calls.of(day, "job").result_text(value)
        assert str(caught.value) == told


def test_a_result_that_contains_itself_is_refused():
    def user() -> User: ...  # type: ignore[empty-body]

    ring = User("ada", NOON)
    ring.best = ring
    with pytest.raises(NotSerializable, match="result is nested too deeply, or contains itself"):
        calls.of(user, "job").result_text(ring)


def test_a_result_that_no_longer_fits_is_the_plain_json():
    def user() -> User: ...  # type: ignore[empty-body]

    assert calls.of(user, "job").result({"nick": "ada"}) == {"nick": "ada"}


# ---- properties ----------------------------------------------------------------------------------

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (bool, st.booleans()),
    (str, text),
    (type(None), st.none()),
    (dt.datetime, st.datetimes(timezones=st.none() | st.just(dt.UTC))),
    (dt.date, st.dates()),
    (dt.time, st.times()),
    (dt.timedelta, st.timedeltas()),
    (uuid.UUID, st.uuids()),
    (decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (bytes, st.binary(max_size=9)),
    (pathlib.PurePosixPath, text.map(pathlib.PurePosixPath)),
    (Color, st.sampled_from(Color)),
    (Level, st.sampled_from(Level)),
    (Corner, st.sampled_from(Corner)),
    (Rights, st.sampled_from([Rights(n) for n in range(4)])),
    (Place, st.builds(Place, text.map(pathlib.Path), st.integers())),
    (User, st.builds(User, text, st.datetimes())),
]

Case = tuple[Any, st.SearchStrategy[Any]]


def deeper(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    """Annotations with the values that fit them, around these."""
    pair, key = st.tuples(inner, inner), st.sampled_from(LEAVES[:17])
    return (
        inner.map(lambda c: (LIST[c[0]], st.lists(c[1], max_size=FEW)))
        | inner.map(lambda c: (TUPLE[c[0], ...], st.lists(c[1], max_size=FEW).map(tuple)))
        | pair.map(lambda p: (TUPLE[p[0][0], p[1][0]], st.tuples(p[0][1], p[1][1])))
        | pair.map(lambda p: (EITHER[p[0][0], p[1][0]], p[0][1] | p[1][1]))
        | key.map(lambda k: (SET[k[0]], st.frozensets(k[1], max_size=FEW)))
        | st.tuples(key, inner).map(
            lambda p: (DICT[p[0][0], p[1][0]], st.dictionaries(p[0][1], p[1][1], max_size=FEW))
        )
    )


cases = st.recursive(st.sampled_from(LEAVES), deeper, max_leaves=5)


def same(one: Any, other: Any) -> bool:
    """Equal, and of equal types all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, frozenset):
        return {(type(each), each) for each in one} == {(type(each), each) for each in other}
    return bool(one == other)


@given(st.data())
@settings(deadline=None)
def test_every_value_comes_back_or_is_refused(data: st.DataObject):
    annotation, values = data.draw(cases)
    value = data.draw(values)
    try:
        written = converter(annotation).dump(value)
    except Unfit:
        assert "|" in str(annotation) or "Union" in str(annotation)  # only unions are ambiguous
        return
    assert same(converter(annotation).load(decode(encode(written))), value)


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
)


@given(cases, json_data)
@settings(deadline=None)
def test_any_json_is_read_or_refused_and_nothing_else_happens(case: Case, data: Any):
    try:
        converter(case[0]).load(data)
    except Unfit as wrong:
        assert wrong.told("it").startswith("it")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="`type X = ...` came with Python 3.12")
def test_an_alias_may_name_itself():
    names: dict[str, Any] = {"dt": dt}
    exec("type Tree = dt.date | list[Tree]", names)
    day = dt.date(2030, 1, 1)
    assert through(names["Tree"], [day, [day, []]]) == [day, [day, []]]
