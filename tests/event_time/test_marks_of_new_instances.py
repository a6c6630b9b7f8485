"""Watermarks when a bolt gets a new instance (ET-1, ET-3)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from engine import Config, KeyValueState, Run, StatefulBasicBolt, TopologyBuilder, Tuple, spout
from engine.event_time import END_OF_TIME
from engine.testing import run_topology
from tests.event_time.paced_rows import MARKS, Check, paced, times_of


@pytest.mark.guarantee("ET-3")
def test_a_new_instance_is_told_the_watermark() -> None:
    watermarks: list[int] = []
    builder = TopologyBuilder("marks")
    builder.set_spout("rows", paced, event_time=MARKS)
    builder.set_bolt("check", lambda: Check(watermarks, [])).shuffle_grouping("rows")

    before: list[int] = []

    async def restart(run: Run) -> None:
        await asyncio.sleep(1.5)
        before.extend(watermarks)
        run.restart_task(next(task.task_id for task in run.snapshot().components["check"].tasks))
        await asyncio.sleep(0.1)
        assert watermarks[len(before)] == before[-1]

    run_topology(builder.build(), during=restart)
    assert watermarks[-1] == END_OF_TIME


@spout("at", max_retries=5)
async def one_row() -> AsyncIterator[tuple[int]]:
    for at in times_of(1):
        yield (at,)


@pytest.mark.guarantee("ET-1")
def test_a_watermark_that_waits_for_a_row_outlives_the_instance() -> None:
    """The end of a source is told once. If it were lost with an instance, the windows behind it would never close."""
    watermarks: list[int] = []
    instances: list[Check] = []

    class KeepsFirst(Check):
        """The first instance never settles the row of the source with one row."""

        def prepare(self) -> None:
            instances.append(self)

        def execute(self, tup: Tuple) -> None:
            if tup.source_component == "single" and self is instances[0]:
                self.kept = tup
            else:
                super().execute(tup)

    async def kill(run: Run) -> None:
        [check] = run.snapshot().components["check"].tasks
        await asyncio.sleep(1.0)
        assert watermarks == []
        run.kill_task(check.task_id)

    builder = TopologyBuilder("marks")
    builder.set_spout("single", one_row, event_time=MARKS)
    builder.set_spout("many", paced, event_time=MARKS)
    builder.set_bolt("check", lambda: KeepsFirst(watermarks, [])).shuffle_grouping("single").shuffle_grouping("many")
    assert run_topology(builder.build(), Config(seed=1), during=kill).state == "complete"
    assert len(instances) == 2
    assert watermarks[-1] == END_OF_TIME


@pytest.mark.guarantee("ET-1")
def test_an_instance_acts_on_a_watermark_only_when_it_has_its_state() -> None:
    calls: list[str] = []

    class Stateful(StatefulBasicBolt):
        survives_rollback = False

        def init_state(self, state: KeyValueState[Any, Any]) -> None:
            calls.append("state")

        def pass_watermark(self, watermark: int) -> Iterator[None]:
            calls.append("watermark")
            return iter(())

        def execute(self, tup: Tuple) -> None:
            pass

    async def kill(run: Run) -> None:
        [task] = run.snapshot().components["stateful"].tasks
        await asyncio.sleep(1.5)
        calls.append("killed")
        run.kill_task(task.task_id)

    builder = TopologyBuilder("marks")
    builder.set_spout("rows", paced, event_time=MARKS)
    builder.set_bolt("stateful", Stateful).shuffle_grouping("rows")
    run_topology(builder.build(), Config(seed=1), during=kill)
    killed = calls.index("killed")
    assert calls[0] == calls[killed + 1] == "state"
    assert "watermark" in calls[:killed]
    assert "watermark" in calls[killed:]
