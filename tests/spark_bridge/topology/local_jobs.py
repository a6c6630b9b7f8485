"""Runs jobs of topologies level by level in this process, in the order of Spark. So tests of topologies on Spark need no JVM.

Each partition runs in a thread with an event loop of its own, like in a worker process of Spark. Blocks are pickled on the way.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from spark_bridge.topology.block_files import blocks_in
from spark_bridge.topology.blocks import NOTICE, Block
from spark_bridge.topology.job import Job, write_results
from spark_bridge.topology.level_run import run_level
from spark_bridge.topology.level_status import LevelStatus
from spark_bridge.topology.loaded_program import LoadedProgram, load_program


class LocalJobs:
    """Has the methods of a `SparkHold`. `before` is called before each partition, and may raise."""

    def __init__(self, seed: int = 0, before: Callable[[Job, int, int], None] | None = None) -> None:
        self.random = random.Random(seed)
        self.before = before or (lambda job, level, partition: None)
        self.facts = {"application": "local-1", "version": "4.1", "ui": "http://127.0.0.1:4040"}
        self.jobs = 0
        self.tries = 0

    async def call(self, function: Any, job: Job, **options: Any) -> list[LevelStatus]:
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
        statuses: list[LevelStatus] = [block.content() for block in blocks if block.source == NOTICE]
        results = [block for block in blocks if block.source != NOTICE]
        if job.attempt.results_folder is None and not any(status.has_failed for status in statuses):
            statuses[0].files += write_results(results, {status.number for status in statuses}, job.folder)
        return statuses

    def _first(self, loaded: LoadedProgram, job: Job) -> list[Block]:
        if job.blocks_path is not None:
            return list(blocks_in(job.blocks_path))
        return [block for partition in range(job.partitions[0]) for block in self._level(loaded, job, 0, partition, [])]

    def _level(self, loaded: LoadedProgram, job: Job, level: int, partition: int, blocks: list[Block]) -> Iterator[Block]:
        self.random.shuffle(blocks)  # Spark fetches the blocks of a partition in any order
        blocks.sort(key=lambda block: block[:1] + block[2:4])
        self.tries += 1
        self.before(job, level, partition)
        yield from run_level(loaded, job.attempt, level, partition, self.tries, blocks)
