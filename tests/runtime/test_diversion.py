"""An input that has failed for good leaves on the stream `failed`, and counts as processed (SV-14)."""

import asyncio
from typing import Any

import pytest

import engine
from engine import BasicBolt, Bolt, Config, FailTuple, FatalError, TopologyBuilder, Tuple
from engine.testing import Capture, Feeder, KillTask, run_topology
from tests.runtime.retried import FORMS, Trial
from tests.runtime.test_retries import both

pytestmark = pytest.mark.guarantee("SV-14")


@pytest.mark.parametrize("retries", [0, 2])
@pytest.mark.parametrize("form", FORMS)
def test_an_input_that_fails_for_good_is_diverted(form: str, retries: int) -> None:
    trial = Trial(form, {2: 100}, retries=retries, on_error="divert")
    assert trial.failed == []
    assert sorted(trial.acked) == [0, 1, 2, 3, 4]
    assert trial.diverted.values == [("work", 2, "ValueError: 2", retries + 1, {"number": 2})]
    assert sorted(trial.out.values) == both(0, 1, 3, 4)
    assert (trial.work.failed, trial.work.acked, trial.work.diverted) == (0, 5, 1)


@pytest.mark.parametrize("form", ["generator", "burst", "concurrency", "threads", "stateful"])
def test_a_fail_tuple_is_diverted(form: str) -> None:
    trial = Trial(form, {2: 100}, retries=2, on_error="divert", error=lambda number: FailTuple(f"{number} is odd"))
    assert trial.diverted.values == [("work", 2, "2 is odd", 1, {"number": 2})]
    assert (trial.failed, trial.work.retries) == ([], 0)


@pytest.mark.parametrize("form", ["generator", "burst", "concurrency"])
def test_a_fatal_error_diverts_nothing(form: str) -> None:
    seen = Capture()
    with pytest.raises(engine.ComponentError):
        Trial(form, {2: 100}, on_error="divert", error=lambda number: FatalError("no licence"))
    assert seen.values == []


def diverting(bolt: Any, *inputs: Any, faults: Any = (), config: Any = None, **settings: Any) -> tuple[Feeder, Capture, Any]:
    """Send inputs through a bolt that diverts."""
    feeder, diverted, builder = Feeder("number"), Capture(), TopologyBuilder("diverting")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("work", bolt, on_error="divert", **settings).shuffle_grouping("numbers")
    builder.set_bolt("diverted", diverted).shuffle_grouping("work", stream="failed")
    feeder.feed_all((each,) for each in inputs)
    feeder.close()
    return feeder, diverted, run_topology(builder.build(), config, faults=faults)


def test_an_input_that_the_bolt_itself_fails_is_diverted() -> None:
    class Fails(Bolt):
        async def execute(self, tup: Tuple) -> None:
            if tup[0] == 1:
                self.collector.fail(tup, "too small")
            elif tup[0] == 2:
                self.collector.fail(tup)
            else:
                asyncio.get_running_loop().call_later(1, self.collector.fail, tup, "too late")

    feeder, diverted, _ = diverting(Fails, 1, 2, 3)
    assert diverted.values == [
        ("work", 2, "too small", 1, {"number": 1}),
        ("work", 2, "'work' (task 2) failed it", 1, {"number": 2}),
        ("work", 2, "too late", 1, {"number": 3}),
    ]
    assert sorted(feeder.acked) == [1, 2, 3]


def test_an_input_that_dies_with_its_instance_fails() -> None:
    class Hangs(BasicBolt):
        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(3)

    feeder, diverted, _ = diverting(Hangs, 1, faults=[KillTask("work", at_secs=1)])
    assert diverted.values == []
    assert [failure.reason for _, failure in feeder.failed] == ["task_died"]


def test_a_tick_is_neither_retried_nor_diverted() -> None:
    ticks: list[Any] = []

    class Ticks(BasicBolt):
        tick_tuple_freq_secs = 1

        async def execute(self, tup: Tuple) -> None:
            if tup.is_tick:
                ticks.append(tup)
                raise ValueError("tick")
            await asyncio.sleep(3.5)

    _, diverted, finished = diverting(Ticks, 1, retries=3)
    assert ticks
    assert diverted.values == []
    assert finished.snapshot.components["work"].retries == 0


def test_a_diverted_input_belongs_to_the_tree_of_its_source() -> None:
    class Refuses(BasicBolt):
        def execute(self, tup: Tuple) -> None:
            raise FailTuple("quarantine is away")

    class Fails(BasicBolt):
        def execute(self, tup: Tuple) -> None:
            raise ValueError

    feeder, builder = Feeder("number"), TopologyBuilder("tree")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("work", Fails, on_error="divert").shuffle_grouping("numbers")
    builder.set_bolt("quarantine", Refuses).shuffle_grouping("work", stream="failed")
    feeder.feed((1,))
    feeder.close()
    run_topology(builder.build())
    assert [failure.component_id for _, failure in feeder.failed] == ["quarantine"]


def test_an_input_of_no_tree_is_diverted_too() -> None:
    class Untracked(engine.Spout):
        output_fields = "number"

        def next_tuple(self) -> None:
            self.collector.emit((7,))
            raise engine.SpoutExhausted

    class Fails(BasicBolt):
        def execute(self, tup: Tuple) -> None:
            raise ValueError

    diverted, builder = Capture(), TopologyBuilder("untracked")
    builder.set_spout("numbers", Untracked)
    builder.set_bolt("work", Fails, on_error="divert").shuffle_grouping("numbers")
    builder.set_bolt("diverted", diverted).shuffle_grouping("work", stream="failed")
    run_topology(builder.build())
    assert [values[-1] for values in diverted.values] == [{"number": 7}]


def test_an_error_with_a_long_text_is_cut() -> None:
    class Fails(BasicBolt):
        def execute(self, tup: Tuple) -> None:
            raise ValueError("x" * 10_000)

    _, diverted, _ = diverting(Fails, 1)
    assert len(diverted.values[0][2]) == 2000


def test_an_input_that_the_stream_refuses_fails() -> None:
    class Fails(BasicBolt):
        def execute(self, tup: Tuple) -> None:
            raise ValueError

    feeder, diverted, builder = Feeder("number"), Capture(), TopologyBuilder("refused")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("work", Fails, on_error="divert").shuffle_grouping("numbers")
    builder.set_bolt("diverted", diverted, 2).fields_grouping("work", "values", stream="failed")  # a dict is no key
    feeder.feed((1,))
    feeder.close()
    finished = run_topology(builder.build())
    assert diverted.values == []
    assert [failure.reason for _, failure in feeder.failed] == ["error"]
    assert "the input is not sent to the stream 'failed', and fails" in [report.next_step for report in finished.errors]


@pytest.mark.guarantee("SV-1")
def test_diverted_inputs_do_not_hide_a_broken_connection() -> None:
    made: list[Any] = []

    class Broken(BasicBolt):
        def __init__(self) -> None:
            made.append(self)

        def execute(self, tup: Tuple) -> None:
            if len(made) < 2:
                raise ConnectionError

    feeder, diverted, _ = diverting(Broken, *range(20), config=Config(renew_after_failures=10))
    assert len(diverted.values) == 10
    assert len(made) == 2
    assert len(feeder.acked) == 20


def test_retries_and_diverted_inputs_are_counted_in_the_metrics() -> None:
    trial = Trial("generator", {2: 100}, retries=3, on_error="divert")
    [task] = trial.work.tasks
    assert (task.retries, task.diverted) == (3, 1)
    shown = trial.finished.snapshot.to_dict()["components"]["work"]
    assert (shown["retries"], shown["diverted"]) == (3, 1)
