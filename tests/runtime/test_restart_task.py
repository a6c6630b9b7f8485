"""An operator restarts one task: a fresh instance, and nothing counts as a death (SV-9)."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from engine import BasicBolt, Bolt, Config, Inlet, Run, TopologyBuilder, Tuple, TupleFailed, UsageError, spout, stateful_bolt
from engine.errors import Failure
from tests.runtime.stage import Endless, EverySecond, LogLines, Numbers, chain, play, running

pytestmark = pytest.mark.guarantee("SV-9")


class Lasting(Numbers):
    """Is never exhausted."""

    def next_tuple(self) -> None:
        if self.waiting:
            super().next_tuple()


class Calls:
    """Lifecycle calls of the instances of one component, in order."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def bolt(self) -> type[Bolt]:
        events = self.events

        class Noted(Bolt):
            def prepare(self) -> None:
                events.append("prepare")
                self.kept: list[Tuple] = []

            def execute(self, tup: Tuple) -> None:
                self.kept.append(tup)

            def cleanup(self) -> None:
                events.append("cleanup")

        return Noted

    def spout(self) -> type[Numbers]:
        events = self.events

        class Noted(EverySecond):
            def open(self) -> None:
                events.append("open")
                super().open()

            def close(self) -> None:
                events.append("close")

        return Noted


def restarts(run: Run, component_id: str) -> list[int]:
    return [task.restarts for task in run.snapshot().components[component_id].tasks]


def test_a_bolt_gets_a_fresh_instance_and_its_inputs_fail() -> None:
    calls, source = Calls(), Lasting(3)

    async def main() -> None:
        async with running(chain(lambda: source, calls.bolt())) as run:
            await asyncio.sleep(1)
            with LogLines() as log:
                run.restart_task(2)
                await asyncio.sleep(1)
            assert calls.events == ["prepare", "cleanup", "prepare"]
            assert source.failures == [Failure("task_died", "bolt1", 2, "restarted by request")] * 3
            assert restarts(run, "bolt1") == [1]
            assert run.snapshot().components["bolt1"].errors == 0
            assert log.having("is restarted by request")

    play(main)


def test_only_the_named_task_is_restarted() -> None:
    builder = TopologyBuilder("two")
    builder.set_spout("source", lambda: EverySecond(100))
    builder.set_bolt("bolt", Calls().bolt(), parallelism=2).all_grouping("source")

    async def main() -> None:
        async with running(builder.build()) as run:
            await asyncio.sleep(2.5)
            run.restart_task(3)
            await asyncio.sleep(1)
            assert restarts(run, "bolt") == [0, 1]

    play(main)


@pytest.mark.guarantee("ACK-13")
def test_the_trees_of_a_spout_are_dropped_and_its_source_replays() -> None:
    calls = Calls()
    spouts: list[Numbers] = []

    def make() -> Numbers:
        spouts.append(calls.spout()(5))
        return spouts[-1]

    async def main() -> None:
        async with running(chain(make, Calls().bolt())) as run:
            await asyncio.sleep(2.5)
            assert run.snapshot().components["source"].pending == 2
            run.restart_task(1)
            await asyncio.sleep(0.5)
            assert calls.events == ["open", "close", "open"]
            assert run.snapshot().components["source"].pending == 0
            await asyncio.sleep(2)
            assert run.snapshot().components["source"].pending == 2
            assert [spout.failed for spout in spouts] == [[], []]
            assert restarts(run, "source") == [1]

    play(main)


@pytest.mark.parametrize("on_error", ["fail", "restart", "stop"])
def test_restarts_never_end_a_run(on_error: str) -> None:
    async def main() -> None:
        topology = chain(lambda: Lasting(1000), Calls().bolt())
        async with running(topology, on_error=on_error, max_task_restarts=0) as run:
            for number in range(20):
                run.restart_task(number % 2 + 1)
                await asyncio.sleep(0.01)
            await asyncio.sleep(1)
            assert run.state == "running"
            assert [*restarts(run, "source"), *restarts(run, "bolt1")] == [10, 10]

    play(main)


def test_an_inlets_senders_learn_of_the_restart() -> None:
    builder = TopologyBuilder("inlet")
    builder.set_spout("in", lambda: Inlet("number"))
    builder.set_bolt("keep", Calls().bolt()).shuffle_grouping("in")

    async def main() -> None:
        async with running(builder.build()) as run:
            sends = [asyncio.create_task(run.inlet("in").send((number,))) for number in range(2)]
            await asyncio.sleep(1)
            run.restart_task(1)
            for send in sends:
                with pytest.raises(TupleFailed) as failed:
                    await send
                assert failed.value.failure == Failure("task_died", "in", 1, "restarted by request")
            later = asyncio.create_task(run.inlet("in").send((3,)))
            await asyncio.sleep(1)
            run.restart_task(2)
            with pytest.raises(TupleFailed) as failed:
                await later
            assert failed.value.failure.component_id == "keep"

    play(main)


@pytest.mark.guarantee("CP-5")
def test_a_stateful_bolt_continues_with_its_committed_state(tmp_path: Path) -> None:
    counts: dict[int, int] = {}

    @stateful_bolt()
    def counting(tup: Tuple, state: Any) -> None:
        counts[tup[0] % 3] = state.get(tup[0] % 3, 0) + 1
        state.put(tup[0] % 3, counts[tup[0] % 3])

    builder = TopologyBuilder("counts")
    builder.set_spout("source", lambda: EverySecond(30, replays=True))
    builder.set_bolt("count", counting).shuffle_grouping("source")

    async def main() -> None:
        settings = {"state_provider": "memory://", "state_checkpoint_interval_ms": 1000}
        async with running(builder.build(), **settings) as run:
            [task] = run.task_ids("count")
            for _ in range(3):
                await asyncio.sleep(7.3)
                run.restart_task(task)
            await run.completed()
            assert restarts(run, "count") == [3]
        assert counts == {0: 10, 1: 10, 2: 10}

    play(main)


@pytest.mark.guarantee("CP-5")
@pytest.mark.parametrize("seed", range(5))
def test_restarts_of_all_tasks_of_a_stateful_topology_at_any_time(seed: int) -> None:
    counts: dict[int, int] = {}

    @stateful_bolt()
    def counting(tup: Tuple, state: Any) -> None:
        counts[tup[0]] = state.get(tup[0], 0) + 1
        state.put(tup[0], counts[tup[0]])

    builder = TopologyBuilder("counts")
    builder.set_spout("source", lambda: EverySecond(60, replays=True))
    builder.set_bolt("count", counting, parallelism=2).fields_grouping("source", "number")
    draws = random.Random(seed)

    async def main() -> None:
        async with running(builder.build(), state_checkpoint_interval_ms=100, on_error="stop") as run:
            tasks = [*run.task_ids("count"), *run.task_ids("__checkpoint")]
            for _ in range(40):
                await asyncio.sleep(draws.uniform(0.001, 1))
                run.restart_task(draws.choice(tasks))
            await run.completed()
        assert counts == dict.fromkeys(range(60), 1)

    play(main)


def test_a_generator_begins_again() -> None:
    @spout("number")
    def numbers():  # type: ignore[no-untyped-def]
        for number in range(3):
            yield (number,)

    seen: list[int] = []

    class See(BasicBolt):
        def execute(self, tup: Tuple) -> None:
            seen.append(tup[0])

    async def main() -> None:
        builder = TopologyBuilder("generator")
        builder.set_spout("numbers", numbers)
        builder.set_spout("endless", Endless)
        builder.set_bolt("see", See).shuffle_grouping("numbers")
        async with running(builder.build()) as run:
            await asyncio.sleep(1)
            run.restart_task(run.task_ids("numbers")[0])
            await asyncio.sleep(1)
            assert seen == [0, 1, 2, 0, 1, 2]

    play(main)


# Wrong use


def test_unknown_tasks_and_ackers_are_refused() -> None:
    async def main() -> None:
        async with running(chain(Endless, Calls().bolt())) as run:
            for task in (0, -1, 99, "2", None):
                with pytest.raises(UsageError, match="has no task"):
                    run.restart_task(task)  # type: ignore[arg-type]
            [acker] = run.task_ids("__acker")
            with pytest.raises(UsageError, match="is an acker"):
                run.restart_task(acker)

    play(main)


def test_only_a_running_run_restarts_tasks() -> None:
    async def main() -> None:
        async with running(chain(lambda: Numbers(1), Calls().bolt()), message_timeout_secs=5) as run:
            drain = asyncio.create_task(run.drain())
            await asyncio.sleep(0.1)
            with pytest.raises(UsageError, match="the run is draining, not running"):
                run.restart_task(2)
            await drain
            with pytest.raises(UsageError, match="the run is drained, not running"):
                run.restart_task(2)

    play(main)


def test_a_run_that_has_not_begun_restarts_nothing() -> None:
    import engine

    run = engine.run(chain(Endless, Calls().bolt()), Config())
    with pytest.raises(UsageError, match="not running"):
        run.restart_task(1)
