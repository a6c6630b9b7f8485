"""Builds the archive of Spark's classes, with which later sessions start in less than half the time."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from spark_bridge.process.child.class_archive import archive_path, archives, class_path_folders
from spark_bridge.process.child.diagnosis import SessionRefused, check_java_and_master
from spark_bridge.process.errors import SparkError, SparkMissing

_PROGRAM: Final = "spark_bridge.process.child.class_archive"
_ARCHIVE_LINES: Final = ("[cds", "[dynamic")
BUILD_SECS: Final = 600.0
_HINT: Final = "Sessions start without an archive. Check that a session starts here, and that the disk has 300 MB free."
_SETTINGS_HINT: Final = (
    "Sessions start without an archive. Use conf= of SparkConfig (--conf) for settings instead of SPARK_CONF_DIR or HADOOP_CONF_DIR."
)


def build_archive() -> Path:
    """Build the archive for this Java and this Spark. Replaces an existing archive, and returns its path.

    The build takes about a minute and 200 MB of disk. Raises SparkMissing without Java, and SparkError if Java builds no archive.
    """
    try:
        check_java_and_master({"kind": "local"})
    except SessionRefused as error:
        raise SparkMissing(error.failure.message, hint=error.failure.hint) from None
    for folder in class_path_folders():
        if os.path.isdir(folder) and os.listdir(folder):
            raise SparkError(
                f"the class path has the settings folder {folder!r}, and a class archive cannot contain a folder with files",
                hint=_SETTINGS_HINT,
            )
    path = archive_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="making-", dir=path.parent)  # on the same disk, because os.replace needs one file system
    try:
        draft = os.path.join(folder, path.name)
        _run_builder(draft, folder)
        with open(draft, "rb") as file:
            os.fsync(file.fileno())  # Java does not check that the archive is complete
        os.replace(draft, path)
        for other in (each for each in archives() if each != path):  # running sessions keep their mapped file
            other.unlink(missing_ok=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return path


def _run_builder(draft: str, folder: str) -> None:
    """Run the session that writes the archive to `draft`. Raise SparkError without one."""
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    log = Path(folder, "output.txt")
    with open(log, "wb") as output:
        command = [sys.executable, "-m", _PROGRAM, draft, folder]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True)
    _wait_for_exit(process)
    if not os.path.exists(draft):
        raise SparkError(f"Java built no archive of Spark's classes: {_failure_text(log.read_text(errors='replace'))}", hint=_HINT)


def _wait_for_exit(process: "subprocess.Popen[bytes]") -> None:
    """Wait for the process. Then end its JVM, also after a timeout or a signal."""
    try:
        process.wait(BUILD_SECS)
    except subprocess.TimeoutExpired:
        raise SparkError(
            f"Java built no archive of Spark's classes in {BUILD_SECS:.0f} s", hint="Try again when the machine is less busy."
        ) from None
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _failure_text(output: str) -> str:
    """Return the last line of the output about archives, or else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    archive_lines = [line for line in lines if any(mark in line for mark in _ARCHIVE_LINES)]
    return (archive_lines or lines or ["it wrote no output"])[-1]
