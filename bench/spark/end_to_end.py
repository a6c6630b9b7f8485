"""Converts access logs to the tables of examples/log_etl, by the example and by Spark alone.

The example runs the engine and Spark. Spark alone runs the same queries over the same lines as text, which Spark SQL parses. Both times
include the start of Spark, and end with the last table. `engine_cpu_secs` and `spark_cpu_secs` are sums over all cores. The lines are
created once, and kept in the folder of temporary files.
"""

import asyncio
import importlib
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from itertools import islice
from pathlib import Path
from typing import Any, Final

from bench.environments import PROJECT
from bench.measuring import rate_figures

EXAMPLE: Final = PROJECT / "examples" / "log_etl"
TEXT_LINES: Final = 50_000
"""Lines of each file of text."""
TEXTS_AT_ONCE: Final = 3
"""Files of a micro-batch. They have about as many lines as 16 transactions, the most that the engine may be ahead of Spark."""
SETTINGS: Final = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
MASTER: Final = "local[2]"
MEMORY: Final = "2g"
SAMPLE_SECS: Final = 0.2


def run_example(lines: int) -> dict[str, float]:
    """Run the example over `lines` lines."""
    return _measure(_by_engine, lines)


def run_spark_alone(lines: int) -> dict[str, float]:
    """Run the example's queries over text, in a Spark session of the same settings."""
    return _measure(_by_spark, lines)


def _example(name: str) -> Any:
    """Return a module of the example."""
    if str(EXAMPLE) not in sys.path:
        sys.path.append(str(EXAMPLE))
    return importlib.import_module(name)


def _by_engine(folder: Path) -> None:
    from spark_bridge.process import SparkConfig

    spark = SparkConfig(master=MASTER, driver_memory=MEMORY, conf=SETTINGS, log_file=str(folder / "spark.log"))
    asyncio.run(_example("running").run(folder, _example("topology").of_files(folder), spark))


def _by_spark(folder: Path) -> None:
    from pyspark.sql import SparkSession

    from bench.peers.spark_sql_logs import parse_lines

    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    settings: dict[str, Any] = {**SETTINGS, "spark.master": MASTER, "spark.driver.memory": MEMORY, "spark.sql.session.timeZone": "UTC"}
    spark = SparkSession.builder.config(map=settings).getOrCreate()
    try:
        pipeline = _example("pipeline")
        text = spark.readStream.option("maxFilesPerTrigger", TEXTS_AT_ONCE).text(str(folder / "text"))
        writers = [(name, pipeline.pipeline(parse_lines(text))[name]) for name in pipeline.QUERIES]
        queries = [
            writer.option("checkpointLocation", str(folder / "checkpoints" / name)).trigger(availableNow=True).start()
            for name, writer in writers
        ]
        for query in queries:
            query.awaitTermination()
    finally:
        spark.stop()


def _measure(work: Callable[[Path], None], lines: int) -> dict[str, float]:
    logs = _make_lines(lines)
    count = int((logs / "made").read_text())
    with tempfile.TemporaryDirectory(prefix="stormcell-bench-") as text:
        folder = Path(text)
        for name in ("logs", "text"):
            (folder / name).symlink_to(logs / name)
        os.environ["LOG_ETL"] = text
        began, own = time.monotonic(), time.process_time()
        with CpuOfChildren() as children, redirect_stdout(sys.stderr):  # the example prints its progress
            work(folder)
        secs, own = time.monotonic() - began, time.process_time() - own
    engine_secs, spark_secs = (own, children.secs) if work is _by_engine else (0.0, own + children.secs)
    return rate_figures(count, secs, engine_cpu_secs=round(engine_secs, 1), spark_cpu_secs=round(spark_secs, 1))


def _make_lines(lines: int) -> Path:
    """Return a folder with `lines` lines, as `logs` and as `text`. Create it if it does not exist."""
    folder = Path(tempfile.gettempdir()) / f"stormcell-bench-logs-{lines}"
    if not (folder / "made").exists():
        shutil.rmtree(folder, ignore_errors=True)
        traffic = _example("traffic")
        count = traffic.write(folder / "logs", traffic.Traffic(lines))
        _write_texts(folder / "text", traffic.in_order(folder / "logs"))
        (folder / "made").write_text(str(count))
    return folder


def _write_texts(folder: Path, lines: Any) -> None:
    """Write the lines in the order of their arrival. Spark reads whole files by their time, so each file has its own time."""
    folder.mkdir()
    for number, piece in enumerate(iter(lambda: list(islice(lines, TEXT_LINES)), [])):
        path = folder / f"{number:06}.log"
        path.write_bytes(b"\n".join(piece) + b"\n")
        os.utime(path, (number, number))


class CpuOfChildren:
    """Sampled CPU seconds of all descendants of this process. No process waits for most of them, so the kernel does not sum them."""

    def __init__(self) -> None:
        self._secs: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> "CpuOfChildren":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def secs(self) -> float:
        """Return the sum so far."""
        return sum(self._secs.values())

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_SECS):
            parents, secs = _processes()
            below = {os.getpid()}
            for pid in sorted(parents):  # a child is younger than its parent
                if parents[pid] in below:
                    below.add(pid)
                    self._secs[pid] = secs[pid]


def _processes() -> tuple[dict[int, int], dict[int, float]]:
    """Return the parent and the CPU seconds of each process."""
    parents, secs = {}, {}
    tick = os.sysconf("SC_CLK_TCK")
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        pid = int(path.parent.name)
        parents[pid], secs[pid] = int(fields[1]), (int(fields[11]) + int(fields[12])) / tick
    return parents, secs
