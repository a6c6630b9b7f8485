"""The part of a killed process that puts its processing phase on Spark."""

import os
from typing import Final

from engine import Topology
from spark_bridge.process import SparkConfig
from spark_bridge.topology import cluster_run
from tests.servers import spark_programs
from tests.spark_bridge.topology.kills.steps import STEPS
from tests.spark_bridge.topology.local_jobs import LocalJobs
from tests.spark_bridge.topology.spark_replaced import spark_replaced

__all__ = ["LEVELS", "STEPS", "on_spark"]

LEVELS: Final = "levels"
"""In place of a master: the levels run in this process, without a JVM."""


def on_spark(topology: Topology, master: str) -> Topology:
    """Return the topology with its processing phase on this master."""
    if master == LEVELS:
        jobs = LocalJobs(os.getpid())
        spark_replaced(jobs).start()
        return cluster_run.on_spark(topology, SparkConfig(master="local[2]"))
    spark_programs.set_environment()
    return cluster_run.on_spark(topology, SparkConfig(master=master, driver_memory="512m", app_name=topology.name))
