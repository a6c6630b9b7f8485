"""Plan of a simulated run with bolts in processes: the plan of its seed, with kills of children and restarts."""

from dataclasses import replace
from random import Random

from tests.simulation.plan import MESSAGES, BoltPlan, ChildKill, Plan, TaskRestart, draw_plan

MOST_SLOW_SECS = 0.005
"""A child sleeps in real time."""
MOST_IN_PROCESSES = 2
"""Bolts with processes in one plan. Each task starts a child."""


def draw_process_plan(seed: int) -> Plan:
    """Draw the plan of a seed, with at least one bolt in processes. Drawn apart, so that the plan itself stays the same."""
    plan, random = draw_plan(seed), Random(f"bolts in processes {seed}")
    chosen = random.sample(range(len(plan.bolts)), k=min(random.randint(1, MOST_IN_PROCESSES), len(plan.bolts)))
    bolts = tuple(_in_process(random, bolt) if number in chosen else bolt for number, bolt in enumerate(plan.bolts))
    children = [(bolt.component_id, index) for bolt in bolts if bolt.processes for index in range(bolt.tasks)]
    restartable = [spout for spout in plan.spouts if spout.is_in_order]  # a generator cannot resume
    tasks = [(each.component_id, index) for each in (*restartable, *bolts, *bolts) for index in range(each.tasks)]
    horizon = max(spout.pause_secs * spout.tuples / spout.batch for spout in plan.spouts) + 2
    kills = tuple(_child_kill(random, *random.choice(children), horizon) for _ in range(random.choice([0, 1, 2, 4])))
    restarts = tuple(TaskRestart(*random.choice(tasks), random.uniform(0, horizon)) for _ in range(random.choice([0, 0, 1, 2])))
    # No timeout for silent children: virtual time jumps over the signs of life of a child that is idle.
    return replace(plan, bolts=bolts, config=plan.config.replace(process_timeout_secs=None), child_kills=kills, restarts=restarts)


def _in_process(random: Random, bolt: BoltPlan) -> BoltPlan:
    return replace(bolt, processes=True, crash=random.choice([0, 0, 0.02]), slow_secs=min(bolt.slow_secs, MOST_SLOW_SECS))


def _child_kill(random: Random, component_id: str, task_index: int, horizon: float) -> ChildKill:
    if random.random() < 0.3:
        secs = random.uniform(0, random.choice([0.01, 0.1, horizon]))
        return ChildKill(component_id=component_id, task_index=task_index, at_secs=secs)
    message = random.choice(MESSAGES)
    number = random.randint(1, 12 if message == "work" else 2)
    return ChildKill(component_id=component_id, task_index=task_index, message=message, number=number)
