"""A session of Spark Connect: the JVM is a server's, on this machine or another one."""

import os
import socket
import threading
from typing import Any, Final
from urllib.parse import urlsplit

from spark_bridge.session import wire
from spark_bridge.session.child.diagnosis import reach
from spark_bridge.session.child.opened import Refused

LOOK_EVERY_SECS: Final = 1.0
TRIES: Final = 3
"""So often, a second apart, the server cannot be connected to before it counts as dead."""
RETRIES: Final = 4
"""Of one request; Spark's own policy goes on for at least ten minutes."""
CONNECT_SECS: Final = 2.0
_OF_A_LOST_SESSION: Final = ("INVALID_HANDLE.SESSION_", "StatusCode.UNAVAILABLE", "RETRIES_EXCEEDED")
"""What a server says to a client of the server that was there before it, and what is raised when a request was given up."""


class ConnectSession:
    """See `Opened`."""

    def __init__(self, settings: dict[str, Any]) -> None:
        parts = urlsplit(settings["master"])
        self._place = (parts.hostname or "localhost", parts.port or 15002)
        self._name = settings["master"]
        self._given_up = threading.Event()
        """The server is dead, or the session is lost, or closed."""
        _need_grpc()
        reach([self._place], "Start the Spark Connect server, or correct master= of SparkConfig (--master).")
        self.spark = self._open(settings)
        self.facts = {"pid": os.getpid(), "jvm_pid": None, "version": self.spark.version, "application": self.spark.session_id, "ui": None}

    def _open(self, settings: dict[str, Any]) -> Any:
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # what `udf` and `col` of pyspark.sql.functions look at
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession

        try:
            spark = SparkSession.builder.remote(settings["master"]).create()
            spark.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES, max_backoff=1000)])
            for name, value in (("spark.sql.session.timeZone", "UTC"), *settings["conf"]):
                spark.conf.set(name, value)
            if settings["py_files"]:
                spark.addArtifacts(*settings["py_files"], pyfile=True)
            if settings["jars"]:
                spark.addArtifacts(*settings["jars"])
        except Exception as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            hint = "Set there what a server alone can have; and see that its version is this one's."
            raise Refused(wire.Refusal(False, f"the server refuses: {first}", hint)) from error
        return spark

    def tag(self, name: str) -> None:
        """Have the operations of this thread be cancelled by that name."""
        self.spark.addTag(name)

    def cancel(self, name: str) -> None:
        """Cancel the operations of that name that run."""
        self.spark.interruptTag(name)

    def watch(self) -> str:
        """Look every second whether the server can be connected to; return once it cannot, several times, or has lost the session."""
        misses = 0
        while misses < TRIES and not self._given_up.wait(LOOK_EVERY_SECS):
            misses = 0 if self._answers() else misses + 1
        self._given_up.set()
        what = "has lost the session: it was started again, or has closed it" if self._answers() else "is no longer there"
        return f"the Spark Connect server {self._name} {what}"

    def is_dead(self, error: BaseException) -> bool:
        """Tell whether the server has died, or another one is in its place: the client closes itself then."""
        if self.spark.client.is_closed or any(part in str(error) for part in _OF_A_LOST_SESSION):
            self._given_up.set()
        return self._given_up.is_set()

    def close(self, secs: float) -> None:
        """End the session; the server stays."""
        self._given_up.set()
        stopping = threading.Thread(target=self.spark.stop, daemon=True)
        stopping.start()
        stopping.join(secs)

    def _answers(self) -> bool:
        try:
            socket.create_connection(self._place, CONNECT_SECS).close()
        except OSError:
            return False
        return True


def _need_grpc() -> None:
    try:
        from pyspark.sql.connect import client  # noqa: F401 - it checks what it needs
    except ImportError as error:
        first = str(error).strip().splitlines()[0]
        raise Refused(wire.Refusal(False, f"Spark Connect lacks a package: {first}", "pip install 'stormcell[spark-connect]'")) from error
