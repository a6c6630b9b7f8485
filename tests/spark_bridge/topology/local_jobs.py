"""Runs jobs of topologies level by level in this process, in the order of Spark. So tests of topologies on Spark need no JVM.

Each partition runs in a thread with an event loop of its own, like in a worker process of Spark. Blocks are pickled on the way.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from spark_bridge.topology.blocks import Block, from_arrow, to_arrow
from spark_bridge.topology.job import Job, receive_results
from spark_bridge.topology.level_run import LoadedProgram, load_program, run_level
from spark_bridge.topology.level_status import LevelStatus


class LocalJobs:
    """Has the methods of a `SparkHold`. `before` is called before each partition, and may raise."""

    def __init__(self, seed: int = 0, before: Callable[[Job, int, int], None] | None = None) -> None:
        self.random = random.Random(seed)
        self.before = before or (lambda job, level, partition: None)
        self.jobs = 0
        self.tries = 0

    async def call(self, function: Any, job: Job) -> list[LevelStatus]:
        self.jobs += 1
        return await asyncio.to_thread(self._run, job)

    async def close(self) -> None:
        """Do nothing."""

    def _run(self, job: Job) -> list[LevelStatus]:
        loaded = load_program(Path(job.program_path).read_bytes())
        blocks = self._first(loaded, job)
        for level in range(1, len(job.partitions)):
            count = job.partitions[level]
            hops: list[list[Block]] = [[] for _ in range(count)]
            for block in blocks:
                hops[block.partition % count].append(block)
            blocks = [block for partition, of in enumerate(hops) for block in self._level(loaded, job, level, partition, of)]
        assert all(block.level == len(job.partitions) for block in blocks)
        return receive_results(iter(blocks), job.folder) if job.attempt.results_folder is None else [block.content() for block in blocks]

    def _first(self, loaded: LoadedProgram, job: Job) -> list[Block]:
        if job.blocks_path is not None:
            import pyarrow as pa

            with pa.memory_map(job.blocks_path) as file, pa.ipc.open_stream(file) as reader:
                return [block for batch in reader for block in from_arrow(batch)]
        return [block for partition in range(job.partitions[0]) for block in self._level(loaded, job, 0, partition, [])]

    def _level(self, loaded: LoadedProgram, job: Job, level: int, partition: int, blocks: list[Block]) -> Iterator[Block]:
        self.random.shuffle(blocks)  # Spark fetches the blocks of a partition in any order
        blocks.sort(key=lambda block: block[:1] + block[2:4])
        self.tries += 1
        self.before(job, level, partition)
        for batch in run_level(loaded, job.attempt, level, partition, self.tries, [to_arrow(blocks)]):
            yield from from_arrow(batch)
