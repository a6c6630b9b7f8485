"""One process of a group: a spout, and a bolt that acks late and out of order, and fails some. It writes a journal.

    python -m tests.kafka.torture.member JSON           the fields of a MemberSpec

SIGTERM has it drain and end; it dies with the program that holds the other end of its stdin.
"""

import asyncio
import itertools
import json
import logging
import os
import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import engine
from engine import Config, TopologyBuilder
from engine.kafka import KafkaRecord, KafkaSpout, KafkaSpoutConfig
from tests.checkpoint.killed_bolts import Death
from tests.kafka.torture.bolts import CountManyNumbers, CountNumbers, Work, WorkMany
from tests.kafka.torture.journal import Journal
from tests.kafka.torture.member_spec import MemberSpec
from tests.kafka.torture.watched import Watch
from tests.kills.bolt_forms import DEATHS, PROCESS_TIMEOUT_SECS

FIELDS = engine.Fields("emission", "number")


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

    def fail(self, message_id: Any) -> None:
        if self.context.failure is not None and self.context.failure.reason in DEATHS:
            self.journal.write("k", message_id.record.partition, message_id.record.offset)
        super().fail(message_id)


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


def topology_of(spec: MemberSpec, journal: Journal, death: Death) -> engine.Topology:
    """Return the topology."""
    is_burst, processes = "bursts" in spec.bolts, "processes" in spec.bolts
    builder = TopologyBuilder("tortured")
    builder.set_spout("records", lambda: WatchedSpout(spec, journal), parallelism=spec.tasks, max_spout_pending=spec.pending)
    if spec.state_url is None:
        work = partial(WorkMany if is_burst else Work, spec, journal, death)
        builder.set_bolt("work", work, parallelism=spec.tasks, processes=processes).shuffle_grouping("records")
    else:
        count = partial(CountManyNumbers if is_burst else CountNumbers, spec, journal)
        builder.set_bolt("count", count, parallelism=2, processes=processes).fields_grouping("records", "number")
    return builder.build()


def run_config(spec: MemberSpec) -> Config:
    """Return the config of the run."""
    # Several processes share the group, also those with state, so the group has the positions, and not the checkpoints.
    config = Config(seed=spec.seed, process_timeout_secs=PROCESS_TIMEOUT_SECS, processing_guarantee="at_least_once")
    if spec.state_url is None:
        return config
    return replace(config, state_provider=spec.state_url, state_checkpoint_interval_ms=spec.checkpoint_ms)


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
