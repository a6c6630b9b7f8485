"""A `TaskGroup` whose owner dies leaves no coroutine behind, which would keep the event loop from its end (CL-3)."""

import asyncio
from typing import Any

import pytest

from engine import BasicBolt, Config, TopologyBuilder, Tuple
from engine.api import Bolt
from engine.runtime.task_group import TaskGroup
from engine.testing import Feeder
from engine.testing.virtual_loop import VirtualTimeLoop

pytestmark = pytest.mark.guarantee("CL-3")


class Hangs(BasicBolt):
    """Never closes. Has background work that never ends."""

    def prepare(self) -> None:
        self.context.create_task(asyncio.sleep(1000))

    def execute(self, tup: Tuple) -> None:
        return None

    async def cleanup(self) -> None:
        await asyncio.sleep(1000)


class Quiet(Bolt):
    def execute(self, tup: Tuple) -> None:
        return None


class Listener:
    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


async def group() -> TaskGroup:
    builder = TopologyBuilder("group")
    builder.set_spout("numbers", Feeder("number"))
    builder.set_bolt("hangs", Hangs, 2).shuffle_grouping("numbers")
    builder.set_bolt("quiet", Quiet, 2).shuffle_grouping("numbers")
    made = TaskGroup(builder.build(), Config(), [2, 3, 4, 5], seed=1, apart=(), listener=Listener())
    await made.begin()
    return made


async def others() -> set[Any]:
    """Return the other asyncio tasks after some turns of the loop."""
    for _ in range(10):
        await asyncio.sleep(0)
    return asyncio.all_tasks() - {asyncio.current_task()}


@pytest.mark.parametrize("way", ["abandoned", "cancelled close"])
def test_an_abandoned_group_leaves_nothing_running(way: str) -> None:
    async def play() -> None:
        made = await group()
        assert await others()
        if way == "abandoned":
            made.abandon()
        else:
            closing = asyncio.ensure_future(made.close())
            await asyncio.sleep(1)
            closing.cancel()
        assert not await others()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(play())
