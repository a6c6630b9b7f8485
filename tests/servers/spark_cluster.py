"""A real standalone cluster of Spark for tests: a master and its workers, each a process, ended by their pids."""

import json
import os
import signal
import sys
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Final

from tests.servers import spark_programs
from tests.servers.keeper import descendants
from tests.servers.process import HOST, ServerProcess, free_port
from tests.servers.server import Server
from tests.servers.spark_programs import JVM_OPTIONS

NAME: Final = "spark-cluster"
WORKERS: Final = 2
DAEMONS: Final = Path(__file__).with_name("spark_daemons.py")
ENVIRONMENT: Final[Mapping[str, str]] = {
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # it has a port of its own, which is fixed
}
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
DRIVER_SETTINGS: Final[Mapping[str, str]] = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": JVM_OPTIONS,
}
"""What a driver asks for: an executor on each of two workers."""

why_not = spark_programs.why_not


def prepare() -> None:
    """Have all that a start needs; pyspark brings it."""


class SparkCluster(Server):
    """One cluster. `process` runs the master and the workers."""

    def __init__(self, folder: Path, *, port: int | None = None, workers: int = WORKERS) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.web_port = free_port()
        self._workers = workers
        self.process = ServerProcess(NAME, folder)

    @property
    def master(self) -> str:
        """What drivers are told: "spark://127.0.0.1:port"."""
        return f"spark://{HOST}:{self.port}"

    def start(self) -> None:
        spark_class = spark_programs.spark_home() / "bin" / "spark-class"
        arguments = map(str, (DAEMONS, spark_class, self.port, self.web_port, self._workers))
        environment = {**spark_programs.environment(self.folder), **ENVIRONMENT, "SPARK_DAEMON_JAVA_OPTS": spark_programs.jvm_options()}
        self.process.start([sys.executable, "-I", "-S", *arguments], self._has_workers, environment)

    def _has_workers(self) -> bool:
        """What it serves while it starts may be anything."""
        status = f"http://{HOST}:{self.web_port}/json/"
        with suppress(OSError, HTTPException, ValueError, KeyError), urllib.request.urlopen(status, timeout=5) as answer:
            return bool(json.load(answer)["aliveworkers"] == self._workers)
        return False

    def executors(self) -> list[int]:
        """The process ids of the executors that run now."""
        return [pid for pid in descendants(self.process.pid) if EXECUTOR in _command_line(pid)]

    def kill_executor(self) -> None:
        """End one of them as by kill -9."""
        os.kill(self.executors()[0], signal.SIGKILL)

    def workers(self) -> list[int]:
        """The process ids of the workers that run now."""
        return [pid for pid in descendants(self.process.pid) if WORKER in _command_line(pid)]

    def kill_worker(self) -> None:
        """End one of them as by kill -9: its executors end with it, and another one comes in its place."""
        os.kill(self.workers()[0], signal.SIGKILL)


def _command_line(pid: int) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return ""
