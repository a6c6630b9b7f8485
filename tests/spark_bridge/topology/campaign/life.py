"""One process of the engine, which runs to its end or to its death: python -m tests.spark_bridge.topology.campaign.life JSON

It prints the number of finished jobs. It dies with the program that holds the other end of its stdin.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from engine import Config
from spark_bridge.process import SparkConfig
from spark_bridge.topology import run
from tests.kills.moments import Trigger, put_deadly_call
from tests.servers import spark_programs
from tests.servers.keeper import command_line, descendants
from tests.servers.spark_cluster import driver_settings
from tests.spark_bridge.kills.processes import CHILD, JVM
from tests.spark_bridge.topology.campaign.counting import topology_of
from tests.spark_bridge.topology.campaign.places import STRUCK, Life
from tests.spark_bridge.topology.kills.steps import STEPS

LOOK_SECS = 0.05
ROOT = os.getcwd()


class OtherVictim(Trigger):
    """Kills a process of Spark once. The engine lives on."""

    marking = ""
    struck = Path()
    """File that tells of the death."""

    def strike(self) -> None:  # type: ignore[override]
        """Kill it, if it runs. Otherwise wait for the next call."""
        for pid in descendants(os.getpid()):
            if self.marking in command_line(pid):
                self.number = sys.maxsize
                os.kill(pid, signal.SIGKILL)
                self.struck.touch()
                return


def arm(life: Life) -> None:
    """Put the death of a process at its step."""
    assert life.step is not None
    step = STEPS[life.step]
    if life.victim == "engine":
        step.arm(life.number, 0.05)
        return
    trigger = OtherVictim(step.counts, life.number, 0.0)
    trigger.marking = CHILD if life.victim == "child" else JVM
    trigger.struck = life.places.path(STRUCK)
    put_deadly_call(step.target, step.moment, trigger)


def spark_of(life: Life) -> SparkConfig:
    """Return the session of a round."""
    places = life.places
    conf = {"spark.executorEnv.PYTHONPATH": ROOT}
    executor_memory = None
    if places.master.startswith("spark://"):
        conf |= driver_settings()
        executor_memory = conf.pop("spark.executor.memory")
    return SparkConfig(
        master=places.master,
        driver_memory="512m",
        executor_memory=executor_memory,
        app_name=places.name,
        conf=conf,
        log_file=str(places.path("spark.log")),
        start_timeout_secs=90,
    )


async def main(life: Life) -> None:
    """Run the topology."""
    spark_programs.set_environment()
    if life.step is not None:
        arm(life)
    asyncio.get_running_loop().add_reader(sys.stdin, os.kill, os.getpid(), signal.SIGKILL)
    config = Config(state_provider=life.places.state, batch_interval_ms=5)
    async with run(topology_of(life), config, spark=spark_of(life)) as running:
        told, ended = -1, asyncio.ensure_future(running.completed())
        while not ended.done():
            await asyncio.wait([ended], timeout=LOOK_SECS)
            jobs = running.snapshot().jobs
            if jobs is not None and jobs.done != told:
                told = jobs.done
                print(told, flush=True)
        ended.result()
    print("complete", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Life.read(sys.argv[1])))
