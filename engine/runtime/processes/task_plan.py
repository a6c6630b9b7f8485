"""`TaskPlan` is what a child process needs to run a bolt task. It has no part of the other components that may not be picklable."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.api import Global
from engine.config import Config
from engine.errors import EngineBug
from engine.runtime.plan import TaskInfo
from engine.runtime.run_context import RunContext
from engine.topology import ComponentSpec, Topology
from engine.topology.process_factory import dumps_factory


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """One task of a run."""

    info: TaskInfo
    spec: ComponentSpec
    topology: Topology
    """All components of the run, without factories and groupings. It answers the questions of `context`."""
    config: Config
    seed: int
    keeps_state: bool
    log_levels: Mapping[str, int]
    """Levels of the loggers of the run's process, by name. The root logger is ""."""


def pickled_plan(info: TaskInfo, spec: ComponentSpec, run_context: RunContext) -> bytes:
    """Return the plan of a task as bytes. Raises the error of a factory that cannot be pickled."""
    bare = {name: _bare(each) for name, each in run_context.topology.components.items()}
    topology = Topology(run_context.topology.name, bare)
    own = replace(bare[info.component_id], factory=spec.factory)
    plan = TaskPlan(info, own, topology, run_context.config, run_context.random.seed, spec.defers_acks, _log_levels())
    return dumps_factory(plan)


def _bare(spec: ComponentSpec) -> ComponentSpec:
    """Return a component without user code."""
    subscriptions = tuple(replace(each, grouping=Global()) for each in spec.subscriptions)
    return replace(
        spec, factory=NO_FACTORY, streams=dict(spec.streams), subscriptions=subscriptions, control_handler=None, defers_acks=False
    )


class NoFactory:
    """Factory of a component that another process runs."""

    def create(self) -> Any:
        """Raise an error, because no other process has this component."""
        raise EngineBug("a child process was asked for an instance of another component")


NO_FACTORY = NoFactory()


def _log_levels() -> dict[str, int]:
    root = logging.getLogger()
    loggers = {
        name: logger.level for name, logger in root.manager.loggerDict.items() if isinstance(logger, logging.Logger) and logger.level
    }
    return {**loggers, "": root.level}
