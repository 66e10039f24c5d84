"""What the dictionary knows of a queue, of a job and of a lease. Times are in ms."""

from __future__ import annotations

from dataclasses import dataclass, field

ENDED = ("done", "failed", "cancelled")


@dataclass
class Lease:
    """What the model knows of a lease that was handed out."""

    job: int
    fence: int
    handle: int
    boot: str
    length: int
    until: int
    alive: bool = True


@dataclass
class Job:
    """`because` says what a cancelled job was cancelled for: `by:TEXT`, `expired`, `replaced:ID` or
    `parent`; then `parent` is the one that the store names."""

    id: int
    queue: str
    priority: int
    due: int
    max_attempts: int
    asked: int
    base: int | None = None
    key: str | None = None
    parents: list[int] = field(default_factory=list)
    after_failed: str = "cancel"
    expires: int | None = None
    expires_base: int | None = None
    gate: tuple[str, int] | None = None
    on_interrupt: str = "retry"
    held: bool = False
    budget: int = 0
    ready: bool = False
    """Whether its moment has come; it does not go again when the clock is set back."""
    waits: set[int] = field(default_factory=set)
    state: str = "queued"
    attempts: int = 0
    spent: int = 0
    error: str | None = None
    fence: int = 0
    lease: Lease | None = None
    asked_to_stop: str | None = None
    because: str | None = None
    parent: int | None = None
    finished: int = 0
    tokens: set[str] = field(default_factory=set)
    told: list[tuple[str, int | None, str | None]] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def parked(self) -> bool:
        """Whether it waits for more than its moment and its turn."""
        return self.held or bool(self.waits)

    def is_expired(self, wall: int) -> bool:
        return self.expires is not None and self.expires <= wall


@dataclass
class Options:
    """Of a queue."""

    lease: int = 60_000
    base: int = 2
    cap: int = 3_600_000
    max_attempts: int = 4
    concurrency: int | None = None
    rate: tuple[int, int] | None = None
    ageing: int | None = None
    keep: int | None = 7 * 86_400_000
