"""Common parts of the executor's tests: strict runs on a virtual loop, and components that keep a record."""

import asyncio
import gc
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from typing import Any

import engine
from engine import Bolt, ComponentError, Config, Fields, Run, Spout, SpoutExhausted, Topology, TopologyBuilder, Tuple
from engine.errors import Failure
from engine.testing import Feeder
from engine.testing.virtual_loop import VirtualTimeLoop, run_virtual

SEED = int(os.environ.get("TEST_SEED", "1"))
"""The seed of runs that do not choose one; TEST_SEED=n tries another."""


def play(main: Callable[[], Coroutine[Any, Any, Any]], **options: Any) -> Any:
    """Run main in virtual time. A leftover task, or an error that reaches nobody, fails the test."""
    options.setdefault("limit_secs", 3600.0)
    return run_virtual(strict(main), **options)


@cache
def freeze_modules() -> None:
    """Let later collections pass over all that is loaded. To go through it takes 0.1 s, after each run."""
    gc.collect()
    gc.freeze()


def strict(main: Callable[[], Coroutine[Any, Any, Any]]) -> Callable[[], Coroutine[Any, Any, Any]]:
    """Wrap main so that errors that the loop would only log fail the test at its end."""

    async def run() -> Any:
        unheard: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unheard.append(context))
        freeze_modules()
        result = await main()
        gc.collect()
        await asyncio.sleep(0)
        assert not unheard, unheard
        return result

    return run


def play_run(topology: Topology, config: Config | None = None, **options: Any) -> Run:
    """Run a topology in virtual time until it is complete, and return the run."""

    chosen = config or (topology.config or Config()).replace(seed=SEED)

    async def main() -> Run:
        async with engine.run(topology, chosen) as run:
            await run.completed()
        return run

    return play(main, **options)


def loop() -> VirtualTimeLoop:
    """Return the running virtual loop."""
    running = asyncio.get_running_loop()
    assert isinstance(running, VirtualTimeLoop)
    return running


def chain(source: Any, *bolts: Any, **settings: Any) -> Topology:
    """Build a topology of `source` and the bolts `bolt1`, `bolt2`, … in a row. The settings are for the source."""
    builder = TopologyBuilder("chain")
    builder.set_spout("source", source, **settings)
    before = "source"
    for number, bolt in enumerate(bolts, 1):
        builder.set_bolt(f"bolt{number}", bolt).shuffle_grouping(before)
        before = f"bolt{number}"
    return builder.build()


@asynccontextmanager
async def running(topology: Topology, **settings: Any) -> AsyncIterator[Run]:
    """Enter a run."""
    async with engine.run(topology, Config(**({"seed": SEED} | settings))) as run:
        yield run


@asynccontextmanager
async def failing(entered: AbstractAsyncContextManager[Run]) -> AsyncIterator[Run]:
    """Enter a run that must fail inside the block, so that leaving it raises `run.error` (SV-4)."""
    raised: ComponentError | None = None
    try:
        async with entered as run:
            yield run
    except ComponentError as error:
        raised = error
    assert raised is not None, "the run has not failed"
    assert raised is run.error


def number_feeder(count: int, *, max_retries: int = 0) -> Feeder:
    """Return a closed feeder with the numbers below `count`."""
    feeder = Feeder("number", max_retries=max_retries)
    feeder.feed_all((number,) for number in range(count))
    feeder.close()
    return feeder


class Numbers(Spout):
    """Emits 0 to count - 1, each as its own tree. With `replays`, failed numbers are emitted again."""

    output_fields = Fields("number")

    def __init__(self, count: int, *, replays: bool = False, first: int = 0) -> None:
        self.numbers = range(first, first + count)
        self.replays = replays
        self.acked: list[int] = []
        self.failed: list[int] = []
        self.failures: list[Failure] = []
        self.polls = 0

    def open(self) -> None:
        self.waiting = deque(self.numbers)

    def next_tuple(self) -> None:
        self.polls += 1
        if not self.waiting:
            raise SpoutExhausted
        number = self.waiting.popleft()
        self.collector.emit((number,), number)

    def ack(self, message_id: Any) -> None:
        self.acked.append(message_id)

    def fail(self, message_id: Any) -> None:
        assert self.context.failure is not None
        self.failed.append(message_id)
        self.failures.append(self.context.failure)
        if self.replays:
            self.waiting.append(message_id)


class EverySecond(Numbers):
    """Emits a number every second."""

    async def next_tuple(self) -> None:  # type: ignore[override]
        await asyncio.sleep(1)
        super().next_tuple()


class Untracked(Numbers):
    """Emits its numbers without message ids."""

    def next_tuple(self) -> None:
        if not self.waiting:
            raise SpoutExhausted
        self.collector.emit((self.waiting.popleft(),))


class Endless(Spout):
    """Emits nothing, and is never exhausted."""

    output_fields = Fields("number")

    def next_tuple(self) -> None:
        return None


class Counting(Spout):
    """Emits 1, 2, 3, … as fast as it is polled."""

    output_fields = Fields("number")

    def open(self) -> None:
        self.number = 0

    def next_tuple(self) -> None:
        self.number += 1
        self.collector.emit((self.number,), self.number)


class AtOnce(Numbers):
    """Emits all its numbers at its first poll."""

    def next_tuple(self) -> None:
        self.polls += 1
        if not self.waiting:
            raise SpoutExhausted
        numbers = list(self.waiting)
        self.waiting.clear()
        self.collector.emit_many([(number,) for number in numbers], numbers)


class Keeper(Bolt):
    """Keeps its inputs and settles none. It can forget them, which `engine.testing.Capture` cannot."""

    def __init__(self) -> None:
        self.kept: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        self.kept.append(tup)


class Sink(Bolt):
    """Acks its inputs. A test that looks at the inputs uses `engine.testing.Capture`."""

    def execute(self, tup: Tuple) -> None:
        self.collector.ack(tup)


class PassOn(Bolt):
    """Emits each number again, anchored to its input, and acks the input."""

    output_fields = Fields("number")

    def execute(self, tup: Tuple) -> None:
        self.collector.emit((tup[0],), tup)
        self.collector.ack(tup)


class Fails(Bolt):
    """Fails its inputs."""

    def execute(self, tup: Tuple) -> None:
        self.collector.fail(tup)


class FailsTwo(Bolt):
    """Fails the number 2, and acks the others."""

    def execute(self, tup: Tuple) -> None:
        (self.collector.fail if tup[0] == 2 else self.collector.ack)(tup)


class Forgets(Bolt):
    """Neither acks nor fails its inputs."""

    def execute(self, tup: Tuple) -> None:
        return None


class LogLines(logging.Handler):
    """Collects the log messages of the engine inside a `with` block."""

    def __init__(self, *loggers: str) -> None:
        super().__init__()
        self.loggers = [logging.getLogger(name) for name in loggers or ("engine",)]
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def lines(self) -> list[str]:
        return [record.getMessage() for record in self.records]

    def having(self, text: str) -> list[str]:
        return [line for line in self.lines if text in line]

    def __enter__(self) -> "LogLines":
        for logger in self.loggers:
            logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        for logger in self.loggers:
            logger.removeHandler(self)
