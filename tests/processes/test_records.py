"""Flow-control bolts in processes (PR-1)."""

import asyncio
import os
import signal
from typing import Any

import pytest

import engine
from engine import Config, FlowControlSpout, FlowSettings, TopologyBuilder
from engine.testing import Capture
from tests.flow.flow_topologies import Numbers
from tests.processes import bolts
from tests.processes.test_deaths import until


async def play(bolt: Any, producer: Numbers, capture: Capture, kills: int = 0) -> Any:
    """Send the numbers of the producer through two processes, and kill some of them."""
    builder = TopologyBuilder("records", Config(max_task_restarts=100))
    builder.set_spout("numbers", lambda: FlowControlSpout(producer, FlowSettings(max_retries=2)))
    builder.set_bolt("work", bolt, parallelism=2, processes=True).direct_grouping("numbers")
    builder.set_bolt("seen", capture).shuffle_grouping("work")
    async with asyncio.timeout(60), engine.run(builder.build()) as run:
        for _ in range(kills):
            seen = len(capture.values)
            await until(lambda seen=seen: len(capture.values) > seen + 50 or run.state != "running")  # type: ignore[misc]
            if run.state == "running":
                os.kill(capture.values[-1][1], signal.SIGKILL)
        await run.completed()
        return run.snapshot()


@pytest.mark.guarantee("PR-1", "FC-1", "FC-3")
@pytest.mark.parametrize("bolt", [bolts.Records, bolts.AsyncRecords])
def test_only_the_bad_records_are_given_up(bolt: Any) -> None:
    producer, capture = Numbers(2_000), Capture()
    snapshot = asyncio.run(play(bolt, producer, capture))
    assert {number for number, _ in capture.values} == {number for number in range(1, 2_001) if number % 10 != 7}
    assert sorted(record for _, record, _ in producer.given_up) == list(range(7, 2_001, 10))
    assert "bad record 7" in str(next(failure for _, record, failure in producer.given_up if record == 7).error)
    assert len({pid for _, pid in capture.values} - {os.getpid()}) == 2
    assert snapshot.components["work"].tasks[0].restarts == 0


@pytest.mark.deep
@pytest.mark.guarantee("PR-2", "FC-3")
def test_the_records_of_a_killed_child_are_sent_again() -> None:
    producer, capture = Numbers(20_000), Capture()
    snapshot = asyncio.run(play(bolts.Records, producer, capture, kills=3))
    given_up = {record for _, record, _ in producer.given_up}
    assert {number for number, _ in capture.values} | given_up == set(range(1, 20_001))
    assert sum(task.restarts for task in snapshot.components["work"].tasks) >= 2
