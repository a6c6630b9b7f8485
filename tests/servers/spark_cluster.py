"""A real standalone cluster of Spark for tests: a master and its workers, each in a process."""

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
from tests.servers.spark_daemons import MEMORY_FILE

NAME: Final = "spark-cluster"
WORKERS: Final = 2
WORKER_MEMORY: Final = "4g"
"""Enough for several drivers."""
DAEMONS: Final = Path(__file__).with_name("spark_daemons.py")
ENVIRONMENT: Final[Mapping[str, str]] = {
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # the master has a fixed web port
}
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
why_not = spark_programs.why_not


def driver_settings() -> dict[str, str]:
    """Return the settings of a driver that wants an executor on each of two workers."""
    return {
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": spark_programs.jvm_options(),
    }


def prepare() -> None:
    """Fetch everything for a start. pyspark has the programs."""


class SparkCluster(Server):
    """One cluster. `process` runs the master and the workers."""

    def __init__(self, folder: Path, *, port: int | None = None, workers: int = WORKERS, memory: str = WORKER_MEMORY) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.web_port = free_port()
        self._workers = workers
        self._memory = memory
        self.process = ServerProcess(NAME, folder)

    @property
    def master(self) -> str:
        """URL for drivers: "spark://127.0.0.1:port"."""
        return f"spark://{HOST}:{self.port}"

    def start(self) -> None:
        self._set_memory(self._memory)
        spark_class = spark_programs.spark_home() / "bin" / "spark-class"
        arguments = map(str, (DAEMONS, spark_class, self.port, self.web_port, self._workers))
        environment = {**spark_programs.environment(self.folder), **ENVIRONMENT, "SPARK_DAEMON_JAVA_OPTS": spark_programs.jvm_options()}
        self.process.start([sys.executable, "-I", "-S", *arguments], self._has_workers, environment)

    def _has_workers(self) -> bool:
        """Tell whether the cluster is ready. During its start the web page may have any content."""
        status = f"http://{HOST}:{self.web_port}/json/"
        with suppress(OSError, HTTPException, ValueError, KeyError), urllib.request.urlopen(status, timeout=5) as answer:
            return bool(json.load(answer)["aliveworkers"] == self._workers)
        return False

    def executors(self) -> list[int]:
        """Process ids of the running executors."""
        return [pid for pid in descendants(self.process.pid) if EXECUTOR in _command_line(pid)]

    def kill_executor(self) -> None:
        """End an executor by kill -9."""
        os.kill(self.executors()[0], signal.SIGKILL)

    def workers(self) -> list[int]:
        """Process ids of the running workers."""
        return [pid for pid in descendants(self.process.pid) if WORKER in _command_line(pid)]

    def replace_worker(self, memory: str) -> None:
        """End a worker, which is replaced by one with this memory, such as "1g"."""
        self._set_memory(memory)
        self.kill_worker()

    def _set_memory(self, memory: str) -> None:
        (self.folder / MEMORY_FILE).write_text(memory)

    def kill_worker(self) -> None:
        """End a worker by kill -9. Its executors end with it, and a new worker replaces it."""
        os.kill(self.workers()[0], signal.SIGKILL)


def _command_line(pid: int) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return ""
