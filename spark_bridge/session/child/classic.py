"""A session with a JVM of its own: local, local-cluster, standalone, YARN, Kubernetes."""

import os
import subprocess
import threading
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from spark_bridge.session.child.class_archive import java_option
from spark_bridge.session.child.diagnosis import before_start, why_not_started
from spark_bridge.session.child.statuses import jvm_died

DEATH_SECS: Final = 2.0
"""How long after an error of its connection the JVM may be found dead."""
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_JAVA_OPTIONS_OF_EXECUTORS: Final = "spark.executor.extraJavaOptions"
_OF_THE_CONNECTION: Final = ("Py4JError", "Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError")


class ClassicSession:
    """See `Opened`."""

    def __init__(self, settings: dict[str, Any], folder: str) -> None:
        before_start(settings)
        self._dead = threading.Event()
        try:
            conf = _conf(settings, folder)
            _check_sql(conf, settings)
            self.spark = SparkSession.builder.config(conf=conf).getOrCreate()
            self._context = self.spark.sparkContext
            for path in settings["py_files"]:
                self._context.addPyFile(path)
        except Exception as error:
            raise why_not_started(settings, error, _status_of_the_jvm(error)) from error
        self._jvm: subprocess.Popen[bytes] = SparkContext._gateway.proc  # type: ignore[union-attr]
        self.facts = {
            "pid": os.getpid(),
            "jvm_pid": self._jvm.pid,
            "version": self.spark.version,
            "application": self._context.applicationId,
            "ui": self._context.uiWebUrl,
        }

    def tag(self, name: str) -> None:
        """Have the jobs of this thread be cancelled by that name; Spark interrupts their tasks."""
        self._context.setJobGroup(name, name, interruptOnCancel=True)

    def cancel(self, name: str) -> None:
        """Cancel the jobs of that name that run."""
        self._context.cancelJobGroup(name)

    def watch(self) -> str:
        """Wait until the JVM has ended; return how."""
        status = self._jvm.wait()
        self._dead.set()
        return jvm_died(status)

    def is_dead(self, error: BaseException) -> bool:
        """Tell whether the JVM has died; an error of its connection comes a moment before its end is seen."""
        return self._dead.wait(DEATH_SECS if type(error).__name__ in _OF_THE_CONNECTION else 0)

    def close(self, secs: float) -> None:
        """Stop the session; the JVM ends when its standard input does."""
        stopping = threading.Thread(target=self.spark.stop, daemon=True)
        stopping.start()
        stopping.join(secs)
        assert self._jvm.stdin is not None
        self._jvm.stdin.close()
        try:
            self._jvm.wait(secs)
        except subprocess.TimeoutExpired:
            self._jvm.kill()


def _status_of_the_jvm(error: Exception) -> int | None:
    """Return how the JVM has ended whose start failed so; None where it has not. Before it is connected only its starter knows it."""
    started: subprocess.Popen[bytes] | None = SparkContext._gateway.proc if SparkContext._gateway is not None else None
    step = error.__traceback__
    while started is None and step is not None:
        found = step.tb_frame.f_locals.get("proc") if step.tb_frame.f_code.co_name == "launch_gateway" else None
        started = found if isinstance(found, subprocess.Popen) else None
        step = step.tb_next
    if started is None:
        return None
    try:
        return started.wait(DEATH_SECS) if type(error).__name__ in _OF_THE_CONNECTION else started.poll()
    except subprocess.TimeoutExpired:
        return None


def _check_sql(conf: SparkConf, settings: dict[str, Any]) -> None:
    """Raise what Spark's SQL says of its settings. It reads them at the first query, and each error that it makes then reads them too."""
    SparkContext._ensure_initialized(conf=conf)
    read = SparkContext._jvm.org.apache.spark.sql.internal.SQLConf()  # type: ignore[union-attr]
    for name, value in settings["conf"]:
        if name.startswith("spark.sql."):
            read.setConfString(name, value)


def _conf(settings: dict[str, Any], folder: str) -> SparkConf:
    """Return Spark's settings: what suits an application without a face, then what the user says."""
    conf = SparkConf(loadDefaults=True)
    for name, value in _defaults(settings, folder):
        conf.setIfMissing(name, value)
    for name, value in settings["conf"]:
        is_added = name in (_JAVA_OPTIONS, _JAVA_OPTIONS_OF_EXECUTORS)
        conf.set(name, f"{conf.get(name, '')} {value}".strip() if is_added else value)
    conf.setMaster(settings["master"]).setAppName(settings["app_name"])
    return conf


def _defaults(settings: dict[str, Any], folder: str) -> list[tuple[str, str]]:
    archive = java_option()
    named = [
        ("spark.driver.memory", settings["driver_memory"] or "1g"),
        ("spark.executor.memory", settings["executor_memory"]),
        ("spark.jars", ",".join(settings["jars"])),
        ("spark.pyspark.python", settings["python"]),
        ("spark.ui.enabled", "false"),
        ("spark.ui.showConsoleProgress", "false"),
        ("spark.sql.warehouse.dir", os.path.join(folder, "warehouse")),
        ("spark.sql.session.timeZone", "UTC"),
        (_JAVA_OPTIONS, f"-Djava.io.tmpdir={folder} -Dderby.system.home={folder} {archive}".rstrip()),
    ]
    if settings["is_on_this_machine"]:
        named += [("spark.driver.host", "127.0.0.1"), ("spark.driver.bindAddress", "127.0.0.1")]
        named.append((_JAVA_OPTIONS_OF_EXECUTORS, archive))
    return [(name, value) for name, value in named if value]
