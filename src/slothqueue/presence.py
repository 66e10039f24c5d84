"""The life of a handle as a holder of leases: registered at its first claim."""

from __future__ import annotations

import contextlib
import os
import threading

from .errors import SlothError
from .liveness import Incarnation, Place
from .storage.base import Holder, Store


class Presence:
    """Who we are to the others. One per handle; it costs nothing before the first claim."""

    def __init__(self, store: Store, live: str) -> None:
        self._store, self.live = store, live
        self._lock = threading.Lock()
        self._life: Incarnation | None = None
        self.tells: str | None = None
        """What a worker says of itself, JSON; told to `sloth status`."""

    @property
    def id(self) -> int:
        """Our number as a holder; registers if need be. Never call it inside a transaction."""
        life = self._life
        if life is None or life.place.boot != self._store.clock.boot():
            life = self._register()
        return life.id

    @property
    def registered(self) -> bool:
        """Whether `id` is at hand without writing anything."""
        life = self._life
        return life is not None and life.place.boot == self._store.clock.boot()

    @property
    def id_if_any(self) -> int | None:
        """The same, None if we have not registered; may be called inside a transaction."""
        return None if self._life is None else self._life.id

    @property
    def place(self) -> Place:
        """Where we are, for judging others."""
        life = self._life
        if life is not None and life.place.boot == self._store.clock.boot():
            return life.place
        return Place.here(self._store.clock)

    def is_ours(self, holder: Holder) -> bool:
        """Whether this is our own present life: nobody has to ask the kernel about that."""
        life = self._life
        return life is not None and holder.id == life.id and holder.boot == self._store.clock.boot()

    def _register(self) -> Incarnation:
        with self._lock:
            life = self._life
            if life is not None and life.place.boot == self._store.clock.boot():
                return life
            if life is not None:
                life.close()
            # First the lock, then the row: whoever sees the row can already ask the kernel.
            life = Incarnation(self.live, self._store.clock)
            holder, now = life.holder, self._store.clock.wall()
            try:
                self._store.write(
                    lambda tx: self._store.names.add_holder(tx, holder, now, self.tells),
                    durable=False,
                    tell=self.tells is not None,
                )
            except BaseException:
                life.close()
                os.unlink(life.path)
                raise
            self._life = life
            return life

    def close(self) -> None:
        """Be gone. What we still hold is for the others."""
        with self._lock:
            life, self._life = self._life, None
        if life is None:
            return
        life.close()
        # A store that is gone needs no goodbye, and others may have tidied up after us already.
        with contextlib.suppress(SlothError, OSError):
            if self._store.write(lambda tx: self._leave(tx, life.id), durable=False):
                os.unlink(life.path)

    def _leave(self, tx: object, id: int) -> bool:
        if self._store.jobs.leases_of(tx, id):
            return False
        self._store.names.end_holder(tx, id, self._store.clock.wall())
        return True

    def abandon(self) -> None:
        """In a forked child: we are nobody yet."""
        self._lock = threading.Lock()
        if self._life is not None:
            self._life.abandon()
            self._life = None
