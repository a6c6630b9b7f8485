"""Whole flows in virtual time (FC-1 to FC-6)."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engine import (
    BasicBolt,
    Bolt,
    ComponentError,
    Config,
    FailTuple,
    FlowControlBolt,
    FlowControlSpout,
    FlowSettings,
    StatefulBolt,
    TopologyBuilder,
    Tuple,
)
from engine.runtime.run import Run
from engine.testing import Capture, KillTask, run_topology
from tests.flow.flow_topologies import AsyncNumbers, Numbers, Work, records, run_flow


@pytest.mark.guarantee("FC-1")
@pytest.mark.parametrize("producer", [Numbers, AsyncNumbers])
def test_each_record_is_done_once_by_one_task(producer: type[Numbers]) -> None:
    done: list[tuple[int, int]] = []
    finished = run_flow(lambda: producer(500), lambda: Work(done))
    assert finished.state == "complete"
    assert records(done) == list(range(1, 501))
    assert {task for task, _ in done} == {0, 1, 2}
    [flow] = finished.snapshot.flow
    assert (flow.position, flow.records_since_checkpoint, flow.pending_records) == ("500", 0, 0)


@pytest.mark.guarantee("FC-1")
def test_a_tuple_holds_as_many_records_as_fit_the_time() -> None:
    done: list[tuple[int, int]] = []
    finished = run_flow(lambda: Numbers(3000), lambda: Work(done, lambda task, record: 0.02 if task == 0 else 0.0005))
    packs = {task.task_id: task for task in finished.snapshot.flow[0].tasks}
    counts = Counter(task for task, _ in done)
    assert counts[0] / packs[2].settled == 1, "a slow task gets single records"
    assert counts[1] / packs[3].settled > 5
    assert finished.snapshot.components["numbers"].acked < 700


@pytest.mark.guarantee("FC-5")
@pytest.mark.deep
def test_unequal_tasks_together_reach_nearly_their_full_rate() -> None:
    """12 tasks with a heavy tail, one ten times slower, and one that stalls 5 s in 30."""

    class Unlike(FlowControlBolt):
        async def process(self, record: int) -> None:
            task, now = self.context.task_index, asyncio.get_running_loop().time
            if task == 7 and now() % 30 > 25:
                await asyncio.sleep(30 - now() % 30)
            began = now()
            await asyncio.sleep((random.paretovariate(2.0) - 0.5) * 0.02 * (10 if task == 3 else 1))
            busy[task] += now() - began
            done[task] += 1

    random, busy, done = Random(8), [0.0] * 12, [0] * 12
    finished = run_flow(lambda: Numbers(10**9), Unlike, tasks=12, until=65.0)
    can = sum(done[task] / busy[task] * (finished.secs - (10 if task == 7 else 0)) for task in range(12))
    assert sum(done) >= 0.95 * can


@pytest.mark.guarantee("FC-3", "FC-4")
def test_a_failed_record_goes_to_another_task() -> None:
    class FailsOnTask0(Work):
        async def process(self, record: int) -> None:
            if self.context.task_index == 0:
                raise FailTuple
            await super().process(record)

    done: list[tuple[int, int]] = []
    finished = run_flow(lambda: Numbers(2000), lambda: FailsOnTask0(done))
    assert records(done) == list(range(1, 2001))
    first = finished.snapshot.flow[0].tasks[0]
    assert (first.state, first.window, first.settled) == ("BUSY", 1, 0)
    assert 0 < first.resends < 50, "the busy task must only be probed"


@pytest.mark.guarantee("FC-3")
def test_the_service_time_excludes_downstream_bolts_and_deferral() -> None:
    class Keeps(StatefulBolt):
        def init_state(self, state: Any) -> None:
            self.state = state

        def execute(self, tup: Tuple) -> None:
            for record in tup[0]:
                self.state.put(record, 1)
            self.collector.ack(tup)

    builder = TopologyBuilder("stateful", Config(state_checkpoint_interval_ms=1000))
    builder.set_spout("numbers", lambda: FlowControlSpout(Numbers(200)))
    builder.set_bolt("keep", Keeps, parallelism=2).direct_grouping("numbers")
    finished = run_topology(builder.build())
    flow = finished.snapshot.flow[0]
    assert flow.position == "200"
    assert all(task.service_ms is not None and task.service_ms < 100 for task in flow.tasks), (
        "the time that acks wait for a checkpoint must not count"
    )


@pytest.mark.guarantee("FC-3")
def test_a_slow_bolt_downstream_makes_no_task_slow() -> None:
    class PassesOn(FlowControlBolt):
        output_fields = "number"

        def process(self, record: int) -> tuple[int]:
            return (record,)

    class Slow(BasicBolt):
        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(0.1)

    builder = TopologyBuilder("downstream")
    builder.set_spout("numbers", lambda: FlowControlSpout(Numbers(100)))
    builder.set_bolt("pass", PassesOn, parallelism=2).direct_grouping("numbers")
    builder.set_bolt("slow", Slow).shuffle_grouping("pass")
    finished = run_topology(builder.build())
    assert finished.secs > 9
    assert all(task.state == "NORMAL" for task in finished.snapshot.flow[0].tasks)


@pytest.mark.guarantee("FC-2")
def test_a_task_with_concurrency_gets_several_packs() -> None:
    done: list[tuple[int, int]] = []
    finished = run_flow(lambda: Numbers(400), lambda: Work(done, lambda task, record: 0.1), tasks=2, concurrency=8)
    assert records(done) == list(range(1, 401))
    assert finished.secs < 1.1 * 400 * 0.1 / 16 + 0.2


@pytest.mark.guarantee("FC-5")
@pytest.mark.parametrize(("choice", "of_the_slow_one"), [("least_wait", 1), ("round_robin", 50)])
def test_without_waits_the_faster_task_is_chosen_else_the_next_in_turn(choice: Any, of_the_slow_one: int) -> None:
    class Paced(Numbers):
        async def records(self, after: Any) -> Any:
            for number in range(1, self.count + 1):
                await asyncio.sleep(0.05)
                yield number, number

    done: list[tuple[int, int]] = []
    run_flow(
        lambda: Paced(100), lambda: Work(done, lambda task, record: (0.01, 0.001)[task]), tasks=2, settings=FlowSettings(choice=choice)
    )
    assert sum(task == 0 for task, _ in done) == of_the_slow_one


class Poisoned(Work):
    """Fails record 77 each time."""

    async def process(self, record: int) -> None:
        if record == 77:
            raise FailTuple
        await super().process(record)


@pytest.mark.guarantee("FC-6")
def test_a_poison_record_is_sent_alone_at_its_second_try_and_given_up_after_its_retries() -> None:
    done: list[tuple[int, int]] = []
    made: list[Numbers] = []

    def producer() -> Numbers:
        made.append(Numbers(300))
        return made[-1]

    finished = run_flow(producer, lambda: Poisoned(done), settings=FlowSettings(max_retries=2))
    assert set(records(done)) == set(range(1, 301)) - {77}
    assert [(position, record, failure.reason) for position, record, failure in made[0].given_up] == [(77, 77, "failed")]
    assert finished.snapshot.flow[0].position == "300"


@pytest.mark.guarantee("FC-6")
def test_the_position_does_not_pass_an_unfinished_record() -> None:
    done: list[tuple[int, int]] = []
    settings = FlowSettings(max_pending_records=500, pack_records=100)
    finished = run_flow(lambda: Numbers(5000), lambda: Poisoned(done), settings=settings, until=30.0)
    [flow] = finished.snapshot.flow
    assert (flow.position, flow.pending_records) == ("76", 500)
    assert flow.holds == "500 records wait for the one behind position 76"
    assert max(records(done)) == 576, "no record may be sent beyond the bound"


def test_a_task_that_hangs_loses_no_record() -> None:
    class Hangs(Work):
        async def process(self, record: int) -> None:
            if self.context.task_index == 0 and len(self.done) > 100:
                await asyncio.Event().wait()
            await super().process(record)

    done: list[tuple[int, int]] = []
    finished = run_flow(lambda: Numbers(2000), lambda: Hangs(done), config=Config(message_timeout_secs=5), until=60.0)
    assert set(records(done)) == set(range(1, 2001))
    [flow] = finished.snapshot.flow
    assert flow.position == "2000"
    assert flow.tasks[0].state == "BUSY"


def test_if_all_tasks_are_busy_the_snapshot_shows_it_and_the_loop_sleeps() -> None:
    class FailsAll(FlowControlBolt):
        calls = 0

        def process(self, record: int) -> None:
            type(self).calls += 1
            raise FailTuple

    finished = run_flow(lambda: Numbers(50), FailsAll, until=20.0)
    [flow] = finished.snapshot.flow
    assert flow.holds == "every task is BUSY"
    assert flow.position is None
    assert FailsAll.calls < 400


def test_with_restart_a_bolt_that_always_raises_ends_the_run() -> None:
    class Raises(FlowControlBolt):
        on_error = "restart"

        def process(self, record: int) -> None:
            raise ValueError("no")

    with pytest.raises(ComponentError, match="ValueError: no"):
        run_flow(lambda: Numbers(50), Raises)


@pytest.mark.guarantee("FC-1")
def test_emits_of_any_kind_of_process_are_anchored() -> None:
    class ByFunction(FlowControlBolt):
        output_fields = "number"

        def process(self, record: int) -> tuple[int] | None:
            return (record,) if record % 2 else None

    class ByGenerator(FlowControlBolt):
        output_fields = "number"

        def process(self, record: int) -> Iterator[tuple[int]]:
            if record % 2:
                yield (record,)

    class ByCoroutine(FlowControlBolt):
        output_fields = "number"

        async def process(self, record: int) -> tuple[int] | None:
            return (record,) if record % 2 else None

    class ByAsyncGenerator(FlowControlBolt):
        output_fields = "number"

        async def process(self, record: int) -> Any:
            if record % 2:
                yield (record,)

    class InThreads(ByFunction):
        threads = 2

    for bolt in (ByFunction, ByGenerator, ByCoroutine, ByAsyncGenerator, InThreads):
        builder = TopologyBuilder("emits")
        builder.set_spout("numbers", lambda: FlowControlSpout(Numbers(100)))
        builder.set_bolt("odd", bolt, parallelism=2).direct_grouping("numbers")
        builder.set_bolt("capture", Capture()).shuffle_grouping("odd")
        finished = run_topology(builder.build())
        assert sorted(values[0] for values in finished.captured["capture"]) == list(range(1, 101, 2)), bolt.__name__


def test_any_bolt_may_read_the_records_of_a_tuple() -> None:
    class Plain(Bolt):
        def prepare(self) -> None:
            assert self.context.task_index in (0, 1)

        def execute(self, tup: Tuple) -> None:
            assert isinstance(tup["records"], tuple)
            seen.extend(tup["records"])
            self.collector.ack(tup)

    seen: list[int] = []
    run_flow(lambda: Numbers(100), Plain, tasks=2)
    assert sorted(seen) == list(range(1, 101))


@pytest.mark.guarantee("FC-6")
def test_a_restart_continues_after_the_stored_position(tmp_path: Path) -> None:
    done: list[tuple[int, int]] = []
    config = Config(state_provider=f"sqlite:///{tmp_path}/flow.db")
    first = run_flow(lambda: Numbers(10**6), lambda: Work(done), config=config, until=2.0)
    assert first.state == "stopped"
    [flow] = first.snapshot.flow
    recorded = int(flow.position or 0)
    assert recorded > 1000
    begun: list[Any] = []
    before = set(records(done))
    again: list[tuple[int, int]] = []
    second = run_flow(lambda: Numbers(8000, begun), lambda: Work(again), config=config)
    assert second.state == "complete"
    assert begun[0] >= recorded, "the position must include everything done at the stop"
    assert set(range(1, begun[0] + 1)) <= before, "the position must not pass a record that is not done"
    assert records(again) == list(range(begun[0] + 1, 8001))
    third = run_flow(lambda: Numbers(8000, begun), lambda: Work(again), config=config)
    assert (begun[-1], third.state, len(again)) == (8000, "complete", 8000 - begun[0])


@pytest.mark.guarantee("FC-6")
def test_each_spout_task_has_its_own_position(tmp_path: Path) -> None:
    class Share(Numbers):
        def records(self, after: Any) -> Iterator[tuple[int, int]]:
            for number in range((after or 0) + 1, self.count + 1):
                if number % self.context.tasks == self.context.task_index:
                    yield number, number

    done: list[tuple[int, int]] = []
    builder = TopologyBuilder("two", Config(state_provider=f"sqlite:///{tmp_path}/flow.db"))
    builder.set_spout("numbers", lambda: FlowControlSpout(Share(1000)), parallelism=2)
    builder.set_bolt("work", lambda: Work(done), parallelism=3).direct_grouping("numbers")
    finished = run_topology(builder.build())
    assert records(done) == list(range(1, 1001))
    assert [flow.position for flow in finished.snapshot.flow] == ["1000", "999"]


def test_a_record_waits_for_a_full_pack_only_until_its_maximum_age() -> None:
    class Trickles(Numbers):
        async def records(self, after: Any) -> Any:
            for number in range(1, 101):
                await asyncio.sleep(0.001)
                yield number, (number, asyncio.get_running_loop().time())

    class Measures(FlowControlBolt):
        async def process(self, record: tuple[int, float]) -> None:
            late.append(asyncio.get_running_loop().time() - record[1])
            await asyncio.sleep(0.0004)

    late: list[float] = []
    run_flow(lambda: Trickles(100), Measures, tasks=1, settings=FlowSettings(pack_age_ms=20))
    assert len(late) == 100
    assert max(late) < 0.05


def test_bytes_bound_a_pack() -> None:
    class Long(Numbers):
        def records(self, after: Any) -> Iterator[tuple[int, Any]]:
            yield from ((number, "x" * 400) for number in range(1, 1001))

    class Notes(Bolt):
        def execute(self, tup: Tuple) -> None:
            sizes.append(len(tup[0]))
            self.collector.ack(tup)

    sizes: list[int] = []
    run_flow(lambda: Long(1000), Notes, tasks=1, settings=FlowSettings(pack_bytes=1000))
    assert set(sizes) == {1, 2}
    sizes.clear()
    run_flow(lambda: Long(1000), Notes, tasks=1, settings=FlowSettings(pack_bytes=10))
    assert set(sizes) == {1}, "a record larger than the bound is sent alone"
    assert sum(sizes) == 1000


@pytest.mark.guarantee("FC-6")
def test_a_spout_that_dies_continues_after_the_done_records() -> None:
    done: list[tuple[int, int]] = []
    begun: list[Any] = []
    finished = run_flow(lambda: Numbers(3000, begun), lambda: Work(done), faults=[KillTask("numbers", at_secs=0.5)])
    assert finished.state == "complete"
    assert set(records(done)) == set(range(1, 3001))
    assert begun[0] is None
    assert set(range(1, begun[1] + 1)) <= {record for _, record in done}
    assert len(done) - 3000 <= 700, "only records since the last write and those in flight may repeat"


def test_a_bolt_task_that_dies_loses_no_record() -> None:
    done: list[tuple[int, int]] = []
    finished = run_flow(lambda: Numbers(3000), lambda: Work(done), faults=[KillTask("work", at_secs=0.5), KillTask("work", at_secs=0.7)])
    assert finished.state == "complete"
    assert set(records(done)) == set(range(1, 3001))


def test_a_drain_stores_the_position_of_all_done_records() -> None:
    done: list[tuple[int, int]] = []

    async def drains(run: Run) -> None:
        await asyncio.sleep(1)
        await run.drain()

    finished = run_flow(lambda: Numbers(10**6), lambda: Work(done), during=drains)
    [flow] = finished.snapshot.flow
    assert finished.state == "drained"
    assert (flow.records_since_checkpoint, flow.position) == (0, str(len(done)))


@pytest.mark.guarantee("FC-3", "FC-7")
def test_the_shown_service_time_is_the_time_of_one_record() -> None:
    finished = run_flow(lambda: Numbers(300), lambda: Work([], lambda task, record: 0.01 * (task + 1)))
    for task, shown in enumerate(finished.snapshot.flow[0].tasks):
        assert shown.service_ms == pytest.approx(10.0 * (task + 1), rel=0.1)
        assert shown.service_p99_ms == pytest.approx(10.0 * (task + 1), rel=0.15)
