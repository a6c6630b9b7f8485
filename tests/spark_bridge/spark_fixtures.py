"""One Spark for all tests of a worker process, on the session's event loop: `pytestmark = pytest.mark.asyncio(loop_scope="session")`."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest
import pytest_asyncio

from spark_bridge.process import SparkChild, SparkConfig
from spark_bridge.process.spark_child import hold
from spark_bridge.topology.cluster_run import SPARK_DEFAULTS
from tests.patience import PATIENCE_SECS
from tests.servers import spark_programs
from tests.servers.keeper import descendants
from tests.servers.required import required

LOCAL = SparkConfig(
    master="local[2]",
    driver_memory="512m",
    conf={"spark.sql.shuffle.partitions": 2, **SPARK_DEFAULTS, "spark.ui.enabled": "false"},
    app_name="tests",
)
"""Has the settings that topologies on Spark get, so that their tests share the session of the others."""


@pytest.fixture(scope="session", autouse=True)
def temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Put temporary files below pytest's folder, because logs stay if an error has named them."""
    with patch.object(tempfile, "tempdir", str(tmp_path_factory.mktemp("spark"))):
        yield


@pytest.fixture(scope="session")
def spark_here() -> None:
    """Skip the test if no Spark can be started here."""
    required(spark_programs.why_not())


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def spark_child(spark_here: None, temporary_files: None) -> AsyncIterator[SparkChild]:
    """Yield a child with a local session."""
    held = hold(LOCAL)
    try:
        yield held.child
    finally:
        await held.close()


async def until(condition: Callable[[], bool], secs: float = PATIENCE_SECS) -> None:
    """Wait for a condition. Raise AssertionError after `secs`."""
    for _ in range(int(secs / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come about")


def new_jvms(before: set[int]) -> list[int]:
    """Return the JVMs of Spark below this process that did not run before."""
    found = []
    for pid in set(descendants(os.getpid())) - before:
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if command[0].endswith(b"/java") and any(b"SparkSubmit" in part for part in command):
                found.append(pid)
    return found


def is_running(pid: int) -> bool:
    """Tell whether a process runs. A zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def group_members(group: int) -> list[int]:
    """Return the running processes of a group."""
    members = []
    for name in os.listdir("/proc"):
        if name.isdigit() and is_running(int(name)):
            try:
                if os.getpgid(int(name)) == group:
                    members.append(int(name))
            except ProcessLookupError:
                continue
    return members
