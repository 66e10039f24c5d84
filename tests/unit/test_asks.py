"""What is asked of running attempts is passed on once."""

from __future__ import annotations

from typing import Any

import pytest

from slothqueue import Sloth, StoreBusy
from slothqueue.asks import Asks


class Listener:
    """In the place of an attempt: keeps what it is sent."""

    def __init__(self) -> None:
        self.sent: list[str | None] = []

    def send(self, text: str | None) -> None:
        self.sent.append(text)


def test_what_is_sent_arrives_once_though_the_store_is_locked_meanwhile(
    sloth: Sloth, monkeypatch: pytest.MonkeyPatch
):
    job = sloth.queue("q").enqueue(1)
    assert sloth.queue("q").claim()
    waits, me, listener = sloth.store.waits, sloth.presence.id, Listener()
    sloth.store.write(lambda tx: waits.ask(tx, job.id, "send", 0, "by me", "text"))
    asks, runs = Asks(sloth.store), {job.id: listener}

    def locked(*_: Any, **__: Any) -> None:
        raise StoreBusy("locked")

    with monkeypatch.context() as patch, pytest.raises(StoreBusy):
        patch.setattr(sloth.store, "write", locked)
        asks.look(me, runs)  # type: ignore[arg-type]
    for _ in range(2):
        asks.look(me, runs)  # type: ignore[arg-type]
    assert listener.sent == ["text"]
