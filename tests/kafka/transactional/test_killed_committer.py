"""Committers killed at each step of a transaction: the successor completes it, without duplicates (TX-8)."""

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL

import pytest

from tests.kafka.transactional.committer_task import committer_config, committing, seen, until_stored
from tests.kafka.transactional.killed import STEPS
from tests.servers.kafka_admin import fresh_name
from tests.servers.kafka_fixtures import NewTopic

LIMIT_SECS = 60


@pytest.mark.guarantee("TX-8")
async def test_a_transaction_killed_at_any_step_is_written_once(kafka: str, new_topic: NewTopic) -> None:
    places = {step: (await new_topic(partitions=1), fresh_name("words")) for step in STEPS}

    async def died(step: str) -> None:
        program = (sys.executable, "-m", "tests.kafka.transactional.killed", kafka, *places[step], step)
        process = await asyncio.create_subprocess_exec(*program, stdin=DEVNULL, stderr=DEVNULL)
        async with asyncio.timeout(LIMIT_SECS):
            assert await process.wait() == -signal.SIGKILL, step

    for at in range(0, len(STEPS), 2):
        await asyncio.gather(*(died(step) for step in STEPS[at : at + 2]))
    for step, (topic, name) in places.items():
        async with committing(committer_config(kafka, topic), name=name) as successor:
            await successor.instance(2, [])  # its producer ends what was open
            assert await seen(kafka, topic) == (["a", "b", "c"] if step == "after commit_transaction" else ["a"]), step
            await successor.commit(2, "b", "c")
            await successor.commit(3, "d")
        assert await seen(kafka, topic) == ["a", "b", "c", "d"], step
        await until_stored(kafka, topic, name, (3, 1))
