"""One topology that is killed again and again, and started again until it is complete; then it is judged."""

import asyncio
import os
import random
import signal
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.transactional.kills.combinations import Combination
from tests.transactional.kills.counting import PARTITIONS, Places
from tests.transactional.kills.judge import faults_of
from tests.transactional.kills.killing import BEGINS, RUNS, Life

MOST_SECS: Final = 60.0
"""What takes longer hangs."""
AT_AN_INSTANT: Final = "at an instant"
WORDS: Final = tuple(f"{letter}{number}" for letter in "abcde" for number in range(8))
TAIL_CHARACTERS: Final = 3000


@dataclass(frozen=True, kw_only=True)
class Servers:
    """Where the servers are that a combination needs; empty for those that it does not."""

    kafka: str = ""
    redis: str = ""
    postgres: str = ""
    zookeeper: str = ""


@dataclass(frozen=True, kw_only=True)
class Death:
    """How one process ends: at a step for the n-th time, or, without one, so many seconds after it began, or after it ran."""

    step: str | None = None
    number: int = 1
    secs: float = MOST_SECS
    from_the_beginning: bool = False
    batch: int = 5
    pending: int = 3
    flight_secs: float = 0.0005

    def life(self, places: Places) -> Life:
        """The process that ends so."""
        return Life(places=places, batch=self.batch, pending=self.pending, step=self.step, number=self.number, flight_secs=self.flight_secs)


@dataclass
class Killed:
    """What came of a round."""

    combination: Combination
    deaths: Counter[str] = field(default_factory=Counter)
    """By step, and `at an instant`."""
    lives: int = 0
    violations: list[str] = field(default_factory=list)


def drawn_lines(draws: random.Random, count: int) -> list[str]:
    """Lines of words, some of which are much more frequent than others."""
    shares = [1 / (rank + 1) for rank in range(len(WORDS))]
    return [" ".join(draws.choices(WORDS, shares, k=draws.randrange(1, 6))) for _ in range(count)]


class KilledTopology:
    """The processes of one round, one after the other, in a folder of their own. Its name stands in all that it keeps."""

    def __init__(self, combination: Combination, servers: Servers, folder: Path, name: str, lines: Sequence[str]) -> None:
        self.lines = lines
        self.killed = Killed(combination)
        self.folder = folder
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
        self.places = Places(
            name=name,
            spout=combination.spout,
            source=f"{servers.kafka}/{name}" if combination.reads_kafka else f"{folder}/lines",
            state=states[combination.state],
            words=urls[combination.values],
            others=urls[combination.other_values],
        )

    async def prepare(self) -> None:
        """Put the lines where they are read."""
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

    async def die(self, death: Death) -> bool:
        """Have a process live until its death; tell whether it died so. One that was complete before it did not."""
        status = await self._live(death)
        if status == -signal.SIGKILL:
            self.killed.deaths[death.step or AT_AN_INSTANT] += 1
        elif status != 0:
            self._violated(f"a process ended with status {status}, and was not killed")
        return status == -signal.SIGKILL

    async def finish(self, death: Death | None = None) -> Killed:
        """Have a process live to its end, and judge."""
        status = await self._live(death or Death())
        if status != 0:
            self._violated(f"the last process ended with status {status}")
        else:
            self.killed.violations += await faults_of(self.places, self.lines)
        return self.killed

    async def _live(self, death: Death) -> int | None:
        """Start a process, and have it die; return its exit status."""
        self.killed.lives += 1
        command = [sys.executable, "-m", "tests.transactional.kills.killing", death.life(self.places).written()]
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=log)
        assert process.stdout is not None
        try:
            async with asyncio.timeout(MOST_SECS):
                while await process.stdout.readline() not in (BEGINS if death.from_the_beginning else RUNS, b""):
                    pass
            async with asyncio.timeout(death.secs):
                await process.wait()
        except TimeoutError:
            if death.secs == MOST_SECS:
                self._violated(f"a process was not over after {MOST_SECS:g} s, and was killed")
        finally:
            if process.returncode is None:
                os.kill(process.pid, signal.SIGKILL)  # process.kill() would reap one that ends just then, and its status be lost
            await process.communicate()
        return process.returncode

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    def _violated(self, text: str) -> None:
        said = self._log.read_text(errors="replace")[-TAIL_CHARACTERS:]
        self.killed.violations.append(f"{text}\n{said}")


async def play(topology: KilledTopology, deaths: Iterable[Death]) -> Killed:
    """Have processes die, at all steps that are named, then one live to the end, and judge it."""
    await topology.prepare()
    for death in deaths:
        if not await topology.die(death) and death.step is not None:
            topology.killed.violations.append(f"a process did not come to its death: {death}")
            return topology.killed
    return await topology.finish()
