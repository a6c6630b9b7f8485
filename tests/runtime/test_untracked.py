"""Three ways to switch tracking off (ACK-6)."""

import asyncio
from typing import Any

import pytest

from engine import Bolt, Config, Fields, Spout, SpoutExhausted, TopologyBuilder, Tuple
from engine.testing import Capture
from tests.runtime.stage import Numbers, Sink, Untracked, chain, loop, play, play_run, running

pytestmark = pytest.mark.guarantee("ACK-6")
NO_ACKERS = Config(acker_executors=0)


class Pairs(Spout):
    """Emits two tuples at each poll, and records all calls in order."""

    output_fields = Fields("number")

    def __init__(self, polls: int) -> None:
        self.left = polls
        self.events: list[str] = []

    def next_tuple(self) -> None:
        if not self.left:
            raise SpoutExhausted
        self.left -= 1
        for half in "ab":
            self.collector.emit((half,), f"{self.left}{half}")
            self.events.append(f"emitted {self.left}{half}")
        self.events.append("returns")

    def ack(self, message_id: object) -> None:
        self.events.append(f"acked {message_id}")


def test_without_ackers_ack_is_called_after_the_poll_that_emitted() -> None:
    pairs = Pairs(2)
    play_run(chain(lambda: pairs, Sink), NO_ACKERS)
    first = ["emitted 1a", "emitted 1b", "returns", "acked 1a", "acked 1b"]
    assert pairs.events == first + [event.replace("1", "0") for event in first]


def test_without_ackers_ack_is_called_after_an_async_poll_has_returned() -> None:
    class Slow(Pairs):
        async def next_tuple(self) -> None:  # type: ignore[override]
            Pairs.next_tuple(self)
            await asyncio.sleep(1)
            self.events.append("slept")

    pairs = Slow(1)
    play_run(chain(lambda: pairs, Sink), NO_ACKERS)
    assert pairs.events == ["emitted 0a", "emitted 0b", "returns", "slept", "acked 0a", "acked 0b"]


def test_without_ackers_async_acks_do_not_overlap_and_keep_their_order() -> None:
    class SlowAcks(Pairs):
        async def ack(self, message_id: object) -> None:  # type: ignore[override]
            self.events.append(f"begins {message_id}")
            await asyncio.sleep(1)
            self.events.append(f"ends {message_id}")

    pairs = SlowAcks(2)
    play_run(chain(lambda: pairs, Sink), NO_ACKERS)
    acks = [event for event in pairs.events if not event.startswith(("emitted", "returns"))]
    assert acks == [f"{what} {message_id}" for message_id in ("1a", "1b", "0a", "0b") for what in ("begins", "ends")]


def test_without_ackers_an_ack_that_raises_does_not_lose_others() -> None:
    class Picky(Pairs):
        def ack(self, message_id: object) -> None:
            if message_id == "0a":
                raise ValueError("not this one")
            super().ack(message_id)

    pairs = Picky(2)
    play_run(chain(lambda: pairs, Sink, on_error="fail"), NO_ACKERS)
    assert [event for event in pairs.events if event.startswith("acked")] == ["acked 1a", "acked 1b", "acked 0b"]


def test_an_emit_without_message_id_gets_no_verdict_and_still_arrives() -> None:
    spout, sink = Untracked(10), Capture()
    run = play_run(chain(lambda: spout, sink))
    assert sink.field(0) == list(range(10))
    assert not spout.acked
    assert run.snapshot().components["__acker"].executed == 0


def test_an_emit_without_anchors_does_not_affect_its_input() -> None:
    class Detached(Bolt):
        output_fields = Fields("number")

        def execute(self, tup: Tuple) -> None:
            self.collector.emit((tup[0],))
            self.collector.ack(tup)

    got: list[int] = []

    class Failing(Bolt):
        def execute(self, tup: Tuple) -> None:
            got.append(tup[0])
            self.collector.fail(tup)

    spout = Numbers(5)
    play_run(chain(lambda: spout, Detached, Failing))
    assert spout.acked == got == list(range(5))
    assert not spout.failed


def test_a_tracked_emit_without_subscribers_is_acked_at_once() -> None:
    spout = Numbers(3)
    builder = TopologyBuilder("alone")
    builder.set_spout("source", lambda: spout)
    play_run(builder.build())
    assert spout.acked == [0, 1, 2]


@pytest.mark.parametrize("ackers", [0, 1])
def test_background_emits_without_ackers_are_acked_without_a_poll(ackers: int) -> None:
    """Given an exhausted spout, when its background work emits without subscribers, then the ack comes at once."""

    class Background(Numbers):
        def open(self) -> None:
            super().open()
            self.context.create_task(self.emit_later())

        async def emit_later(self) -> None:
            await asyncio.sleep(5)
            self.collector.emit((7,), 7)
            self.emitted_at = loop().time()

        def next_tuple(self) -> None:
            raise SpoutExhausted

        def ack(self, message_id: Any) -> None:
            super().ack(message_id)
            self.acked_at = loop().time()

    class Endless(Spout):
        output_fields = Fields("number")

        def next_tuple(self) -> None: ...

    spout = Background(0)
    builder = TopologyBuilder("background")
    builder.set_spout("source", lambda: spout)
    builder.set_spout("other", Endless)

    async def main() -> None:
        async with running(builder.build(), acker_executors=ackers):
            await asyncio.sleep(10)

    play(main)
    assert spout.acked == [7]
    assert spout.acked_at == spout.emitted_at
