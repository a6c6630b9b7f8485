"""One job in Spark's process: the levels of an attempt as a chain of stages."""

import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from spark_bridge.topology.blocks import DDL, NOTICE, Block
from spark_bridge.topology.level_run import Attempt, load_program, run_level
from spark_bridge.topology.level_status import LevelStatus
from spark_bridge.topology.result_files import ResultBlock, ResultWriter


@dataclass(frozen=True, slots=True)
class Job:
    """A job of one attempt."""

    program_path: str
    """File of the pickled program, on the machine of the engine and of the driver."""
    partitions: tuple[int, ...]
    """Number of partitions of each level."""
    attempt: Attempt
    blocks_path: str | None
    """File with the blocks of level 0, if emitters in the engine's process have written them. None: executors emit."""
    executors_read: bool
    """True if executors can read `blocks_path`. Otherwise the blocks go through the driver."""
    folder: str
    """Folder for the results that come back through the driver."""


def run_job(spark: Any, call: Any, job: Job) -> list[LevelStatus]:
    """Run the job. Return the outcome of each partition of each level."""
    program = _broadcast(spark, job.program_path)
    frame = _first_frame(spark, program, job)
    for level in range(1, len(job.partitions)):
        count = job.partitions[level]
        frame = frame.repartitionById(count, _hop(count)).sortWithinPartitions("level", "source", "sequence")
        frame = frame.mapInArrow(LevelFunction(program, job.attempt, level), DDL)
    ends = frame.where(f"level = {len(job.partitions)}")
    if job.attempt.results_folder is not None:
        return [block.content() for block in _blocks(ends.collect())]
    return receive_results(_blocks(ends.toLocalIterator(prefetchPartitions=True)), job.folder)


def _first_frame(spark: Any, program: Any, job: Job) -> Any:
    if job.blocks_path is None:
        count = job.partitions[0]
        return spark.range(0, count, 1, count).mapInArrow(LevelFunction(program, job.attempt, 0), DDL)
    if job.executors_read:
        return spark.range(0, 1, 1, 1).mapInArrow(BlockFileReader(job.blocks_path), DDL)
    with pa.memory_map(job.blocks_path) as file, pa.ipc.open_stream(file) as reader:
        return spark.createDataFrame(reader.read_all(), schema=DDL)


def _hop(count: int) -> Any:
    """Return the partition of the next level. Blocks for later levels may be in any."""
    from pyspark.sql.functions import expr

    return expr(f"pmod(partition, {count})")


def _blocks(rows: Any) -> Iterator[Block]:
    return (Block(*row.asDict().values())._replace(payload=bytes(row.payload)) for row in rows)


def receive_results(blocks: Iterator[Block], folder: str) -> list[LevelStatus]:
    """Write the results of all tasks to files. Return the outcomes, with these files in the first one."""
    statuses: list[LevelStatus] = []
    writer = ResultWriter(folder, 0)
    try:
        for block in blocks:
            if block.source == NOTICE:
                statuses.append(block.content())
            else:
                writer.write(block.source, block.payload, sum(len(rows) for _, rows in ResultBlock(*block.content()).runs))
    finally:
        files = writer.close()
    statuses[0].files += files
    return statuses


class LevelFunction:
    """The function of one level, for `mapInArrow`. Runs on executors."""

    def __init__(self, program: Any, attempt: Attempt, level: int) -> None:
        """program: broadcast bytes of the pickled program."""
        self._program = program
        self._attempt = attempt
        self._level = level

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the partition of the running task of Spark."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        loaded = load_program(self._program.value)
        if self._level == 0:
            for _ in batches:  # Spark ends a worker process that has not read all of its input
                pass
        given = iter(()) if self._level == 0 else batches
        yield from run_level(loaded, self._attempt, self._level, context.partitionId(), context.taskAttemptId(), given)


class BlockFileReader:
    """Reads a file of blocks, for `mapInArrow`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the file."""
        for _ in batches:  # as above
            pass
        with pa.memory_map(self._path) as file, pa.ipc.open_stream(file) as reader:
            yield from reader


_PROGRAMS: Final = 4


@functools.lru_cache(maxsize=_PROGRAMS)
def _broadcast_of(context: Any, path: str, written: int) -> Any:
    with open(path, "rb") as file:
        return context.broadcast(file.read())


def _broadcast(spark: Any, path: str) -> Any:
    """Return the program as a broadcast value. Each executor loads it once."""
    return _broadcast_of(spark.sparkContext, path, os.stat(path).st_mtime_ns)
