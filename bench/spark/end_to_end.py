"""`python -m bench.spark.end_to_end WAY [--lines 5000000]`: access logs to the tables of examples/log_etl, as a line of JSON.

WAY is `engine`: the example as it is, the engine and, beside it, Spark; or `spark`: the same queries over the same lines as text, which
Spark SQL parses. Both count from nothing to the last table, so with the start of Spark. `engine_cpu_secs` and `spark_cpu_secs` are of all
cores. The lines are made once, and kept in the folder of temporary files.
"""

import argparse
import asyncio
import importlib
import os
import resource
import shutil
import sys
import tempfile
import threading
import time
from contextlib import redirect_stdout
from itertools import islice
from pathlib import Path
from typing import Any, Final

from bench.compare.work import print_result

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "log_etl"
LINES: Final = 5_000_000
TEXT_LINES: Final = 50_000
"""Of each file of text."""
TEXTS_AT_ONCE: Final = 3
"""Files of a micro-batch: as many lines as 16 transactions, which is how far the engine may be ahead."""
SETTINGS: Final = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
MASTER: Final = "local[2]"
MEMORY: Final = "2g"
SAMPLE_SECS: Final = 0.2


def example(name: str) -> Any:
    """Return a module of the example."""
    if str(EXAMPLE) not in sys.path:
        sys.path.append(str(EXAMPLE))
    return importlib.import_module(name)


# The lines


def made(lines: int) -> Path:
    """Return a folder with so many lines, as `logs` and as `text`, after making it where it is not there."""
    folder = Path(tempfile.gettempdir()) / f"stormcell-bench-logs-{lines}"
    if not (folder / "made").exists():
        shutil.rmtree(folder, ignore_errors=True)
        traffic = example("traffic")
        count = traffic.write(folder / "logs", traffic.Traffic(lines))
        _cut(folder)
        (folder / "made").write_text(str(count))
    return folder


def _cut(folder: Path) -> None:
    """Write the lines in the order in which they arrived, in files of a time each: Spark takes whole files, by when they were changed."""
    lines = example("traffic").in_order(folder / "logs")
    (folder / "text").mkdir()
    for number, piece in enumerate(iter(lambda: list(islice(lines, TEXT_LINES)), [])):
        path = folder / "text" / f"{number:06}.log"
        path.write_bytes(b"\n".join(piece) + b"\n")
        os.utime(path, (number, number))


# The two ways


async def by_engine(folder: Path) -> None:
    """The example as it is."""
    from spark_bridge.process import SparkConfig

    spark = SparkConfig(master=MASTER, driver_memory=MEMORY, conf=SETTINGS, log_file=str(folder / "spark.log"))
    await example("running").run(folder, example("topology").of_files(folder), spark)


async def by_spark(folder: Path) -> None:
    """The queries of the example in a session of the same settings, over text."""
    await asyncio.to_thread(_query, folder)


def _query(folder: Path) -> None:
    from pyspark.sql import SparkSession

    from bench.spark.text_lines import rows

    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    settings: dict[str, Any] = {**SETTINGS, "spark.master": MASTER, "spark.driver.memory": MEMORY, "spark.sql.session.timeZone": "UTC"}
    spark = SparkSession.builder.config(map=settings).getOrCreate()
    try:
        pipeline = example("pipeline")
        text = spark.readStream.option("maxFilesPerTrigger", TEXTS_AT_ONCE).text(str(folder / "text"))
        writers = [(name, pipeline.pipeline(rows(text))[name]) for name in pipeline.QUERIES]
        queries = [
            writer.option("checkpointLocation", str(folder / "checkpoints" / name)).trigger(availableNow=True).start()
            for name, writer in writers
        ]
        for query in queries:
            query.awaitTermination()
    finally:
        spark.stop()


WAYS: Final = {"engine": by_engine, "spark": by_spark}


# What it costs


class CpuOfOthers:
    """Seconds of CPU of all processes below this one, sampled: most are waited for by nobody, so that the kernel adds nothing up."""

    def __init__(self) -> None:
        self._secs: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> "CpuOfOthers":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def secs(self) -> float:
        """Until now."""
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
    """Return the parent of each process, and its seconds of CPU."""
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


def measure(way: str, lines: int, *, check: bool) -> None:
    """Print the line of JSON of one run; raises SystemExit where its tables are not what plain Python computes."""
    logs = made(lines)
    count = int((logs / "made").read_text())
    with tempfile.TemporaryDirectory(prefix="stormcell-bench-") as text:
        folder = Path(text)
        for name in ("logs", "text"):
            (folder / name).symlink_to(logs / name)
        os.environ["LOG_ETL"] = text
        own = resource.getrusage(resource.RUSAGE_SELF)
        began = time.monotonic()
        with CpuOfOthers() as others, redirect_stdout(sys.stderr):  # the example tells how far it is
            asyncio.run(WAYS[way](folder))
        secs = time.monotonic() - began
        mine = _cpu_secs(resource.getrusage(resource.RUSAGE_SELF)) - _cpu_secs(own)
        if check:
            _check(folder)
    engine_secs, spark_secs = (mine, others.secs) if way == "engine" else (0.0, mine + others.secs)
    print_result(count, secs, engine_cpu_secs=round(engine_secs, 1), spark_cpu_secs=round(spark_secs, 1))


def _cpu_secs(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


def _check(folder: Path) -> None:
    expected, tables = example("plain").compute(folder / "logs"), example("tables")
    for name in tables.KEYS:
        if tables.table(folder, name) != getattr(expected, name):
            raise SystemExit(f"table {name!r} is not what plain Python computes")


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--lines", type=int, default=LINES)
    parser.add_argument("--check", action="store_true", help="compare every row of the tables with a plain computation; in memory")
    arguments = parser.parse_args()
    measure(arguments.way, arguments.lines, check=arguments.check)


if __name__ == "__main__":
    main()
