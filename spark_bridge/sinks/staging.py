"""Folders of staging that killed drivers have left in a folder of Parquet: swept where all who wrote there are known to be dead.

Spark replaces folders by txid from `.spark-staging-<id>`, which a driver that is killed leaves behind. Its id tells nobody whose it is, and
to remove one that is still written loses rows: Spark deletes the folder that it replaces before it moves the new one there. So
each driver leaves a note of itself before it first writes. Who comes next sweeps if there are notes and every one is of a process
that is gone: of this boot of this machine, in this namespace of process ids. Of others nothing is known, and nothing is swept.
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
"""The note of drivers of which nobody can say whether they are dead."""
MOST_WRITERS: Final = 100
"""So many notes are kept; behind them there is the one of unknown drivers."""
_WRITER: Final = re.compile(r"([0-9a-f]+\.\d+)-(\d+)-(\d+)\.json")
_LOCK: Final = threading.Lock()
_SWEPT: Final = set[tuple[int | None, str]]()
"""Which driver has left its note where."""


def sweep_once(spark: "SparkSession", storage: Storage, path: str) -> None:
    """Leave a note of this driver, and sweep what dead ones have left; only before the first write of this process to a folder."""
    with _LOCK:  # another thread does not write before that is done
        pid = _driver_pid(spark)
        if (pid, path) not in _SWEPT:
            _sweep(spark, storage, path, pid)
            _SWEPT.add((pid, path))


def _sweep(spark: "SparkSession", storage: Storage, path: str, pid: int | None) -> None:
    known = storage.names(WRITERS)
    mine = UNKNOWN if pid is None or len(known) >= MOST_WRITERS else note_of(pid)
    storage.make_folder(WRITERS)
    is_new = storage.create(mine, encode("writer", {"pid": pid, "path": path}))
    if pid is None or not is_new or not known:
        return
    with _folders_of(spark, path) as folders:
        left = list(folders)  # before the notes are looked at: who writes one of these has left its note
        others = [name for name in storage.names(WRITERS) if f"{WRITERS}/{name}" != mine]
        if not all(map(is_dead, others)):
            return
        for folder in left:
            folder.getFileSystem(_configuration(spark)).delete(folder, True)
    for name in others:
        storage.remove(f"{WRITERS}/{name}")


def note_of(pid: int) -> str:
    """Return where the note of a process of this machine is."""
    machine, process = _machine(), _process(pid)
    return UNKNOWN if machine is None or process is None else f"{WRITERS}/{machine}-{pid}-{process.started_ticks}.json"


def is_dead(note: str) -> bool:
    """Tell whether the process of a note is known to be gone; False where that cannot be told."""
    found = _WRITER.fullmatch(note)
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
    """Return which boot of which kernel this is, and whose process ids these are; None where nobody says."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip().replace("-", "")
        return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return None


class _Process(NamedTuple):
    started_ticks: int
    """Since the boot."""
    is_over: bool
    """True where only nobody has waited for its end."""


def _process(pid: int) -> _Process | None:
    """Return what the kernel says of a process; None where it says nothing."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            state, *numbers = file.read().rpartition(")")[2].split()
        return _Process(int(numbers[18]), state in "ZX" and int(numbers[16]) <= 1)
    except (OSError, ValueError, IndexError):
        return None


def _driver_pid(spark: "SparkSession") -> int | None:
    """Return the process that commits what is staged: the JVM. None with Spark Connect, where it is elsewhere."""
    jvm: Any = getattr(spark, "_jvm", None)
    return None if jvm is None else int(jvm.java.lang.ProcessHandle.current().pid())


def _configuration(spark: "SparkSession") -> Any:
    return spark._jsc.hadoopConfiguration()


@contextmanager
def _folders_of(spark: "SparkSession", path: str) -> Iterator[Iterator[Any]]:
    """Yield the folders of staging there, as Hadoop's paths: Spark's own file system may be another than the storage."""
    jvm: Any = spark._jvm
    try:
        base = jvm.org.apache.hadoop.fs.Path(path)
        filesystem = base.getFileSystem(_configuration(spark))
        found = filesystem.listStatus(base) if filesystem.exists(base) else ()
        yield (each.getPath() for each in found if each.isDirectory() and each.getPath().getName().startswith(PREFIX))
    except Exception as error:  # of the file system's, by py4j
        text = f"{path}: cannot remove what killed drivers have left: {str(error).partition(chr(10))[0]}"
        raise SinkUnavailable(text, hint="Nothing of the micro-batch is written. See that the driver may list and delete there.") from error
