"""`self.context.failure` is the reason of a failed tree inside `fail`, and None elsewhere (ACK-16)."""

import asyncio
from typing import Any

import pytest

import engine
from engine import BasicBolt, Bolt, Config, FailTuple, Failure, FatalError, Inlet, TopologyBuilder, Tuple, TupleFailed
from tests.runtime.stage import Fails, Forgets, Keeper, Numbers, Sink, chain, play, play_run, running

pytestmark = pytest.mark.guarantee("ACK-16")


class FailsAndSaysWhy(Bolt):
    def execute(self, tup: Tuple) -> None:
        self.collector.fail(tup, error="no row for it")


class FailsQuietly(BasicBolt):
    def execute(self, tup: Tuple) -> None:
        raise FailTuple("no good")


class Raises(Bolt):
    on_error = "fail"

    def execute(self, tup: Tuple) -> None:
        raise KeyError("word")


class Dies(Keeper):
    def execute(self, tup: Tuple) -> None:
        super().execute(tup)
        if len(self.kept) == 2:
            raise ValueError("second")


CASES = {
    "failed": (Fails, Failure("failed", "bolt1", 2)),
    "failed, with why": (FailsAndSaysWhy, Failure("failed", "bolt1", 2, "no row for it")),
    "FailTuple": (FailsQuietly, Failure("failed", "bolt1", 2, "no good")),
    "error": (Raises, Failure("error", "bolt1", 2, "KeyError: 'word'")),
    "forgotten": (Forgets, Failure("forgotten", "bolt1", 2)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_failure_has_the_reason_and_the_place(case: str) -> None:
    bolt, failure = CASES[case]
    spout = Numbers(2)
    play_run(chain(lambda: spout, bolt))
    assert spout.failures == [failure, failure]


def test_task_died_names_the_task_and_its_error() -> None:
    spout = Numbers(2)
    play_run(chain(lambda: spout, Dies), Config(on_error="restart"))
    assert spout.failures[spout.failed.index(0)] == Failure("task_died", "bolt1", 2, "ValueError: second")
    assert spout.failures[spout.failed.index(1)] == Failure("error", "bolt1", 2, "ValueError: second")


def test_the_death_of_an_acker_is_a_reason() -> None:
    spout = Numbers(1)

    async def main() -> None:
        async with running(chain(lambda: spout, Keeper)) as run:
            await asyncio.sleep(1)
            run.kill_task(run.task_ids("__acker")[0])
            await run.completed()

    play(main)
    assert spout.failures == [Failure("task_died", "__acker", None, "the acker of the tree died")]


@pytest.mark.parametrize("is_async", [False, True])
def test_outside_of_fail_the_failure_is_none(is_async: bool) -> None:
    seen: list[tuple[str, Failure | None]] = []

    class Watches(Numbers):
        def next_tuple(self) -> None:
            seen.append(("next_tuple", self.context.failure))
            super().next_tuple()

        def ack(self, message_id: Any) -> None:
            seen.append(("ack", self.context.failure))

        def fail(self, message_id: Any) -> None:
            seen.append(("fail", self.context.failure))

    class AsyncWatches(Watches):
        async def fail(self, message_id: Any) -> None:  # type: ignore[override]
            await asyncio.sleep(1)
            Watches.fail(self, message_id)

    class Odd(Bolt):
        def execute(self, tup: Tuple) -> None:
            assert self.context.failure is None
            (self.collector.fail if tup[0] % 2 else self.collector.ack)(tup)

    spout = AsyncWatches(10) if is_async else Watches(10)
    play_run(chain(lambda: spout, Odd, max_spout_pending=1))
    assert len(seen) > 20
    assert all((failure is not None) == (where == "fail") for where, failure in seen)


def test_the_first_fail_gives_the_reason() -> None:
    builder = TopologyBuilder("two")
    spout = Numbers(1)

    class SlowRaises(Raises):
        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            await asyncio.sleep(1)
            raise KeyError("late")

    builder.set_spout("source", lambda: spout)
    builder.set_bolt("slow", SlowRaises).shuffle_grouping("source")
    builder.set_bolt("fast", Fails).shuffle_grouping("source")
    play_run(builder.build())
    assert spout.failures == [Failure("failed", "fast", 3)]


@pytest.mark.parametrize("case", CASES)
def test_tuple_failed_has_the_failure_too(case: str) -> None:
    bolt, failure = CASES[case]

    async def main() -> None:
        async with running(chain(lambda: Inlet("number"), bolt)) as run:
            with pytest.raises(TupleFailed) as caught:
                await run.inlet("source").send((1,))
            assert caught.value.failure == failure
            assert failure.describe() in str(caught.value)

    play(main)


def test_a_spout_without_fail_works() -> None:
    class Deaf(engine.Spout):
        output_fields = engine.Fields("number")

        def open(self) -> None:
            self.left = 5

        def next_tuple(self) -> None:
            if not self.left:
                raise engine.SpoutExhausted
            self.left -= 1
            self.collector.emit((self.left,), self.left)

    run = play_run(chain(Deaf, Fails), Config(max_spout_pending=1))
    assert run.snapshot().components["source"].failed == 5
    assert Sink


def test_a_failure_keeps_only_the_text_of_an_exception() -> None:
    """The exception would keep the objects of its frames alive (ACK-15)."""
    errors = [KeyError("word"), TimeoutError(), FatalError("away", hint="Start it.")]
    texts = [Failure("failed").because(error).error for error in errors]
    assert texts == ["KeyError: 'word'", "TimeoutError", "FatalError: away. Start it."]
    assert type(Failure("failed").because(type("Text", (str,), {})("why")).error) is str
