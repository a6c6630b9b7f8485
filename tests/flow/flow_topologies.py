"""Producers, bolts and topologies that the tests of flow control share."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from engine import Config, Failure, FlowControlBolt, FlowControlSpout, FlowProducer, FlowSettings, Topology, TopologyBuilder
from engine.testing import Finished, run_topology


class Numbers(FlowProducer):
    """Yields the numbers from 1 to `count`; the position of each is itself."""

    def __init__(self, count: int, kept: list[Any] | None = None) -> None:
        self.count = count
        self.given_up: list[tuple[Any, Any, Failure]] = []
        self.begun_behind: list[Any] = [] if kept is None else kept

    def records(self, after: Any) -> Iterator[tuple[int, int]]:
        self.begun_behind.append(after)
        for number in range((after or 0) + 1, self.count + 1):
            yield number, number

    def give_up(self, position: Any, record: Any, failure: Failure) -> None:
        self.given_up.append((position, record, failure))


class AsyncNumbers(Numbers):
    """Yields the same from an async generator, which waits at every hundredth number."""

    async def records(self, after: Any) -> AsyncIterator[tuple[int, int] | None]:  # type: ignore[override]
        self.begun_behind.append(after)
        for number in range((after or 0) + 1, self.count + 1):
            if number % 100 == 0:
                await asyncio.sleep(0.01)
                yield None
            yield number, number


class Work(FlowControlBolt):
    """Processes each record for `secs(task index, record)`, and notes it in `done`."""

    def __init__(self, done: list[tuple[int, int]], secs: Callable[[int, int], float] = lambda task, record: 0.001) -> None:
        self.done = done
        self.secs = secs

    async def process(self, record: int) -> None:
        await asyncio.sleep(self.secs(self.context.task_index, record))
        self.done.append((self.context.task_index, record))


def topology(
    producer: Callable[[], FlowProducer], bolt: Callable[[], Any], *, tasks: int = 3, settings: FlowSettings | None = None, **how: Any
) -> Topology:
    """Return a topology that sends the producer's records to `tasks` tasks of the bolt."""
    builder = TopologyBuilder("flowing")
    builder.set_spout("numbers", lambda: FlowControlSpout(producer(), settings))
    builder.set_bolt("work", bolt, parallelism=tasks, **how).direct_grouping("numbers")
    return builder.build()


def run_flow(
    producer: Callable[[], FlowProducer],
    bolt: Callable[[], Any],
    *,
    tasks: int = 3,
    settings: FlowSettings | None = None,
    config: Config | None = None,
    concurrency: int | None = None,
    **how: Any,
) -> Finished:
    """Run such a topology in virtual time."""
    return run_topology(topology(producer, bolt, tasks=tasks, settings=settings, concurrency=concurrency), config, **how)


def records(done: Sequence[tuple[int, int]]) -> list[int]:
    """Return the processed records in ascending order, repeats included."""
    return sorted(record for _, record in done)
