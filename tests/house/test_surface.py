"""The public surface is what `__all__` names, and changes only on purpose."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

import pytest

import slothqueue
from slothqueue import errors

from . import surface
from .code import nothing

# What the design pins, as far as it exists by now.
PINNED = {"Sloth", "ManualClock", "Retry", "Snooze", "Discard", "current_job"}


@pytest.fixture(params=surface.MODULES)
def module(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.param)


def test_the_surface_is_the_one_that_was_reviewed():
    stored = surface.STORED.read_text(encoding="utf-8").splitlines()
    assert list(surface.lines()) == stored, (
        "the public surface has changed; if that is meant: python -m tests.house.surface"
    )


def test_every_public_name_is_there_once(module: ModuleType):
    assert len(module.__all__) == len(set(module.__all__))
    nothing(name for name in module.__all__ if not hasattr(module, name))


def test_nothing_of_ours_is_public_by_accident(module: ModuleType):
    of_ours = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and str(getattr(value, "__module__", "")).startswith("slothqueue")
    }
    nothing(sorted(of_ours - set(module.__all__)))


def test_every_pinned_name_is_public():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    names = PINNED | {kind.__name__ for kind in kinds}
    nothing(sorted(names - set(slothqueue.__all__)))


def test_everything_public_says_what_it_promises(module: ModuleType):
    silent = []
    for name in module.__all__:
        thing = getattr(module, name)
        if not (isinstance(thing, type) or inspect.isroutine(thing)):
            continue
        # A class that says nothing has the words of its base, or those made for a NamedTuple.
        words = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__
        if not words or words.startswith(f"{name}("):
            silent.append(name)
    nothing(silent)


def test_every_public_method_says_what_it_promises(module: ModuleType):
    silent = []
    for name in module.__all__:
        thing = getattr(module, name)
        for member, value in surface.members(thing).items() if isinstance(thing, type) else ():
            if inspect.isfunction(value) and not member.startswith("__") and not value.__doc__:
                silent.append(f"{name}.{member}")
    nothing(silent)
