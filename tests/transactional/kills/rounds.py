"""Repeated kills of one transactional topology, on the servers of its combination."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from tests.kills.rounds import Killed, KilledTopology
from tests.transactional.kills.combinations import Combination
from tests.transactional.kills.counting import PARTITIONS, Places
from tests.transactional.kills.judge import faults_of
from tests.transactional.kills.killing import Death

WORDS: Final = tuple(f"{letter}{number}" for letter in "abcde" for number in range(8))


@dataclass(frozen=True, kw_only=True)
class Servers:
    """Addresses of the servers. Empty for servers that the combination does not need."""

    kafka: str = ""
    redis: str = ""
    postgres: str = ""
    zookeeper: str = ""


def drawn_lines(draws: random.Random, count: int) -> list[str]:
    """Return lines of words. Some words are much more frequent than others."""
    shares = [1 / (rank + 1) for rank in range(len(WORDS))]
    return [" ".join(draws.choices(WORDS, shares, k=draws.randrange(1, 6))) for _ in range(count)]


class KilledTransactions(KilledTopology[Killed, Death]):
    """The processes of one topology. Its name is part of all stored names."""

    module = "tests.transactional.kills.killing"
    to_its_end = Death()
    places: Places

    spark: ClassVar[str] = ""
    """Spark's master, as in `Places`."""

    def __init__(
        self, combination: Combination, servers: Servers, folder: Path, name: str, lines: Sequence[str], *, bursts: bool = False
    ) -> None:
        self.lines = lines
        self._brokers = servers.kafka
        urls = {
            "sqlite": f"sqlite:///{folder}/values.db",
            "redis": f"{servers.redis}?prefix={name}",
            "postgres": servers.postgres,
        }
        states = {
            "sqlite": f"sqlite:///{folder}/state.db",
            "redis": urls["redis"],
            "zookeeper": f"zookeeper://{servers.zookeeper}/{name}",
        }
        places = Places(
            name=name,
            spout=combination.spout,
            source=f"{servers.kafka}/{name}" if combination.reads_kafka else f"{folder}/lines",
            state=states[combination.state],
            words=urls[combination.values],
            others=urls[combination.other_values],
            spark=self.spark,
            bursts=bursts,
        )
        super().__init__(Killed(combination), places, folder)

    async def prepare(self) -> None:
        """Write the lines into the source."""
        if self.killed.combination.reads_kafka:
            await self._produce()
            return
        source = self.folder / "lines"
        source.mkdir()
        for number in range(PARTITIONS):
            lines = self.lines[number::PARTITIONS]
            (source / f"part-{number}.txt").write_text("".join(f"{line}\n" for line in lines))

    async def _produce(self) -> None:
        from aiokafka import AIOKafkaProducer  # which may not be installed

        from tests.servers.kafka_admin import create_topic

        topic = await create_topic(self._brokers, self.places.name, PARTITIONS)
        async with AIOKafkaProducer(bootstrap_servers=self._brokers, linger_ms=5) as producer:
            sent = [await producer.send(topic, line.encode(), partition=at % PARTITIONS) for at, line in enumerate(self.lines)]
            await asyncio.gather(*sent)

    async def judge(self) -> None:
        self.killed.violations += await faults_of(self.places, self.lines)
