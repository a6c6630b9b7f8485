"""An Inlet in a run, from the service's send to the result of the tree."""

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest
import uvloop

from engine import (
    BasicBolt,
    Bolt,
    ComponentError,
    CustomGrouping,
    Fields,
    Inlet,
    InletClosed,
    RunEnded,
    TopologyBuilder,
    Tuple,
    TupleFailed,
    UsageError,
)
from engine.testing import Capture
from tests.patience import PATIENCE_SECS
from tests.runtime.stage import Keeper, Sink, chain, loop, play, running, strict


class Judge(Bolt):
    """Takes a second, then fails what is below zero."""

    concurrency = 10

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(1)
        (self.collector.fail if tup[0] < 0 else self.collector.ack)(tup)


class Split(BasicBolt):
    output_fields = Fields("number")

    def execute(self, tup: Tuple) -> Any:
        yield (tup[0],)
        yield (tup[0] * 2,)


def inlet_chain(*bolts: Any, **settings: Any) -> Any:
    return chain(lambda: Inlet("number", **settings), *bolts)


def test_a_send_returns_when_its_whole_tree_is_processed() -> None:
    async def main() -> None:
        async with running(inlet_chain(Split, Judge)) as run:
            inlet = run.inlet("source")
            await inlet.send((1,))
            assert loop().time() == 1
            await asyncio.gather(*(inlet.send([number]) for number in range(5)))
            assert loop().time() == 2
            assert run.snapshot().components["source"].acked == 6

    play(main)


def test_a_send_raises_when_any_tuple_of_its_tree_fails() -> None:
    async def main() -> None:
        async with running(inlet_chain(Split, Judge)) as run:
            inlet = run.inlet("source")
            results = await asyncio.gather(*(inlet.send((number,)) for number in (1, -1, 2)), return_exceptions=True)
            assert results[0] is results[2] is None
            assert isinstance(results[1], TupleFailed)
            assert (results[1].failure.reason, results[1].failure.component_id) == ("failed", "bolt2")

    play(main)


def test_a_send_that_times_out_names_the_task_that_owes_the_ack() -> None:
    async def main() -> None:
        async with running(inlet_chain(Keeper), message_timeout_secs=8) as run:
            with pytest.raises(TupleFailed) as caught:
                await run.inlet("source").send((1,))
            assert caught.value.failure.reason == "timeout"
            assert caught.value.failure.component_id == "bolt1"
            assert 8 <= loop().time() <= 10

    play(main)


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.guarantee("RUN-2")
def test_close_exhausts_the_inlet_and_the_run_completes_after_all_sends(parallelism: int) -> None:
    sink = Capture()
    builder = TopologyBuilder("inlets")
    builder.set_spout("in", lambda: Inlet("number"), parallelism=parallelism)
    builder.set_bolt("judge", Judge).shuffle_grouping("in")
    builder.set_bolt("sink", sink).shuffle_grouping("in")

    async def main() -> None:
        async with running(builder.build()) as run:
            inlet = run.inlet("in")
            sends = [asyncio.ensure_future(inlet.send((number,))) for number in range(20)]
            await asyncio.sleep(0)
            inlet.close()
            with pytest.raises(InletClosed):
                await inlet.send((99,))
            await run.completed()
            assert [send.done() for send in sends] == [True] * 20
            await asyncio.gather(*sends)

    play(main)
    assert sorted(sink.field(0)) == list(range(20))


def test_all_tasks_of_an_inlet_share_one_queue() -> None:
    by_task: dict[int, int] = {}

    class Counts(Bolt):
        async def execute(self, tup: Tuple) -> None:
            by_task[tup.source_task] = by_task.get(tup.source_task, 0) + 1
            await asyncio.sleep(0.01)
            self.collector.ack(tup)

    builder = TopologyBuilder("inlets")
    builder.set_spout("in", lambda: Inlet("number"), parallelism=3, max_spout_pending=1)
    builder.set_bolt("counts", Counts).shuffle_grouping("in")

    async def main() -> None:
        async with running(builder.build()) as run:
            await asyncio.gather(*(run.inlet("in").send((number,)) for number in range(30)))

    play(main)
    assert sum(by_task.values()) == 30
    assert len(by_task) == 3


@pytest.mark.parametrize("end", ["stop", "drain", "leave", "death"])
@pytest.mark.guarantee("SV-4")
def test_waiting_sends_raise_run_ended_when_the_run_ends(end: str) -> None:
    """Sends in flight, waiting and later ones fail with the reason of the run's end. None hangs."""

    class Dies(Bolt):
        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(1)
            raise ValueError("always")

    async def main() -> None:
        results: list[asyncio.Future[None]] = []
        topology = inlet_chain(Dies if end == "death" else Keeper, max_waiting=4)
        with pytest.raises(ComponentError) if end == "death" else nullcontext():
            async with running(topology, max_spout_pending=2, on_error="stop", drain_timeout_secs=3) as run:
                inlet = run.inlet("source")
                results += [asyncio.ensure_future(inlet.send((number,))) for number in range(6)]
                await asyncio.sleep(0.5)
                if end == "stop":
                    await run.stop()
                elif end == "drain":
                    await run.drain()
                elif end == "death":
                    await run.completed()
        done = await asyncio.gather(*results, return_exceptions=True)
        if isinstance(done[0], TupleFailed):  # the tree of the input that ended the run may have had its verdict just before
            assert end == "death"
            assert done.pop(0).failure.reason == "error"  # type: ignore[union-attr]
        assert all(isinstance(error, RunEnded) for error in done), done
        with pytest.raises(RunEnded) as later:
            await inlet.send((7,))
        why = {"stop": "stopped", "drain": "drained", "leave": "stopped", "death": "ValueError: always"}[end]
        for error in (*done, later.value):
            assert isinstance(error, InletClosed)
            assert not isinstance(error, TupleFailed)
            assert error.failure.reason == "task_died"
            assert error.failure.component_id == ("bolt1" if end == "death" else None)
            assert why in error.failure.describe()
            assert why in str(error)

    play(main)


def test_the_death_of_an_inlet_task_fails_sends_in_flight_and_keeps_waiting_ones() -> None:
    keeper = Capture(settles=False)

    async def main() -> None:
        async with running(inlet_chain(keeper), max_spout_pending=2) as run:
            inlet = run.inlet("source")
            sends = [asyncio.ensure_future(inlet.send((number,))) for number in range(4)]
            await asyncio.sleep(1)
            run.kill_task(run.task_ids("source")[0])
            await asyncio.sleep(1)
            assert [send.done() for send in sends] == [True, True, False, False]
            assert isinstance(sends[0].exception(), TupleFailed)
            assert isinstance(sends[1].exception(), TupleFailed)
            assert [tup[0] for tup in keeper.unsettled] == [0, 1, 2, 3]
            for tup in keeper.unsettled:
                keeper.ack(tup)
            await asyncio.gather(*sends[2:])
            assert run.inlet("source") is inlet

    play(main)


def test_a_cancelled_send_is_withdrawn_unless_it_was_emitted() -> None:
    keeper = Capture(settles=False)

    async def main() -> None:
        async with running(inlet_chain(keeper), max_spout_pending=1) as run:
            inlet = run.inlet("source")
            sends = [asyncio.ensure_future(inlet.send((number,))) for number in range(3)]
            await asyncio.sleep(1)
            sends[0].cancel()
            sends[1].cancel()
            await asyncio.sleep(1)
            keeper.settle_next()
            await asyncio.sleep(1)
            assert [tup[0] for tup in keeper.unsettled] == [2]
            keeper.settle_next()
            await sends[2]
            inlet.close()
            await run.completed()
            assert run.snapshot().components["source"].acked == 2

    play(main)


def test_a_value_that_cannot_be_emitted_raises_at_its_sender() -> None:
    async def main() -> None:
        builder = TopologyBuilder("keys")
        builder.set_spout("in", lambda: Inlet("key"))
        builder.set_bolt("sink", Sink, parallelism=2).fields_grouping("in", "key")
        async with running(builder.build()) as run:
            inlet = run.inlet("in")
            with pytest.raises(UsageError):
                await inlet.send((object(),))
            with pytest.raises(UsageError):
                await inlet.send((1, 2))
            with pytest.raises(UsageError):
                await inlet.send("ab")  # type: ignore[arg-type]
            await inlet.send(("fine",))
            assert run.snapshot().components["in"].restarts == 0

    play(main)


class Choosy(CustomGrouping):
    """Chooses no task for a bad value: it raises."""

    def prepare(self, context: Any, stream: str, targets: Any) -> None:
        self.targets = targets

    def choose_tasks(self, source_task: int, values: Any) -> Any:
        if values[0] == "bad":
            raise ValueError("no task for it")
        return [self.targets[0]]


@pytest.mark.guarantee("ACK-12")
def test_an_emit_that_raises_fails_its_sender_and_frees_its_slot() -> None:
    async def main() -> None:
        builder = TopologyBuilder("choosy")
        builder.set_spout("in", lambda: Inlet("key", max_waiting=1), on_error="fail")
        builder.set_bolt("sink", Sink).custom_grouping("in", Choosy)
        async with running(builder.build()) as run:
            inlet = run.inlet("in")
            with pytest.raises(TupleFailed, match="no task for it"):
                await inlet.send(("bad",))
            await inlet.send(("fine",))
            assert inlet.waiting == 0

    play(main)


@pytest.mark.guarantee("GRP-3", "ACK-1")
def test_an_emit_to_several_subscribers_goes_to_all_or_to_none() -> None:
    async def main() -> None:
        builder = TopologyBuilder("all or none")
        builder.set_spout("in", lambda: Inlet("key"))
        sinks = [Capture(), Capture()]
        builder.set_bolt("first", lambda: sinks[0]).shuffle_grouping("in")
        builder.set_bolt("second", lambda: sinks[1]).fields_grouping("in", "key")
        async with running(builder.build()) as run:
            with pytest.raises(UsageError):
                await run.inlet("in").send((object(),))
            await run.inlet("in").send((5,))
            snapshot = run.snapshot()
        assert [sink.field(0) for sink in sinks] == [[5], [5]]
        assert snapshot.components["__acker"].pending == 0

    play(main)


def test_an_idle_run_emits_sends_at_once() -> None:
    async def main() -> None:
        async with running(inlet_chain(Sink)) as run:
            for _ in range(5):
                await asyncio.sleep(1.037)
                before = loop().time()
                await run.inlet("source").send((1,))
                assert loop().time() == before

    play(main)


def test_a_deactivated_inlet_keeps_its_sends_until_it_is_active_again() -> None:
    async def main() -> None:
        async with running(inlet_chain(Sink)) as run:
            await run.deactivate()
            send = asyncio.ensure_future(run.inlet("source").send((1,)))
            await asyncio.sleep(100)
            assert not send.done()
            await run.activate()
            await asyncio.wait_for(send, 1)

    play(main)


@pytest.mark.guarantee("RUN-3")
@pytest.mark.guarantee("SV-4")
def test_a_drain_finishes_emitted_sends_and_waiting_ones_raise_run_ended() -> None:
    async def main() -> None:
        async with running(inlet_chain(Judge), max_spout_pending=2) as run:
            inlet = run.inlet("source")
            sends = [asyncio.ensure_future(inlet.send((number,))) for number in range(4)]
            await asyncio.sleep(0.5)
            await run.drain()
            done = await asyncio.gather(*sends, return_exceptions=True)
            assert done[:2] == [None, None]
            assert [type(error) for error in done[2:]] == [RunEnded, RunEnded]

    play(main)


def test_the_error_for_an_unknown_inlet_names_it() -> None:
    async def main() -> None:
        async with running(inlet_chain(Sink)) as run:
            with pytest.raises(UsageError, match="source"):
                run.inlet("sorce")

    play(main)


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_inlets_work_on_real_loops(loop_factory: Any) -> None:
    async def main() -> None:
        async with running(inlet_chain(Split, Sink)) as run:
            inlet = run.inlet("source")

            async def client(first: int) -> None:
                for number in range(first, first + 50):
                    await inlet.send((number,))

            await asyncio.gather(*(client(i * 100) for i in range(8)))
            inlet.close()
            await run.completed()
            assert run.snapshot().components["source"].acked == 400

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(asyncio.wait_for(strict(main)(), PATIENCE_SECS))
