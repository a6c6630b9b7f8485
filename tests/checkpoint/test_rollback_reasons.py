"""A tuple that fails because of a rollback has the reason of the failed checkpoint (ACK-16, CP-4)."""

import asyncio
from typing import Any

import pytest

from engine import Failure, Fields, Spout, SpoutExhausted, StatefulBasicBolt, StatefulBolt, Topology, TopologyBuilder, Tuple
from engine.runtime.run import Run
from engine.testing import run_topology

pytestmark = [pytest.mark.guarantee("ACK-16"), pytest.mark.guarantee("CP-4")]


class Opaque:
    """A value that MessagePack cannot write."""


class Once(Spout):
    """Emits its keys once, and records why they failed."""

    output_fields = Fields("key")

    def __init__(self, failures: list[Failure], keys: tuple[str, ...]) -> None:
        self.failures = failures
        self.keys = list(keys)

    def next_tuple(self) -> None:
        if not self.keys:
            raise SpoutExhausted
        key = self.keys.pop(0)
        self.collector.emit((key,), key)

    def fail(self, message_id: Any) -> None:
        assert self.context.failure is not None
        self.failures.append(self.context.failure)


class Keeps(StatefulBolt):
    """Puts a value that cannot be stored for the key `bad`."""

    output_fields = Fields("key")

    def __init__(self, value: object) -> None:
        self.value = value

    def init_state(self, state: Any) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        self.state.put(tup["key"], self.value if tup["key"] == "bad" else 1)
        self.collector.emit((tup["key"],), anchors=tup)
        self.collector.ack(tup)


class Counts(StatefulBasicBolt):
    def execute(self, tup: Tuple) -> None:
        self.state.put(tup["key"], 1)


def topology(failures: list[Failure], value: object, keys: tuple[str, ...] = ("bad",), source: type[Once] = Once) -> Topology:
    builder = TopologyBuilder("reasons")
    builder.set_spout("source", lambda: source(failures, keys))
    builder.set_bolt("keeps", lambda: Keeps(value)).fields_grouping("source", "key")
    builder.set_bolt("counts", Counts).fields_grouping("keeps", "key")
    return builder.build()


@pytest.mark.parametrize("value", [Opaque(), [Opaque()], {"a": {Opaque()}}, lambda: None], ids=["object", "list", "nested", "function"])
def test_a_value_that_cannot_be_stored_fails_the_input_that_put_it_and_no_other(value: object) -> None:
    failures: list[Failure] = []
    finished = run_topology(topology(failures, value, keys=("good", "bad", "other")))
    assert finished.state == "complete"
    [failure] = failures
    assert (failure.reason, failure.component_id, failure.task_id) == ("error", "keeps", 2)
    told = failure.error
    assert told is not None
    assert "the value of key 'bad'" in told
    assert "cannot be written as MessagePack" in told or "MessagePack cannot write it" in told


class Refuses(Keeps):
    """Refuses the first checkpoint after the key `bad`."""

    bad = False

    def execute(self, tup: Tuple) -> None:
        self.bad = self.bad or tup["key"] == "bad"
        super().execute(tup)

    def pre_prepare(self, txid: int) -> None:
        if self.bad:
            raise ValueError("no room for 'bad'")


def refusing(failures: list[Failure], keys: tuple[str, ...], source: type[Once] = Once) -> Topology:
    builder = TopologyBuilder("reasons")
    builder.set_spout("source", lambda: source(failures, keys))
    builder.set_bolt("keeps", lambda: Refuses(1)).fields_grouping("source", "key")
    builder.set_bolt("counts", Counts).fields_grouping("keeps", "key")
    return builder.build()


def test_a_rolled_back_tuple_has_the_reason_of_the_rollback() -> None:
    failures: list[Failure] = []
    run_topology(refusing(failures, ("good", "bad", "other")))
    assert len(failures) == 3
    assert all("no room for 'bad'" in (failure.error or "") for failure in failures)


class Later(Once):
    """Emits `bad` at once, and `good` after two seconds."""

    def next_tuple(self) -> None:
        if self.keys == ["good"] and self.context.clock.now() < self.good_at:
            return
        super().next_tuple()

    def open(self) -> None:
        self.good_at = self.context.clock.now() + 2


def test_a_tuple_that_fails_after_the_recovery_has_its_own_reason() -> None:
    failures: list[Failure] = []

    async def kills(run: Run) -> None:
        while run.snapshot().components["keeps"].tasks[0].executed < 2:  # noqa: ASYNC110 - of virtual time
            await asyncio.sleep(0.001)
        run.kill_task(run.task_ids("keeps")[0])

    run_topology(refusing(failures, ("bad", "good"), source=Later), during=kills)
    assert len(failures) == 2
    assert "no room for 'bad'" in (failures[0].error or "")
    assert "bad" not in (failures[1].error or "")
