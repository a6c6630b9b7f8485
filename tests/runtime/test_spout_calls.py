"""The methods of one spout task never overlap, whether plain or async (ACK-10)."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from engine import Bolt, Spout, SpoutExhausted, Tuple
from engine.api import Fields
from tests.runtime.stage import LogLines, Numbers, Sink, chain, play, play_run, running

pytestmark = pytest.mark.guarantee("ACK-10")


class Guarded(Spout):
    """All methods are async, take a while, and detect another one that runs at the same time."""

    output_fields = Fields("number")

    def __init__(self, count: int) -> None:
        self.count = count
        self.inside: list[str] = []
        self.calls: list[str] = []

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        assert not self.inside, (name, self.inside)
        self.inside.append(name)
        self.calls.append(name)
        try:
            yield
        finally:
            self.inside.remove(name)

    async def open(self) -> None:
        with self.alone("open"):
            await asyncio.sleep(0.01)
            self.left = list(range(self.count))

    async def activate(self) -> None:
        with self.alone("activate"):
            await asyncio.sleep(0.01)

    async def deactivate(self) -> None:
        with self.alone("deactivate"):
            await asyncio.sleep(0.01)

    async def next_tuple(self) -> None:
        with self.alone("next_tuple"):
            await asyncio.sleep(0.003)
            if not self.left:
                raise SpoutExhausted
            number = self.left.pop(0)
            self.collector.emit((number,), number)
            await asyncio.sleep(0.003)

    async def ack(self, message_id: Any) -> None:
        with self.alone("ack"):
            await asyncio.sleep(0.004)

    async def fail(self, message_id: Any) -> None:
        assert self.context.failure is not None
        with self.alone("fail"):
            await asyncio.sleep(0.004)
            assert self.context.failure is not None
            self.left.append(message_id)

    async def close(self) -> None:
        with self.alone("close"):
            await asyncio.sleep(0.01)


class Flaky(Bolt):
    """Fails each number once."""

    def prepare(self) -> None:
        self.seen: set[int] = set()

    def execute(self, tup: Tuple) -> None:
        again = tup[0] in self.seen
        self.seen.add(tup[0])
        (self.collector.ack if again else self.collector.fail)(tup)


@pytest.mark.parametrize("seed", range(5))
def test_async_methods_of_a_spout_never_overlap(seed: int) -> None:
    spout = Guarded(40)

    async def main() -> None:
        async with running(chain(lambda: spout, Flaky)) as run:
            for _ in range(5):
                await asyncio.sleep(0.02)
                await run.deactivate()
                await asyncio.sleep(0.02)
                await run.activate()
            await run.completed()

    play(main, shuffle=Random(seed))
    assert spout.calls.count("ack") == spout.calls.count("fail") == 40
    assert spout.calls[0] == "open"
    assert spout.calls[-1] == "close"
    assert spout.calls.count("deactivate") == 5


def test_deactivate_waits_for_the_running_poll_and_returns_after_the_hook() -> None:
    spout = Guarded(1000)

    async def main() -> None:
        async with running(chain(lambda: spout, Sink)) as run:
            await asyncio.sleep(0.0301)
            assert spout.inside
            await run.deactivate()
            assert "deactivate" in spout.calls[-3:]
            polls = spout.calls.count("next_tuple")
            await asyncio.sleep(1)
            assert spout.calls.count("next_tuple") == polls

    play(main)


def test_plain_and_async_methods_can_be_mixed() -> None:
    class Mixed(Numbers):
        async def next_tuple(self) -> None:  # type: ignore[override]
            Numbers.next_tuple(self)

    spout = Mixed(100)
    play_run(chain(lambda: spout, Sink))
    assert spout.acked == list(range(100))


def test_an_async_poll_that_emits_nothing_is_polled_again_after_growing_pauses() -> None:
    times: list[float] = []

    class Empty(Spout):
        output_fields = Fields("number")

        async def next_tuple(self) -> None:
            times.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0)

    async def main() -> None:
        async with running(chain(Empty, Sink)):
            await asyncio.sleep(1)

    play(main)
    pauses = [round((after - before) * 1000) for before, after in pairwise(times)]
    assert pauses[:9] == [1, 2, 4, 8, 16, 32, 64, 64, 64]


def test_an_async_poll_that_waits_long_logs_a_warning_once_a_minute() -> None:
    class Waiting(Numbers):
        async def next_tuple(self) -> None:  # type: ignore[override]
            await asyncio.sleep(2)
            Numbers.next_tuple(self)

    spout = Waiting(60)
    with LogLines() as log:
        play_run(chain(lambda: spout, Sink))
    warnings = log.having("an async method of spout 'source'")
    assert len(warnings) == 3, warnings
    assert "500 ms" in warnings[0]


def test_a_spout_method_that_returns_a_value_is_an_error_that_names_it() -> None:
    class Wrong(Numbers):
        def next_tuple(self) -> None:
            super().next_tuple()
            return 5  # type: ignore[return-value]

    spout = Wrong(2)
    with LogLines() as log:
        play_run(chain(lambda: spout, Sink, on_error="fail"))
    assert log.having("a method returned 5 (int)")
    assert spout.acked == [0, 1]
