"""Single cases of stateful calls that raise (SV-2)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from engine import Bolt, Config, FailTuple, Fields, Run, StatefulBasicBolt, StatefulBolt, TopologyBuilder, Tuple
from engine.testing import Capture
from tests.runtime.stage import AtOnce, LogLines, Numbers, Sink, chain, play, play_run, running

pytestmark = pytest.mark.guarantee("SV-2")


def final_state(bolt: Callable[[], Any], source: Numbers, **config: Any) -> tuple[dict[Any, Any], Run]:
    """Run source → bolt, and return the final state."""
    end: dict[Any, Any] = {}
    made = bolt()
    made.cleanup = lambda: end.update(made.state.items())
    run = play_run(chain(lambda: source, lambda: made), Config(seed=1, **config))
    return end, run


@pytest.mark.parametrize("raises", [True, False])
def test_a_call_that_raises_also_rolls_back_changes_in_place(raises: bool) -> None:
    class InPlace(StatefulBasicBolt):
        def execute(self, tup: Tuple) -> None:
            if tup[0] == 0:
                self.state.put("seen", [0])
                return
            seen = self.state.get("seen")
            seen.append(tup[0])
            if raises:
                raise ValueError("after the change")
            self.state.put("seen", seen)

    end, _ = final_state(InPlace, AtOnce(3))
    assert end == {"seen": [0] if raises else [0, 1, 2]}


@pytest.mark.parametrize("raising", [{1, 3}, {0, 2, 4}, {0, 1, 2, 3, 4}])
@pytest.mark.parametrize("form", ["generator", "coroutine", "async generator"])
def test_a_call_that_raises_after_its_emits_rolls_back_its_changes(form: str, raising: set[int]) -> None:
    class Counts(StatefulBasicBolt):
        output_fields = Fields("count")

        def changed(self, number: int) -> int:
            count = self.state.get("count", 0) + 1
            self.state.put("count", count)
            self.state.put(f"number {number}", [number])
            return int(count)

        def execute(self, tup: Tuple) -> Any:
            yield (self.changed(tup[0]),)
            if tup[0] in raising:
                raise ValueError("after the emit")

    class Waits(Counts):
        async def execute(self, tup: Tuple) -> None:
            self.collector.emit((self.changed(tup[0]),))
            await asyncio.sleep(0.4)
            if tup[0] in raising:
                raise ValueError("after the emit")

    class Yields(Counts):
        async def execute(self, tup: Tuple) -> Any:
            yield (self.changed(tup[0]),)
            await asyncio.sleep(0.4)
            if tup[0] in raising:
                raise ValueError("after the emit")

    forms = {"generator": Counts, "coroutine": Waits, "async generator": Yields}
    end: dict[Any, Any] = {}
    bolt = forms[form]()
    bolt.cleanup = lambda: end.update(bolt.state.items())  # type: ignore[method-assign]
    spout = AtOnce(5)
    play_run(chain(lambda: spout, lambda: bolt, Sink), Config(seed=1, state_checkpoint_interval_ms=100))
    good = [number for number in range(5) if number not in raising]
    assert end == {f"number {number}": [number] for number in good} | ({"count": len(good)} if good else {})
    assert sorted(spout.failed) == sorted(raising)
    assert sorted(spout.acked) == good


@pytest.mark.parametrize(
    "base", [ValueError("raised"), FailTuple("refused"), asyncio.CancelledError("own")], ids=["error", "FailTuple", "cancelled"]
)
def test_any_exception_of_a_call_rolls_back_its_changes(base: BaseException) -> None:
    class Raises(StatefulBasicBolt):
        def execute(self, tup: Tuple) -> None:
            self.state.put(tup[0], "changed")
            self.state.delete("kept")
            if tup[0] == 0:
                self.state.put("kept", 1)
            elif tup[0] == 1:
                raise base

    end, _ = final_state(Raises, AtOnce(2))
    assert end == {0: "changed", "kept": 1}


def test_a_tick_that_raises_rolls_back_its_changes_and_its_acks() -> None:
    class Flushes(StatefulBolt):
        tick_tuple_freq_secs = 1.0

        def init_state(self, state: Any) -> None:
            self.state = state
            self.kept: list[Tuple] = []
            self.ticks = 0

        def execute(self, tup: Tuple) -> None:
            if not tup.is_tick:
                self.kept.append(tup)
                return
            self.ticks += 1
            self.state.put(f"tick {self.ticks}", len(self.kept))
            self.collector.ack(self.kept.pop())
            if self.ticks == 1:
                raise ValueError("the first tick")
            while self.kept:
                self.collector.ack(self.kept.pop())

    spout = AtOnce(4)
    end, run = final_state(Flushes, spout, state_checkpoint_interval_ms=400)
    assert end == {"tick 2": 3}
    assert spout.failed == [3]
    assert sorted(spout.acked) == [0, 1, 2]
    assert [failure.reason for failure in spout.failures] == ["error"]
    assert run.snapshot().components["bolt1"].restarts == 0


def test_an_input_with_several_roots_that_was_acked_before_the_raise_fails_them_all() -> None:
    class Joins(Bolt):
        output_fields = Fields("number")

        def prepare(self) -> None:
            self.kept: list[Tuple] = []

        def execute(self, tup: Tuple) -> None:
            self.kept.append(tup)
            if len(self.kept) == 2:
                self.collector.emit((tup[0],), self.kept)
                while self.kept:
                    self.collector.ack(self.kept.pop())

    class AcksThenRaises(StatefulBolt):
        def init_state(self, state: Any) -> None:
            self.state = state

        def execute(self, tup: Tuple) -> None:
            self.state.put(tup[0], 1)
            self.collector.ack(tup)
            if tup[0] == 3:
                raise ValueError("after the ack")

    spout, end = AtOnce(6), dict[Any, Any]()
    last = AcksThenRaises()
    last.cleanup = lambda: end.update(last.state.items())  # type: ignore[method-assign]
    play_run(chain(lambda: spout, Joins, lambda: last))
    assert sorted(spout.failed) == [2, 3]
    assert sorted(spout.acked) == [0, 1, 4, 5]
    assert end == {1: 1, 5: 1}


def test_an_ack_that_was_rolled_back_does_not_count_as_a_success() -> None:
    """Given a stateful bolt whose calls all ack and then raise, then it is renewed after a hundred calls (SV-1)."""

    class AcksThenRaises(StatefulBolt):
        def init_state(self, state: Any) -> None:
            self.state = state

        def execute(self, tup: Tuple) -> None:
            self.collector.ack(tup)
            raise ValueError("after the ack")

    spout = Numbers(150)
    run = play_run(chain(lambda: spout, AcksThenRaises))
    assert sorted(spout.failed) == list(range(150))
    found = run.snapshot().components["bolt1"]
    assert found.restarts == 1
    assert (found.acked, found.failed) == (0, 100), "the renewal takes the run back, and with it the inputs that still waited (EO-5)"


def test_emits_of_a_raising_call_for_other_inputs_are_sent() -> None:
    """Only state and acks are undone. An emit has left, and its tree belongs to an input that goes on."""

    class EmitsForOthers(StatefulBolt):
        output_fields = Fields("number")

        def init_state(self, state: Any) -> None:
            self.first: Tuple | None = None

        def execute(self, tup: Tuple) -> None:
            if self.first is None:
                self.first = tup
                return
            self.collector.emit((tup[0],), self.first)
            if tup[0] == 1:
                raise ValueError("after the emit")
            self.collector.ack(self.first)
            self.collector.ack(tup)

    spout, sink = AtOnce(3), Capture()
    play_run(chain(lambda: spout, EmitsForOthers, sink))
    assert sink.field(0) == [1, 2]
    assert spout.failed == [1]
    assert sorted(spout.acked) == [0, 2]


def test_changes_of_background_work_are_not_rolled_back_with_a_call() -> None:
    """Given a call that waits and raises, when background work changes the state, then only the call's change is undone."""

    class Beside(StatefulBolt):
        def init_state(self, state: Any) -> None:
            self.state = state
            self.context.create_task(self.work())

        async def work(self) -> None:
            await asyncio.sleep(1)
            self.state.put("background", 1)

        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            self.state.put("call", 1)
            await asyncio.sleep(2)
            raise ValueError("after the wait")

    end, _ = final_state(Beside, Numbers(1))
    assert end == {"background": 1}


@pytest.mark.parametrize("on_error", ["fail", "restart"])
def test_hooks_of_a_checkpoint_do_not_see_changes_of_a_call_that_raised(on_error: str) -> None:
    seen: list[dict[Any, Any]] = []

    class Watches(StatefulBasicBolt):
        def execute(self, tup: Tuple) -> None:
            self.state.put(tup[0], 1)
            if tup[0] % 2:
                raise ValueError("odd")

        def pre_prepare(self, txid: int) -> None:
            seen.append(dict(self.state.items()))

    class Slow(Numbers):
        async def next_tuple(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0.15)
            super().next_tuple()

    play_run(chain(lambda: Slow(10), Watches), Config(on_error=on_error, state_checkpoint_interval_ms=100))  # type: ignore[arg-type]
    assert len(seen) > 5
    assert all(not any(number % 2 for number in state) for state in seen)
    assert seen[-1] == dict.fromkeys((0, 2, 4, 6, 8), 1)


def test_the_store_has_the_changes_of_calls_that_returned(tmp_path: Any) -> None:
    """A second run on the same store begins with this state."""

    class Counts(StatefulBasicBolt):
        def execute(self, tup: Tuple) -> None:
            self.state.put("count", self.state.get("count", 0) + 1)
            self.state.put("numbers", [*self.state.get("numbers", []), tup[0]])
            if tup[0] % 3 == 0:
                raise ValueError("a third")

    def topology(spout: Numbers, bolt: Any) -> Any:
        builder = TopologyBuilder("stored")
        builder.set_spout("source", lambda: spout)
        builder.set_bolt("counts", bolt).fields_grouping("source", "number")
        return builder.build()

    config = Config(state_provider=f"sqlite:///{tmp_path}/state.db", seed=1)
    ends: list[dict[Any, Any]] = []

    def counting() -> Counts:
        made = Counts()
        made.cleanup = lambda: ends.append(dict(made.state.items()))  # type: ignore[method-assign]
        return made

    play_run(topology(Numbers(6), counting), config)
    play_run(topology(Numbers(3, first=6), counting), config)
    assert ends == [{"count": 4, "numbers": [1, 2, 4, 5]}, {"count": 6, "numbers": [1, 2, 4, 5, 7, 8]}]


def test_a_cancelled_call_at_the_end_of_a_run_is_not_committed() -> None:
    """A stop cancels the call. No checkpoint contains its unfinished changes."""
    states: list[Any] = []

    class Long(StatefulBasicBolt):
        async def execute(self, tup: Tuple) -> None:
            self.state.put(tup[0], 1)
            states.append(self.state)
            if tup[0] == 1:
                await asyncio.sleep(1000)

    async def main() -> None:
        async with running(chain(lambda: Numbers(2), Long), state_checkpoint_interval_ms=100):
            await asyncio.sleep(5)

    with LogLines() as log:
        play(main)
    assert not log.having("raised")
    assert len(states) == 2


def test_an_ack_of_background_work_is_not_rolled_back_with_a_call() -> None:
    """Given a waiting call that raises, when background work acks another input meanwhile, then that input counts once."""
    counts: list[dict[Any, Any]] = []

    class Beside(StatefulBolt):
        raised = False

        def init_state(self, state: Any) -> None:
            self.state = state
            self.kept: asyncio.Queue[Tuple] = asyncio.Queue()
            self.context.create_task(self.settle())

        async def settle(self) -> None:
            while True:
                tup = await self.kept.get()
                await asyncio.sleep(0.5)
                self.state.put(tup[0], self.state.get(tup[0], 0) + 1)
                self.collector.ack(tup)

        async def execute(self, tup: Tuple) -> None:
            if tup[0] == 0:
                self.kept.put_nowait(tup)
                return
            self.state.put(tup[0], self.state.get(tup[0], 0) + 1)
            self.collector.ack(tup)
            await asyncio.sleep(1)
            if tup[0] == 1 and not type(self).raised:
                type(self).raised = True
                raise ValueError("once")

        def cleanup(self) -> None:
            counts.append(dict(self.state.items()))

    spout = Numbers(3, replays=True)
    play_run(chain(lambda: spout, Beside))
    assert spout.failed == [1]
    assert counts == [{0: 1, 1: 1, 2: 1}]
