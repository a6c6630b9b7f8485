"""An instance in a process works as one in the run (PR-1)."""

import asyncio
import logging
import os
from functools import partial
from typing import Any

import pytest

from engine import Config, TopologyBuilder
from engine.testing import Capture, Feeder, Finished, run_topology
from tests.processes import bolts


class Play:
    """A run of the numbers of a feeder through one bolt in processes."""

    def __init__(self, bolt: Any, numbers: Any = range(10), *, parallelism: int = 1, is_process: bool = True, **config: Any) -> None:
        self.feeder = Feeder("number")
        self.capture = Capture()
        builder = TopologyBuilder("play", Config(**config))
        builder.set_spout("numbers", self.feeder)
        builder.set_bolt("bolt", bolt, parallelism=parallelism, processes=is_process).shuffle_grouping("numbers")
        topology = builder.build()
        if "default" in topology.components["bolt"].streams:
            builder.set_bolt("seen", self.capture).shuffle_grouping("bolt")
            topology = builder.build()
        self.ids = {number: self.feeder.feed((number,)) for number in numbers}
        self.feeder.close()
        self.finished: Finished = run_topology(topology)

    @property
    def values(self) -> list[Any]:
        return sorted(self.capture.values)

    @property
    def failures(self) -> dict[Any, Any]:
        """The failure of each failed number."""
        numbers = {feed_id: number for number, feed_id in self.ids.items()}
        return {numbers[feed_id]: failure for feed_id, failure in self.feeder.failed}


@pytest.mark.guarantee("PR-1")
def test_each_task_has_a_process_of_its_own() -> None:
    play = Play(bolts.Twice, range(100), parallelism=3)
    assert [number for number, _ in play.values] == list(range(0, 200, 2))
    pids = {pid for _, pid in play.values}
    assert len(pids) == 3
    assert os.getpid() not in pids
    assert sorted(play.feeder.acked) == sorted(play.ids.values())
    task = play.finished.snapshot.components["bolt"].tasks[0]
    assert (task.executed, task.acked, task.emitted, task.failed) == (33, 33, 33, 0)


@pytest.mark.guarantee("PR-1")
@pytest.mark.parametrize(
    ("bolt", "power"), [(bolts.squares, 2), (bolts.cubes, 3), (partial(bolts.Scaled, 10), None)], ids=["function", "burst", "partial"]
)
def test_any_kind_of_factory(bolt: Any, power: int | None) -> None:
    expected = [(number**power if power else number * 10,) for number in range(10)]
    assert Play(bolt).values == expected


@pytest.mark.guarantee("PR-1")
def test_a_bolt_may_keep_its_inputs_and_join_them() -> None:
    play = Play(bolts.Pairs)
    assert play.values == [((number, number + 1),) for number in range(0, 10, 2)]
    assert len(play.feeder.acked) == 10


@pytest.mark.guarantee("PR-1", "ACK-5", "ACK-12", "ACK-15")
def test_each_input_has_its_verdict() -> None:
    play = Play(bolts.Judge, range(12))
    assert {number: failure.reason for number, failure in play.failures.items()} == {
        number: {1: "failed", 2: "forgotten", 3: "error"}[number % 6] for number in (1, 2, 3, 7, 8, 9)
    }
    assert play.failures[1].describe() == "'bolt' (task 2) failed it: it is odd"
    assert play.failures[3].error == "KeyError: 'three'"
    task = play.finished.snapshot.components["bolt"].tasks[0]
    assert (task.acked, task.failed, task.forgotten, task.settled_twice) == (6, 6, 2, 2)
    assert task.failures == {"failed": 2, "forgotten": 2, "error": 2}
    [report] = play.finished.errors
    assert (report.text, report.component_id, report.task_id) == ("KeyError: 'three'", "bolt", 2)
    assert "bolts.py" in report.traceback
    assert task.errors == 2


@pytest.mark.guarantee("PR-1", "ACK-11")
def test_fail_tuple() -> None:
    play = Play(bolts.Refuses)
    assert sorted(play.failures) == [1, 3, 5, 7, 9]
    assert play.failures[1].error == "odd numbers are not taken"
    assert play.finished.errors == ()


@pytest.mark.guarantee("PR-1", "GRP-4")
def test_streams_and_direct_streams() -> None:
    feeder, even, direct = Feeder("number"), Capture(), Capture()
    builder = TopologyBuilder("play")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", bolts.Streams, processes=True).shuffle_grouping("numbers")
    builder.set_bolt("even", even).shuffle_grouping("bolt", "even")
    builder.set_bolt("direct", direct, parallelism=3).direct_grouping("bolt", "direct")
    for number in range(12):
        feeder.feed((number,))
    feeder.close()
    finished = run_topology(builder.build())
    assert even.values == [(number, "even") for number in range(0, 12, 2)]
    assert sorted(direct.values) == [(number,) for number in range(12)]
    assert [task.executed for task in finished.snapshot.components["direct"].tasks] == [4, 4, 4]
    assert len(feeder.acked) == 12


@pytest.mark.guarantee("PR-1")
def test_a_wrong_use_raises_at_its_call() -> None:
    feeder = Feeder("number")
    builder = TopologyBuilder("play")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", bolts.WrongTarget, processes=True).shuffle_grouping("numbers")
    builder.set_bolt("direct", Capture()).direct_grouping("bolt", "direct")
    feeder.feed((1,))
    feeder.close()
    [report] = run_topology(builder.build()).errors
    assert "9999" in report.text
    assert "bolts.py" in report.traceback
    assert [failure.reason for _, failure in feeder.failed] == ["error"]


@pytest.mark.guarantee("PR-1", "ACK-10")
def test_async_calls_run_at_the_same_time() -> None:
    play = Play(bolts.Waits, range(32))
    assert [number for number, _ in play.values] == list(range(32))
    assert max(most for _, most in play.values) == 8


@pytest.mark.guarantee("PR-1", "ACK-10")
def test_threads() -> None:
    assert Play(bolts.InThreads).values == [(number, False) for number in range(10)]


@pytest.mark.guarantee("PR-1", "BU-1")
def test_a_burst_that_raises_runs_again_one_by_one() -> None:
    play = Play(bolts.SlowBurst)
    assert play.values == [(number,) for number in range(10) if number != 3]
    assert list(play.failures) == [3]


@pytest.mark.guarantee("PR-1")
def test_ticks_arrive() -> None:
    feeder, capture = Feeder("number"), Capture()
    builder = TopologyBuilder("play")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", bolts.Ticked, processes=True).shuffle_grouping("numbers")
    builder.set_bolt("seen", capture).shuffle_grouping("bolt")
    topology = builder.build()

    async def feed(run: Any) -> None:
        await asyncio.sleep(1)
        feeder.feed((1,))
        feeder.close()

    run_topology(topology, during=feed)
    [(ticks, is_tick)] = capture.values
    assert ticks > 3
    assert is_tick is False


@pytest.mark.guarantee("PR-1")
def test_context_metrics_and_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "users.module"):
        play = Play(bolts.Observed, range(1, 5), seed=7)
    facts = play.capture.values[0][0]
    assert facts | {"random": 0} == {
        "component": "bolt", "task": 2, "index": 0, "tasks": 1, "sources": (1,), "targets": (3,), "ids": (1,), "topology": "play",
        "seed": 7, "from": ("numbers", 1, "default", ("number",)), "random": 0,
    }  # fmt: skip
    metrics = {metric.name: metric for metric in play.finished.snapshot.user_metrics}
    assert metrics["seen"].value == 4
    assert metrics["seen"].labels == ("bolt", 2)
    assert metrics["latest"].value == 4
    assert metrics["latest"].own_labels == {"kind": "number"}
    assert (metrics["size"].value.count, metrics["size"].value.total) == (4, 10)  # type: ignore[union-attr]
    records = [record for record in caplog.records if record.name == "users.module"]
    assert [record.getMessage() for record in records] == ["prepared", "got 1", "got 2", "got 3", "got 4"]
    assert {(record.component, record.task) for record in records} == {("bolt", 2)}  # type: ignore[attr-defined]


@pytest.mark.guarantee("PR-1")
def test_a_metric_can_be_dropped() -> None:
    play = Play(bolts.DropsMetric, range(1, 4))
    assert [dict(metric.own_labels)["part"] for metric in play.finished.snapshot.user_metrics] == ["2", "3"]


@pytest.mark.guarantee("PR-1", "RUN-3")
def test_cleanup_runs(tmp_path: Any) -> None:
    Play(partial(bolts.Cleans, str(tmp_path / "closed")))
    assert (tmp_path / "closed").read_text() == "closed with 45\n"


@pytest.mark.guarantee("PR-1", "ACK-2")
def test_the_emits_of_one_input_fill_many_frames() -> None:
    play = Play(bolts.Floods, range(20), executor_receive_buffer_size=1000)
    assert len(play.capture.values) == 100_000
    assert len(play.feeder.acked) == 20
