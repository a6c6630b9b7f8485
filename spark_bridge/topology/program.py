"""The program of a job: the part of a topology that runs on Spark, as the executors need it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from engine.api import Direct, Global
from engine.config import Config
from engine.names import BATCH_STREAM
from engine.runtime.plan import plan_tasks
from engine.topology import ComponentSettings, ComponentSpec, Subscription, Topology
from engine.transactional.feature import coordinator_id
from engine.transactional.spouts import AnySpout
from engine.transactional.transactions import COORDINATOR_STREAMS, all_of, bolt_wiring, emitter_spec, late_components, runner_spec
from spark_bridge.topology.combining import Combined
from spark_bridge.topology.job_plan import JobPlan, plan_job

RESULTS_COMPONENT: Final = "$results"
"""Stands for all components outside of the job. It subscribes to each stream that one of them reads."""


@dataclass(frozen=True, slots=True)
class Program:
    """Topology, spout and settings of the jobs of one run. Pickled once for each run."""

    described: Topology
    """The topology as the user declared it."""
    spout: AnySpout | None
    """None on executors if `executors_emit` is False."""
    replays_differ: bool
    """True if the spout is opaque."""
    config: Config
    seed: int
    """Of the run. Random choices depend on it, on the txid and on the task."""
    executors_emit: bool
    """True if the emitters run on executors, by planned metadata."""
    combined: tuple[Combined, ...] = ()
    """Inputs of committers that are combined in the job."""

    def topology(self) -> Topology:
        """Return the topology that runs in a job. Task ids are those of the engine's process."""
        described = self.described.components
        [source] = self.described.spouts
        late = late_components(self.described)
        coordinator = coordinator_id(source.component_id)
        components: dict[str, ComponentSpec] = {coordinator: _stand_in(coordinator, 1, (), COORDINATOR_STREAMS)}
        for spec in described.values():
            if spec is source:
                components[spec.component_id] = emitter_spec(self.spout, spec, tuple(all_of(coordinator, BATCH_STREAM)))  # type: ignore[arg-type]
            elif spec.component_id in late:
                components[spec.component_id] = _stand_in(spec.component_id, spec.parallelism, _direct_inputs(spec, late), spec.streams)
            else:
                wiring = bolt_wiring(self.described, spec, late, 1, differ=self.replays_differ)
                components[spec.component_id] = runner_spec(wiring, ())
        components[RESULTS_COMPONENT] = _stand_in(RESULTS_COMPONENT, 1, _results_read(described, late), MappingProxyType({}))
        return Topology(self.described.name, MappingProxyType(components), self.described.config)

    def plan(self) -> JobPlan:
        """Return the levels of the job."""
        late = late_components(self.described)
        jobs = {component_id: spec for component_id, spec in self.described.components.items() if component_id not in late}
        return plan_job(jobs, plan_tasks(self.topology(), self.config).task_ids, source_is_apart=not self.executors_emit)


def _stand_in(component_id: str, tasks: int, subscriptions: tuple[Subscription, ...], streams: Mapping[str, Any]) -> ComponentSpec:
    """Return a component that has task ids in a job, but never an instance."""
    return ComponentSpec(component_id, "bolt", NO_INSTANCES, tasks, streams, subscriptions, ComponentSettings())


class _NoInstances:
    def create(self) -> Any:
        raise AssertionError("a task of another process was started here")


NO_INSTANCES: Final = _NoInstances()
"""Factory of a component whose instances run in another process."""


def _direct_inputs(spec: ComponentSpec, late: frozenset[str]) -> tuple[Subscription, ...]:
    """Return the direct subscriptions of a component outside of the job. The emitting bolt chooses its tasks."""
    return tuple(each for each in spec.subscriptions if each.source not in late and isinstance(each.grouping, Direct))


def _results_read(described: Mapping[str, ComponentSpec], late: frozenset[str]) -> tuple[Subscription, ...]:
    """Return subscriptions to each stream of the job that a component outside of it reads. The engine applies the groupings later."""
    read = {
        (each.source, each.stream): replace(each, grouping=Global())
        for component_id in sorted(late)
        for each in described[component_id].subscriptions
        if each.source not in late and not isinstance(each.grouping, Direct)
    }
    return tuple(read.values())
