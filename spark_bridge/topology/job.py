"""One job in Spark's process: the levels of an attempt as a chain of stages.

RDDs carry the blocks, because they are opaque bytes. DataFrames would plan each job, and generate code for it: half a second a batch.
"""

import functools
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from spark_bridge.topology.block_files import blocks_in, pieces_of
from spark_bridge.topology.blocks import NOTICE, Block
from spark_bridge.topology.frozen_watch import watched_workers
from spark_bridge.topology.heartbeats import Pulse, WithHeartbeats
from spark_bridge.topology.level_run import Attempt, run_level
from spark_bridge.topology.level_status import LevelStatus
from spark_bridge.topology.loaded_program import load_program
from spark_bridge.topology.lost_worker import stages_of, worker_lost
from spark_bridge.topology.result_files import ResultFile, ResultWriter
from spark_bridge.topology.start_watch import watched_start
from spark_bridge.topology.worker_process import shorten_pauses

PIECE_BYTES: Final = 8 << 20
"""Blocks that go through the driver at once. Its memory does not depend on the size of a batch (CL-5)."""


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
    limit_secs: float
    """Time without a sign of life after which a worker counts as frozen."""
    components: tuple[tuple[str, ...], ...] = ()
    """Components of each level, for errors."""


def run_job(spark: Any, call: Any, job: Job) -> list[LevelStatus]:
    """Run the job. Return the outcome of each partition of each level. Raise WorkerLost if one of its processes has died."""
    context = spark.sparkContext
    try:
        with watched_start(context, call), watched_workers(context, call, job.limit_secs, job.components) as pulse:
            return _run_levels(context, job, pulse)
    except Exception as error:
        lost = worker_lost(str(error), job.components, functools.partial(stages_of, context))
        if lost is None:
            raise
        raise lost from error


def _run_levels(context: Any, job: Job, pulse: Pulse) -> list[LevelStatus]:
    program = _broadcast(context, job.program_path)
    with ExitStack() as closing:
        blocks = _first_blocks(context, program, job, pulse, closing)
        for level in range(1, len(job.partitions)):
            count = job.partitions[level]
            arrived = blocks.map(_keyed).repartitionAndSortWithinPartitions(count, _partition_of)
            blocks = arrived.mapPartitionsWithIndex(WithHeartbeats(LevelFunction(program, job.attempt, level), pulse))
        if job.attempt.results_folder is not None:
            return [block.content() for block in blocks.collect()]
        return _fetch_results(blocks, job.folder, pulse, closing)


def _first_blocks(context: Any, program: Any, job: Job, pulse: Pulse, closing: ExitStack) -> Any:
    if job.blocks_path is None:
        emit = LevelFunction(program, job.attempt, 0)
        return _slots(context, job.partitions[0]).mapPartitionsWithIndex(WithHeartbeats(emit, pulse))
    if job.executors_read:
        return _slots(context, 1).mapPartitionsWithIndex(WithHeartbeats(BlockFileReader(job.blocks_path), pulse))
    pieces = []
    for piece in pieces_of(blocks_in(job.blocks_path), PIECE_BYTES):
        pieces.append(context.broadcast([tuple(block) for block in piece]))
        closing.callback(pieces[-1].destroy)
    return _slots(context, max(len(pieces), 1)).mapPartitionsWithIndex(WithHeartbeats(PieceReader(pieces), pulse))


def _keyed(block: Block) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """Return a block with its sort key: level, partition, source, sequence."""
    return block[:4], block[4:]


def _partition_of(key: tuple[int, ...]) -> int:
    """Return the partition of the next level. Blocks for later levels may be in any."""
    return key[1]


class LevelFunction:
    """The function of one level, for `mapPartitionsWithIndex`. Runs on executors."""

    def __init__(self, program: Any, attempt: Attempt, level: int) -> None:
        """program: broadcast bytes of the pickled program."""
        self._program = program
        self._attempt = attempt
        self._level = level

    def __call__(self, partition: int, keyed: Iterable[Any]) -> Iterator[Block]:
        """Run the partition of the running task of Spark."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        blocks = (Block(*key, *rest) for key, rest in keyed)
        loaded = load_program(self._program.value)
        yield from run_level(loaded, self._attempt, self._level, partition, context.taskAttemptId(), blocks)
        shorten_pauses()


class BlockFileReader:
    """Reads a file of blocks, for `mapPartitionsWithIndex`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, partition: int, nothing: Iterable[Any]) -> Iterator[Block]:
        """Yield the blocks of the file."""
        return blocks_in(self._path)


class PieceReader:
    """Reads pieces of a file of blocks, for `mapPartitionsWithIndex`. The driver has broadcast them."""

    def __init__(self, pieces: list[Any]) -> None:
        self._pieces = pieces

    def __call__(self, partition: int, nothing: Iterable[Any]) -> Iterator[Block]:
        """Yield the blocks of a piece."""
        return (Block(*block) for block in self._pieces[partition].value)


# Results that come back through the driver


def _fetch_results(ends: Any, folder: str, pulse: Pulse, closing: ExitStack) -> list[LevelStatus]:
    """Fetch the outcomes, then the results in bounded pieces. Executors keep the results on their disks meanwhile."""
    from pyspark import StorageLevel

    ends = ends.persist(StorageLevel.DISK_ONLY)
    closing.callback(ends.unpersist)
    statuses: list[LevelStatus] = []
    starts = [0]
    for size, notices in ends.mapPartitionsWithIndex(WithHeartbeats(_summary, pulse)).collect():
        statuses += [notice.content() for notice in notices]
        starts.append(starts[-1] + size)
    if not any(status.has_failed for status in statuses):
        results = ends.mapPartitionsWithIndex(WithHeartbeats(_results, pulse))
        if starts[-1] <= PIECE_BYTES:
            blocks = iter(results.collect())
        else:
            pieces = results.mapPartitionsWithIndex(PieceNumbers(starts)).partitionBy(1 + starts[-1] // PIECE_BYTES, int)
            blocks = (block for _, block in pieces.toLocalIterator())
        statuses[0].files += write_results(blocks, {each.number for each in statuses}, folder)
    return statuses


def _is_result(block: Block) -> bool:
    return block.source != NOTICE


def _results(partition: int, blocks: Iterable[Block]) -> Iterator[Block]:
    return filter(_is_result, blocks)


def _summary(partition: int, blocks: Iterable[Block]) -> Iterator[tuple[int, list[Block]]]:
    """Yield the bytes of the results of a partition, and its notices."""
    size, notices = 0, []
    for block in blocks:
        if _is_result(block):
            size += len(block.payload)
        else:
            notices.append(block)
    yield size, notices


class PieceNumbers:
    """Gives each block of results the number of its piece, for `mapPartitionsWithIndex`."""

    def __init__(self, starts: list[int]) -> None:
        """starts: bytes of the results before each partition."""
        self._starts = starts

    def __call__(self, partition: int, blocks: Iterable[Block]) -> Iterator[tuple[int, Block]]:
        """Yield pairs of piece and block. A source is in one partition, so its blocks keep their order."""
        offset = self._starts[partition]
        for block in blocks:
            yield offset // PIECE_BYTES, block
            offset += len(block.payload)


def write_results(blocks: Iterable[Block], tries: Collection[int], folder: str) -> list[ResultFile]:
    """Write the results of all tasks to files. Raise ValueError if Spark has computed one again since it was counted.

    tries: the numbers of the counted tries.
    """
    writer = ResultWriter(folder, 0)
    try:
        for block in blocks:
            if block.attempt not in tries:
                raise ValueError(f"Spark has computed task {block.source} again after its outcome was known")
            writer.write(block.source, block.payload)  # not unpickled: this process may not have the classes of its values
    finally:
        files = writer.close()
    return files


_KEPT: Final = 4
"""Programs, and collections of slots, that a session keeps."""


@functools.lru_cache(maxsize=_KEPT)
def _broadcast_of(context: Any, path: str, written: int) -> Any:
    with open(path, "rb") as file:
        return context.broadcast(file.read())


def _broadcast(context: Any, path: str) -> Any:
    """Return the program as a broadcast value. Each executor loads it once."""
    return _broadcast_of(context, path, os.stat(path).st_mtime_ns)


@functools.lru_cache(maxsize=_KEPT)
def _slots(context: Any, count: int) -> Any:
    return context.parallelize([], count)
