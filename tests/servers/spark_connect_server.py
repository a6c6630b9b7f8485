"""A real Spark Connect server for tests: a local Spark with two threads for remote clients."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.servers import spark_programs
from tests.servers.process import HOST, ServerProcess, accepts, free_port
from tests.servers.server import Server
from tests.servers.spark_session import session_settings

NAME: Final = "spark-connect"
MAIN: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"

why_not = spark_programs.why_not
prepare = spark_programs.prepare


class SparkConnectServer(Server):
    """One server. `settings` override those of `session_settings`, `environment` overrides that of `spark_programs`."""

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.port = port or free_port()
        self._settings = settings or {}
        self._environment = environment or {}
        self.process = ServerProcess(NAME, folder)

    @property
    def remote(self) -> str:
        """URL for clients: "sc://127.0.0.1:port"."""
        return f"sc://{HOST}:{self.port}"

    def start(self) -> None:
        at = {"spark.connect.grpc.binding.address": HOST, "spark.connect.grpc.binding.port": str(self.port)}
        settings = {**session_settings(self.folder), **at, **self._settings}
        options = [option for name, value in settings.items() for option in ("--conf", f"{name}={value}")]
        command = [str(spark_programs.spark_home() / "bin" / "spark-submit"), "--class", MAIN, *options, "spark-internal"]
        self.process.start(command, lambda: accepts(self.port), {**spark_programs.environment(self.folder), **self._environment})
