"""Loads the user's program for the definitions in it: what it does with a store is left out.

A pool child loads the main script, or a module, to find the function that it is to run; a worker
loads the module of `--app`. Neither may enqueue what the program enqueues, or start its workers
again: there would be no end to it. So the first touch of a store stops the loading, and what was
defined until then is what there is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import NamedTuple

from . import context
from .context import Loading

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep

MAIN = "__mp_main__"
"""The name under which a main script is loaded again; multiprocessing calls it so too."""


class Loaded(NamedTuple):
    """A module, and the place at which its loading stopped, if it did not come to its end."""

    module: ModuleType
    stopped_at: str | None


def module(name: str) -> Loaded:
    """A module by its name. Raises what it raises itself."""
    if name in sys.modules:
        return Loaded(sys.modules[name], None)
    return _load(name, lambda: _import(name))


def _import(name: str) -> ModuleType:
    """As `import` does it, but a module that is stopped stays where others find it."""
    from importlib.util import find_spec, module_from_spec

    spec = find_spec(name)  # imports the packages above it
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    made = module_from_spec(spec)
    sys.modules[name] = made
    try:
        spec.loader.exec_module(made)
    except Loading:
        raise
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return sys.modules[name]


def main(how: dict[str, str]) -> Loaded:
    """The main script of another process, by its path or by the name behind `python -m`."""
    made = ModuleType(MAIN)

    def run() -> ModuleType:
        code = _by_name(made, how["module"]) if "module" in how else _by_path(made, how["path"])
        # Under both names, for what looks up the classes and functions in it.
        sys.modules[MAIN] = sys.modules["__main__"] = made
        exec(code, made.__dict__)
        return made

    try:
        return _load(MAIN, run)
    except SystemExit:
        return Loaded(made, None)  # what was defined until then is what there is
    except Exception as error:
        error.add_note(_NOTE)
        raise


def _load(name: str, run: Callable[[], ModuleType]) -> Loaded:
    before, context.loading = context.loading, True
    try:
        return Loaded(run(), None)
    except Loading as stop:
        stopped = sys.modules.get(name)
        if stopped is None:  # a package above it touches a store
            raise ImportError(
                f"{name} cannot be loaded: {_place(stop, None)} uses a store"
            ) from None
        return Loaded(stopped, _place(stop, stopped))
    finally:
        context.loading = before


_NOTE = (
    "(A pool child loads the main script to find the tasks in it. What only the script itself "
    'should do belongs under `if __name__ == "__main__":`.)'
)


def _by_path(made: ModuleType, path: str) -> CodeType:
    made.__file__ = path
    with open(path, "rb") as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


def _by_name(made: ModuleType, name: str) -> CodeType:
    """As `python -m name` does it, for relative imports to work."""
    from importlib.util import find_spec

    spec = find_spec(name)
    if spec is None or spec.loader is None:
        raise ImportError(f"there is no module {name} here", name=name)
    made.__file__ = spec.origin
    made.__spec__, made.__loader__, made.__package__ = spec, spec.loader, spec.parent
    return spec.loader.get_code(name)  # type: ignore[attr-defined,no-any-return]


def _place(stop: Loading, stopped: ModuleType | None) -> str:
    """The line of that module, or of the user's code that was deepest, which touched the store."""
    found = "?"
    trace = stop.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        theirs = not frame.f_code.co_filename.startswith(_OURS)
        if theirs if stopped is None else frame.f_globals is stopped.__dict__:
            found = f"{frame.f_code.co_filename}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return found
