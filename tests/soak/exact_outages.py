"""Long outages around an exact topology: `python -m tests.soak.exact_outages [SECS]`.

Kafka -> counts in Redis -> totals in PostgreSQL, in a topology with `set_committer`. Each of the three servers hangs for so long, one
after the other, while records arrive. The run must wait, say what it waits for (log, snapshot, page, gauge, `/readyz`), go on by itself,
and count each record once (EO-1, EO-10). `state_timeout_secs` is longer than the outage, because the run ends after it (CP-8).
"""

import asyncio
import contextlib
import logging
import secrets
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
from aiokafka.errors import KafkaError

import engine
from engine import Config, Fields, Run, StatefulBasicBolt, Topology, TopologyBuilder, Tuple
from engine.kafka import KafkaRecord, KafkaSpout, KafkaSpoutConfig
from engine.metrics import render
from engine.runtime.bottleneck import find_bottleneck
from engine.runtime.metric_families import families
from engine.transactional.values import PostgresValues, ReduceInto
from engine.web import app
from tests.checkpoint.stored_states import read_with_tools
from tests.kafka.play import produce
from tests.kafka.sink_play import written
from tests.servers.kafka_admin import create_topic
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.postgres_server import PostgresServer
from tests.servers.process import HOST
from tests.servers.redis_server import RedisServer

SECS: Final = 100.0
CALM_SECS: Final = 3.0
"""Time between two outages, in which the run must commit."""
GOES_ON_SECS: Final = 60.0
"""Longest time from the end of an outage to a commit."""
KEYS: Final = 100
RECORDS_A_SEC: Final = 500
TOPIC: Final = "numbers"
NAME: Final = "exact-outages"


def key_of(record: KafkaRecord) -> tuple[int]:
    """Return the key of the number in a record."""
    return (int(record.value or b"") % KEYS,)


class Count(StatefulBasicBolt):
    """Counts the numbers of each key, and passes them on."""

    output_fields = Fields("key")

    def execute(self, tup: Tuple) -> tuple[int]:
        key: int = tup["key"]
        self.state.put(key, self.state.get(key, 0) + 1)
        return (key,)


def topology(kafka: str, state: str, postgres: str, secs: float) -> Topology:
    """Return the topology that runs through all outages."""
    config = Config(
        state_provider=state,
        state_timeout_secs=secs + GOES_ON_SECS,
        state_checkpoint_interval_ms=200,
        processing_guarantee="exactly_once",
        on_error="stop",
    )
    reading = KafkaSpoutConfig(brokers=kafka, topics=TOPIC, group=NAME, translator=key_of, fields="key")
    builder = TopologyBuilder(NAME, config)
    builder.set_spout("numbers", lambda: KafkaSpout(reading))
    builder.set_bolt("count", Count, 2).fields_grouping("numbers", "key")
    builder.set_committer("totals", ReduceInto(PostgresValues(postgres, "totals"), key="key"), 2).fields_grouping("count", "key")
    return builder.build()


@dataclass
class Watch:
    """What the run shows while a server hangs."""

    what: str
    waits: set[str] = field(default_factory=set)
    limits: set[str] = field(default_factory=set)
    readiness: Counter[int] = field(default_factory=Counter)
    most_since_commit_secs: float = 0.0
    has_gauge: bool = False
    back_secs: float = 0.0

    async def look(self, run: Run) -> None:
        """Note what the run shows now."""
        now = run.snapshot()
        self.waits |= {wait.what for wait in now.waits}
        self.limits.add(find_bottleneck(None, now).text)
        self.most_since_commit_secs = max(self.most_since_commit_secs, now.checkpoint.since_commit_secs or 0.0)
        self.has_gauge |= "stormcell_checkpoint_since_commit_seconds" in render(families(now))
        transport = httpx.ASGITransport(app(run))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            self.readiness[(await client.get("/readyz")).status_code] += 1


async def outage(run: Run, what: str, secs: float, begin: Callable[[], None], end: Callable[[], None]) -> Watch:
    """Let a server hang, watch the run, and wait until it commits again."""
    watch, loop = Watch(what), asyncio.get_running_loop()
    await asyncio.to_thread(begin)
    ends = loop.time() + secs
    while loop.time() < ends:
        await asyncio.sleep(5.0)
        await watch.look(run)
        if run.error is not None:
            raise SystemExit(f"{what} hung: the run has ended: {run.error}")
    await asyncio.to_thread(end)
    began, committed = loop.time(), run.snapshot().checkpoint.committed
    async with asyncio.timeout(GOES_ON_SECS):
        while run.snapshot().checkpoint.committed < committed + 3:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    watch.back_secs = loop.time() - began
    await asyncio.sleep(CALM_SECS)
    return watch


class Records:
    """Numbers that are written to the topic at a steady rate, also while the broker hangs."""

    def __init__(self, kafka: str) -> None:
        self._kafka = kafka
        self.written = 0
        self.is_over = False

    async def write(self) -> None:
        """Write until `is_over`. A second that the broker does not take is left out, or written in part."""
        while not self.is_over:
            with contextlib.suppress(KafkaError):
                await produce(self._kafka, TOPIC, range(self.written, self.written + RECORDS_A_SEC), partition=None)
            self.written += RECORDS_A_SEC
            await asyncio.sleep(1.0)


async def main(secs: float, folder: Path) -> int:
    """Play all outages. Return 1 if a promise was violated."""
    for name in ("redis", "kafka", "postgres"):
        (folder / name).mkdir()
    with RedisServer(folder / "redis") as redis, KafkaBroker(folder / "kafka") as kafka, PostgresServer(folder / "postgres") as postgres:
        await create_topic(kafka.bootstrap, TOPIC, 4)
        state = f"redis://{HOST}:{redis.port}/0?prefix=outages-{secrets.token_hex(4)}"
        records, watches = Records(kafka.bootstrap), list[Watch]()
        async with engine.run(topology(kafka.bootstrap, state, postgres.url, secs)) as run:
            writing = asyncio.create_task(records.write())
            await asyncio.sleep(2 * CALM_SECS)
            for what, server in (("the store (Redis)", redis), ("Kafka", kafka), ("the database (PostgreSQL)", postgres)):
                watches.append(await outage(run, what, secs, server.process.freeze, server.process.thaw))
            records.is_over = True
            await writing
            async with asyncio.timeout(GOES_ON_SECS):
                there = Counter(int(record.value) % KEYS for record in await written(kafka.bootstrap, TOPIC))
                while run.snapshot().components["numbers"].acked < there.total():  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            await run.drain()
        counts = {key: value for (component, _, key), value in (await read_with_tools(state, NAME)).items() if component == "count"}
        async with PostgresValues(postgres.url, "totals").reader() as reader:
            totals = {key: value async for key, value in reader.items()}
    faults = [name for name, found in (("the state", counts), ("the totals", totals)) if found != there]
    for watch in watches:
        print(f"{watch.what} hung for {secs:g} s: the longest time without a commit was {watch.most_since_commit_secs:.0f} s")
        print(f"  waits: {sorted(watch.waits)}\n  limits: {sorted(watch.limits)}")
        print(f"  /readyz: {dict(watch.readiness)}; three commits {watch.back_secs:.1f} s after its end")
        if not watch.waits or not watch.readiness[503] or not watch.has_gauge:
            faults.append(f"nobody was told of the outage of {watch.what}")
    print(f"{there.total():,} records; violations: {faults or 'none'}")
    return 1 if faults else 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    with tempfile.TemporaryDirectory() as name:
        sys.exit(asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else SECS, Path(name))))
