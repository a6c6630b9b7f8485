"""The snapshot shows the status of a flow-control spout, also after its instance is gone (FC-7)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from engine import Fields, Snapshot, Spout, SpoutExhausted, Topology, TopologyBuilder
from engine.flow.status import FlowSnapshot
from engine.testing import Capture, run_topology
from engine.topology.task_port import SpoutPortUser
from tests.cli.snapshots import flow

pytestmark = pytest.mark.guarantee("FC-7")


class Windowed(Spout, SpoutPortUser):
    """Reports one done record for each emit. Its position is written when it is closed."""

    output_fields = Fields("number")

    def open(self) -> None:
        self.emitted = 0
        self.position: str | None = None
        self.port.run.show_in_snapshot("flow", self.context.task_id, self.status)

    def next_tuple(self) -> None:
        if self.emitted == 3:
            raise SpoutExhausted
        self.emitted += 1
        self.collector.emit((self.emitted,), self.emitted)

    def close(self) -> None:
        self.position = repr(self.emitted)

    def status(self) -> FlowSnapshot:
        return replace(flow(1), task_id=self.context.task_id, done_records=self.emitted, position=self.position)


class SlowToOpen(Windowed):
    """Takes a second to open."""

    async def open(self) -> None:  # type: ignore[override]
        await asyncio.sleep(1)
        super().open()


def topology(spout: type[Spout] = Windowed) -> Topology:
    builder = TopologyBuilder("flows")
    builder.set_spout("lines", spout, parallelism=2)
    builder.set_bolt("sink", Capture()).global_grouping("lines")
    return builder.build()


def flow_rows(snapshot: Snapshot) -> list[tuple[str, int, int, str | None]]:
    return [(each.component_id, each.task_id, each.done_records, each.position) for each in snapshot.flow]


def test_the_final_snapshot_has_each_closed_spout_task() -> None:
    assert flow_rows(run_topology(topology()).snapshot) == [("lines", 1, 3, "3"), ("lines", 2, 3, "3")]


def test_a_dead_instance_is_shown_until_the_next_one_has_opened() -> None:
    looked: list[Any] = []

    async def during(run: Any) -> None:
        looked.append(flow_rows(run.snapshot()))
        run.kill_task(1)
        await asyncio.sleep(0.5)
        looked.append(flow_rows(run.snapshot()))
        await run.completed()

    finished = run_topology(topology(SlowToOpen), during=during)
    emitted = [("lines", 1, 3, None), ("lines", 2, 3, None)]
    assert looked == [emitted, emitted]
    assert flow_rows(finished.snapshot) == [("lines", 1, 3, "3"), ("lines", 2, 3, "3")]
