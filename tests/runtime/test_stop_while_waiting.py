"""A stop, a drain or a cancellation ends a run that waits on standby (CP-8)."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import engine
from engine import Config, Run, Topology, TopologyBuilder, UsageError, stateful_bolt
from engine.control import Feature, FeatureRun
from engine.state import provider_of
from tests.runtime.stage import Endless

pytestmark = pytest.mark.guarantee("CP-8")
SECS = 10


def topology() -> Topology:
    @stateful_bolt()
    def keeps(tup: Any, state: Any) -> None:
        state.put("number", tup["number"])

    builder = TopologyBuilder("one")
    builder.set_spout("numbers", Endless)
    builder.set_bolt("keeps", keeps).global_grouping("numbers")
    return builder.build()


@asynccontextmanager
async def one_active(folder: Path) -> AsyncIterator[Config]:
    """Run the topology, and return the config of a run on standby."""
    config = Config(state_provider=f"sqlite:///{folder}/state.db", standby=True)
    async with engine.run(topology(), config):
        yield config
    provider = provider_of(config.state_provider)
    await provider.open("one")  # no lock is left
    await provider.close()


async def waiting(run: Run) -> "asyncio.Task[Run]":
    """Begin to enter a run that has to wait."""
    entering = asyncio.create_task(run.__aenter__())
    await asyncio.sleep(0.01)
    assert run.state == "waiting"
    assert not entering.done()
    return entering


@pytest.mark.parametrize(("end", "state"), [(Run.stop, "stopped"), (Run.drain, "drained")])
async def test_it_ends_the_wait_and_the_block_is_entered(tmp_path: Path, end: Callable[[Run], Awaitable[None]], state: str) -> None:
    ended: list[object] = []
    async with one_active(tmp_path) as config, asyncio.timeout(SECS):
        run = engine.run(topology(), config)
        run.on_end(ended.append)
        entering = await waiting(run)
        await end(run)
        assert run.state == run.snapshot().state == state
        assert await entering is run
        assert ended == [None]
        await run.completed()
        await run.stop()
        await run.drain()
        assert run.state == state
        await run.__aexit__(None, None, None)
        run.on_end(ended.append)
        assert ended == [None, None]


async def test_calls_of_a_run_that_ended_early_say_so(tmp_path: Path) -> None:
    async with one_active(tmp_path) as config, asyncio.timeout(SECS):
        run = engine.run(topology(), config)
        entering = await waiting(run)
        await run.stop()
        await entering
        calls: list[Callable[[], object]] = [
            lambda: run.inlet("in"),
            run.owed_acks,
            lambda: run.trace_message("numbers", "1"),
            lambda: run.trace(1),
        ]
        for call in calls:
            with pytest.raises(UsageError, match=r"the run ended before its tasks began \(stopped\)"):
                call()
        with pytest.raises(UsageError, match="the run is stopped, not running"):
            run.restart_task(1)
        assert run.message_traces == ()
        with pytest.raises(UsageError, match="already entered"):
            await run.__aenter__()


async def test_several_stops_at_once_all_return(tmp_path: Path) -> None:
    async with one_active(tmp_path) as config, asyncio.timeout(SECS):
        run = engine.run(topology(), config)
        entering = await waiting(run)
        await asyncio.gather(run.stop(), run.drain(), run.stop())
        await entering
        assert run.state == "stopped"


async def test_a_cancelled_entry_raises_and_the_run_is_stopped(tmp_path: Path) -> None:
    ended: list[object] = []
    async with one_active(tmp_path) as config, asyncio.timeout(SECS):
        run = engine.run(topology(), config)
        run.on_end(ended.append)
        entering = await waiting(run)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        assert run.state == "stopped"
        assert ended == [None]


async def test_a_cancellation_and_a_stop_at_once(tmp_path: Path) -> None:
    async with one_active(tmp_path) as config, asyncio.timeout(SECS):
        run = engine.run(topology(), config)
        entering = await waiting(run)
        stopping = asyncio.create_task(run.stop())
        await asyncio.sleep(0)
        entering.cancel()
        await stopping
        with pytest.raises(asyncio.CancelledError):
            await entering
        assert run.state == "stopped"


async def test_a_run_that_was_stopped_leaves_the_store_to_others(tmp_path: Path) -> None:
    async with one_active(tmp_path) as config, asyncio.timeout(SECS):
        runs = [engine.run(topology(), config) for _ in range(2)]
        entering = [await waiting(run) for run in runs]
        await runs[0].stop()
        await entering[0]
        assert runs[1].state == "waiting"
        await runs[1].stop()
        await entering[1]


async def test_a_run_that_fails_to_open_has_failed(tmp_path: Path) -> None:
    async with one_active(tmp_path) as config:
        run = engine.run(topology(), config.replace(standby=False))
        with pytest.raises(engine.EngineError, match="runs already"):
            await run.__aenter__()
        assert run.state == "failed"


async def test_stop_before_the_entry_does_nothing(tmp_path: Path) -> None:
    run = engine.run(topology(), Config(state_provider=f"sqlite:///{tmp_path}/state.db"))
    await run.stop()
    async with asyncio.timeout(SECS), run:
        assert run.state == "running"


async def test_a_feature_may_stop_the_run_that_opens_it() -> None:
    runs: list[Run] = []

    class Stops(FeatureRun):
        async def open(self, topology: Topology, start: Any) -> Topology:
            await runs[0].stop()
            return topology

    class Feat(Feature):
        name = "stops"

        def new_run(self, topology: Topology, config: Config) -> FeatureRun:
            return Stops()

    builder = TopologyBuilder("feature")
    builder.set_spout("numbers", Endless)
    built = builder.build()
    runs.append(engine.run(dataclasses.replace(built, features=(*built.features, Feat()))))
    async with asyncio.timeout(SECS), runs[0] as run:
        assert run.state == "stopped"
        await asyncio.sleep(0)


class SwallowsCancellation(FeatureRun):
    """Opens although its opening is cancelled. Its close never ends by itself if `closing` is given."""

    def __init__(self, closing: asyncio.Event | None) -> None:
        self.closing = closing

    async def open(self, topology: Topology, start: Any) -> Topology:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return topology

    async def close(self, *, clean: bool) -> None:
        if self.closing is not None:
            self.closing.set()
            await asyncio.Event().wait()


class SwallowingFeature(Feature):
    name = "swallowing"

    def __init__(self, closing: asyncio.Event | None = None) -> None:
        self.closing = closing

    def new_run(self, topology: Topology, config: Config) -> FeatureRun:
        return SwallowsCancellation(self.closing)


def run_with(feature: Feature) -> Run:
    builder = TopologyBuilder("feature")
    builder.set_spout("numbers", Endless)
    return engine.run(builder.build().with_feature(feature))


async def test_a_stop_that_the_opening_swallows_ends_the_run() -> None:
    async with asyncio.timeout(SECS):
        run = run_with(SwallowingFeature())
        entering = asyncio.create_task(run.__aenter__())
        await asyncio.sleep(0)
        await run.stop()
        assert await entering is run
        assert run.state == "stopped"
        assert not entering.cancelling()


async def test_a_cancellation_while_a_stop_closes_the_features_is_raised() -> None:
    closing = asyncio.Event()
    async with asyncio.timeout(SECS):
        run = run_with(SwallowingFeature(closing))
        entering = asyncio.create_task(run.__aenter__())
        await asyncio.sleep(0)
        stopping = asyncio.create_task(run.stop())
        await closing.wait()
        entering.cancel()
        await stopping
        with pytest.raises(asyncio.CancelledError):
            await entering
        assert run.state == "stopped"


def test_the_entry_of_a_run_without_state_lets_no_other_code_run_first() -> None:
    async def main() -> None:
        builder = TopologyBuilder("plain")
        builder.set_spout("numbers", Endless)
        run, known = engine.run(builder.build()), []
        asyncio.get_running_loop().call_soon(lambda: known.append(run.task_ids("numbers")))
        async with run:
            await asyncio.sleep(0)
        assert known == [(1,)]

    asyncio.run(main())
