"""Makes a copy of a store a store of its own: nothing in it belongs to processes of the original.

Without that a job that ran while it was copied would stay `running` in the copy for as long as the
original's process lives, and what the copy does to the processes of its jobs would hit those of the
original.
"""

from __future__ import annotations

import os

from .models import Ending
from .settling import settle
from .storage.base import Holder, Store, Tx


def make_own(store: Store, tx: Tx) -> int:
    """Give the copy in this transaction an id of its own, and take back what was running in it.

    Returns how many jobs that were. The store tells the time and the words; it is not touched.
    """
    names = store.names
    names.set_meta(tx, "store", os.urandom(8).hex())
    known = {holder.id: holder.label for holder in store.jobs.holders(tx)}
    taken = 0
    for held in store.jobs.leases_of(tx, None):
        taken += settle(store, tx, held, _taken_back(known.get(held.worker, "nobody known")))
    for row in names.live_holders(tx):
        _forget(store, tx, Holder(*row[: len(Holder._fields)]))
    return taken


def _taken_back(who: str) -> Ending:
    error = f"the store was copied while it ran ({who})"
    return Ending("reclaim", error=error, reason="copied")


def _forget(store: Store, tx: Tx, holder: Holder) -> None:
    names = store.names
    names.end_holder(tx, holder.id, store.clock.wall())
    names.drop_helper(tx, holder.id)
