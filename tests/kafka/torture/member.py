"""One process of a group: a spout, and a bolt that acks late and out of order, and fails some. It writes a journal.

    python -m tests.kafka.torture.member JSON           the fields of a MemberSpec

SIGTERM has it drain and end; it dies with the program that holds the other end of its stdin.
"""

import asyncio
import itertools
import json
import logging
import os
import random
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import engine
from engine import Bolt, Config, StatefulBasicBolt, TopologyBuilder, Tuple
from engine.kafka import KafkaRecord, KafkaSpout, KafkaSpoutConfig
from tests.checkpoint.killed_bolts import Death
from tests.kafka.torture.journal import Journal
from tests.kafka.torture.watched import Watch

FIELDS = engine.Fields("emission", "number")
SLOW_SECS = 2.5
STRETCH = 700
"""Length of stretches of numbers. Every second one has slow numbers, so some rebalances can drain and others cannot."""


@dataclass(frozen=True, kw_only=True)
class MemberSpec:
    """Settings of one process."""

    brokers: str
    topic: str
    group: str
    journal: str
    guarantee: str = "at_least_once"
    commit_acked_set: bool = True
    tasks: int = 1
    seed: int = 0
    fail_share: float = 0.0
    slow_share: float = 0.0
    """Share of the numbers in a slow stretch that take longer than a revoke waits."""
    pending: int = 400
    """Tuples in flight, at most."""
    drain_ms: int = 1000
    commit_ms: int = 300
    session_ms: int = 2000
    step: str | None = None
    step_number: int = 1
    state_url: str | None = None
    checkpoint_ms: int = 1000
    poison: int | None = None
    """Number that always fails."""
    extra: dict[str, Any] | None = None
    """More settings of the spout."""

    def written(self) -> str:
        """Return the settings as an argument of the process."""
        return json.dumps(asdict(self))


class WatchedSpout(KafkaSpout):
    """Writes down each emission."""

    _emissions = itertools.count()

    def __init__(self, spec: MemberSpec, journal: Journal) -> None:
        super().__init__(spout_config(spec, self.emitted))
        self.journal = journal

    def open(self) -> None:
        self.task = self.context.task_index
        super().open()

    def emitted(self, record: KafkaRecord) -> tuple[Any, ...]:
        """The translator."""
        emission, number = next(self._emissions), int(record.value or b"")
        self.journal.write("e", emission, self.task, record.partition, record.offset, number)
        return emission, number


def spout_config(spec: MemberSpec, translator: Any) -> KafkaSpoutConfig:
    """Return the settings of the spout. All times are short, so that much happens."""
    return KafkaSpoutConfig(
        brokers=spec.brokers,
        topics=spec.topic,
        group=spec.group,
        translator=translator,
        fields=FIELDS,
        guarantee=spec.guarantee,  # type: ignore[arg-type]
        commit_acked_set=spec.commit_acked_set,
        offset_commit_period_ms=spec.commit_ms,
        retry_initial_ms=300,
        retry_period_ms=100,
        revoke_drain_ms=spec.drain_ms,
        session_timeout_ms=spec.session_ms,
        rebalance_timeout_ms=20_000,
        heartbeat_interval_ms=300,
        fetch_max_wait_ms=100,
        request_timeout_ms=10_000,
        **(spec.extra or {}),
    )


class Work(Bolt):
    """Waits for a random time with each record, and fails some."""

    concurrency = 64

    def __init__(self, spec: MemberSpec, journal: Journal, death: Death) -> None:
        self.spec, self.journal, self.death = spec, journal, death
        self.draws = random.Random(spec.seed)

    async def execute(self, tup: Tuple) -> None:
        emission, number = tup.values
        is_slow = number // STRETCH % 2 == 1 and self.draws.random() < self.spec.slow_share
        await asyncio.sleep(SLOW_SECS if is_slow else self.draws.expovariate(100))
        if number == self.spec.poison or self.draws.random() < self.spec.fail_share:
            self.journal.write("f", emission)
            self.collector.fail(tup)
            return
        self.death.at("before done")
        self.journal.write("d", emission)
        self.collector.ack(tup)
        self.death.at("after ack")


class CountNumbers(StatefulBasicBolt):
    """Counts how often each number came."""

    def __init__(self, spec: MemberSpec, journal: Journal) -> None:
        self.spec, self.journal = spec, journal
        self.draws = random.Random(spec.seed)

    def execute(self, tup: Tuple) -> None:
        emission, number = tup.values
        if self.draws.random() < self.spec.fail_share:
            raise engine.FailTuple
        self.state.put(number, self.state.get(number, 0) + 1)
        self.journal.write("d", emission)


def topology_of(spec: MemberSpec, journal: Journal, death: Death) -> engine.Topology:
    """Return the topology."""
    builder = TopologyBuilder("tortured")
    builder.set_spout("records", lambda: WatchedSpout(spec, journal), parallelism=spec.tasks, max_spout_pending=spec.pending)
    if spec.state_url is None:
        builder.set_bolt("work", lambda: Work(spec, journal, death), parallelism=spec.tasks).shuffle_grouping("records")
    else:
        builder.set_bolt("count", lambda: CountNumbers(spec, journal), parallelism=2).fields_grouping("records", "number")
    return builder.build()


def run_config(spec: MemberSpec) -> Config:
    """Return the config of the run."""
    if spec.state_url is None:
        return Config(seed=spec.seed)
    return Config(seed=spec.seed, state_provider=spec.state_url, state_checkpoint_interval_ms=spec.checkpoint_ms)


async def main(spec: MemberSpec) -> None:
    """Run until SIGTERM, or the death."""
    journal, death = Journal(Path(spec.journal)), Death(spec.step, spec.step_number)
    Watch(journal, death).begin()
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, asked.set)
    loop.add_reader(sys.stdin, os.kill, os.getpid(), signal.SIGKILL)
    async with engine.run(topology_of(spec, journal, death), run_config(spec)) as run:
        run.on_report.append(lambda report: print(report, flush=True))
        ended = asyncio.ensure_future(run.completed())
        told = asyncio.ensure_future(asked.wait())
        await asyncio.wait([ended, told], return_when=asyncio.FIRST_COMPLETED)
        if told.done():
            await run.drain()
        told.cancel()
        await ended
    journal.write("z")


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(main(MemberSpec(**json.loads(sys.argv[1]))))
