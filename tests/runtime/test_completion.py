"""When a run is complete (RUN-2)."""

import asyncio
from random import Random
from typing import Any

import pytest

from engine import BasicBolt, Bolt, Config, Fields, Spout, SpoutExhausted, TopologyBuilder, Tuple
from engine.testing import Capture
from tests.runtime.stage import Endless, Numbers, Sink, Untracked, chain, loop, play, play_run, running

pytestmark = pytest.mark.guarantee("RUN-2")


class FailsFirst(Bolt):
    """Fails each number until it has arrived a given number of times."""

    output_fields = Fields("number")
    tries = 2

    def prepare(self) -> None:
        self.seen: dict[int, int] = {}

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(0.5)
        self.seen[tup[0]] = self.seen.get(tup[0], 0) + 1
        (self.collector.ack if self.seen[tup[0]] >= self.tries else self.collector.fail)(tup)


@pytest.mark.parametrize("seed", range(3))
def test_a_tuple_that_fails_after_the_exhaustion_is_replayed_before_the_end(seed: int) -> None:
    spout = Numbers(10, replays=True)
    run = play_run(chain(lambda: spout, FailsFirst), shuffle=Random(seed))
    assert run.state == "complete"
    assert sorted(spout.acked) == list(range(10))
    assert sorted(spout.failed) == list(range(10))


def test_an_exhausted_spout_is_polled_again_only_after_a_fail() -> None:
    spout = Numbers(2, replays=True)
    polls: list[tuple[float, int]] = []
    keeper = Capture(settles=False)

    async def main() -> None:
        async with running(chain(lambda: spout, keeper)) as run:
            await asyncio.sleep(5)
            polls.append((loop().time(), spout.polls))
            keeper.settle_next()
            await asyncio.sleep(5)
            polls.append((loop().time(), spout.polls))
            keeper.settle_next(ack=False)
            await asyncio.sleep(5)
            polls.append((loop().time(), spout.polls))
            keeper.settle_next()
            await run.completed()

    play(main)
    assert [count for _, count in polls] == [3, 3, 5]
    assert spout.polls == 5


def test_after_a_fail_without_a_replay_the_spout_is_polled_once_more() -> None:
    spout, keeper = Numbers(1), Capture(settles=False)

    async def main() -> None:
        async with running(chain(lambda: spout, keeper)) as run:
            await asyncio.sleep(5)
            keeper.settle_next(ack=False)
            await run.completed()
            assert loop().time() == 5

    play(main)
    assert spout.polls == 3


def test_a_source_may_emit_new_tuples_after_a_fail() -> None:
    class Revives(Numbers):
        def fail(self, message_id: Any) -> None:
            super().fail(message_id)
            if message_id == 0:
                self.waiting.extend([10, 11])

    class Judge(Bolt):
        def execute(self, tup: Tuple) -> None:
            (self.collector.ack if tup[0] else self.collector.fail)(tup)

    spout = Revives(2)
    play_run(chain(lambda: spout, Judge))
    assert sorted(spout.acked) == [1, 10, 11]


@pytest.mark.parametrize("form", ["async", "concurrent", "threads", "plain"])
def test_untracked_tuples_are_finished_too(form: str) -> None:
    got: list[int] = []

    class Plain(BasicBolt):
        output_fields = Fields("number")

        def execute(self, tup: Tuple) -> Any:
            got.append(tup[0])
            return (tup[0],)

    class Async(Plain):
        async def execute(self, tup: Tuple) -> Any:
            await asyncio.sleep(1)
            got.append(tup[0])
            return (tup[0],)

    class Concurrent(Async):
        concurrency = 7

    class Threads(Plain):
        threads = 2

    sink = Capture()
    forms = {"plain": Plain, "async": Async, "concurrent": Concurrent, "threads": Threads}
    run = play_run(chain(lambda: Untracked(20), forms[form], forms[form], sink), Config(executor_receive_buffer_size=4))
    assert run.state == "complete"
    assert sorted(sink.field(0)) == list(range(20))
    assert len(got) == 40


def test_every_source_must_be_exhausted() -> None:
    class Later(Spout):
        output_fields = Fields("number")

        def next_tuple(self) -> None:
            if loop().time() >= 50:
                raise SpoutExhausted

    builder = TopologyBuilder("two")
    builder.set_spout("now", lambda: Numbers(3))
    builder.set_spout("later", Later)
    builder.set_bolt("sink", Sink).shuffle_grouping("now").shuffle_grouping("later")
    run = play_run(builder.build())
    assert run.state == "complete"
    assert 50 <= run.snapshot().uptime_secs < 50.1


def test_each_task_of_a_source_must_be_exhausted() -> None:
    class Paced(Numbers):
        async def next_tuple(self) -> None:  # type: ignore[override]
            await asyncio.sleep(self.context.task_index)
            Numbers.next_tuple(self)

    sink = Capture()
    builder = TopologyBuilder("three tasks")
    builder.set_spout("source", lambda: Paced(5), parallelism=3)
    builder.set_bolt("sink", sink).shuffle_grouping("source")
    play_run(builder.build())
    assert sorted(sink.field(0)) == sorted([*range(5)] * 3)


def test_a_run_with_nothing_to_do_completes_at_once() -> None:
    run = play_run(chain(lambda: Numbers(0), Sink))
    assert run.state == "complete"
    assert run.snapshot().uptime_secs == 0


@pytest.mark.parametrize("ackers", [0, 1, 3])
def test_an_async_ack_is_awaited_before_the_end(ackers: int) -> None:
    class SlowAck(Numbers):
        async def ack(self, message_id: Any) -> None:  # type: ignore[override]
            await asyncio.sleep(1)
            Numbers.ack(self, message_id)

    spout = SlowAck(5)
    run = play_run(chain(lambda: spout, Sink), Config(acker_executors=ackers))
    assert len(spout.acked) == 5
    assert run.snapshot().uptime_secs == 5


def test_an_unsettled_tuple_keeps_the_run_open() -> None:
    spout, keeper = Numbers(1), Capture(settles=False)

    async def main() -> None:
        async with running(chain(lambda: spout, keeper), enable_message_timeouts=False) as run:
            done = asyncio.ensure_future(run.completed())
            await asyncio.sleep(1000)
            assert not done.done()
            keeper.settle_next()
            await done

    play(main)


def test_several_tasks_may_wait_for_the_end_and_one_may_be_cancelled() -> None:
    spout, keeper = Numbers(1), Capture(settles=False)

    async def main() -> None:
        async with running(chain(lambda: spout, keeper)) as run:
            waiters = [asyncio.ensure_future(run.completed()) for _ in range(3)]
            await asyncio.sleep(1)
            waiters[0].cancel()
            keeper.settle_next()
            await asyncio.gather(*waiters[1:])
            assert waiters[0].cancelled()
            await run.completed()

    play(main)


def test_background_emits_of_an_exhausted_spout_are_waited_for() -> None:
    class Background(Numbers):
        def open(self) -> None:
            super().open()
            self.context.create_task(self.later())

        async def later(self) -> None:
            await asyncio.sleep(1)
            self.collector.emit((99,), 99)

    spout, keeper = Background(1), Capture(settles=False)

    async def main() -> None:
        async with running(chain(lambda: spout, keeper)) as run:
            await asyncio.sleep(2)
            keeper.settle_next()
            await asyncio.sleep(1)
            assert run.state == "running"
            keeper.settle_next()
            await run.completed()

    play(main)
    assert spout.acked == [0, 99]


def test_a_run_with_an_endless_source_does_not_complete() -> None:
    builder = TopologyBuilder("endless")
    builder.set_spout("source", lambda: Numbers(3))
    builder.set_spout("endless", Endless)
    builder.set_bolt("sink", Sink).shuffle_grouping("source")

    async def main() -> None:
        async with running(builder.build()) as run:
            await asyncio.sleep(100)
            assert run.state == "running"
            assert run.snapshot().components["source"].status == "exhausted"

    play(main)
