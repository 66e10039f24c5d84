"""A task: a Python function that can be called here and now, or enqueued to run by a worker."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, Unpack

from . import codec
from .clock import Millis
from .context import refuse_while_loading
from .errors import NotSerializable, WrongState
from .handles import Job
from .jobs import Jobs
from .models import TASK
from .options import LONGEST_KEY, NAMES, JobOptions, lease_length, new_job, parents
from .queues import Names, enqueue, enqueue_many
from .timing import Duration

if TYPE_CHECKING:
    from .typed.calls import Call

P = ParamSpec("P")
R = TypeVar("R", covariant=True)

registered: dict[str, Task[..., Any]] = {}
"""Every task of this process by name: how a pool child finds the function that it is to run."""


class Options(JobOptions, total=False):
    """What `using()` takes: as for `Queue.enqueue`, and another `queue`.

    With `pass_results` what the jobs of `after` returned are the first arguments of the call.
    """

    queue: str
    pass_results: bool


KNOWN = NAMES | {"queue", "pass_results"}


class Settings(NamedTuple):
    """What was said of a task when it was defined; `options` are for what it enqueues."""

    queue: str
    lease: Millis | None
    options: Options


class Home(Protocol):
    """Where a task enqueues: a store, or a transaction on it."""

    verbs: Jobs


class Task(Generic[P, R]):
    """Made by `@sloth.task()`; calling it is an ordinary call of the function."""

    def __init__(self, function: Callable[P, R], name: str, settings: Settings, home: Home) -> None:
        self.function, self.name, self.settings = function, name, settings
        self.home, self.options = home, Options()
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", name)
        self.__qualname__ = getattr(function, "__qualname__", name)
        self.__module__ = getattr(function, "__module__", "")
        self.__wrapped__ = function

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it here and now."""
        return self.function(*args, **kwargs)

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Have a worker run it; takes the arguments of the function itself.

        Raises TypeError if the function cannot be called like that, NotSerializable with the place
        if an argument is not what its annotation says, or has no JSON form.
        """
        refuse_while_loading()
        names, options = self._how()
        takes = options.pop("pass_results", False)
        given = len(parents(options.get("after"))) if takes else 0
        text = self._call.text(args, kwargs, given)
        if "unique" in options:
            options["unique"] = self._key(options["unique"], args, kwargs)
        return enqueue(self.home.verbs, names, text, options, takes=takes)

    def _key(self, asked: Any, args: Any, kwargs: Any) -> Any:
        """The unique key of a call: as it was given, or made of the arguments."""
        if asked is not True and not callable(asked):
            return asked
        args, kwargs = self._call.spelled_out(args, kwargs)
        if callable(asked):
            try:
                return asked(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{self.name}: its unique function: {error}") from error
        text = self._call.text(args, kwargs)
        if len(self.name) + len(text) < LONGEST_KEY:
            return f"{self.name} {text}"
        from hashlib import sha256

        return f"{self.name} {sha256(text.encode()).hexdigest()}"

    def enqueue_many(self, calls: Sequence[tuple[Any, ...] | Mapping[str, Any]]) -> list[Job]:
        """Enqueue many calls in one transaction with one wake-up; or none of them.

        Each is a tuple of the positional arguments or a dict of the arguments by name. Raises as
        `enqueue`, with the number of the call.
        """
        refuse_while_loading()
        names, options = self._how()
        takes = options.pop("pass_results", False)
        given = len(parents(options.get("after"))) if takes else 0
        texts = [self._text(n, call, given) for n, call in enumerate(calls)]
        return enqueue_many(self.home.verbs, names, texts, options, takes=takes)

    def _text(self, n: int, call: Any, given: int) -> str:
        try:
            if isinstance(call, tuple):
                return self._call.text(call, {}, given)
            if isinstance(call, Mapping):
                return self._call.text((), dict(call), given)
        except (TypeError, NotSerializable) as error:
            raise type(error)(f"calls[{n}]: {error}") from None
        raise TypeError(
            f"calls[{n}] is {codec.short(call)}: give a tuple of positional arguments, such as "
            "(value,), or a dict of arguments by name"
        )

    def _how(self) -> tuple[Names, dict[str, Any]]:
        """Where to enqueue, and with which options."""
        options: dict[str, Any] = {**self.settings.options, **self.options}
        return (options.pop("queue", self.settings.queue), TASK, self.name), options

    @property
    def _call(self) -> Call:
        from .typed import calls

        return calls.of(self.function, self.name)

    def using(self, **options: Unpack[Options]) -> Task[P, R]:
        """The same task with options for what it enqueues; see `Options`."""
        if unknown := options.keys() - KNOWN:
            raise TypeError(f"using() knows {', '.join(sorted(KNOWN))}, not {', '.join(unknown)}")
        if options.get("after") is not None:
            options["after"] = parents(options["after"])  # read now: it may be read only once
        return self._copy(self.home, Options(**{**self.options, **options}))

    def within(self, home: Home) -> Task[P, R]:
        """The same task, enqueued inside a transaction: of `transaction()` or `within(...)`."""
        return self._copy(home, self.options)

    def _copy(self, home: Home, options: Options) -> Task[P, R]:
        other: Task[P, R] = Task(self.function, self.name, self.settings, home)
        other.options = options
        return other

    def __repr__(self) -> str:
        return f"<Task {self.name}>"


def name_of(function: Callable[..., Any]) -> str:
    """`module.qualname`, with the file's stem (or the module after `-m`) for the main script."""
    module = getattr(function, "__module__", None) or "?"
    if module in ("__main__", "__mp_main__"):
        module = _main_name(module)
    return f"{module}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def _main_name(module: str) -> str:
    main = sys.modules.get(module)
    spec, path = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None and spec.name not in ("__main__", "__mp_main__"):
        return str(spec.name)
    return os.path.splitext(os.path.basename(path))[0] if path else "__main__"


def register(known: dict[str, Task[..., Any]], task: Task[..., Any]) -> None:
    """Remember a task. Two functions under one name are refused; loading one again is not."""
    from .typed import calls

    there = known.get(task.name)
    if there is not None and not _is_again(there.function, task.function):
        raise WrongState(
            f"there are two tasks named {task.name!r}: {_place(there.function)} and "
            f"{_place(task.function)}. Give one of them another name: @sloth.task(name=...)"
        )
    known[task.name] = registered[task.name] = task
    calls.known[task.name] = task.function


def _is_again(old: Callable[..., Any], new: Callable[..., Any]) -> bool:
    """Whether this is the same definition, loaded again, or a later one of the same session."""
    place = _place(new)
    return _place(old) == place or place.startswith("<")  # a notebook's cell has no file


def _place(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)


def settings(queue: str, lease: Duration | None, options: Options) -> Settings:
    """What is said of a task; the options are checked here, where they are written."""
    given = {name: value for name, value in options.items() if value is not None}
    by_call = given.get("unique") is True or callable(given.get("unique"))
    new_job(0, queue, "", 0, 0, {**given, "unique": "made of each call"} if by_call else given)
    return Settings(queue, lease_length(lease), Options(**given))  # type: ignore[typeddict-item]
