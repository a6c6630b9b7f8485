"""A run that is entered and never left is closed at the end of its loop, and a warning names it (RUN-5)."""

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import engine
from engine import BasicBolt, Config, Run, StatefulBolt, Topology, TopologyBuilder, Tuple, spout
from engine.state.sqlite.file import FileLock, lock_of

pytestmark = pytest.mark.guarantee("RUN-5")
NAME = "leak"


@spout("number")
async def numbers() -> Any:
    while True:
        yield (1,)
        await asyncio.sleep(0.01)


class Keeps(StatefulBolt):
    def init_state(self, state: Any) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        self.collector.ack(tup)

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def cleanup(self) -> None:
        (self.folder / "cleaned").touch()


class Waits(BasicBolt):
    """Has threads, so the executor of its calls has a pool."""

    def execute(self, tup: Tuple) -> None:
        return None


def topology(folder: Path, *, processes: bool = False) -> Topology:
    builder = TopologyBuilder(NAME, Config(state_provider=f"sqlite:///{folder}/state.db"))
    builder.set_spout("numbers", numbers)
    builder.set_bolt("keeps", partial(Keeps, folder), processes=processes).global_grouping("numbers")
    builder.set_bolt("waits", Waits, threads=2).global_grouping("numbers")
    return builder.build()


async def enter(built: Topology) -> Run:
    run = engine.run(built)
    await run.__aenter__()
    await asyncio.sleep(0.1)
    return run


def by_asyncio_run(built: Topology) -> object:
    return asyncio.run(enter(built))


def by_an_interrupt(built: Topology) -> object:
    async def interrupted() -> None:
        await enter(built)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(interrupted())
    return None


@pytest.mark.guarantee("CP-8")
@pytest.mark.filterwarnings("default::ResourceWarning")
@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.parametrize("lose", [by_asyncio_run, by_an_interrupt])
def test_a_run_that_is_never_left_is_closed_at_the_end_of_its_loop(
    lose: Callable[[Topology], object], processes: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.warns(ResourceWarning, match="the run of 'leak' was entered and never left: its event loop has ended"):
        kept = lose(topology(tmp_path, processes=processes))
    lock = lock_of(tmp_path / "state.db", NAME)
    assert lock is not None
    assert lock.is_taken() is False
    assert (tmp_path / "cleaned").exists()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("state-writer")]
    assert not isinstance(kept, Run) or kept.state == "stopped"
    [record] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "'leak' was entered and never left" in record.getMessage()
    assert asyncio.run(enter_and_leave(topology(tmp_path))) == "stopped"


async def enter_and_leave(built: Topology) -> str:
    async with engine.run(built) as run:
        await asyncio.sleep(0.05)
    return run.state


def is_freed(lock: FileLock) -> bool:
    """A thread in the middle of a write refers to the lock until the write ends, so the first collection may come too early."""
    for _ in range(500):
        gc.collect()
        if not lock.is_taken():
            return True
        time.sleep(0.01)
    return False


@pytest.mark.guarantee("CP-8")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_run_whose_loop_was_only_closed_frees_its_lock_when_it_is_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    run: Run | None = loop.run_until_complete(enter(topology(tmp_path)))
    loop.close()
    lock = lock_of(tmp_path / "state.db", NAME)
    assert lock is not None
    assert lock.is_taken() is True
    del run, loop
    assert is_freed(lock)
    assert "its event loop was closed, and nothing refers to the run any more" in caplog.text


@pytest.mark.filterwarnings("error::ResourceWarning")
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_run_that_is_left_or_complete_warns_of_nothing(is_cancelled: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    states: list[str] = []

    async def host() -> None:
        async with engine.run(topology(tmp_path)) as run:
            try:
                await asyncio.sleep(0.1 if not is_cancelled else 60)
            finally:
                await asyncio.sleep(0.01)
        states.append(run.state)

    async def main() -> None:
        hosting = asyncio.create_task(host())
        if is_cancelled:
            await asyncio.sleep(0.1)  # the end of the loop cancels the host
        else:
            await hosting

    asyncio.run(main())
    gc.collect()
    assert states == ([] if is_cancelled else ["stopped"])
    assert "never left" not in caplog.text
