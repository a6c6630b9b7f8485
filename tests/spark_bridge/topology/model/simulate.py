"""Simulates the transactional topology of a seed with its processing phase on Spark's levels, in virtual time."""

import asyncio
import random
from dataclasses import dataclass
from typing import Any, Final

from engine import Run, Topology
from engine.testing import InjectedError
from spark_bridge.process import SparkConfig
from spark_bridge.topology.cluster_run import on_spark
from tests.checkpoint.process import Outcome
from tests.checkpoint.slow_store import Disk
from tests.spark_bridge.topology.model.trouble import draw_trouble
from tests.spark_bridge.topology.model.virtual_jobs import VirtualJobs
from tests.spark_bridge.topology.spark_replaced import spark_replaced
from tests.transactional.model import simulate as in_one_process
from tests.transactional.model.plan import Plan, ProcessPlan, draw_plan
from tests.transactional.model.shape import SPOUT

JOB: Final = f"{SPOUT}/job"
MASTERS: Final = ("local[2]", "spark://head.example:7077")
"""Results come back by files from the first, and through the driver from the second."""
ERRORS: Final = ("SparkError", "SparkDied")


@dataclass
class Simulated(in_one_process.Simulated):
    """Result of one simulated topology on Spark."""

    subject = "transactions on Spark"
    module = "tests.spark_bridge.topology.model"
    tries: int = 0
    """Number of computed partitions."""


class Simulation(in_one_process.Simulation):
    """A topology with its processing phase on Spark's levels."""

    simulated: Simulated

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        draws = random.Random(f"{plan.seed} spark")
        self.plans_batches = draws.random() < 0.7
        self.spark = SparkConfig(master=draws.choice(MASTERS))

    def new_result(self) -> Simulated:
        return Simulated(self.plan.seed, kind=self.shape.kind, violations=self.witness.violations)

    def new_process(self, plan: ProcessPlan, number: int) -> "Process":
        return Process(self, plan, number)


class Process(in_one_process.Process):
    """One process of the engine, with a Spark of its own."""

    def __init__(self, simulation: Simulation, plan: ProcessPlan, number: int) -> None:
        super().__init__(simulation, plan, number)
        self.source.plans = simulation.plans_batches
        self.spark = simulation.spark
        draws = random.Random(f"{simulation.plan.seed} spark {number}")
        calm = simulation.plan.is_calm or plan is simulation.plan.processes[-1]
        self.kills = [] if calm else [10 * draws.random() ** 3 for _ in range(draws.choice([0, 0, 1, 2]))]
        """Seconds after which the job runner is killed."""
        self.jobs = VirtualJobs(draw_trouble(draws, is_calm=calm), self.witness)

    def play(self, topology: Topology, disk: Disk, **options: Any) -> Outcome:
        with spark_replaced(self.jobs):
            outcome = super().play(on_spark(topology, self.spark), disk, **options)
        self.simulated.strikes.update(self.jobs.trouble.struck)
        assert isinstance(self.simulated, Simulated)
        self.simulated.tries += self.jobs.tries
        return outcome

    def on_start(self, run: Run) -> None:
        super().on_start(run)
        for secs in self.kills:
            asyncio.get_running_loop().call_later(secs, self.kill_later, JOB, 0)

    def _kill(self, run: Run, task_id: int) -> None:
        """Kill a task. The job runner dies of an error, because `kill_task` lets no instance close what it holds."""
        [job] = run.task_ids(JOB)
        if task_id != job:
            super()._kill(run, task_id)
            return
        for bolt in run._assembled.bolts:
            if bolt.info.task_id == job:
                bolt.kill(InjectedError("the job runner was killed"))

    def kind_of(self, component_id: str) -> str:
        return "job runner" if component_id == JOB else super().kind_of(component_id)

    def is_expected(self, text: str) -> bool:
        return super().is_expected(text) or any(name in text for name in ERRORS)


def simulate(seed: int, *, is_calm: bool | None = None, quiet: bool = True) -> Simulated:
    """Simulate the plan of a seed, like `tests.transactional.model.simulate`."""
    simulated = in_one_process.judged(Simulation(draw_plan(seed, is_calm=is_calm)), quiet=quiet)
    assert isinstance(simulated, Simulated)
    return simulated
