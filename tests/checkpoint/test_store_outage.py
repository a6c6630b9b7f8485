"""While the store is unavailable, spouts are not polled and no tuple is lost. After too long, the run ends (CP-8)."""

import asyncio
from collections.abc import AsyncIterable, Mapping
from typing import Any

import pytest

from engine import ComponentError, Config, Fields, Spout, StatefulBasicBolt, TopologyBuilder, Tuple
from engine.errors import StateError, StateUnavailable
from engine.runtime.run import Run
from engine.state import Ledger
from engine.state.memory import MemoryLedger, MemoryProvider, MemoryStore
from engine.testing import run_topology

OUTAGE_SECS = range(2, 12)
"""Seconds after the first `stage` in which the store is unavailable."""


class UnavailableStore(MemoryStore):
    """Is unavailable for a while."""

    began: float | None = None

    async def stage(self, txid: int, round_: int, blobs: AsyncIterable[bytes]) -> None:
        now = asyncio.get_running_loop().time()
        self.began = now if self.began is None else self.began
        if OUTAGE_SECS.start <= now - self.began < OUTAGE_SECS.stop:
            raise StateUnavailable("the store is unavailable", hint="Wait.")
        await super().stage(txid, round_, blobs)


class UnavailableProvider(MemoryProvider):
    """memory:// that is unavailable for a while."""

    async def store(self, component_id: str, task_index: int, slots: range) -> MemoryStore:
        return UnavailableStore()


class LostLedger(MemoryLedger):
    """Loses its contents after a few checkpoints."""

    writes = 0

    async def write(self, changes: Mapping[str, object]) -> None:
        self.writes += 1
        if self.writes > 10:
            raise StateError("what this run stored is gone", hint="Start again.")
        await super().write(changes)


class LostProvider(MemoryProvider):
    """memory:// whose ledger is lost during the run."""

    def ledger(self, name: str) -> Ledger:
        return self._ledgers.setdefault(name, LostLedger())


class Endless(Spout):
    """Emits a tuple every 50 ms, for ever."""

    output_fields = Fields("key", "message")

    def open(self) -> None:
        self.emitted = self.failed = 0
        self.next_at = 0.0

    def next_tuple(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self.next_at:
            self.emitted += 1
            self.next_at = now + 0.05
            self.collector.emit((self.emitted % 5, f"s:{self.emitted}"), self.emitted)

    def fail(self, message_id: object) -> None:
        self.failed += 1


class Keep(StatefulBasicBolt):
    """Keeps the last message of each key."""

    def execute(self, tup: Tuple) -> None:
        self.state.put(tup["key"], tup["message"])


def topology(spout: Endless) -> Any:
    builder = TopologyBuilder("away")
    builder.set_spout("source", lambda: spout)
    builder.set_bolt("keep", Keep).fields_grouping("source", "key")
    return builder.build()


def config(state_timeout_secs: int, provider: str = "UnavailableProvider") -> Config:
    return Config(state_provider=f"tests.checkpoint.test_store_outage:{provider}", state_timeout_secs=state_timeout_secs)


@pytest.mark.guarantee("CP-8")
def test_spouts_pause_during_an_outage_of_the_store_and_continue_after_it() -> None:
    spout = Endless()
    seen: list[tuple[str | None, int]] = []

    async def look(run: Run) -> None:
        while len(seen) < 20:
            await asyncio.sleep(1)
            checkpoint = run.snapshot().checkpoint
            assert checkpoint is not None
            seen.append((checkpoint.trouble, spout.emitted))

    finished = run_topology(topology(spout), config(60), during=look, until=20.5)

    away = [emitted for trouble, emitted in seen if trouble is not None]
    assert "the store is unavailable" in {trouble for trouble, _ in seen}
    assert 5 <= len(away) < 15
    assert away[0] == away[-1] < seen[-1][1], "the spout was polled during the outage, or not after it"
    assert (finished.snapshot.checkpoint.recoveries, spout.failed) == (0, 0)  # type: ignore[union-attr]


@pytest.mark.guarantee("CP-8")
def test_a_long_outage_of_the_store_ends_the_run() -> None:
    with pytest.raises(ComponentError, match="the store is unavailable") as caught:
        run_topology(topology(Endless()), config(5), limit_secs=60)
    assert caught.value.hint == "Wait."


@pytest.mark.guarantee("CP-8")
def test_a_record_that_can_never_be_saved_ends_the_run_at_once() -> None:
    with pytest.raises(ComponentError, match=r"^'__checkpoint': what this run stored is gone") as caught:
        run_topology(topology(Endless()), config(60, "LostProvider"), limit_secs=60)
    assert caught.value.hint == "Start again."
