"""Plan of a topology with state and bolts in processes: the plan of its seed, with kills and restarts."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tests.checkpoint.plan import Plan, ProcessPlan, draw_plan
from tests.simulation.plan import ChildKill, Message, TaskRestart

MOMENTS: Final[tuple[Message, ...]] = (
    *("alive", "ready", "work", "work", "close"),
    *("call", "call", "changes", "changes", "returned", "returned"),
)
MOST_TASKS: Final = 2
"""Tasks of a bolt in processes. Each starts a child."""


def draw_process_plan(seed: int, *, is_calm: bool | None = None) -> Plan:
    """Draw the plan of a seed, with a stateful bolt and maybe another one in processes. Drawn apart, so that the plan stays the same."""
    plan, draws = draw_plan(seed, is_calm=is_calm), random.Random(f"bolts in processes {seed}")
    bolts = plan.world.bolts
    chosen = {draws.choice(plan.world.stateful).name, *(draws.choice(bolts).name for _ in range(draws.randint(0, 1)))}
    bolts = [replace(bolt, processes=True, tasks=min(bolt.tasks, MOST_TASKS)) if bolt.name in chosen else bolt for bolt in bolts]
    *others, last = plan.processes
    processes = [_with_children(draws, each, sorted(chosen), is_calm=plan.is_calm) for each in others]
    world = replace(plan.world, bolts=bolts)
    return replace(plan, world=world, processes=[*processes, _with_children(draws, last, sorted(chosen), is_calm=True)])


def _with_children(draws: random.Random, plan: ProcessPlan, names: Sequence[str], *, is_calm: bool) -> ProcessPlan:
    tasks = {name: min(count, MOST_TASKS) if name in names else count for name, count in plan.tasks.items()}
    children = [(name, index) for name in names for index in range(tasks[name])]
    span = draws.choice([0.5, 2.0, 20.0])
    kills = [] if is_calm else [_child_kill(draws, *draws.choice(children), span) for _ in range(draws.choice([0, 1, 2, 4]))]
    restarts = [] if is_calm else [TaskRestart(*draws.choice(children), span * draws.random()) for _ in range(draws.choice([0, 0, 0, 1]))]
    # No timeout for silent children: virtual time jumps over the signs of life of a child that is idle.
    config = plan.config.replace(process_timeout_secs=None)
    crash = 0.0 if is_calm else draws.choice([0, 0, 0.003, 0.01])
    return replace(plan, config=config, tasks=tasks, child_kills=kills, restarts=restarts, crash=crash)


def _child_kill(draws: random.Random, component_id: str, task_index: int, span: float) -> ChildKill:
    if draws.random() < 0.2:
        return ChildKill(component_id=component_id, task_index=task_index, at_secs=span * draws.random() ** 2)
    message = draws.choice(MOMENTS)
    number = draws.randint(1, 2 if message in ("alive", "ready", "close") else 12)
    return ChildKill(component_id=component_id, task_index=task_index, message=message, number=number)
