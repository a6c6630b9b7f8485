"""Waiters for a run, and senders to it, get its end at once (SV-4)."""

import asyncio

import pytest

import engine
from engine import Bolt, ComponentError, Inlet, InletClosed, RunEnded, Tuple, TupleFailed
from tests.runtime.ends import CLOSING_SECS, Fatal, Raises, SlowToClose, entered, fatal_topology
from tests.runtime.stage import Keeper, Numbers, chain, failing, loop, play, running

pytestmark = pytest.mark.guarantee("SV-4")


# Whoever waits


@pytest.mark.parametrize(("call", "when"), [("drain", "before"), ("drain", "after"), ("stop", "after")])
def test_drain_and_stop_raise_the_error_that_ended_the_run(call: str, when: str) -> None:
    """The drain begins before or after the failure."""

    async def main() -> None:
        async with failing(entered(fatal_topology(), drain_timeout_secs=100)) as run:
            await asyncio.sleep(0.5 if when == "before" else 3)
            with pytest.raises(ComponentError, match="licence") as caught:
                await (run.drain() if call == "drain" else run.stop())
            assert loop().time() == 1 + CLOSING_SECS, "drain and stop must wait until all is closed"
            assert run.state == "failed"
            assert caught.value is run.error

    play(main)


def test_leaving_the_block_raises_the_error() -> None:
    async def main() -> None:
        async with failing(entered(fatal_topology())):
            await asyncio.sleep(30)

    play(main)


def test_another_exception_in_the_block_is_not_replaced() -> None:
    async def main() -> None:
        run = entered(fatal_topology())

        async def host() -> None:
            async with run:
                await asyncio.sleep(30)
                raise KeyError("the host's own")

        with pytest.raises(KeyError, match="the host's own"):
            await host()
        assert run.error is not None
        assert run.state == "failed"

    play(main)


def test_all_waiters_get_the_error() -> None:
    async def main() -> None:
        async with failing(entered(fatal_topology())) as run:
            waiting = [asyncio.ensure_future(run.completed()) for _ in range(3)]
            done = await asyncio.gather(*waiting, return_exceptions=True)
            assert done == [run.error] * 3
            assert loop().time() == 1

    play(main)


def test_a_waiter_that_is_cancelled_leaves_the_others_waiting() -> None:
    async def main() -> None:
        async with failing(entered(fatal_topology())) as run:
            first, second = (asyncio.ensure_future(run.completed()) for _ in range(2))
            await asyncio.sleep(0.5)
            first.cancel()
            await asyncio.wait([first, second])
            assert first.cancelled()
            assert second.exception() is run.error

    play(main)


def test_of_two_components_that_end_the_run_the_first_is_named() -> None:
    class Second(Bolt):
        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(2)
            raise engine.FatalError("too late")

        async def cleanup(self) -> None:
            raise OSError("at the end")

    builder = engine.TopologyBuilder("two")
    builder.set_spout("source", lambda: Numbers(1))
    builder.set_bolt("first", Fatal).shuffle_grouping("source")
    builder.set_bolt("second", Second).shuffle_grouping("source")

    async def main() -> None:
        async with failing(entered(builder.build())) as run:
            await asyncio.sleep(5)
        assert run.error is not None
        assert run.error.component_id == "first"

    play(main)


# Senders


def test_sends_raise_run_ended_at_once_with_the_reason() -> None:
    """Sends with open trees, waiting ones and later ones fail before the components are closed."""

    async def main() -> None:
        topology = chain(lambda: Inlet("number", max_waiting=2), SlowToClose, KeeperOfOne)
        async with failing(entered(topology, max_spout_pending=3)) as run:
            inlet = run.inlet("source")
            sends = [asyncio.ensure_future(inlet.send((number,))) for number in range(8)]
            done = await asyncio.gather(*sends, return_exceptions=True)
            assert loop().time() == 1
            later = await asyncio.gather(inlet.send((9,)), return_exceptions=True)
            for error in (*done, *later):
                assert isinstance(error, RunEnded), error
                assert isinstance(error, InletClosed)
                assert not isinstance(error, TupleFailed)
                assert error.failure.reason == "task_died"
                assert error.failure.component_id == "bolt2"
                assert "the licence has expired" in str(error.failure.error)
                assert "the licence has expired" in str(error)
            assert inlet.is_closed
        assert "the licence has expired" in str(run.error)

    class KeeperOfOne(Keeper):
        """Keeps its inputs; after a second it ends the run."""

        def prepare(self) -> None:
            self.context.create_task(self.end())

        async def end(self) -> None:
            await asyncio.sleep(1)
            raise engine.FatalError("the licence has expired")

    play(main)


def test_a_send_whose_tree_fails_does_not_raise_run_ended() -> None:
    async def main() -> None:
        async with running(chain(lambda: Inlet("number"), Raises)) as run:
            with pytest.raises(TupleFailed, match="at the input") as caught:
                await run.inlet("source").send((1,))
            assert not isinstance(caught.value, RunEnded)
            assert run.state == "running"

    play(main)


def test_a_send_from_a_callback_of_the_end_raises_run_ended() -> None:
    raised: list[BaseException] = []

    async def main() -> None:
        async def send(run: engine.Run) -> None:
            try:
                await run.inlet("source").send((2,))
            except RunEnded as error:
                raised.append(error)

        sending: list[asyncio.Future[None]] = []
        async with failing(entered(chain(lambda: Inlet("number"), SlowToClose, Fatal))) as run:
            run.on_end(lambda error: sending.append(asyncio.ensure_future(send(run))))
            first = asyncio.ensure_future(run.inlet("source").send((1,)))
            await asyncio.wait([first])
            await asyncio.sleep(0.01)
            assert raised
        await asyncio.gather(*sending)
        assert first.exception() is not None

    play(main)


def test_the_error_of_a_sender_has_the_place_once() -> None:
    class Ends(Bolt):
        def execute(self, tup: Tuple) -> None:
            raise engine.FatalError("the licence has expired")

    async def main() -> None:
        async with failing(entered(chain(lambda: Inlet("number"), Ends))) as run:
            with pytest.raises(RunEnded) as caught:
                await run.inlet("source").send((1,))
            assert caught.value.message == "the run of this inlet has ended: 'bolt1' (task 2) died: the licence has expired"
            assert (caught.value.failure.component_id, caught.value.failure.task_id) == ("bolt1", 2)

    play(main)
