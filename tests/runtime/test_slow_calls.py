"""A call that holds the loop longer than slow_call_warn_ms causes a warning, at most once a minute."""

import asyncio
from typing import Any

import pytest

from engine import BasicBolt, Bolt, Tuple
from tests.runtime.stage import Endless, LogLines, Numbers, Sink, chain, loop, play, play_run, running


def slow_component(where: str, secs: float) -> tuple[Any, Any]:
    """Build a spout and a bolt. One method of one of them holds the loop at every call."""

    def hold(method: str) -> None:
        if method == where:
            loop().advance(secs)

    class Source(Numbers):
        def next_tuple(self) -> None:
            hold("next_tuple")
            super().next_tuple()

        def ack(self, message_id: Any) -> None:
            hold("ack")
            super().ack(message_id)

    class AsyncSource(Numbers):
        async def next_tuple(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            hold("async next_tuple")
            Numbers.next_tuple(self)

    class Plain(Sink):
        def execute(self, tup: Tuple) -> None:
            hold("execute")
            super().execute(tup)

    class Yields(BasicBolt):
        def execute(self, tup: Tuple) -> Any:
            yield from ()
            hold("yield")

    class Async(Sink):
        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            hold("async execute")
            self.collector.ack(tup)

    class AsyncAfter(Sink):
        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            await asyncio.sleep(0.001)
            hold("async execute after an await")
            await asyncio.sleep(0.001)
            self.collector.ack(tup)

    class Concurrent(AsyncAfter):
        concurrency = 4

        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            await asyncio.sleep(0.001)
            hold("concurrent execute")
            self.collector.ack(tup)

    bolts: dict[str, type[Bolt] | type[BasicBolt]] = {
        "yield": Yields, "async execute": Async, "async execute after an await": AsyncAfter, "concurrent execute": Concurrent,
    }  # fmt: skip
    return AsyncSource if where == "async next_tuple" else Source, bolts.get(where, Plain)


PLACES = [
    "next_tuple", "ack", "async next_tuple", "execute", "yield", "async execute", "async execute after an await", "concurrent execute",
]  # fmt: skip


@pytest.mark.parametrize("where", PLACES)
def test_a_call_that_blocks_the_loop_logs_a_warning(where: str) -> None:
    source, bolt = slow_component(where, 0.6)
    with LogLines() as log:
        play_run(chain(lambda: source(3), bolt))
    (warning,) = log.having("held the event loop for")
    assert ("spout 'source'" if where in ("next_tuple", "ack", "async next_tuple") else "bolt 'bolt1'") in warning
    assert "600 ms" in warning


@pytest.mark.parametrize("where", PLACES)
def test_a_quick_call_logs_no_warning(where: str) -> None:
    source, bolt = slow_component(where, 0.4)
    with LogLines() as log:
        play_run(chain(lambda: source(10), bolt))
    assert not log.having("held the event loop for")


def test_the_warning_is_logged_once_a_minute_at_most() -> None:
    class Slow(Sink):
        def execute(self, tup: Tuple) -> None:
            loop().advance(1)
            super().execute(tup)

    with LogLines() as log:
        play_run(chain(lambda: Numbers(150), Slow))
    assert len(log.having("held the event loop for")) == 3


def test_the_limit_is_a_setting() -> None:
    source, bolt = slow_component("execute", 0.04)

    async def main() -> None:
        async with running(chain(lambda: source(3), bolt), slow_call_warn_ms=30) as run:
            await run.completed()

    with LogLines() as log:
        play(main)
    assert len(log.having("held the event loop for 40 ms")) == 1


def test_a_call_that_waits_does_not_block_the_loop() -> None:
    class Waits(Sink):
        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            await asyncio.sleep(5)
            self.collector.ack(tup)

    with LogLines() as log:
        play_run(chain(lambda: Numbers(3), Waits))
    assert not log.having("held the event loop for")


def test_many_quick_calls_are_not_a_slow_call() -> None:
    class Quick(Sink):
        def execute(self, tup: Tuple) -> None:
            loop().advance(0.1)
            super().execute(tup)

    with LogLines() as log:
        play_run(chain(lambda: Numbers(100), Quick))
    assert not log.having("held the event loop for")


def test_calls_that_all_become_slower_are_not_a_slow_call() -> None:
    class Slows(Sink):
        def execute(self, tup: Tuple) -> None:
            loop().advance(0.1 if tup[0] > 1000 else 0.00001)
            super().execute(tup)

    with LogLines() as log:
        play_run(chain(lambda: Numbers(1100), Slows))
    assert not log.having("held the event loop for")


def test_one_slow_call_among_quick_ones_is_logged_with_its_length() -> None:
    class Mixed(Sink):
        def execute(self, tup: Tuple) -> None:
            loop().advance(2.0 if tup[0] == 777 else 0.00001)
            super().execute(tup)

    with LogLines() as log:
        play_run(chain(lambda: Numbers(2000), Mixed))
    (warning,) = log.having("held the event loop for")
    assert 1995 <= int(warning.partition(" ms")[0].rpartition(" ")[2]) <= 2005


def test_a_raising_call_that_blocks_the_loop_logs_a_warning_too() -> None:
    class SlowAndWrong(Sink):
        on_error = "fail"

        def execute(self, tup: Tuple) -> None:
            loop().advance(1)
            raise ValueError("and wrong")

    with LogLines() as log:
        play_run(chain(lambda: Numbers(1), SlowAndWrong))
    assert log.having("held the event loop for 1000 ms")


def test_an_idle_run_logs_no_warning() -> None:
    async def main() -> None:
        async with running(chain(Endless, Sink)):
            await asyncio.sleep(100)

    with LogLines() as log:
        play(main)
    assert not log.lines
