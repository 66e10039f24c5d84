"""How one function is called through JSON: its arguments, by name and place, and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from .. import codec
from ..errors import NotSerializable
from .fitting import Converter, Unfit

known: dict[str, Callable[..., Any]] = {}
"""The functions of the tasks of this process, for whoever reads a result."""

_calls: dict[int, tuple[Callable[..., Any], Call]] = {}

# Annotations that need no reading: JSON brings such values back as they are.
_SAYS_NOTHING: set[Any] = {str, int, float, bool, None, list, dict, Any, object}
_SAYS_NOTHING |= {"str", "int", "float", "bool", "None", "list", "dict", "Any", "object"}


def forget() -> None:
    """What was read of the functions is not to be trusted any more."""
    _calls.clear()


def of(function: Callable[..., Any], name: str) -> Call:
    """How this function is called; `name` is that of its task, for errors."""
    found = _calls.get(id(function))
    if found is None:
        found = _calls[id(function)] = (function, Call(function, name))
    return found[1]


def arguments(
    function: Callable[..., Any], name: str, payload: Any
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The arguments of a call as the function wants them. Raises NotSerializable."""
    if not isinstance(payload, dict):
        raise _no_call(name)
    args, kwargs = payload.get("args", ()), payload.get("kwargs", {})
    if not isinstance(args, list | tuple) or not isinstance(kwargs, dict):
        raise _no_call(name)
    return (args, kwargs) if _plain(function) else of(function, name).load(args, kwargs)


def _no_call(name: str) -> NotSerializable:
    return NotSerializable(f'{name}: its payload must be {{"args": [...], "kwargs": {{...}}}}')


def result_text(function: Callable[..., Any], name: str, value: Any) -> str:
    """What the function returned, as JSON text. Raises NotSerializable."""
    if _plain(function):
        return codec.encode(value, "result", typed=True)
    return of(function, name).result_text(value)


def result(name: str, data: Any) -> Any:
    """What a task returned, as its type if this process knows the task; else the plain JSON."""
    function = known.get(name)
    if function is None or _plain(function):
        return data
    return of(function, name).result(data)


def _plain(function: Any) -> bool:
    """Whether a glance shows that nothing is to be converted: no need then to look closer."""
    if type(function) is not FunctionType or "__wrapped__" in vars(function):
        return False  # what it says of itself is not all
    try:
        return _SAYS_NOTHING.issuperset(function.__annotations__.values())
    except (TypeError, NameError):  # something that has no hash, or no meaning here
        return False


_ENDLESS = "{} is nested too deeply, or contains itself; give a flatter value"


class Call:
    """How one function is called. Made once for each."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        from .signatures import read  # slow to import, and commands have no use for it

        self.name = name
        self._bind, self._at, self._by_name, self._more, self._result = read(function)
        self._rest = self._at.pop() if self._at and self._at[-1][0].startswith("*") else None
        every = [each for _, each in self._at] + [*self._by_name.values(), self._more]
        self._converts = any(every) or self._rest is not None

    # ---- arguments ------------------------------------------------------------------------------

    def text(self, args: tuple[Any, ...], kwargs: dict[str, Any], given: int = 0) -> str:
        """A call as JSON text; so many arguments in front of it are given when it runs.

        Raises TypeError if the function cannot be called like that, NotSerializable with the place.
        """
        try:
            self._bind(*(None,) * given, *args, **kwargs)
        except TypeError as error:
            results = f", {given} of them results that are passed on" if given else ""
            raise TypeError(f"{self.name}: {error}{results}") from None
        done, named = self._converted(args, kwargs, "dump", given)
        try:
            return codec.encode({"args": done, "kwargs": named}, self.name)
        except NotSerializable as error:
            raise self._placed(done, named, given) or error from None

    def spelled_out(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same call with its defaults, and by place what can be given by place: however it was
        written, it looks alike."""
        bound = self._bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def load(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments of a call as the function wants them. Raises NotSerializable."""
        return self._converted(args, kwargs, "load")

    def _converted(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], way: str, first: int = 0
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        if not self._converts:
            return args, kwargs
        places = map(self._positional, range(first, first + len(args)))
        done = [self._through(way, value, *place) for value, place in zip(args, places)]
        named = {
            name: self._through(way, value, name, self._by_name.get(name, self._more))
            for name, value in kwargs.items()
        }
        return done, named

    def _positional(self, n: int) -> tuple[str, Converter | None]:
        if n < len(self._at):
            return self._at[n]
        if self._rest is None:  # too many: the call itself will say so
            return f"args[{n}]", None
        return f"{self._rest[0][1:]}[{n - len(self._at)}]", self._rest[1]

    def _through(self, way: str, value: Any, place: str, converter: Converter | None) -> Any:
        if converter is None:
            return value
        try:
            return converter.dump(value) if way == "dump" else converter.load(value)
        except Unfit as wrong:
            raise NotSerializable(f"{self.name}: {wrong.told(place)}") from None
        except RecursionError:
            raise NotSerializable(f"{self.name}: {_ENDLESS.format(place)}") from None

    def _placed(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], first: int
    ) -> NotSerializable | None:
        """The refusal of the encoder, with the name of the argument."""
        places = [(self._positional(n)[0], value) for n, value in enumerate(args, first)]
        for place, value in [*places, *kwargs.items()]:
            try:
                codec.encode(value, place, typed=True)
            except NotSerializable as error:
                return NotSerializable(f"{self.name}: {error}")
        return None

    # ---- the result -----------------------------------------------------------------------------

    def result_text(self, value: Any) -> str:
        """The result as JSON text. One that is not what the annotation says passes if it is JSON:
        the function has done its work.

        Raises NotSerializable.
        """
        converter = self._result
        if converter is None:
            return codec.encode(value, "result", typed=True)
        try:
            return codec.encode(converter.dump(value), "result", typed=True)
        except Unfit as wrong:
            refusal = NotSerializable(wrong.told("result"))
        except RecursionError:
            raise NotSerializable(_ENDLESS.format("result")) from None
        try:
            text = codec.encode(value, "result")
            converter.load(codec.decode(text))
        except NotSerializable:
            raise refusal from None
        except Unfit:
            return text
        raise refusal

    def result(self, data: Any) -> Any:
        """The result of this JSON; the JSON itself if it does not fit the annotation."""
        if self._result is None:
            return data
        try:
            return self._result.load(data)
        except Unfit:
            return data
