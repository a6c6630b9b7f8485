"""Runs with `max_spout_pending="auto"` in virtual time: ways to set it, rates reached, and refusals (FC-8)."""

import asyncio
from typing import Any

import pytest

from engine import BasicBolt, Bolt, Config, FlowControlBolt, FlowControlSpout, Topology, TopologyBuilder, Tuple, run
from engine.errors import ConfigError, TopologyError
from engine.runtime.spout_window import FIRST_WINDOW
from engine.testing import Capture, Feeder, run_topology, run_virtual
from engine.topology import validate_run
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.flow.flow_topologies import Numbers
from tests.runtime.stage import Counting, Sink

pytestmark = pytest.mark.guarantee("FC-8")

WORKERS, WORK_SECS = 12, 0.005


class Adapted(Counting):
    """Sets the value as a class attribute."""

    max_spout_pending = "auto"


class Works(Bolt):
    """Waits 5 ms for each tuple, like a call of a service."""

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(WORK_SECS)
        self.collector.ack(tup)


def pool(spout: Any = Counting, tasks: int = 1, **settings: Any) -> Topology:
    builder = TopologyBuilder("pool")
    builder.set_spout("numbers", spout, tasks, **settings)
    builder.set_bolt("works", Works, WORKERS).shuffle_grouping("numbers")
    return builder.build()


def figures(topology: Topology, config: Config, secs: float = 10) -> tuple[float, float, int]:
    """Return acks per second in the second half, latency by Little's law, and the last window."""

    async def main() -> tuple[float, float, int]:
        async with run(topology, config) as running:
            await asyncio.sleep(secs / 2)
            before, open_trees = running.snapshot().components["numbers"].acked, []
            for _ in range(50):
                await asyncio.sleep(secs / 100)
                open_trees.append(running.snapshot().components["numbers"].pending or 0)
            spout = running.snapshot().components["numbers"]
            await running.stop()
        rate = (spout.acked - before) / (secs / 2)
        assert spout.max_pending is not None
        return rate, sum(open_trees) / len(open_trees) / rate, spout.max_pending

    return run_virtual(main, limit_secs=3600)  # type: ignore[no-any-return]


WAYS: dict[str, tuple[Topology, Config]] = {
    "config": (pool(), Config(max_spout_pending="auto", seed=1)),
    "mapping": (pool(), Config.from_mapping({"max_spout_pending": "auto", "seed": 1})),
    "set_spout": (pool(max_spout_pending="auto"), Config(seed=1)),
    "class": (pool(Adapted), Config(seed=1)),
    "set_spout beside a number": (pool(max_spout_pending="auto"), Config(max_spout_pending=1, seed=1)),
}


@pytest.mark.parametrize("way", WAYS)
def test_auto_reaches_the_full_rate_with_a_short_queue(way: str) -> None:
    rate, latency_secs, window = figures(*WAYS[way])
    assert rate >= 0.95 * WORKERS / WORK_SECS
    assert latency_secs <= 2 * WORK_SECS
    assert WORKERS // 2 <= window <= 4 * WORKERS


def test_successive_failures_do_not_shrink_the_window() -> None:
    """Fails ten of each hundred in a row, so a small window holds nothing else for a moment."""

    class FailsSome(Works):
        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(WORK_SECS)
            (self.collector.fail if tup[0] % 100 < 10 else self.collector.ack)(tup)

    builder = TopologyBuilder("clumps")
    builder.set_spout("numbers", Counting)
    builder.set_bolt("works", FailsSome, WORKERS).shuffle_grouping("numbers")
    rate, _, window = figures(builder.build(), Config(max_spout_pending="auto", seed=1))
    assert rate >= 0.95 * 0.9 * WORKERS / WORK_SECS
    assert window >= WORKERS


def test_a_number_at_the_spout_overrides_auto() -> None:
    rate, _, window = figures(pool(max_spout_pending=3), Config(max_spout_pending="auto", seed=1))
    assert window == 3
    assert rate == pytest.approx(3 / WORK_SECS, rel=0.02)


def test_the_tasks_of_a_spout_share_one_window() -> None:
    """A window per task would grow at the cost of the other tasks."""
    rate, _, together = figures(pool(tasks=3), Config(max_spout_pending="auto", seed=1), secs=20)
    assert rate >= 0.95 * WORKERS / WORK_SECS
    assert together in (3 * 4, 3 * 8, 3 * 16, 3 * 32)


def test_every_tuple_of_a_finite_source_is_processed() -> None:
    numbers, sink = Feeder("number"), Capture()
    numbers.feed_all([(number,) for number in range(5000)])
    numbers.close()
    builder = TopologyBuilder("finite")
    builder.set_spout("numbers", numbers)
    builder.set_bolt("sink", sink, 3).shuffle_grouping("numbers")
    finished = run_topology(builder.build(), Config(max_spout_pending="auto"))
    assert sorted(values[0] for values in sink.values) == list(range(5000))
    assert finished.snapshot.components["numbers"].max_pending is not None


def test_the_snapshot_shows_the_current_window_or_none_without_a_bound() -> None:
    async def bounds(pending: Any) -> tuple[int | None, ...]:
        async with run(pool(), Config(max_spout_pending=pending)) as running:
            now = running.snapshot()
            await running.stop()
        spout = now.components["numbers"]
        assert now.components["works"].max_pending is None
        return spout.max_pending, spout.tasks[0].max_pending, now.to_dict()["components"]["numbers"]["max_pending"]

    assert run_virtual(lambda: bounds("auto")) == (FIRST_WINDOW,) * 3
    assert run_virtual(lambda: bounds(5)) == (5, 5, 5)
    assert run_virtual(lambda: bounds(None)) == (None, None, None)


NO_ACKS = (
    "spout 'numbers': max_spout_pending='auto' needs acks, and acker_executors=0 switches them off. "
    "Set Config(acker_executors=1), or leave max_spout_pending out."
)
BATCHES = (
    "spout 'numbers': max_spout_pending is the number of open batches in a transactional topology, so 'auto' is not possible. "
    "Set a number, or remove the setting (default 1)."
)


@pytest.mark.parametrize(("topology", "pending"), [(pool(), "auto"), (pool(Adapted), None)])
def test_without_ackers_auto_is_refused(topology: Topology, pending: Any) -> None:
    with pytest.raises(TopologyError) as raised:
        validate_run(topology, Config(acker_executors=0, max_spout_pending=pending))
    assert raised.value.faults == (NO_ACKS,)


def transactional(config: Config | None = None, **settings: Any) -> TransactionalTopologyBuilder:
    spout = MemoryTransactionalSpout([[(1,)]], "number", 10)
    return TransactionalTopologyBuilder("batches", "numbers", spout, config=config, **settings)


@pytest.mark.parametrize(
    "builder", [transactional(max_spout_pending="auto"), transactional(Config(max_spout_pending="auto"))], ids=["spout", "config"]
)
def test_a_transactional_topology_with_auto_is_refused_by_build(builder: TransactionalTopologyBuilder) -> None:
    with pytest.raises(TopologyError) as raised:
        builder.build()
    assert raised.value.faults == (BATCHES,)


def test_a_transactional_topology_with_auto_is_refused_by_the_run() -> None:
    topology = transactional().build()
    with pytest.raises(TopologyError) as raised:
        run(topology, Config(max_spout_pending="auto"))
    assert raised.value.faults == (BATCHES,)
    validate_run(transactional(max_spout_pending=2).build(), Config(max_spout_pending="auto"))


def test_auto_bounds_a_cycle() -> None:
    class Again(Bolt):
        output_fields = "number"

        def execute(self, tup: Tuple) -> None:
            self.collector.ack(tup)

    builder = TopologyBuilder("cycle")
    builder.set_spout("numbers", Counting)
    builder.set_bolt("again", Again).shuffle_grouping("numbers").shuffle_grouping("again")
    builder.set_bolt("sink", Sink).shuffle_grouping("again")
    validate_run(builder.build(), Config(max_spout_pending="auto"))


@pytest.mark.parametrize("value", ["AUTO", "automatic", "", 0, True, ["auto"]])
def test_any_other_value_than_a_count_or_auto_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="max_spout_pending must be an integer from 1 to 2_147_483_647, 'auto', or none, not "):
        Config(max_spout_pending=value)
    with pytest.raises(TopologyError, match=r"spout 'numbers': max_spout_pending must be an integer of at least 1, or 'auto', not "):
        pool(max_spout_pending=value)


@pytest.mark.guarantee("FC-8", "BP-5")
def test_auto_bounds_no_cycle_behind_a_flow_control_spout() -> None:
    class Passes(FlowControlBolt):
        output_fields = "number"

        def process(self, record: int) -> tuple[int]:
            return (record,)

    class Loops(BasicBolt):
        output_fields = "number"

        def execute(self, tup: Tuple) -> None:
            return None

    builder = TopologyBuilder("loop", Config(max_spout_pending="auto"))
    builder.set_spout("numbers", lambda: FlowControlSpout(Numbers(1)))
    builder.set_bolt("pass", Passes).direct_grouping("numbers")
    builder.set_bolt("first", Loops).shuffle_grouping("pass").shuffle_grouping("second")
    builder.set_bolt("second", Loops).shuffle_grouping("first")
    with pytest.raises(TopologyError, match="without max_spout_pending, so nothing bounds the tuples in it"):
        builder.build()
