"""Processes with an exact KafkaSpout that are killed at random steps, while records arrive and rows fail (EO-1, KS-16)."""

import asyncio
import json
import random
import signal
from asyncio.subprocess import DEVNULL
from collections import Counter
from pathlib import Path

import pytest

from tests.kafka.exact_play import count_all
from tests.kafka.killed_exact import STEPS
from tests.kafka.play import produce, settings
from tests.kills.program import command_of
from tests.project.sources import ROOT
from tests.servers.kafka_admin import add_partitions
from tests.servers.kafka_fixtures import NewTopic

PROGRAM = str(ROOT / "tests" / "kafka" / "killed_exact.py")
RECORDS = 300
PATIENCE_SECS = 60.0


async def die(folder: Path, topic: str, kafka: str, group: str, choice: random.Random) -> int:
    """Run a process that dies at a random step, or ends before. Return its exit status."""
    plan = {"kafka": kafka, "topic": topic, "group": group, "folder": str(folder), "tasks": choice.randint(1, 3)}
    Path(folder, "plan.json").write_text(json.dumps(plan))  # noqa: ASYNC240
    step = choice.choice(list(STEPS))
    number = choice.randint(1, 200 if step == "put" else 12 if "save" in step else 3)
    print(f"{step!r} for the {number}. time, with {plan['tasks']} tasks")
    command = command_of("tests.kafka.killed_exact:STEPS", step, number, PROGRAM, str(Path(folder, "plan.json")))
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=DEVNULL, stderr=asyncio.subprocess.PIPE)
    _, err = await asyncio.wait_for(process.communicate(), PATIENCE_SECS)
    assert process.returncode in (0, -signal.SIGKILL), err.decode()
    return process.returncode


@pytest.mark.guarantee("KS-16", "EO-1", "EO-8")
@pytest.mark.parametrize("kills", [4, pytest.param(25, marks=pytest.mark.deep)])
async def test_after_kills_at_random_each_record_counts_once(kafka: str, new_topic: NewTopic, tmp_path: Path, kills: int) -> None:
    """Given rows that fail, another number of tasks in each process, and partitions that are added, then every record counts once."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    choice, topic = random.Random(seed), await new_topic(partitions=2)
    config = settings(kafka, topic)
    partitions = written = killed = 0
    while killed < kills:
        if partitions < 6:
            partitions += 2
            await add_partitions(kafka, topic, partitions) if partitions > 2 else None
        for partition in range(partitions):
            await produce(kafka, topic, range(written + partition, written + RECORDS, partitions), partition=partition)
        written += RECORDS
        killed += await die(tmp_path, topic, kafka, config.group or "", choice) != 0
    assert await count_all(config, tmp_path) == Counter(range(written))
