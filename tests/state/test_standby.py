"""Standby on a file, and without anything to wait for."""

import asyncio
import logging
from pathlib import Path

import pytest

from engine import Config, Run, TopologyBuilder, TopologyError, bolt, spout, stateful_bolt
from engine.errors import StateError
from engine.state import StateProvider, open_provider, provider_of
from engine.state.sqlite.file import FileLock, lock_of
from examples.lmdb_state import LmdbProvider

pytestmark = pytest.mark.guarantee("CP-8")


@spout("number")
def numbers():  # type: ignore[no-untyped-def]
    yield (1,)


@stateful_bolt()
def keeps(tup, state):  # type: ignore[no-untyped-def]
    state.put("number", tup["number"])


@bolt()
def forgets(tup):  # type: ignore[no-untyped-def]
    pass


def topology(function: object = keeps) -> object:
    builder = TopologyBuilder("one")
    builder.set_spout("numbers", numbers)
    builder.set_bolt("bolt", function).global_grouping("numbers")  # type: ignore[arg-type]
    return builder.build()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/state.db"


async def open_standing_by(url: str) -> StateProvider:
    provider = provider_of(url)
    await provider.open("one")
    return provider


async def test_a_standby_opens_when_the_first_process_has_closed(url: str, caplog: pytest.LogCaptureFixture) -> None:
    first, second = await open_standing_by(url), provider_of(url)
    waiting = asyncio.create_task(open_provider(second, "one", standby=True))
    while "Waiting until" not in caplog.text:  # noqa: ASYNC110 - a log rings no bell
        await asyncio.sleep(0)
    assert not waiting.done()
    await first.close()
    await waiting
    assert "topology 'one' is free after" in caplog.text
    with pytest.raises(StateError, match="runs already"):
        await open_standing_by(url)
    await second.close()
    await (await open_standing_by(url)).close()


async def test_a_standby_opens_at_once_if_no_process_runs_the_topology(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    provider = provider_of(url)
    await open_provider(provider, "one", standby=True)
    await provider.close()
    assert not caplog.records


async def test_a_cancelled_standby_holds_no_lock(url: str) -> None:
    first, second = await open_standing_by(url), provider_of(url)
    waiting = asyncio.create_task(open_provider(second, "one", standby=True))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await first.close()
    await (await open_standing_by(url)).close()


async def test_a_standby_that_waits_has_the_state_waiting(url: str) -> None:
    first = await open_standing_by(url)
    run = Run(topology(), Config(state_provider=url, standby=True))  # type: ignore[arg-type]
    entering = asyncio.create_task(run.__aenter__())
    await asyncio.sleep(0)
    assert run.state == run.snapshot().state == "waiting"
    await first.close()
    await entering
    await run.completed()
    assert run.state == "complete"


async def test_a_standby_without_state_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"standby=True needs a topology that stores state, but this topology stores none"):
        Run(topology(forgets), Config(standby=True))  # type: ignore[arg-type]


@pytest.mark.parametrize("provider", [lambda: provider_of("memory://"), lambda: LmdbProvider("nowhere")])
async def test_a_standby_on_a_provider_that_cannot_wait_is_refused(provider: object) -> None:
    with pytest.raises(StateError) as told:
        await open_provider(provider(), "one", standby=True)  # type: ignore[operator]
    assert told.value.hint


def test_looking_at_a_lock_does_not_take_it(tmp_path: Path) -> None:
    lock = lock_of(tmp_path / "state.db", "one")
    assert lock is not None
    assert lock.is_taken() is False
    assert not list(tmp_path.iterdir()), "looking must not create a file"
    holder = FileLock(lock.path)
    assert holder.take()
    assert lock.is_taken() is True
    holder.release()
    assert lock.is_taken() is False
    assert lock.take()
    lock.release()
