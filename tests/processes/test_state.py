"""Stateful bolts in processes. Their checkpoints have the same content as in one process (PR-1)."""

import asyncio
import os
import random
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import engine
from engine import Config, TopologyBuilder, spout
from engine.state import LayeredState, SealedStores, StatePlace, codec_named, provider_of
from engine.testing import Capture
from tests.processes import stateful_bolts as bolts
from tests.processes.test_deaths import until

COUNT = 3_000


def topology(bolt: Any, provider: str, capture: Capture | None = None, *, count: int = COUNT, by_key: bool = True, **config: Any) -> Any:
    """Return a topology that counts numbers by their remainder modulo 50, in two processes."""

    @spout("number", "key", max_retries=None)
    def numbers() -> Any:
        yield from ((number, number % 50) for number in range(count))

    settings = Config(state_provider=provider, state_checkpoint_interval_ms=20, max_spout_pending=500, **config)
    builder = TopologyBuilder("counts", settings)
    builder.set_spout("numbers", numbers)
    counting = builder.set_bolt("count", bolt, parallelism=2, processes=True)
    if by_key:
        counting.fields_grouping("numbers", "key")
    else:
        counting.shuffle_grouping("numbers")
    if capture is not None:
        builder.set_bolt("seen", capture).shuffle_grouping("count")
    return builder.build()


async def play(built: Any, during: Any = None) -> Any:
    """Run to completion, and return the last snapshot."""
    async with asyncio.timeout(90), engine.run(built) as run:
        script = None if during is None else asyncio.ensure_future(during(run))
        await run.completed()
        if script is not None:
            await script
        return run.snapshot()


def stored(path: Path, *, keyed: bool = True) -> dict[Any, Any]:
    """Return the state of the bolt after a clean end, read by one task that owns all keys."""

    async def read() -> dict[Any, Any]:
        provider = provider_of(f"sqlite:///{path}")
        await provider.open("counts")
        try:
            place = StatePlace("count", 0, 1, keyed, 128)
            stores = SealedStores(provider, "counts", {"count": keyed}, txid=lambda: -1, bare=False)
            state: LayeredState[Any, Any] = LayeredState(await stores.store("count", 0, place.slots), codec_named("msgpack"), place)
            await state.load()
            return dict(state.items())
        finally:
            await provider.close()

    return asyncio.run(read())


@pytest.mark.guarantee("PR-1", "CP-2")
@pytest.mark.parametrize("bolt", [bolts.Counts, bolts.CountsInBursts, bolts.counts, bolts.CountsLate])
def test_the_counts_are_exact_and_continue_in_the_next_run(bolt: Any, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    capture = Capture()
    snapshot = asyncio.run(play(topology(bolt, f"sqlite:///{path}", capture)))
    assert snapshot.components["numbers"].acked == COUNT
    assert stored(path) == dict.fromkeys(range(50), COUNT // 50)
    assert len({pid for _, _, pid in capture.values} - {os.getpid()}) == 2
    asyncio.run(play(topology(bolt, f"sqlite:///{path}", count=500)))
    assert stored(path) == dict.fromkeys(range(50), COUNT // 50 + 10)


@pytest.mark.deep
@pytest.mark.guarantee("PR-1", "PR-2", "CP-2", "CP-4")
@pytest.mark.parametrize("seed", range(3))
def test_kills_of_children_double_and_lose_nothing(seed: int, tmp_path: Path) -> None:
    path, capture, draw = tmp_path / "state.db", Capture(), random.Random(seed)
    built = topology([bolts.Counts, bolts.CountsInBursts, bolts.CountsLate][seed], f"sqlite:///{path}", capture, count=20_000)

    async def kill(run: Any) -> None:
        for _ in range(6):
            await until(lambda: capture.values)
            await asyncio.sleep(draw.uniform(0, 0.3))
            if run.state == "running":
                try:
                    os.kill(draw.choice(sorted({pid for _, _, pid in capture.values[-300:]})), signal.SIGKILL)
                except ProcessLookupError:
                    continue

    snapshot = asyncio.run(play(built, kill))
    assert sum(task.restarts for task in snapshot.components["count"].tasks) >= 2
    assert stored(path) == dict.fromkeys(range(50), 400)


@pytest.mark.guarantee("PR-1", "SV-2")
def test_the_changes_of_a_call_that_raises_are_undone(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    @spout("number", max_retries=0)
    def numbers() -> Any:
        yield from ((number,) for number in range(30))

    builder = TopologyBuilder("counts", Config(state_provider=f"sqlite:///{path}", state_checkpoint_interval_ms=20))
    builder.set_spout("numbers", numbers)
    builder.set_bolt("count", bolts.FailsAfterPut, processes=True).shuffle_grouping("numbers")
    snapshot = asyncio.run(play(builder.build()))
    assert snapshot.components["numbers"].failed == 10
    assert stored(path, keyed=False) == {"all": [number for number in range(30) if number % 3]}


@pytest.mark.guarantee("PR-1", "CP-6")
def test_hooks_are_called_in_the_child(tmp_path: Path) -> None:
    path, hooks = tmp_path / "state.db", tmp_path / "hooks"
    for _ in range(2):
        asyncio.run(play(topology(partial(bolts.Hooked, str(hooks)), f"sqlite:///{path}", count=400, by_key=False)))
    lines = hooks.read_text().splitlines()
    inits = [line for line in lines if line.startswith("init")]
    assert inits[:2] == ["init {}", "init {}"]
    assert len(inits) == 4
    totals = [int(line.removeprefix("init {'total': ").removesuffix("}")) for line in inits[2:]]
    assert sum(totals) == 400
    assert any(line.startswith("commit") for line in lines)


@pytest.mark.guarantee("PR-1", "CP-9")
def test_key_of_chooses_the_key_group(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    @spout("number")
    def numbers() -> Any:
        yield from ((number % 40,) for number in range(400))

    builder = TopologyBuilder("counts", Config(state_provider=f"sqlite:///{path}", state_checkpoint_interval_ms=20))
    builder.set_spout("numbers", numbers)
    builder.set_bolt("count", bolts.ByPair, parallelism=3, processes=True).fields_grouping("numbers", "number")
    asyncio.run(play(builder.build()))
    assert stored(path) == {(number, "seen"): 10 for number in range(40)}


@pytest.mark.guarantee("PR-1", "CP-5")
def test_an_instance_that_restarts_gets_its_state_back(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    once = tmp_path / "once"
    built = topology(partial(bolts.CrashingCounts, str(once), 1_234), f"sqlite:///{path}", on_error="restart")
    snapshot = asyncio.run(play(built))
    assert stored(path) == dict.fromkeys(range(50), COUNT // 50)
    [report] = snapshot.errors
    assert report.text.startswith("ZeroDivisionError")
    assert "stateful_bolts.py" in report.text
    assert sum(task.restarts for task in snapshot.components["count"].tasks) == 1


@pytest.mark.deep
@pytest.mark.guarantee("PR-1", "CP-7")
def test_a_large_state_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    @spout("number")
    def numbers() -> Any:
        yield from ((number,) for number in range(20_000))

    builder = TopologyBuilder("counts", Config(state_provider=f"sqlite:///{path}", state_checkpoint_interval_ms=200))
    builder.set_spout("numbers", numbers)
    builder.set_bolt("count", bolts.ByPair, parallelism=2, processes=True).fields_grouping("numbers", "number")
    for run in range(1, 3):
        asyncio.run(play(builder.build()))
        assert stored(path) == {(number, "seen"): run for number in range(20_000)}
