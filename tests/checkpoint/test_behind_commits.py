"""Hooks and stores that raise or hang around a checkpoint. No commit is lost, and no run hangs (CP-4)."""

import asyncio
from typing import Any, Literal

import pytest

from engine import ComponentError, Config, FatalError, Spout, StatefulBolt, TopologyBuilder, Tuple
from engine.state import Ledger
from engine.state.memory import MemoryProvider, MemoryStore
from engine.testing import Finished, run_topology

pytestmark = pytest.mark.guarantee("CP-4")
OnError = Literal["restart", "fail"]


class Numbers(Spout):
    """Emits a number every 10 ms, and failed numbers again."""

    output_fields = "number"

    def open(self) -> None:
        self.number = 0

    async def next_tuple(self) -> None:
        await asyncio.sleep(0.01)
        self.number += 1
        self.collector.emit((self.number,), message_id=self.number)


class Count(StatefulBolt):
    def init_state(self, state: Any) -> None:
        self.counts = state

    def execute(self, tup: Tuple) -> None:
        self.counts.put(tup["number"] % 10, tup["number"])
        self.collector.ack(tup)


def run_counts(bolt: Any, config: dict[str, Any], secs: float = 30.0) -> Finished:
    builder = TopologyBuilder("counting")
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("count", bolt).global_grouping("numbers")
    return run_topology(builder.build(), Config(**config), until=secs, limit_secs=2 * secs)


def test_a_fatal_error_of_pre_commit_ends_the_run() -> None:
    class Ends(Count):
        def pre_commit(self, txid: int) -> None:
            raise FatalError("for good")

    with pytest.raises(ComponentError, match="for good"):
        run_counts(Ends, {})


@pytest.mark.parametrize("hook", ["pre_prepare", "pre_commit"])
def test_a_hook_that_never_returns_is_cancelled(hook: str) -> None:
    hung: list[int] = []

    async def hangs(self: Any, txid: int) -> None:
        if not hung:
            hung.append(txid)
            await asyncio.Event().wait()

    hangs.__name__ = hook
    bolt = type("Hangs", (Count,), {hook: hangs})
    finished = run_counts(bolt, {"checkpoint_timeout_secs": 5})
    checkpoints = finished.snapshot.checkpoint
    assert checkpoints is not None
    assert checkpoints.committed >= 19
    assert f"{hook}() did not return within 5 s" in finished.errors[0].text


class BadStages(MemoryProvider):
    """Raises an error that a provider must not raise, at each stage of a delta."""

    async def store(self, component_id: str, task_index: int, slots: range) -> MemoryStore:
        store = await super().store(component_id, task_index, slots)

        async def stage(txid: int, round_: int, blobs: Any) -> None:
            raise ValueError("a provider's own mistake")

        store.stage = stage  # type: ignore[method-assign]
        return store


class BadLedger(MemoryProvider):
    """Raises an error that a provider must not raise, at each save of the machine."""

    def ledger(self, name: str) -> Ledger:
        ledger = super().ledger(name)
        written, writes = ledger.write, []

        async def write(changes: Any) -> None:
            writes.append(1)
            if len(writes) > 4:
                raise ValueError("a provider's own mistake")
            await written(changes)

        ledger.write = write  # type: ignore[method-assign]
        return ledger


@pytest.mark.parametrize("on_error", ["restart", "fail"])
@pytest.mark.parametrize("provider", ["BadStages", "BadLedger"])
def test_a_provider_that_raises_a_foreign_error_ends_the_run(provider: str, on_error: OnError) -> None:
    config = {"on_error": on_error, "state_provider": f"tests.checkpoint.test_behind_commits:{provider}"}
    with pytest.raises(ComponentError, match="ValueError: a provider's own mistake"):
        run_counts(Count, config)


@pytest.mark.parametrize("on_error", ["restart", "fail"])
def test_a_value_that_cannot_be_written_fails_its_checkpoint_at_once(on_error: OnError) -> None:
    class Puts(Count):
        def execute(self, tup: Tuple) -> None:
            super().execute(tup)
            if tup["number"] == 250:
                self.counts.put(0, object())

    finished = run_counts(Puts, {"on_error": on_error})
    checkpoints = finished.snapshot.checkpoint
    assert checkpoints is not None
    assert checkpoints.committed >= 27
    assert checkpoints.recoveries <= 2
