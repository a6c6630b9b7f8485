"""An exception is reported and fails its input. The instance goes on, or with "restart" is replaced (ACK-12)."""

import asyncio
from typing import Any, Literal

import pytest

import engine
from engine import BasicBolt, Bolt, Config, FailTuple, SpoutExhausted, Tuple
from engine.api import Fields
from engine.testing import Capture
from tests.runtime.dying import ends_with_component_error, poisoned
from tests.runtime.stage import Endless, LogLines, Numbers, PassOn, Sink, chain, loop, play_run

pytestmark = pytest.mark.guarantee("ACK-12")


@pytest.mark.parametrize("by_config", [True, False])
def test_with_restart_the_task_gets_a_new_instance(by_config: bool) -> None:
    spout, bolt = Numbers(6), poisoned(None if by_config else "restart")
    run = play_run(chain(lambda: spout, bolt), Config(on_error="restart") if by_config else None)
    assert [instance.got for instance in bolt.instances] == [[0, 1, 2, 3], [4, 5]]
    assert [(instance.prepared, instance.cleaned) for instance in bolt.instances] == [(1, 1), (1, 1)]
    assert spout.failed == [3]
    assert spout.acked == [0, 1, 2, 4, 5]
    assert run.snapshot().components["bolt1"].restarts == 1
    assert run.state == "complete"


@pytest.mark.parametrize("said_by", ["nobody", "config", "component"])
def test_by_default_the_instance_continues(said_by: str) -> None:
    spout, bolt = Numbers(6), poisoned("fail" if said_by == "component" else None)
    run = play_run(chain(lambda: spout, bolt), Config(on_error="fail") if said_by == "config" else None)
    assert [instance.got for instance in bolt.instances] == [[0, 1, 2, 3, 4, 5]]
    assert spout.failed == [3]
    assert run.snapshot().components["bolt1"].restarts == 0
    assert run.snapshot().components["bolt1"].errors == 1


def test_the_setting_of_the_component_overrides_the_config() -> None:
    bolt = poisoned("restart")
    play_run(chain(lambda: Numbers(6), bolt), Config(on_error="fail"))
    assert len(bolt.instances) == 2
    bolt = poisoned("fail")
    play_run(chain(lambda: Numbers(6), bolt), Config(on_error="restart"))
    assert len(bolt.instances) == 1


@pytest.mark.parametrize(("mode", "restarts"), [("fail", 0), ("restart", 1)])
def test_a_function_bolt_follows_the_config(mode: Any, restarts: int) -> None:
    @engine.bolt("number")
    def divide(tup: Tuple) -> Any:
        return (1 / tup[0],)

    spout = Numbers(3)
    run = play_run(chain(lambda: spout, divide, Sink), Config(on_error=mode))
    assert spout.failed == [0]
    assert run.snapshot().components["bolt1"].restarts == restarts


@pytest.mark.parametrize("said_by", ["config", "component"])
def test_with_stop_the_first_exception_ends_the_run(said_by: str) -> None:
    spout, bolt = Numbers(6), poisoned("stop" if said_by == "component" else None)
    with LogLines() as log:
        error = ends_with_component_error(chain(lambda: spout, bolt), Config(on_error="stop") if said_by == "config" else None)
    assert [instance.got for instance in bolt.instances] == [[0, 1, 2, 3]]
    assert [(instance.prepared, instance.cleaned) for instance in bolt.instances] == [(1, 1)]
    assert error.component_id == "bolt1"
    assert isinstance(error.error, ValueError)
    assert "on_error is 'stop'" in str(error)
    assert "Fix:" in str(error)
    assert len(log.having("the run ends: on_error is 'stop'")) == 1


@pytest.mark.parametrize("kind", ["bolt", "spout", "tick"])
def test_with_stop_any_exception_but_fail_tuple_ends_the_run(kind: str) -> None:
    class Refuses(BasicBolt):
        tick_tuple_freq_secs = 1.0 if kind == "tick" else None

        def execute(self, tup: Tuple) -> None:
            if tup.is_tick:
                raise ValueError("tick")
            if tup[0] < 3:
                raise FailTuple("refused")
            if kind == "bolt":
                raise ValueError("raised")

    class Source(Numbers):
        def next_tuple(self) -> None:
            if self.waiting:
                super().next_tuple()
            elif kind == "spout" and len(self.failed) == 3:
                raise ValueError("spout")

    spout = Source(4)
    error = ends_with_component_error(chain(lambda: spout, Refuses, max_spout_pending=1), Config(on_error="stop"))
    assert spout.failed[:3] == [0, 1, 2]
    assert [failure.reason for failure in spout.failures[:3]] == ["failed"] * 3
    assert error.component_id == ("source" if kind == "spout" else "bolt1")


def test_the_input_fails_at_once() -> None:
    class Timed(Numbers):
        def fail(self, message_id: Any) -> None:
            super().fail(message_id)
            self.failed_at = loop().time()

    spout = Timed(6)
    play_run(chain(lambda: spout, poisoned()))
    assert spout.failed_at == 0


def test_one_poison_record_that_is_always_replayed_does_not_end_the_run() -> None:
    """Given a record that kills its bolt at each replay, when others are processed in between, then no death counts."""
    bolt = poisoned()

    class Replaying(Numbers):
        def fail(self, message_id: Any) -> None:
            super().fail(message_id)
            if len(self.failed) < 50:
                self.waiting.append(message_id)
                self.waiting.append(100 + len(self.failed))

    spout = Replaying(6)
    run = play_run(chain(lambda: spout, bolt), Config(on_error="restart"))
    assert len(bolt.instances) == 51
    assert spout.failed == [3] * 50
    assert run.state == "complete"


@pytest.mark.parametrize("most", [0, 1, 5])
def test_too_many_deaths_without_a_settled_tuple_end_the_run(most: int) -> None:
    class Dies(Bolt):
        made = 0

        def prepare(self) -> None:
            Dies.made += 1

        def execute(self, tup: Tuple) -> None:
            raise ValueError("always")

    spout = Numbers(100)
    error = ends_with_component_error(chain(lambda: spout, Dies), Config(max_task_restarts=most, on_error="restart"))
    assert Dies.made == most + 1
    assert error.component_id == "bolt1"
    assert isinstance(error.error, ValueError)
    assert f"more than {most} times in 60 s" in str(error)
    assert "Fix:" in str(error)


def test_deaths_that_are_far_apart_do_not_end_the_run() -> None:
    class Slow(Numbers):
        async def next_tuple(self) -> None:  # type: ignore[override]
            await asyncio.sleep(13)
            Numbers.next_tuple(self)

    class Dies(Bolt):
        def execute(self, tup: Tuple) -> None:
            raise ValueError("always")

    spout = Slow(30)
    run = play_run(chain(lambda: spout, Dies), Config(max_task_restarts=5, restart_window_secs=60, on_error="restart"))
    assert run.state == "complete"
    assert len(spout.failed) == 30


def test_inputs_that_fail_with_their_instance_are_no_progress() -> None:
    """Given a bolt that settles no input and dies of each second one, then the run ends."""

    class Hoards(Bolt):
        def prepare(self) -> None:
            self.kept: list[Tuple] = []

        def execute(self, tup: Tuple) -> None:
            self.kept.append(tup)
            if len(self.kept) == 3:
                raise ValueError("too much")

    spout = Numbers(1000, replays=True)
    error = ends_with_component_error(chain(lambda: spout, Hoards), Config(on_error="restart"))
    assert "died more than 5 times" in str(error)


@pytest.mark.parametrize("mode", ["fail", "restart"])
def test_an_error_in_prepare_does_not_suggest_a_setting_for_failing_inputs(mode: Literal["fail", "restart"]) -> None:
    class Unready(PassOn):
        def prepare(self) -> None:
            raise OSError("no connection")

    with pytest.raises(engine.ComponentError, match="before it was ready, the last time of OSError: no connection") as caught:
        play_run(chain(lambda: Numbers(3), Unready), Config(on_error=mode))
    assert caught.value.hint == "Fix the cause of the error, or raise max_task_restarts."


def test_a_deadly_tick_counts_like_a_deadly_input() -> None:
    class TickKills(Bolt):
        tick_tuple_freq_secs = 1.0

        def execute(self, tup: Tuple) -> None:
            if tup.is_tick:
                raise ValueError("tick")
            self.collector.ack(tup)

    error = ends_with_component_error(chain(Endless, TickKills), Config(on_error="restart"))
    assert "died more than 5 times" in str(error)


def test_a_component_that_fails_for_good_closes_the_others_in_order() -> None:
    events: list[str] = []

    class Closing(PassOn):
        def cleanup(self) -> None:
            events.append(f"cleanup {self.context.component_id}")

    class ClosingSpout(Numbers):
        def close(self) -> None:
            events.append("close")

    class Dies(Bolt):
        def execute(self, tup: Tuple) -> None:
            raise ValueError("always")

        def cleanup(self) -> None:
            events.append("cleanup dies")

    spout = ClosingSpout(10)
    ends_with_component_error(chain(lambda: spout, Closing, Dies, max_spout_pending=1), Config(max_task_restarts=1, on_error="restart"))
    assert events == ["cleanup dies", "cleanup dies", "close", "cleanup bolt1"]


@pytest.mark.parametrize("on_error", ["fail", "restart"])
@pytest.mark.parametrize("kind", ["plain", "async", "concurrent", "spout", "async spout"])
def test_a_cancelled_error_of_user_code_is_an_error_like_others(kind: str, on_error: Any) -> None:
    """Such an error comes from awaiting a cancelled task. Nobody cancelled this task, so the error must be reported."""
    raised = 0

    def cancel() -> None:
        nonlocal raised
        if not raised:
            raised += 1
            raise asyncio.CancelledError("own")

    class Plain(Sink):
        def execute(self, tup: Tuple) -> None:
            cancel()
            self.collector.ack(tup)

    class Async(Sink):
        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            await asyncio.sleep(0.01)
            cancel()
            self.collector.ack(tup)

    class Concurrent(Async):
        concurrency = 3

    made: list[Numbers] = []

    class Source(Numbers):
        def __init__(self) -> None:
            super().__init__(5, replays=True)
            made.append(self)

        def next_tuple(self) -> None:
            if kind == "spout":
                cancel()
            super().next_tuple()

    class AsyncSource(Source):
        async def next_tuple(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0.01)
            cancel()
            Numbers.next_tuple(self)

    source = AsyncSource if kind == "async spout" else Source
    bolt = {"plain": Plain, "async": Async, "concurrent": Concurrent}.get(kind, Sink)
    run = play_run(chain(source, bolt), Config(on_error=on_error), limit_secs=100)
    assert sorted(made[-1].acked) == [0, 1, 2, 3, 4]
    assert sum(component.errors for component in run.snapshot().components.values()) == 1
    assert run.snapshot().errors[0].text.startswith("CancelledError")


def test_an_emit_with_the_collector_of_a_dead_instance_is_an_error() -> None:
    collectors: list[Any] = []
    raised: list[Exception] = []

    class Keeps(Bolt):
        output_fields = Fields("number")

        def prepare(self) -> None:
            collectors.append(self.collector)

        def execute(self, tup: Tuple) -> None:
            if len(collectors) == 1:
                raise ValueError("first dies")
            try:
                collectors[0].emit((1,))
            except engine.UsageError as error:
                raised.append(error)
            collectors[0].ack(tup)
            self.collector.ack(tup)

    spout, sink = Numbers(2), Capture()
    play_run(chain(lambda: spout, Keeps, sink), Config(on_error="restart"))
    assert "an instance that was replaced" in str(raised[0])
    assert spout.acked == [1]
    assert not sink.arrivals


def test_spout_exhausted_in_a_bolt_is_an_error() -> None:
    class Odd(BasicBolt):
        def execute(self, tup: Tuple) -> None:
            raise SpoutExhausted

    spout = Numbers(1)
    play_run(chain(lambda: spout, Odd))
    assert spout.failures[0].reason == "error"


@pytest.mark.parametrize("on_error", ["restart", "fail", "stop"])
def test_a_fatal_error_ends_the_run_at_once_with_its_own_text(on_error: str) -> None:
    """A fresh instance would fail, too. The error text gives the fix, not the number of attempts."""

    class Refused(Sink):
        def execute(self, tup: Tuple) -> None:
            raise engine.FatalError("wrong password", hint="Give the right one.")

    with pytest.raises(engine.ComponentError) as raised:
        play_run(chain(lambda: Numbers(6), Refused), Config(on_error=on_error))
    assert raised.value.message.endswith("wrong password")
    assert raised.value.hint == "Give the right one."


@pytest.mark.parametrize("on_error", ["restart", "fail", "stop"])
def test_a_fatal_error_of_background_work_ends_the_run_too(on_error: Any) -> None:
    class Connecting(Endless):
        def open(self) -> None:
            self.context.create_task(self.connect())

        async def connect(self) -> None:
            raise engine.FatalError("no such topic", hint="Create it.")

    with pytest.raises(engine.ComponentError, match="no such topic"):
        play_run(chain(Connecting, Sink), Config(on_error=on_error))
