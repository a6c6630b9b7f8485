"""Session of Spark Connect. The JVM belongs to a server, on this machine or another one."""

import os
import socket
import threading
from typing import Any, Final
from urllib.parse import urlsplit

from spark_bridge.installation import install_command
from spark_bridge.process.child.diagnosis import SessionRefused, check_reachable
from spark_bridge.process.messages import StartFailure

PROBE_SECS: Final = 1.0
MAX_MISSES: Final = 3
"""Failed connection attempts in a row, one per second, after which the server counts as dead."""
MAX_RETRIES: Final = 4
"""Retries of one request. Spark's own policy retries for at least ten minutes, and would hide a death."""
CONNECT_SECS: Final = 2.0
_LOST_SESSION_ERRORS: Final = ("INVALID_HANDLE.SESSION_", "StatusCode.UNAVAILABLE", "RETRIES_EXCEEDED")
"""Errors of a new server that does not know the session, and of requests without a server."""


class ConnectSession:
    """See `calls.Session`."""

    def __init__(self, settings: dict[str, Any]) -> None:
        parts = urlsplit(settings["master"])
        self._address = (parts.hostname or "localhost", parts.port or 15002)
        self._url = settings["master"]
        self._is_lost = threading.Event()
        """Set when the server is dead, or the session is lost or closed."""
        _check_grpc()
        check_reachable([self._address], "Start the Spark Connect server, or correct master= of SparkConfig (--master).")
        self.spark = self._open(settings)
        self.facts = {"pid": os.getpid(), "jvm_pid": None, "version": self.spark.version, "application": self.spark.session_id, "ui": None}

    def _open(self, settings: dict[str, Any]) -> Any:
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # `udf` and `col` of pyspark.sql.functions read it
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession

        try:
            spark = SparkSession.builder.remote(settings["master"]).create()
            spark.client.set_retry_policies([DefaultPolicy(max_retries=MAX_RETRIES, max_backoff=1000)])
            for name, value in (("spark.sql.session.timeZone", "UTC"), *settings["conf"]):
                spark.conf.set(name, value)
            if settings["py_files"]:
                spark.addArtifacts(*settings["py_files"], pyfile=True)
            if settings["jars"]:
                spark.addArtifacts(*settings["jars"])
        except Exception as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            hint = "Move settings that only a server can have to the server. Check that its version equals that of pyspark here."
            raise SessionRefused(StartFailure(False, f"the server refuses the session: {first}", hint)) from error
        return spark

    def tag_thread(self, name: str) -> None:
        """Tag the operations that this thread starts."""
        self.spark.addTag(name)

    def cancel_jobs(self, name: str) -> None:
        """Cancel the running operations with this tag."""
        self.spark.interruptTag(name)

    def wait_for_death(self) -> str:
        """Connect to the server every second. Return after several failures in a row, or when the session is lost."""
        misses = 0
        while misses < MAX_MISSES and not self._is_lost.wait(PROBE_SECS):
            misses = 0 if self._is_reachable() else misses + 1
        self._is_lost.set()
        what = "has lost the session: it was restarted, or closed the session" if self._is_reachable() else "is no longer there"
        return f"the Spark Connect server {self._url} {what}"

    def has_died(self, error: BaseException) -> bool:
        """Tell whether the server has died or was replaced. The client closes itself in both cases."""
        if self.spark.client.is_closed or any(part in str(error) for part in _LOST_SESSION_ERRORS):
            self._is_lost.set()
        return self._is_lost.is_set()

    def close(self, secs: float) -> None:
        """End the session. The server stays."""
        self._is_lost.set()
        stopping = threading.Thread(target=self.spark.stop, daemon=True)
        stopping.start()
        stopping.join(secs)

    def _is_reachable(self) -> bool:
        try:
            socket.create_connection(self._address, CONNECT_SECS).close()
        except OSError:
            return False
        return True


def _check_grpc() -> None:
    try:
        from pyspark.sql.connect import client  # noqa: F401 - the import checks its requirements
    except ImportError as error:
        first = str(error).strip().splitlines()[0]
        raise SessionRefused(
            StartFailure(False, f"a package for Spark Connect is missing: {first}", install_command("spark-connect"))
        ) from error
