"""Session with its own JVM (local, local-cluster, standalone, YARN, Kubernetes)."""

import os
import subprocess
import threading
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from spark_bridge.process.child.class_archive import java_option
from spark_bridge.process.child.diagnosis import check_java_and_master, describe_jvm_status, explain_start_error, master_addresses
from spark_bridge.process.child.master_watch import MasterWatch

DEATH_SECS: Final = 2.0
"""Longest time from an error of the JVM connection to the exit of the JVM."""
LONGEST_FOLDER: Final = 60
"""Longest folder in which the paths of Unix sockets fit. The limit of a path is 107 bytes."""
_JAVA_OPTIONS: Final = "spark.driver.defaultJavaOptions"
"""Options before those of the user. The setting `extraJavaOptions` would replace the options of `spark-defaults.conf`."""
_EXECUTOR_JAVA_OPTIONS: Final = "spark.executor.defaultJavaOptions"
_IMPORT_PATH: Final = "spark.executorEnv.PYTHONPATH"
_CONNECTION_ERRORS: Final = ("Py4JError", "Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError")


class ClassicSession:
    """See `calls.Session`."""

    def __init__(self, settings: dict[str, Any], folder: str) -> None:
        check_java_and_master(settings)
        self._dead = threading.Event()
        try:
            conf = _conf(settings, folder)
            _check_sql(conf, settings)
            self.spark = SparkSession.builder.config(conf=conf).getOrCreate()
            self._context = self.spark.sparkContext
            for path in settings["py_files"]:
                self._context.addPyFile(path)
        except Exception as error:
            raise explain_start_error(settings, error, _jvm_status(error)) from error
        self._jvm: subprocess.Popen[bytes] = SparkContext._gateway.proc  # type: ignore[union-attr]
        self._loss: str | None = None
        """Reason why this session was ended. None if the JVM has ended by itself."""
        if settings["kind"] == "standalone":
            MasterWatch(master_addresses(settings), self._executors, self._end_lost).start()
        self.facts = {
            "pid": os.getpid(),
            "jvm_pid": self._jvm.pid,
            "version": self.spark.version,
            "application": self._context.applicationId,
            "ui": self._context.uiWebUrl,
        }

    def tag_thread(self, name: str) -> None:
        """Tag the jobs that this thread starts. Spark interrupts the threads of their tasks on cancellation."""
        self._context.setJobGroup(name, name, interruptOnCancel=True)

    def cancel_jobs(self, name: str) -> None:
        """Cancel the running jobs with this tag."""
        self._context.cancelJobGroup(name)

    def wait_for_death(self) -> str:
        """Wait until the JVM has ended. Return a text with its status."""
        status = self._jvm.wait()
        self._dead.set()
        return self._loss or describe_jvm_status(status)

    def _executors(self) -> int:
        """Return the number of executors. Spark counts the driver too."""
        return int(self._context._jsc.sc().getExecutorMemoryStatus().size()) - 1

    def _end_lost(self, reason: str) -> None:
        """End the JVM of a session that cannot run jobs any more."""
        self._loss = reason
        self._jvm.kill()

    def has_died(self, error: BaseException) -> bool:
        """Tell whether the JVM has died. Waits after a connection error, because it is raised shortly before the exit is visible."""
        if self._dead.wait(DEATH_SECS if type(error).__name__ in _CONNECTION_ERRORS else 0):
            return True
        if not self._was_stopped():
            return False
        self._end_lost("Spark has stopped the session")
        return self._dead.wait(DEATH_SECS)

    def _was_stopped(self) -> bool:
        """Tell whether Spark has stopped the session by itself, as after the removal of its application by the cluster."""
        try:
            return bool(self._context._jsc.sc().isStopped())
        except Exception:  # noqa: BLE001 - `close` has stopped it
            return False

    def close(self, secs: float) -> None:
        """Stop the session. The JVM ends when its standard input is closed."""
        stopping = threading.Thread(target=self.spark.stop, daemon=True)
        stopping.start()
        stopping.join(secs)
        assert self._jvm.stdin is not None
        self._jvm.stdin.close()
        try:
            self._jvm.wait(secs)
        except subprocess.TimeoutExpired:
            self._jvm.kill()


def _jvm_status(error: Exception) -> int | None:
    """Return the exit status of the JVM after a failed start. None if it runs.

    Before pyspark is connected to the JVM, only a local variable of `launch_gateway` refers to the process.
    """
    started: subprocess.Popen[bytes] | None = SparkContext._gateway.proc if SparkContext._gateway is not None else None
    step = error.__traceback__
    while started is None and step is not None:
        found = step.tb_frame.f_locals.get("proc") if step.tb_frame.f_code.co_name == "launch_gateway" else None
        started = found if isinstance(found, subprocess.Popen) else None
        step = step.tb_next
    if started is None:
        return None
    try:
        return started.wait(DEATH_SECS) if type(error).__name__ in _CONNECTION_ERRORS else started.poll()
    except subprocess.TimeoutExpired:
        return None


def _check_sql(conf: SparkConf, settings: dict[str, Any]) -> None:
    """Raise the error of a wrong SQL setting now.

    Spark checks the settings at the first query, and then fails again while it creates the error.
    """
    SparkContext._ensure_initialized(conf=conf)
    sql_conf = SparkContext._jvm.org.apache.spark.sql.internal.SQLConf()  # type: ignore[union-attr]
    for name, value in settings["conf"]:
        if name.startswith("spark.sql."):
            sql_conf.setConfString(name, value)


def _conf(settings: dict[str, Any], folder: str) -> SparkConf:
    """Return Spark's settings: the defaults for an application without a user interface, then the user's settings."""
    conf = SparkConf(loadDefaults=True)
    for name, value in _defaults(settings, folder):
        conf.setIfMissing(name, value)
    for name, value in (*settings["conf"], *_import_path(settings)):
        is_appended = name in (_JAVA_OPTIONS, _EXECUTOR_JAVA_OPTIONS)
        conf.set(name, f"{conf.get(name, '')} {value}".strip() if is_appended else value)
    conf.setMaster(settings["master"]).setAppName(settings["app_name"])
    return conf


def _import_path(settings: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the setting with which the Python workers import from the archives. Spark unpacks them into the folder of each executor."""
    if not settings["archives"]:
        return []
    given = dict(settings["conf"]).get(_IMPORT_PATH)
    names = (archive.rpartition("/")[2].rpartition("#")[2] for archive in settings["archives"])
    return [(_IMPORT_PATH, os.pathsep.join([*(f"./{name}" for name in names), *([given] if given else [])]))]


def _defaults(settings: dict[str, Any], folder: str) -> list[tuple[str, str]]:
    archive = java_option()
    defaults = [
        ("spark.driver.memory", settings["driver_memory"] or "1g"),
        ("spark.executor.memory", settings["executor_memory"]),
        ("spark.jars", ",".join(settings["jars"])),
        ("spark.archives", ",".join(settings["archives"])),
        ("spark.pyspark.python", settings["python"]),
        ("spark.ui.enabled", "false"),
        ("spark.ui.showConsoleProgress", "false"),
        ("spark.sql.warehouse.dir", os.path.join(folder, "warehouse")),
        ("spark.sql.session.timeZone", "UTC"),
        # Between a JVM and its Python workers TCP delays each task by 40 ms (Nagle's algorithm). Known to Spark 4.1 and newer.
        ("spark.python.unix.domain.socket.enabled", "true" if len(folder) <= LONGEST_FOLDER else ""),
        (_JAVA_OPTIONS, f"-Djava.io.tmpdir={folder} -Dderby.system.home={folder} {archive}".rstrip()),
    ]
    if settings["is_on_this_machine"]:
        defaults += [("spark.driver.host", "127.0.0.1"), ("spark.driver.bindAddress", "127.0.0.1")]
        defaults.append((_EXECUTOR_JAVA_OPTIONS, archive))
    return [(name, value) for name, value in defaults if value]
