"""Levels of a job: shuffles only where a tuple may go to another task, and one partition for each task."""

from typing import Any

import pytest

from engine import BasicBolt, Config
from engine.runtime.plan import plan_tasks
from engine.transactional import BatchBolt, MemoryTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge.topology.job_plan import JobPlan, plan_job


class Passes(BasicBolt):
    output_fields = "a"

    def execute(self, tup: Any) -> None: ...


class Ends(BatchBolt):
    def execute(self, tup: Any) -> None: ...

    def finish_batch(self) -> None: ...


def builder(tasks: int = 2) -> TransactionalTopologyBuilder:
    return TransactionalTopologyBuilder("plan", "source", MemoryTransactionalSpout([("x",)], "a", take=1), tasks)


def planned(made: TransactionalTopologyBuilder, *, source_is_apart: bool = False) -> JobPlan:
    topology = made.build()
    return plan_job(topology.components, plan_tasks(topology, Config()).task_ids, source_is_apart=source_is_apart)


def levels(plan: JobPlan) -> list[tuple[int, tuple[str, ...], int]]:
    return [(group.level, group.components, group.partitions) for group in plan.groups]


@pytest.mark.guarantee("CL-2")
@pytest.mark.parametrize("grouping", ["shuffle", "none", "local_or_shuffle"])
def test_neighbours_with_equal_parallelism_need_no_shuffle(grouping: str) -> None:
    made = builder()
    getattr(made.set_bolt("a", Passes, 2), f"{grouping}_grouping")("source")
    made.set_bolt("b", Passes, 2).shuffle_grouping("a")
    plan = planned(made)
    assert levels(plan) == [(0, ("source", "a", "b"), 2)]
    assert plan.apart == {"a", "b"}
    assert [plan.places[task] for task in plan.task_ids["b"]] == [(0, 0), (0, 1)]
    assert list(plan.tasks_at(0, 1)) == [plan.task_ids["source"][1], plan.task_ids["a"][1], plan.task_ids["b"][1]]


@pytest.mark.guarantee("CL-2")
def test_other_groupings_and_another_parallelism_begin_a_level() -> None:
    made = builder()
    made.set_bolt("keyed", Passes, 2).fields_grouping("source", "a")
    made.set_bolt("wider", Passes, 3).shuffle_grouping("keyed")
    made.set_bolt("all", Passes, 3).all_grouping("wider")
    plan = planned(made)
    assert levels(plan) == [(0, ("source",), 2), (1, ("keyed",), 2), (2, ("wider",), 3), (3, ("all",), 3)]
    assert plan.partitions == (2, 2, 3, 3)
    assert not plan.apart


@pytest.mark.guarantee("CL-2")
def test_a_bolt_with_two_sources_is_below_the_deeper_one() -> None:
    made = builder()
    made.set_bolt("left", Passes, 2).fields_grouping("source", "a")
    made.set_bolt("right", Passes, 1).global_grouping("left")
    made.set_bolt("join", Ends, 2).fields_grouping("left", "a").fields_grouping("right", "a")
    made.set_bolt("beside", Passes, 3).fields_grouping("source", "a")
    plan = planned(made)
    assert levels(plan) == [(0, ("source",), 2), (1, ("left",), 2), (1, ("beside",), 3), (2, ("right",), 1), (3, ("join",), 2)]
    assert plan.partitions == (2, 5, 1, 2)
    assert [plan.places[task] for task in plan.task_ids["beside"]] == [(1, 2), (1, 3), (1, 4)]


@pytest.mark.guarantee("CL-2")
def test_no_bolt_joins_emitters_of_the_engines_process() -> None:
    made = builder()
    made.set_bolt("a", Passes, 2).shuffle_grouping("source")
    assert levels(planned(made, source_is_apart=True)) == [(0, ("source",), 2), (1, ("a",), 2)]
