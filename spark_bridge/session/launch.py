"""The start and the end of the child as a process; each of these blocks, and is called in a thread."""

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

from spark_bridge.session.config import SparkConfig

_CHILD: Final = "spark_bridge.session.child"
TAIL_LINES: Final = 12
_TAIL_BYTES: Final = 16 * 1024
_LINE_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True)
class Launched:
    """A child that has been started, and what is removed after it."""

    process: "subprocess.Popen[bytes]"
    folder: str
    """For all that is temporary; removed with the child."""


def new_log() -> str:
    """Return a file of its own for Spark's output."""
    descriptor, path = tempfile.mkstemp(prefix="stormcell-spark-", suffix=".log")
    os.close(descriptor)
    return path


def launch(config: SparkConfig, log: str, link: socket.socket) -> Launched:
    """Start a child that speaks through this socket, in a session and process group of its own: Ctrl-C does not reach it."""
    folder = tempfile.mkdtemp(prefix="stormcell-spark-")
    try:
        with open(log, "ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", _CHILD, str(link.fileno()), folder],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(link.fileno(),),
                env=_environment(config, folder),
                start_new_session=True,
            )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Launched(process, folder)


def _environment(config: SparkConfig, folder: str) -> dict[str, str]:
    """Return the child's environment: what this process was told to import from, and the traps of Spark disarmed."""
    environment = dict(os.environ)
    installed = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path if not path.startswith(installed))
    environment["TMPDIR"] = folder
    environment["PYTHONUNBUFFERED"] = "1"
    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        environment.pop(name, None)  # of another session
    if config.python is not None or config.kind not in ("yarn", "kubernetes"):
        environment["PYSPARK_PYTHON"] = config.python or sys.executable  # workers else take python3 from PATH, which may lack everything
    environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if config.is_on_this_machine:
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    return environment


def tail(log: str) -> str:
    """Return the last lines of the log."""
    try:
        with open(log, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError as error:
        return f"(the log cannot be read: {error.strerror})"
    return "\n".join(line[:_LINE_CHARACTERS] for line in lines[-TAIL_LINES:])


def end(launched: Launched, secs: float) -> int:
    """Wait so long for the child, then kill it and all that it started, its JVM first of all; return its status."""
    try:
        launched.process.wait(secs)
    except subprocess.TimeoutExpired:
        launched.process.kill()
    return launched.process.wait()


def is_alive(launched: Launched) -> bool:
    """Tell whether anything of the child's process group is left: a JVM ends a moment after the Python that it serves."""
    try:
        os.killpg(launched.process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def kill_group(launched: Launched) -> None:
    """Kill what is left of the child's process group."""
    try:
        os.killpg(launched.process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def clear(launched: Launched) -> None:
    """Remove what is temporary."""
    shutil.rmtree(launched.folder, ignore_errors=True)


def remove_log(log: str) -> None:
    """Remove a file of `new_log` that no error has named."""
    try:
        os.unlink(log)
    except FileNotFoundError:
        return
