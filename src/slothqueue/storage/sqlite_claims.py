"""Claims on SQLite: which jobs start next, and what keeps them from it.

A claim touches the head of a lane and one row of `running`; it never walks past jobs of another
task or of later. Queues without limits and jobs without keys take the short way.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from ..clock import Millis
from ..models import EXPIRES, GATED
from .base import Claimed, Glance, Terms, Tx
from .sqlite_waits import SqliteWaits
from .statements import load

SQL = load("sqlite")
SLICE = 1_000
"""Jobs promoted in one transaction: a million due at once must not hold the lock for long."""

SPECIAL = GATED | EXPIRES
"""Jobs with one of these marks may start or not."""

SIFTED, BATCH = 4_000, 100
"""Jobs that one claim looks at when some of them may not start: the next one goes on from there."""


class Head(NamedTuple):
    """A job at the head of a lane, and what the claim has to know beside. `limits` is the number of
    its queue if that has any."""

    lane: int
    priority: int
    due: Millis
    id: int
    attempts: int
    fence: int
    timeout: Millis | None
    env: int | None
    extras: int
    payload: str
    next_due: Millis | None
    lease: Millis | None
    limits: int | None
    ageing: Millis | None

    @property
    def order(self) -> tuple[float, Millis, int]:
        """By priority, then by moment, then by id; with ageing, waiting counts as priority."""
        return rank(self.priority, self.due, self.id, self.ageing)

    def level(self, now: Millis) -> int:
        """Its priority at this moment; small is early."""
        if self.ageing is None:
            return self.priority
        return self.priority - max(now - self.due, 0) // self.ageing


def _plain(heads: Sequence[Head]) -> bool:
    """Whether all of them, of one queue, may start whatever else runs."""
    if len(heads) == 1:
        return heads[0].limits is None and not heads[0].extras & SPECIAL
    return heads[0].limits is None and not any(head.extras & SPECIAL for head in heads)


_make: Callable[..., Any] = tuple.__new__
"""Makes a named tuple of a row in a third of the time; a claim of many makes many."""


class SqliteClaims:
    """The part of `storage.base.JobVerbs` that takes jobs."""

    def __init__(self, waits: SqliteWaits) -> None:
        self.waits = waits

    # ---- looking --------------------------------------------------------------------------------

    def glance(self, tx: Tx, lane: int, now: Millis) -> Glance:
        """What there is to claim; nothing of a queue that is paused or at its limit."""
        ready, due, lease, paused, limits = tx.execute(SQL["glance"], (lane,)).fetchone()
        if paused is not None:
            return Glance(None, None, lease)
        seen = Glance(ready, due, lease)
        if limits is None or not seen.due(now):
            return seen
        room = self.waits.room(tx, limits, now)
        return seen if room.least(1) else Glance(None, room.again, lease)

    def promote(self, tx: Tx, lanes: Iterable[int], now: Millis) -> int:
        """File due jobs under ready, a slice per lane; how many there were."""
        moved = 0
        for lane in lanes:
            rows = tx.execute(SQL["due_jobs"], (lane, now, SLICE)).fetchall()
            tx.executemany(SQL["insert_ready"], rows)
            tx.executemany(SQL["unsched"], rows)
            moved += len(rows)
        return moved

    # ---- taking ---------------------------------------------------------------------------------

    def claim(
        self,
        tx: Tx,
        groups: Sequence[Sequence[int]],
        limit: int,
        now: Millis,
        terms_of: Callable[[int], Terms],
    ) -> list[Claimed]:
        """Take the first jobs of these groups of lanes, a queue each; of one priority by turns.

        `terms_of` is told the lane, and asked once for each job.
        """
        each = [self._choose(tx, lanes, limit, now) for lanes in groups]
        heads = list(_by_turns(each, limit, now))
        if not heads:
            return self._no_heads(tx, [lane for lanes in groups for lane in lanes], now)
        return self._take(tx, heads, now, lambda head: terms_of(head.lane))

    def claim_lane(
        self, tx: Tx, lane: int, limit: int, now: Millis, terms_of: Callable[[Millis | None], Terms]
    ) -> list[Claimed]:
        """Take the first jobs of one lane, all on the same terms; `terms_of` is told the queue's
        lease.

        Reads first, so that a transaction which finds nothing takes no lock.
        """
        heads = self._heads(tx, lane, limit)
        if self._is_late(tx, lane, heads, now):
            self.promote(tx, [lane], now)
            heads = self._heads(tx, lane, limit)
        if not heads:
            return self._no_heads(tx, [lane], now)
        first = heads[0]
        if first.ageing is None and _plain(heads):
            return self._take_all(tx, heads, limit, now, terms_of(first.lease))
        heads = self._sift(tx, [lane], limit, first, now)
        return self._take(tx, heads, now, lambda head: terms_of(head.lease)) if heads else []

    def _take(
        self, tx: Tx, heads: Sequence[Head], now: Millis, terms_of: Callable[[Head], Terms]
    ) -> list[Claimed]:
        floor = now * 1000  # a fence grows at every claim, whatever was restored or revived
        claimed = [_claimed(head, floor, now, terms_of(head)) for head in heads]
        tx.executemany(SQL["insert_running"], [one[:9] for one in claimed])
        tx.executemany(SQL["unready"], [head[:4] for head in heads])
        for queue in {head.limits for head in heads if head.limits is not None}:
            starts = [(o.id, o.fence) for o, head in zip(claimed, heads) if head.limits == queue]
            self.waits.started(tx, queue, starts, now)
        return claimed

    def _take_all(
        self, tx: Tx, heads: Sequence[Head], limit: int, now: Millis, terms: Terms
    ) -> list[Claimed]:
        """The same for one lane that has no limits: two statements in place of two for each."""
        floor = now * 1000
        claimed = [_claimed(head, floor, now, terms) for head in heads]
        if len(heads) == 1:
            tx.execute(SQL["insert_running"], claimed[0][:9])
            tx.execute(SQL["unready"], heads[0][:4])
        else:
            tx.execute(SQL["run_heads"], (heads[0].lane, limit, floor, *terms[:2], now, *terms[2:]))
            tx.execute(SQL["unready_upto"], heads[-1][:4])
        return claimed

    def _is_late(self, tx: Tx, lane: int, heads: Sequence[Head], now: Millis) -> bool:
        due = heads[0].next_due if heads else self.glance(tx, lane, now).next_due
        return due is not None and due <= now

    def _no_heads(self, tx: Tx, lanes: Sequence[int], now: Millis) -> list[Claimed]:
        """Nothing to claim; forget what is filed without a job: somebody has deleted it."""
        for lane in lanes:
            if self.glance(tx, lane, now).ready is not None:
                tx.execute(SQL["drop_orphans"], (lane,))
        return []

    # ---- choosing -------------------------------------------------------------------------------

    def _choose(self, tx: Tx, lanes: Sequence[int], limit: int, now: Millis) -> list[Head]:
        """The first jobs of the lanes of one queue that may start."""
        heads = self.first(tx, lanes, limit)
        if not heads or _plain(heads):
            return heads
        return self._sift(tx, lanes, limit, heads[0], now)

    def first(self, tx: Tx, lanes: Sequence[int], limit: int) -> list[Head]:
        """In start order; with ageing, that of each moment."""
        each = [self._heads(tx, lane, limit) for lane in lanes]
        if any(heads and heads[0].ageing is not None for heads in each):
            each = [self._aged(tx, lane, limit) for lane in lanes]
        if len(each) == 1:
            return each[0]
        return heapq.nsmallest(limit, (h for heads in each for h in heads), key=_order)

    def _heads(self, tx: Tx, lane: int, limit: int) -> list[Head]:
        return [_make(Head, row) for row in tx.execute(SQL["heads"], (lane, limit)).fetchall()]

    def _aged(self, tx: Tx, lane: int, limit: int) -> list[Head]:
        """Those of each priority that are due longest; the order between them moves with time."""
        found: list[Head] = []
        level = -(1 << 62)
        while (row := tx.execute(SQL["next_level"], (lane, level)).fetchone())[0] is not None:
            level = row[0]
            found += [Head(*r) for r in tx.execute(SQL["level_heads"], (lane, limit, level))]
        return heapq.nsmallest(limit, found, key=_order)

    def _sift(self, tx: Tx, lanes: Sequence[int], limit: int, one: Head, now: Millis) -> list[Head]:
        """Leave out what may not start: it is filed where no claim walks past it again."""
        if one.limits is not None:
            limit = self.waits.room(tx, one.limits, now).least(limit)
        seen, fit = 0, []
        while limit and seen < SIFTED:
            heads = self.first(tx, lanes, max(limit, BATCH))
            fit = list(self._fit(tx, heads, limit, now))
            seen += len(heads)
            if len(fit) in (limit, len(heads)):
                break
        return fit

    def _fit(self, tx: Tx, heads: Sequence[Head], limit: int, now: Millis) -> Iterator[Head]:
        taken: dict[str, int] = {}
        passing = (head for head in heads if self._passes(tx, head, now, taken))
        yield from islice(passing, limit)

    def _passes(self, tx: Tx, head: Head, now: Millis, taken: dict[str, int]) -> bool:
        if not head.extras & SPECIAL:
            return True
        return self.waits.passes(tx, head.id, head[:3], now, taken)


def rank(priority: int, due: Millis, id: int, ageing: Millis | None) -> tuple[float, Millis, int]:
    """The place of a job among those that are due."""
    if ageing is None:
        return priority, due, id
    return due + priority * ageing, due, id


def _order(head: Head) -> tuple[float, Millis, int]:
    return head.order


def _by_turns(each: Sequence[Sequence[Head]], limit: int, now: Millis) -> Iterator[Head]:
    """The first of all queues; those of one priority take turns, in the order that is given."""
    left = [list(reversed(heads)) for heads in each]
    turns = [0] * len(left)
    for _ in range(limit):
        waiting = [(left[i][-1].level(now), turns[i], i) for i in range(len(left)) if left[i]]
        if not waiting:
            return
        _, _, first = min(waiting)
        turns[first] += 1
        yield left[first].pop()


def _claimed(head: Head, floor: int, now: Millis, terms: Terms) -> Claimed:
    lane, _, _, id, attempts, fence, timeout, env, extras, payload, _, _, _, _ = head
    holder, worker, lease, until = terms
    ours = (id, lane, attempts + 1, max(fence + 1, floor), holder, worker, now)
    claimed: Claimed = _make(Claimed, (*ours, lease, until, timeout, payload, env, extras))
    return claimed
