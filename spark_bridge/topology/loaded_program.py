"""A program, as the process that runs its tasks needs it."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from engine.topology import Topology
from engine.transactional.transactions import late_components
from spark_bridge.topology.combining import Combined, raw_inputs
from spark_bridge.topology.job_plan import JobPlan
from spark_bridge.topology.pickled_program import unpickle_program
from spark_bridge.topology.program import Program


@dataclass(frozen=True, slots=True)
class LoadedProgram:
    """A program, with the parts that all of its levels need."""

    program: Program
    topology: Topology
    plan: JobPlan
    late_tasks: frozenset[int]
    """Tasks of the user's components outside of the job."""
    combined: Mapping[tuple[str, str], tuple[Combined, ...]]
    """Combined inputs of committers, by source and stream."""
    raw: frozenset[tuple[str, str]]
    """Source and stream of the inputs outside of the job that need every tuple."""
    component_of: Mapping[int, str]
    """By task id."""

    @classmethod
    def of(cls, program: Program) -> "LoadedProgram":
        """Return the program with its topology and its plan."""
        plan, described = program.plan(), program.described
        late = late_components(described)
        late_tasks = frozenset(task for component in late for task in plan.task_ids[component])
        component_of = {task: component for component, tasks in plan.task_ids.items() for task in tasks}
        raw = frozenset(raw_inputs(described, late, program.combined))
        combined: dict[tuple[str, str], tuple[Combined, ...]] = {}
        for each in program.combined:
            combined[each.source, each.stream] = (*combined.get((each.source, each.stream), ()), each)
        return cls(program, program.topology(), plan, late_tasks, combined, raw, component_of)


@functools.lru_cache(maxsize=4)
def load_program(pickled: bytes) -> LoadedProgram:
    """Return a pickled program. The worker processes of Spark live for many tasks, so they keep the newest programs."""
    return LoadedProgram.of(unpickle_program(pickled))
