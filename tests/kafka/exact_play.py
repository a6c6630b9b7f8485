"""Topologies that count the records of a topic in a state, with an exact KafkaSpout on a real broker."""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import engine
from engine import Config, Run, StatefulBasicBolt, Topology, TopologyBuilder, Tuple
from engine.checkpoint.record_entries import LEDGER
from engine.checkpoint.stored_positions import CODEC, entry_name
from engine.kafka import KafkaSpout, KafkaSpoutConfig
from engine.state import Ledger, provider_of
from tests.kafka.play import PATIENCE_SECS, PAUSE_SECS, produce
from tests.servers.kafka_fixtures import NewTopic

NAME: Final = "exact"
SPOUT: Final = "kafka"
QUICK: Final[dict[str, Any]] = {"client": {"metadata_max_age_ms": 200}}


class Told:
    """What the tasks of the counting bolt have counted, by task, and how often each row was tried."""

    def __init__(self, fail: Callable[[int, int], bool] = lambda value, call: False) -> None:
        """fail: tells for a value and the number of its call whether this call fails."""
        self.by_task: dict[int, dict[int, int]] = {}
        self.calls: Counter[int] = Counter()
        self.fail = fail

    @property
    def counts(self) -> Counter[int]:
        """Counts of all tasks."""
        return sum((Counter(counts) for counts in self.by_task.values()), Counter())

    def create(self) -> "Count":
        return Count(self)


class Count(StatefulBasicBolt):
    """Counts values."""

    def __init__(self, told: Told) -> None:
        self._told = told

    def execute(self, tup: Tuple) -> None:
        value, told = tup[0], self._told
        told.calls[value] += 1
        count = self.state.get(value, 0) + 1
        self.state.put(value, count)
        if told.fail(value, told.calls[value]):
            raise ValueError(value)
        told.by_task.setdefault(self.context.task_index, {})[value] = count

    def init_state(self, state: Any) -> None:
        super().init_state(state)
        self._told.by_task[self.context.task_index] = dict(state.items())


def counting(config: KafkaSpoutConfig, told: Told, tasks: int = 1) -> Topology:
    """Return the topology: the spout, and two tasks that count."""
    builder = TopologyBuilder(NAME)
    builder.set_spout(SPOUT, lambda: KafkaSpout(config), parallelism=tasks)
    builder.set_bolt("count", told.create, 2).fields_grouping(SPOUT, "value")
    return builder.build()


def engine_config(folder: Path, **changes: Any) -> Config:
    return Config(state_provider=f"sqlite:///{folder}/state.db", **({"state_checkpoint_interval_ms": 50} | changes))


async def count_all(config: KafkaSpoutConfig, folder: Path, told: Told | None = None, tasks: int = 1, **changes: Any) -> Counter[int]:
    """Run to the end of the topic, and return the counts of the state."""
    told = told or Told()
    topology = counting(dataclasses.replace(config, stop_at_end=True), told, tasks)
    async with engine.run(topology, engine_config(folder, **changes)) as run, asyncio.timeout(PATIENCE_SECS):
        await run.completed()
    return told.counts


@asynccontextmanager
async def opened_ledger(folder: Path) -> AsyncIterator[Ledger]:
    """The ledger of the checkpoints, while no run has it."""
    provider = provider_of(f"sqlite:///{folder}/state.db")
    await provider.open(NAME)
    try:
        ledger = provider.ledger(LEDGER)
        await ledger.claim()
        yield ledger
    finally:
        await provider.close()


async def stored_positions(folder: Path) -> dict[str, Any]:
    """Return the positions of the spout in the ledger, by partition."""
    async with opened_ledger(folder) as ledger:
        stored: Any = (await ledger.read())[entry_name(SPOUT)]
    return {CODEC.decode(bytes.fromhex(name)): CODEC.decode(position) for name, position in stored[2].items()}


async def set_position(folder: Path, partition: str, offset: int) -> None:
    """Store a bare offset, as a person does."""
    async with opened_ledger(folder) as ledger:
        partitioned, tasks, positions = (await ledger.read())[entry_name(SPOUT)]  # type: ignore[misc]
        positions[bytes(CODEC.encode(partition)).hex()] = bytes(CODEC.encode(offset))
        await ledger.write({entry_name(SPOUT): [partitioned, tasks, positions]})


async def until(condition: Callable[[], object], run: Run) -> None:
    """Wait for a condition, or for the end of the run. Fail after a time limit."""
    async with asyncio.timeout(PATIENCE_SECS):
        while not condition() and run.state == "running":  # noqa: ASYNC110
            await asyncio.sleep(PAUSE_SECS)
    assert condition(), run.error


async def filled(new_topic: NewTopic, kafka: str, values: int, partitions: int = 3) -> str:
    """Return a topic with the values from 0 on, divided among its partitions."""
    topic = await new_topic(partitions=partitions)
    for partition in range(partitions):
        await produce(kafka, topic, range(partition, values, partitions), partition=partition)
    return topic


def once(*values: int) -> Counter[int]:
    return Counter(range(*values))
