"""Have sessions of Spark start in less than half the time, from now on."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from spark_bridge.session.child.class_archive import archive_path, archives, class_path_folders
from spark_bridge.session.child.diagnosis import before_start
from spark_bridge.session.child.opened import Refused
from spark_bridge.session.errors import SparkError, SparkMissing

_PROGRAM: Final = "spark_bridge.session.child.class_archive"
_OF_ARCHIVES: Final = ("[cds", "[dynamic")
MAKING_SECS: Final = 600.0
_HINT: Final = "Sessions start as they did. See that Spark works here (make a session), and that the disk has 300 MB."
_SETTINGS: Final = (
    "Sessions start as they did. Give settings by conf= of SparkConfig (--conf) rather than by SPARK_CONF_DIR or HADOOP_CONF_DIR."
)


def prepare() -> Path:
    """Make the archive of Spark's classes for this Java and this Spark, anew where there is one; return where it is.

    It takes about a minute, and 200 MB of disk. Raises SparkMissing where there is no Java, SparkError with why there is no archive.
    """
    try:
        before_start({"kind": "local"})
    except Refused as refused:
        raise SparkMissing(refused.refusal.message, hint=refused.refusal.hint) from None
    for full in (folder for folder in class_path_folders() if os.path.isdir(folder) and os.listdir(folder)):
        raise SparkError(f"an archive cannot have a folder of settings in it, and {full!r} has files", hint=_SETTINGS)
    path = archive_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="making-", dir=path.parent)  # on the disk of the archive, so that it gets its name in one step
    try:
        made = os.path.join(folder, path.name)
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        said = os.path.join(folder, "said.txt")
        with open(said, "wb") as output:
            command = [sys.executable, "-m", _PROGRAM, made, folder]
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
            )
        _wait(process)
        if not os.path.exists(made):
            raise SparkError(f"Java made no archive of Spark's classes: {_reason(Path(said).read_text(errors='replace'))}", hint=_HINT)
        with open(made, "rb") as file:
            os.fsync(file.fileno())  # Java does not look whether all of it is there
        os.replace(made, path)
        for other in (each for each in archives() if each != path):  # sessions that have it in their memory go on
            other.unlink(missing_ok=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return path


def _wait(process: "subprocess.Popen[bytes]") -> None:
    """Wait for it; whatever ends the wait ends its JVM too."""
    try:
        process.wait(MAKING_SECS)
    except subprocess.TimeoutExpired:
        raise SparkError(
            f"Java made no archive of Spark's classes in {MAKING_SECS:.0f} s", hint="Try again when the machine has time."
        ) from None
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _reason(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    of_archives = [line for line in lines if any(each in line for each in _OF_ARCHIVES)]
    return (of_archives or lines or ["it said nothing"])[-1]
