"""What all converters have in common: what they are asked for, and how they refuse."""

from __future__ import annotations

from typing import Any, Protocol

from .. import codec


class Unfit(Exception):
    """A value or its JSON does not fit an annotation. The place is told from the inside out."""

    def __init__(self, wrong: str, *, stranger: bool = False) -> None:
        super().__init__(wrong)
        self.wrong, self._stranger = wrong, stranger
        self._steps: list[str | int] = []

    def under(self, step: str | int) -> Unfit:
        """The same, seen from what holds it under this key or at this index."""
        self._steps.append(step)
        return self

    @property
    def nearness(self) -> int:
        """How nearly it fits: 0 for a value of another type, more the deeper the fault is."""
        return 2 * len(self._steps) + (not self._stranger)

    def told(self, place: str) -> str:
        """The sentence for people; `place` names the outermost value."""
        for step in reversed(self._steps):
            place = codec.step(place, step)
        return f"{place} {self.wrong}"


class Converter(Protocol):
    """Turns the values of one annotation into JSON and back."""

    name: str
    """What a person calls it, such as `datetime` or `list`."""

    kinds: frozenset[type]
    """The Python types of the JSON that it writes."""

    rank: int
    """Among several that could read the same JSON, the one with the lowest rank reads it."""

    same: bool
    """Whether its values are JSON as they are, and come back so by themselves."""

    def dump(self, value: Any) -> Any:
        """The value as JSON. Raises Unfit."""
        ...

    def load(self, data: Any) -> Any:
        """The value of this JSON. Raises Unfit."""
        ...


NULL = type(None)
SCALARS = frozenset({NULL, bool, int, float, str})
EVERYTHING = SCALARS | {list, dict}

# Ranks: the narrow before the wide.
EXACT, NARROW, OWN, WIDE, RECORD, GENERAL, UNKNOWN, ANYTHING = range(0, 80, 10)


def unfit(value: Any, name: str, remedy: str = "") -> Unfit:
    """That this value is not one of these."""
    wrong = f"is {told(value)}, and not {codec.article(name)} {name}"
    return Unfit(f"{wrong}; {remedy}" if remedy else wrong, stranger=True)


def told(value: Any) -> str:
    """A value for people: itself when it is short by nature, else its type."""
    if type(value) in SCALARS:
        return codec.short(value)
    name = type(value).__name__
    return f"{codec.article(name)} {name}"


def broken(action: str, name: str, error: Exception) -> Unfit:
    """That code of the user's own has refused."""
    text = " ".join(str(error).split())[:400]
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return Unfit(f"could not be {action} {codec.article(name)} {name}: {said}")
