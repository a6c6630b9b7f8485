"""The task port: counts of sent tuples, reports of settles, status of spouts, requests for checkpoints."""

import asyncio
from typing import Any

import pytest

from engine import Bolt, Fields, Inlet, KeyValueState, Run, Spout, SpoutExhausted, TopologyBuilder, Tuple, stateful_bolt
from engine.testing import Capture
from engine.topology.task_port import BoltPortUser, SpoutPortUser
from tests.runtime.stage import Endless, Fails, Numbers, PassOn, Sink, chain, loop, play, play_run, running


class CountsSent(BoltPortUser, PassOn):
    output_fields = {"default": Fields("number"), "control": Fields("number")}

    def on_control(self, tup: Tuple) -> None:
        self.port.settle_control(tup)


def test_tuples_sent_to_each_task_since_a_mark_are_counted_without_control_tuples() -> None:
    bolt = CountsSent()

    class Stepwise(Numbers):
        def next_tuple(self) -> None:
            if self.numbers[-1] + 1 - len(self.waiting) < self.allowed:
                super().next_tuple()

        allowed = 0

    spout = Stepwise(1000)
    builder = TopologyBuilder("counts")
    builder.set_spout("source", lambda: spout)
    builder.set_bolt("counts", lambda: bolt).shuffle_grouping("source")
    builder.set_bolt("split", Sink, parallelism=2).shuffle_grouping("counts").shuffle_grouping("counts", stream="control")
    builder.set_bolt("all", Sink, parallelism=2).all_grouping("counts")

    async def step(total: int) -> None:
        spout.allowed = total
        spout.context.wake()
        await asyncio.sleep(0.1)

    async def main() -> None:
        async with running(builder.build()):
            await step(10)
            assert bolt.port.count_sent() == {}, "nothing is counted before the first mark"
            await step(20)
            bolt.port.emit_control((1,), None, "control")
            assert bolt.port.count_sent() == {3: 5, 4: 5, 5: 10, 6: 10}
            assert bolt.port.count_sent() == {}
            await step(26)
            assert bolt.port.count_sent(on=False) == {3: 3, 4: 3, 5: 6, 6: 6}
            await step(30)
            assert bolt.port.count_sent() == {}

    play(main)
    assert sorted(spout.acked) == list(range(30))


class Listens(SpoutPortUser, Spout):
    """A flow-control spout that gets the settle of each receiving task."""

    output_fields = Fields("number")

    def __init__(self, count: int) -> None:
        self.count = count
        self.settles: list[tuple[Any, int, float]] = []
        self.acked: list[tuple[Any, float]] = []
        self.failed: list[tuple[Any, float]] = []

    def open(self) -> None:
        self.left = list(range(self.count))
        self.port.on_settled(lambda message_id, task_id, secs: self.settles.append((message_id, task_id, round(secs, 6))))

    def next_tuple(self) -> None:
        if not self.left:
            raise SpoutExhausted
        number = self.left.pop(0)
        self.collector.emit((number,), number)

    def ack(self, message_id: Any) -> None:
        self.acked.append((message_id, loop().time()))

    def fail(self, message_id: Any) -> None:
        self.failed.append((message_id, loop().time()))


@stateful_bolt()
def counts(tup: Tuple, state: KeyValueState[int, int]) -> None:
    state.put(tup["number"], 1)


class TakesSecs(Bolt):
    output_fields = Fields("number")

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(1 + tup[0])
        self.collector.emit((tup[0],), tup)
        (self.collector.fail if tup[0] == 2 else self.collector.ack)(tup)


def test_the_settle_of_a_receiving_task_is_reported_with_its_own_time_only() -> None:
    spout = Listens(3)
    play_run(chain(lambda: spout, TakesSecs, TakesSecs))
    assert spout.settles == [(0, 2, 1.0), (1, 2, 3.0)], "neither fails nor settles of the second bolt are reported"
    assert [message_id for message_id, _ in spout.acked] == [0, 1]
    assert spout.acked[0][1] == 2.0


def test_each_receiving_task_is_reported() -> None:
    spout = Listens(4)
    builder = TopologyBuilder("each")
    builder.set_spout("source", lambda: spout)
    builder.set_bolt("one", TakesSecs, parallelism=2).all_grouping("source")
    builder.set_bolt("two", Sink).global_grouping("source")
    builder.set_bolt("sink", Sink).shuffle_grouping("one")
    play_run(builder.build())
    reported = {(message_id, task) for message_id, task, _ in spout.settles}
    assert {(number, 4) for number in range(4)} <= reported
    assert {(number, task) for number in range(2) for task in (2, 3)} <= reported


@pytest.mark.guarantee("EO-4")
def test_a_settle_is_reported_although_the_verdict_waits_for_a_commit() -> None:
    spout = Listens(3)

    async def main() -> None:
        async with running(chain(lambda: spout, counts), state_checkpoint_interval_ms=5000) as run:
            await asyncio.sleep(0.05)
            assert [settle[0] for settle in spout.settles] == [0, 1, 2]
            assert not spout.acked
            await run.completed()

    play(main)
    assert all(secs == 0 for _, _, secs in spout.settles)
    assert len(spout.acked) == 3


def test_a_listener_may_be_removed() -> None:
    class Once(Listens):
        def open(self) -> None:
            super().open()
            self.port.on_settled(self.first)

        def first(self, message_id: Any, task_id: int, secs: float) -> None:
            self.settles.append((message_id, task_id, secs))
            self.port.on_settled(None)

    spout = Once(10)
    play_run(chain(lambda: spout, Sink))
    assert len(spout.settles) == 1
    assert len(spout.acked) == 10


def test_no_report_is_made_for_a_tree_with_a_verdict() -> None:
    class TwoWays(Bolt):
        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(5)
            self.collector.ack(tup)

    spout = Listens(1)
    builder = TopologyBuilder("two ways")
    builder.set_spout("source", lambda: spout)
    builder.set_spout("endless", Endless)
    builder.set_bolt("slow", TwoWays).shuffle_grouping("source")
    builder.set_bolt("fails", Fails).shuffle_grouping("source")

    async def main() -> None:
        async with running(builder.build()):
            await asyncio.sleep(10)

    play(main)
    assert spout.settles == [], "neither the fail nor the later ack is reported"
    assert [message_id for message_id, _ in spout.failed] == [0]


class Asks(BoltPortUser, Sink): ...


def statuses(run: Run) -> dict[str, str | None]:
    """Return the status of each spout."""
    return {spout.component_id: spout.status for spout in run.snapshot().spouts}


def test_the_status_of_each_spout_is_available() -> None:
    keeper = Capture(settles=False)

    builder = TopologyBuilder("statuses")
    builder.set_spout("polling", Endless)
    builder.set_spout("full", lambda: Numbers(100), max_spout_pending=2)
    builder.set_spout("exhausted", lambda: Numbers(1))
    builder.set_spout("inlet", lambda: Inlet("number"), max_spout_pending=5)
    builder.set_bolt("sink", Sink).shuffle_grouping("polling")
    builder.set_bolt("keeper", keeper).shuffle_grouping("full").shuffle_grouping("exhausted").shuffle_grouping("inlet")

    async def main() -> None:
        async with running(builder.build()) as run:
            await asyncio.sleep(1)
            assert statuses(run) == {"polling": "polling", "full": "full", "exhausted": "exhausted", "inlet": "polling"}
            sends = [asyncio.ensure_future(run.inlet("inlet").send((number,))) for number in range(2)]
            await asyncio.sleep(1)
            assert statuses(run)["inlet"] == "waited_for"
            await run.deactivate()
            assert statuses(run) == {"polling": "drained", "full": "inactive", "exhausted": "inactive", "inlet": "inactive"}
            for tup in keeper.unsettled:
                keeper.ack(tup)
            await asyncio.gather(*sends)
            assert statuses(run) == dict.fromkeys(("polling", "full", "exhausted", "inlet"), "drained")

    play(main)


def test_a_checkpoint_may_be_requested_by_any_task() -> None:
    begun: list[float] = []

    class Coordinates(SpoutPortUser, Endless):
        def open(self) -> None:
            self.port.run.on_commit_request(lambda: begun.append(loop().time()))

    class Requests(Asks):
        def prepare(self) -> None:
            self.context.create_task(self.request())

        async def request(self) -> None:
            for _ in range(2):
                await asyncio.sleep(3)
                self.port.run.request_commit()

    async def main(source: Any) -> None:
        async with running(chain(source, Requests)):
            await asyncio.sleep(10)

    play(lambda: main(Endless))
    assert not begun, "without a checkpoint spout it does nothing"
    play(lambda: main(Coordinates))
    assert begun == [3, 6]
