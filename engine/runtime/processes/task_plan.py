"""`TaskPlan` is what a child process needs to run a bolt task. It has no part of the other components that may not be picklable."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.config import Config
from engine.names import plain_text
from engine.runtime.plan import TaskInfo
from engine.runtime.run_context import RunContext
from engine.topology import ComponentSpec, Topology
from engine.topology.process_factory import dumps_factory, without_user_code


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
    bare = {name: without_user_code(each) for name, each in run_context.topology.components.items()}
    topology = Topology(run_context.topology.name, bare)
    own = replace(bare[info.component_id], factory=spec.factory)
    plan = TaskPlan(info, own, topology, run_context.config, run_context.random.seed, spec.keeps_state, _log_levels())
    return dumps_factory(plan)


def _log_levels() -> dict[str, int]:
    """Return the levels by name. Both may be of enum classes that pickle cannot find."""
    root = logging.getLogger()
    loggers = [each for each in root.manager.loggerDict.values() if isinstance(each, logging.Logger) and each.level]
    return {**{plain_text(logger.name): int(logger.level) for logger in loggers}, "": int(root.level)}
