"""Removes staging folders of killed drivers from a folder of Parquet files.

Spark replaces subfolders by txid from `.spark-staging-<id>`. A killed driver leaves this folder behind, and its id does not name the
driver. Removing the staging folder of a running driver loses rows, because Spark deletes the old subfolder before it moves the new one
there. So each driver registers its process in the folder before its first write. The next driver removes staging folders only if all
registered processes are known to be dead. A death is known only if the process ran in this boot of this machine, in this PID namespace.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from spark_bridge.handover import Storage
from spark_bridge.handover.checked_json import encode
from spark_bridge.process_identity import is_known_dead, process_identity
from spark_bridge.sinks.batch import SinkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX: Final = ".spark-staging-"
WRITERS: Final = "_stormcell/writers"
UNKNOWN: Final = f"{WRITERS}/unknown.json"
"""Entry of drivers whose death cannot be observed."""
MAX_WRITERS: Final = 100
"""Largest number of entries. Further drivers share the entry of unknown drivers."""
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
    identity = process_identity(pid)
    return UNKNOWN if identity is None else f"{WRITERS}/{identity}.json"


def is_dead(entry: str) -> bool:
    """Tell whether the process of an entry is known to be dead."""
    return is_known_dead(entry.removesuffix(".json"))


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
