"""Starts and ends the child process. The functions block, so the engine calls them in a thread."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from typing import Final

from spark_bridge.process.config import SparkConfig

_CHILD_MODULE: Final = "spark_bridge.process.child"
TAIL_LINES: Final = 12
_TAIL_BYTES: Final = 16 * 1024
_LINE_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True)
class LaunchedChild:
    """A started child and its temporary folder."""

    process: "subprocess.Popen[bytes]"
    folder: str
    """All temporary files of Spark. Removed with the child."""


def create_log() -> str:
    """Create an empty log file for Spark's output. Return its path."""
    descriptor, path = tempfile.mkstemp(prefix="stormcell-spark-", suffix=".log")
    os.close(descriptor)
    return path


def launch_child(config: SparkConfig, log: str, connection: socket.socket) -> LaunchedChild:
    """Start a child that inherits this socket. The child gets its own session and process group, so Ctrl-C does not reach it."""
    folder = tempfile.mkdtemp(prefix="stormcell-spark-")
    try:
        with open(log, "ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", _CHILD_MODULE, str(connection.fileno()), folder],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(connection.fileno(),),
                env=_environment(config, folder),
                start_new_session=True,
            )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return LaunchedChild(process, folder)


def _environment(config: SparkConfig, folder: str) -> dict[str, str]:
    """Return the child's environment: the import path of this process, and no variable of another Spark session."""
    environment = dict(os.environ)
    installed = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path if not path.startswith(installed))
    environment["TMPDIR"] = folder
    environment["PYTHONUNBUFFERED"] = "1"
    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        environment.pop(name, None)  # these variables belong to another session
    if config.python is not None or config.kind not in ("yarn", "kubernetes"):
        # Without this variable workers run the `python3` of PATH, which may not have the packages.
        environment["PYSPARK_PYTHON"] = config.python or sys.executable
    environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if config.is_on_this_machine:
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    return environment


def read_log_tail(log: str) -> str:
    """Return the last lines of the log."""
    try:
        with open(log, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError as error:
        return f"(the log cannot be read: {error.strerror})"
    return "\n".join(line[:_LINE_CHARACTERS] for line in lines[-TAIL_LINES:])


def wait_or_kill(child: LaunchedChild, secs: float) -> int:
    """Wait up to `secs` for the child's end, then kill it. Return its status. Processes that it started may still run."""
    try:
        child.process.wait(secs)
    except subprocess.TimeoutExpired:
        child.process.kill()
    return child.process.wait()


def group_is_alive(child: LaunchedChild) -> bool:
    """Tell whether a process of the child's group still runs. A JVM ends a moment after the Python process that it serves."""
    try:
        os.killpg(child.process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def kill_group(child: LaunchedChild) -> None:
    """Kill the remaining processes of the child's group."""
    try:
        os.killpg(child.process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def remove_folder(child: LaunchedChild) -> None:
    """Remove the child's temporary folder."""
    shutil.rmtree(child.folder, ignore_errors=True)


def remove_log(log: str) -> None:
    """Remove a log that `create_log` made. Only for a log that no error has named."""
    try:
        os.unlink(log)
    except FileNotFoundError:
        return
