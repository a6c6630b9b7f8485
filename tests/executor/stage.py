"""What the tests of execution share: a loop that forgives nothing, and components that write down what happens to them."""

import asyncio
import gc
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import engine
from engine import Bolt, ComponentError, Config, Fields, Run, Spout, SpoutExhausted, Topology, TopologyBuilder, Tuple
from engine.errors import Failure
from engine.testing.virtual_loop import VirtualTimeLoop, run_virtual

SEED = int(os.environ.get("TEST_SEED", "1"))
"""The seed of runs that do not choose one; TEST_SEED=n tries another."""


def play(main: Callable[[], Coroutine[Any, Any, Any]], **options: Any) -> Any:
    """Run main on a loop with virtual time; a task left over, or an error that nobody hears of, fails the test."""
    options.setdefault("limit_secs", 3600.0)
    return run_virtual(strict(main), **options)


def strict(main: Callable[[], Coroutine[Any, Any, Any]]) -> Callable[[], Coroutine[Any, Any, Any]]:
    """main, on a loop of any kind, with every error that would only be logged by the loop raised at its end."""

    async def run() -> Any:
        unheard: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unheard.append(context))
        result = await main()
        gc.collect()
        await asyncio.sleep(0)
        assert not unheard, unheard
        return result

    return run


def play_run(topology: Topology, config: Config | None = None, **options: Any) -> Run:
    """Run a topology on a virtual loop until it is complete; the run, for what it shows."""

    chosen = config or (topology.config or Config()).replace(seed=SEED)

    async def main() -> Run:
        async with engine.run(topology, chosen) as run:
            await run.completed()
        return run

    return play(main, **options)


def loop() -> VirtualTimeLoop:
    """The running virtual loop."""
    running = asyncio.get_running_loop()
    assert isinstance(running, VirtualTimeLoop)
    return running


def chain(source: Any, *bolts: Any, **settings: Any) -> Topology:
    """`source`, and behind it the bolts `bolt1`, `bolt2`, …, each fed by the one before; settings are the source's."""
    builder = TopologyBuilder("chain")
    builder.set_spout("source", source, **settings)
    before = "source"
    for number, bolt in enumerate(bolts, 1):
        builder.set_bolt(f"bolt{number}", bolt).shuffle_grouping(before)
        before = f"bolt{number}"
    return builder.build()


@asynccontextmanager
async def running(topology: Topology, **settings: Any) -> AsyncIterator[Run]:
    """A run that is under way."""
    async with engine.run(topology, Config(**({"seed": SEED} | settings))) as run:
        yield run


@asynccontextmanager
async def failing(entered: AbstractAsyncContextManager[Run]) -> AsyncIterator[Run]:
    """A run that fails before it is left: leaving it raises its ComponentError, which `run.error` is (SV-4)."""
    raised: ComponentError | None = None
    try:
        async with entered as run:
            yield run
    except ComponentError as error:
        raised = error
    assert raised is not None, "the run has not failed"
    assert raised is run.error


class Numbers(Spout):
    """Emits 0 to count - 1, each as a tree of its own; what fails comes again where `replays` is set."""

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


class Endless(Spout):
    """Has nothing to emit, and is never exhausted."""

    output_fields = Fields("number")

    def next_tuple(self) -> None:
        return None


class AtOnce(Numbers):
    """Emits all of its numbers at its first poll."""

    def next_tuple(self) -> None:
        self.polls += 1
        if not self.waiting:
            raise SpoutExhausted
        numbers = list(self.waiting)
        self.waiting.clear()
        self.collector.emit_many([(number,) for number in numbers], numbers)


class Keeper(Bolt):
    """Keeps its inputs until it is told to settle one."""

    def __init__(self) -> None:
        self.kept: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        self.kept.append(tup)

    def settle(self, *, ack: bool = True) -> None:
        tup = self.kept.pop(0)
        (self.collector.ack if ack else self.collector.fail)(tup)


class Sink(Bolt):
    """Acks what it gets, and keeps the values."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def execute(self, tup: Tuple) -> None:
        self.got.append(tup[0])
        self.collector.ack(tup)


class LogLines(logging.Handler):
    """The messages that the engine logs, while it is entered."""

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
