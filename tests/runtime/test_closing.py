"""While a run closes, no component is called for tuples."""

import asyncio
import warnings
from functools import partial
from typing import Any

import pytest

from engine import BasicBolt, Bolt, Config, Fields, Spout, StatefulBasicBolt, TopologyBuilder, Tuple
from engine.testing import ACKER, Feeder, KillTask, LeftoverTaskWarning, run_topology


@pytest.mark.guarantee("RUN-3")
def test_while_a_spout_is_slow_to_close_no_bolt_takes_another_tuple() -> None:
    executed: list[float] = []

    class Endless(Spout):
        output_fields = Fields("number")

        def next_tuple(self) -> None:
            self.collector.emit((1,), 1)

        async def close(self) -> None:  # type: ignore[override]
            await asyncio.sleep(3)

    class Slow(Bolt):
        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(0.5)
            executed.append(self.context.clock.now())
            self.collector.ack(tup)

    stopped: list[float] = []

    async def stop(run: Any) -> None:
        await asyncio.sleep(5.2)
        stopped.append(asyncio.get_running_loop().time())
        await run.stop()

    builder = TopologyBuilder("closing")
    builder.set_spout("endless", Endless, max_spout_pending=100)
    builder.set_bolt("slow", Slow).shuffle_grouping("endless")
    run_topology(builder.build(), during=stop)
    assert len([at for at in executed if at > stopped[0]]) <= 1, "only the call in flight may end"


@pytest.mark.guarantee("RUN-5")
@pytest.mark.parametrize("at_secs", [0.55 + 0.5 * step for step in range(12)])
def test_a_run_that_closes_before_its_last_checkpoint_begins_no_other_one(at_secs: float) -> None:
    class Keep(StatefulBasicBolt):
        def execute(self, tup: Tuple) -> None:
            self.state.put(tup["word"], 1)

    async def stop(run: Any) -> None:
        await asyncio.sleep(at_secs)
        run.kill_task(run.task_ids(ACKER)[0])  # the death of the acker makes the run idle again while it closes
        await run.stop()

    feeder, builder = Feeder("word"), TopologyBuilder("closing")
    feeder.feed(("a",))
    feeder.close()
    builder.set_spout("feed", feeder)
    builder.set_bolt("keep", Keep).fields_grouping("feed", "word")
    with warnings.catch_warnings():
        warnings.simplefilter("error", LeftoverTaskWarning)
        run_topology(builder.build(), Config(state_provider="tests.checkpoint.test_lost_tasks:SlowProvider"), during=stop)


class Lingers(BasicBolt):
    """Has a coroutine that needs some time to end when it is cancelled: its call, or its background work."""

    concurrency = 2

    def __init__(self, ends: list[float], in_background: bool) -> None:
        self.ends = ends
        self.in_background = in_background

    async def execute(self, tup: Tuple) -> None:
        if self.in_background:
            self.context.create_task(self.linger())
        else:
            await self.linger()

    async def linger(self) -> None:
        """Wait until it is cancelled. Its end takes 0.6 s, and a second cancellation comes after 1 s."""
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(0.6)
            self.ends.append(self.context.clock.now())


@pytest.mark.guarantee("RUN-3", "ACK-15")
@pytest.mark.parametrize("in_background", [False, True])
def test_a_run_waits_for_the_coroutines_of_an_instance_that_is_killed_again_while_it_ends(in_background: bool) -> None:
    ends: list[float] = []
    feeder = Feeder("number")
    builder = TopologyBuilder("closing")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("lingers", partial(Lingers, ends, in_background)).shuffle_grouping("numbers")
    feeder.feed((1,))

    async def stop(run: Any) -> None:
        await asyncio.sleep(5.2)
        assert not ends
        await run.stop()

    run_topology(builder.build(), during=stop, faults=[KillTask("lingers", at_secs=5), KillTask("lingers", at_secs=5.1)])
    assert len(ends) == 1
