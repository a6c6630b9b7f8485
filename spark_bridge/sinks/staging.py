"""Removes staging folders of killed drivers from a folder of Parquet files.

Spark replaces subfolders by txid from `.spark-staging-<id>`. A killed driver leaves this folder behind, and its id does not name the
driver. Removing the staging folder of a running driver loses rows, because Spark deletes the old subfolder before it moves the new one
there. So each driver registers its process in the folder before its first write. The next driver removes staging folders only if all
registered processes are known to be dead. A death is known only if the process ran in this boot of this machine, in this PID namespace.
"""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spark_bridge.handover import Storage
from spark_bridge.handover.checked_json import encode
from spark_bridge.sinks.batch import SinkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX: Final = ".spark-staging-"
WRITERS: Final = "_stormcell/writers"
UNKNOWN: Final = f"{WRITERS}/unknown.json"
"""Entry of drivers whose death cannot be observed."""
MAX_WRITERS: Final = 100
"""Largest number of entries. Further drivers share the entry of unknown drivers."""
_WRITER: Final = re.compile(r"([0-9a-f]+\.\d+)-(\d+)-(\d+)\.json")
_LOCK: Final = threading.Lock()
_CLEANED: Final = set[tuple[int | None, str]]()
"""Pairs of a driver's PID and a folder in which it is registered."""


def clean_once(spark: "SparkSession", storage: Storage, path: str) -> None:
    """Register this driver and remove leftovers of dead ones, before the first write of this process to a folder."""
    with _LOCK:  # no other thread may write before this is done
        pid = _driver_pid(spark)
        if (pid, path) not in _CLEANED:
            _clean(spark, storage, path, pid)
            _CLEANED.add((pid, path))


def _clean(spark: "SparkSession", storage: Storage, path: str, pid: int | None) -> None:
    registered = storage.names(WRITERS)
    mine = UNKNOWN if pid is None or len(registered) >= MAX_WRITERS else writer_entry(pid)
    storage.make_folder(WRITERS)
    is_new = storage.create(mine, encode("writer", {"pid": pid, "path": path}))
    if pid is None or not is_new or not registered:
        return
    with _staging_folders(spark, path) as folders:
        left = list(folders)  # listed before the entries, so the writer of each folder already has its entry
        others = [name for name in storage.names(WRITERS) if f"{WRITERS}/{name}" != mine]
        if not all(map(is_dead, others)):
            return
        for folder in left:
            folder.getFileSystem(_configuration(spark)).delete(folder, True)
    for name in others:
        storage.remove(f"{WRITERS}/{name}")


def writer_entry(pid: int) -> str:
    """Return the entry of a process of this machine."""
    machine, process = _machine(), _process(pid)
    return UNKNOWN if machine is None or process is None else f"{WRITERS}/{machine}-{pid}-{process.started_ticks}.json"


def is_dead(entry: str) -> bool:
    """Tell whether the process of an entry is known to be dead."""
    found = _WRITER.fullmatch(entry)
    if found is None or found[1] != _machine():
        return False
    pid = int(found[2])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    process = _process(pid)
    return process is not None and (process.is_over or process.started_ticks != int(found[3]))


def _machine() -> str | None:
    """Return the ids of this boot and of the PID namespace. None if the system does not provide them."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip().replace("-", "")
        return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return None


class _Process(NamedTuple):
    started_ticks: int
    """Clock ticks from the boot to the start of the process."""
    is_over: bool
    """True for a zombie."""


def _process(pid: int) -> _Process | None:
    """Return the kernel's facts about a process. None if there are none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            state, *numbers = file.read().rpartition(")")[2].split()
        return _Process(int(numbers[18]), state in "ZX" and int(numbers[16]) <= 1)
    except (OSError, ValueError, IndexError):
        return None


def _driver_pid(spark: "SparkSession") -> int | None:
    """Return the PID of the JVM, which commits the staged files. None with Spark Connect, whose JVM is in another process."""
    jvm: Any = getattr(spark, "_jvm", None)
    return None if jvm is None else int(jvm.java.lang.ProcessHandle.current().pid())


def _configuration(spark: "SparkSession") -> Any:
    return spark._jsc.hadoopConfiguration()


@contextmanager
def _staging_folders(spark: "SparkSession", path: str) -> Iterator[Iterator[Any]]:
    """Yield the staging folders as Hadoop's paths, because Spark's file system may differ from the storage."""
    jvm: Any = spark._jvm
    try:
        base = jvm.org.apache.hadoop.fs.Path(path)
        filesystem = base.getFileSystem(_configuration(spark))
        found = filesystem.listStatus(base) if filesystem.exists(base) else ()
        yield (each.getPath() for each in found if each.isDirectory() and each.getPath().getName().startswith(PREFIX))
    except Exception as error:  # an error of Hadoop's file system, through py4j
        text = f"{path}: the staging folders of killed drivers cannot be removed: {str(error).partition(chr(10))[0]}"
        hint = "Nothing of the micro-batch was written. Give the driver permission to list and delete there."
        raise SinkUnavailable(text, hint=hint) from error
