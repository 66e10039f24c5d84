"""A handle on a store that changes nothing: for whoever wants to know how it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from .client import Sloth
from .clock import Millis
from .reports import Mark
from .storage.base import Tx
from .storage.health import examine, newest_job
from .storage.reading import ReadingStore


class Onlooker(Sloth):
    """Looks at a store: makes no file, migrates none, writes none. Writing by it raises
    StoreReadOnly."""

    _engine = ReadingStore

    def examine(self, *, quick: bool = False) -> Iterator[Mark]:
        """What the engine can tell of its file, one thing after the other; never raises for the
        state that it is in."""
        return examine(cast(ReadingStore, self.store), quick=quick)

    def clock_notes(self, tx: Tx) -> tuple[str | None, Millis | None]:
        """Under which clock delays were asked for, and when the newest job was made."""
        return self.store.names.meta(tx, "base"), newest_job(tx)
