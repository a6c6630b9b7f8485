"""Stored positions, and stores that are away or taken over (FC-6)."""

import asyncio
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pytest

from engine import ComponentError, Config, FlowProducer, FlowSettings
from engine.errors import StateFenced, StateUnavailable
from engine.flow.position_keeper import FORMAT, ledger_name, stored_position
from engine.runtime.run import Run
from engine.state import Ledger, provider_of
from engine.state.memory import MemoryProvider
from tests.flow.flow_topologies import Numbers, Work, run_flow
from tests.flow.test_bad_input import Nothing


def _store(path: Path, entries: dict[str, object], topology_name: str = "flowing") -> Config:
    async def write() -> None:
        await provider.open(topology_name)
        ledger = provider.ledger(ledger_name("numbers", 0))
        await ledger.claim()
        await ledger.write(entries)
        await provider.close()

    url = f"sqlite:///{path}/flow.db"
    provider = provider_of(url)
    asyncio.run(write())
    return Config(state_provider=url)


@pytest.mark.guarantee("FC-6")
@pytest.mark.parametrize(
    "entry",
    ["text", 7, [], [FORMAT, 1, 5], [FORMAT + 1, 1, 5, 5], [FORMAT, "1", 5, 5], [FORMAT, 1, 5, -1], [FORMAT, 1, None, 5], {"flow": 1}],
)
def test_a_damaged_entry_is_refused_and_not_changed(entry: object, tmp_path: Path) -> None:
    config = _store(tmp_path, {"flow": entry})
    for _ in range(2):
        with pytest.raises(ComponentError) as raised:
            run_flow(lambda: Numbers(10), Nothing, config=config)
        assert "its stored position cannot be read" in str(raised.value)
        assert "give the spout another id" in str(raised.value.hint)


@pytest.mark.guarantee("FC-6")
def test_the_position_of_a_spout_with_other_tasks_is_refused(tmp_path: Path) -> None:
    config = _store(tmp_path, {"flow": [FORMAT, 2, 5, 5]})
    with pytest.raises(ComponentError, match="stored with parallelism=2; the parallelism is now 1"):
        run_flow(lambda: Numbers(10), Nothing, config=config)


def test_a_stored_position_is_read_unchanged() -> None:
    for position in (0, "x", b"\x00", 1.5, ("a.log", 12), [1, [2]], {"a": 1}, False):
        assert stored_position({"flow": [FORMAT, 1, position, 3]}, "here", 1) == (position, 3)
    assert stored_position({}, "here", 1) == (None, 0)


def test_a_producer_that_cannot_find_its_position_raises_a_clear_error(tmp_path: Path) -> None:
    class Files(FlowProducer):
        def records(self, after: Any) -> Iterator[Any]:
            if after is not None:
                raise LookupError(f"no file {after!r}")
            yield "a", 1

    config = _store(tmp_path, {"flow": [FORMAT, 1, "gone", 5]})
    with pytest.raises(ComponentError, match="no file 'gone'"):
        run_flow(Files, Nothing, config=config.replace(on_error="restart"))


class Overtaken(MemoryProvider):
    """A ledger that another process claims after two writes."""

    def ledger(self, name: str) -> Ledger:
        ledger = super().ledger(name)
        written, writes = ledger.write, count(1)

        async def write(changes: Mapping[str, object]) -> None:
            if next(writes) > 2:
                raise StateFenced("it was claimed")
            await written(changes)

        ledger.write = write  # type: ignore[method-assign]
        return ledger


@pytest.mark.guarantee("FC-6")
def test_a_process_that_was_fenced_ends_with_a_clear_error() -> None:
    config = Config(state_provider="tests.flow.test_stored_position:Overtaken")
    with pytest.raises(ComponentError, match="another process has taken over its position"):
        run_flow(lambda: Numbers(5000), lambda: Work([]), config=config)


class Away(MemoryProvider):
    """A ledger that is unavailable for a while after the first write."""

    def ledger(self, name: str) -> Ledger:
        ledger = super().ledger(name)
        written, writes = ledger.write, count(1)

        async def write(changes: Mapping[str, object]) -> None:
            if 1 < next(writes) < AWAY_FOR:
                raise StateUnavailable("the store is away")
            await written(changes)

        ledger.write = write  # type: ignore[method-assign]
        return ledger


AWAY_FOR = 8


@pytest.mark.guarantee("FC-6")
def test_an_outage_of_the_store_is_shown_and_waited_for() -> None:
    seen: set[str | None] = set()

    async def look(run: Run) -> None:
        while run.state == "running":
            seen.update(flow.holds for flow in run.snapshot().flow)
            await asyncio.sleep(0.05)

    config = Config(state_provider="tests.flow.test_stored_position:Away")
    finished = run_flow(lambda: Numbers(5000), lambda: Work([]), config=config, during=look)
    assert (finished.state, finished.snapshot.flow[0].position) == ("complete", "5000")
    assert "the store is away" in seen
    with pytest.raises(ComponentError, match="cannot be written: the store is away"):
        run_flow(lambda: Numbers(5000), lambda: Work([]), config=config.replace(state_timeout_secs=0.5))


class Broken(MemoryProvider):
    """A ledger whose second write raises an undocumented error."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = count(1)

    def ledger(self, name: str) -> Ledger:
        ledger = super().ledger(name)
        written = ledger.write

        async def write(changes: Mapping[str, object]) -> None:
            if next(self.writes) == 2:
                raise OSError("the disk is full")
            await written(changes)

        ledger.write = write  # type: ignore[method-assign]
        return ledger


@pytest.mark.guarantee("FC-6")
@pytest.mark.parametrize("on_error", ["restart", "fail"])
def test_a_store_that_raises_anything_else_ends_the_run(on_error: Literal["restart", "fail"]) -> None:
    config = Config(state_provider="tests.flow.test_stored_position:Broken", on_error=on_error)
    with pytest.raises(ComponentError, match="cannot be written: OSError: the disk is full"):
        run_flow(lambda: Numbers(5000), lambda: Work([]), config=config, limit_secs=60)


@pytest.mark.guarantee("FC-6")
@pytest.mark.parametrize("ends_by", ["complete", "drained"])
def test_the_last_position_is_written_at_once(ends_by: str) -> None:
    async def drains(run: Run) -> None:
        await asyncio.sleep(1)
        await run.drain()

    done: list[tuple[int, int]] = []
    count = 500 if ends_by == "complete" else 10**6
    settings = FlowSettings(checkpoint_interval_ms=3_600_000)
    finished = run_flow(lambda: Numbers(count), lambda: Work(done), settings=settings, during=drains if ends_by == "drained" else None)
    assert (finished.state, finished.errors) == (ends_by, ())
    assert finished.secs < 1.5
    assert finished.snapshot.flow[0].position == str(len(done))


class Counts(MemoryProvider):
    """A ledger that counts its writes."""

    writes = 0

    def ledger(self, name: str) -> Ledger:
        ledger = super().ledger(name)
        written = ledger.write

        async def write(changes: Mapping[str, object]) -> None:
            type(self).writes += 1
            await written(changes)

        ledger.write = write  # type: ignore[method-assign]
        return ledger


@pytest.mark.guarantee("FC-6")
@pytest.mark.parametrize("interval_ms", [20, 500])
def test_the_position_is_written_once_per_interval_and_at_the_end(interval_ms: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counts, "writes", 0)
    config = Config(state_provider="tests.flow.test_stored_position:Counts")
    settings = FlowSettings(checkpoint_interval_ms=interval_ms)
    finished = run_flow(lambda: Numbers(6000), lambda: Work([]), config=config, settings=settings)
    assert finished.secs > 2
    assert 0.8 <= Counts.writes * interval_ms / 1000 / finished.secs <= 1 + 2 * interval_ms / 1000 / finished.secs
