"""Runs jobs of topologies on the loop of the run, in its virtual time, with the faults of a `Trouble`."""

import asyncio
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from spark_bridge.process import SparkDied, SparkError
from spark_bridge.topology.block_files import blocks_in
from spark_bridge.topology.blocks import NOTICE, Block
from spark_bridge.topology.job import Job, write_results
from spark_bridge.topology.level_run import LevelRun
from spark_bridge.topology.level_status import LevelStatus
from spark_bridge.topology.loaded_program import LoadedProgram, load_program
from spark_bridge.topology.outbox import Outbox
from tests.spark_bridge.topology.model.trouble import Trouble
from tests.transactional.model.tries import TRY, JobEvents, Try
from tests.transactional.model.witness import Task, Witness

Computed = list[list[Block]]
"""Blocks of each computation of one partition."""
MOST_TRIES: Final = 4
"""Failures of a partition after which Spark fails the job."""


class VirtualJobs:
    """Has the methods of a `SparkHold`."""

    def __init__(self, trouble: Trouble, witness: Witness) -> None:
        self.facts: dict[str, Any] = {}
        self.trouble = trouble
        self.witness = witness
        self.tries = 0
        self.closing: set[asyncio.Task[None]] = set()
        """Ends of partitions. A second cancellation must not interrupt them."""
        self._calls: dict[asyncio.Task[list[LevelStatus]], asyncio.Future[list[LevelStatus]]] = {}

    async def call(self, function: Any, job: Job, **options: Any) -> list[LevelStatus]:
        """Run a job. A cancelled one may run on, as the tasks of Spark do for a while."""
        running = asyncio.create_task(_Running(self, job).run())
        result: asyncio.Future[list[LevelStatus]] = asyncio.get_running_loop().create_future()
        self._calls[running] = result
        running.add_done_callback(self._end)
        try:
            return await result
        except asyncio.CancelledError:
            if not self.trouble.happens(self.trouble.lives_on, "cancelled job runs on"):
                running.cancel()
            raise

    def _end(self, running: "asyncio.Task[list[LevelStatus]]") -> None:
        result = self._calls.pop(running)
        if result.done():
            if not running.cancelled():
                running.exception()  # nobody waits for it
        elif running.cancelled():
            result.set_exception(SparkDied("Spark (simulated) died"))
        elif error := running.exception():
            result.set_exception(error)
        else:
            result.set_result(running.result())

    def die(self) -> None:
        """End all jobs."""
        for running, result in self._calls.items():
            if not result.done():
                result.set_exception(SparkDied("Spark (simulated) died"))
            running.cancel()

    async def close(self) -> None:
        """Cancel all jobs, and wait for their ends."""
        for running in [*self._calls]:
            running.cancel()
            with suppress(asyncio.CancelledError, SparkDied, SparkError):
                await running
        if self.closing:
            await asyncio.wait(self.closing)


class _Running:
    """One job."""

    def __init__(self, jobs: VirtualJobs, job: Job) -> None:
        self._jobs = jobs
        self._job = job
        self._trouble = jobs.trouble
        self._loaded: LoadedProgram = load_program(Path(job.program_path).read_bytes())
        self._events = JobEvents(jobs.witness, self._sends)

    async def run(self) -> list[LevelStatus]:
        """Run all levels. Return the outcome of each partition."""
        await self._strike("before the job")
        blocks: list[Computed] = await self._first()
        for level in range(1, len(self._job.partitions)):
            blocks = await self._level(level, blocks)
        ends = [self._chosen(computed) for computed in blocks]
        statuses: list[LevelStatus] = [block.content() for each in ends for block in each if block.source == NOTICE]
        if self._job.attempt.results_folder is None and not any(status.has_failed for status in statuses):
            results = [block for computed in blocks for block in self._chosen(computed) if block.source != NOTICE]
            try:
                statuses[0].files += write_results(results, {status.number for status in statuses}, self._job.folder)
            except ValueError as error:
                raise SparkError(f"ValueError: {error}") from error
        await self._strike("after the job")
        self._events.count({status.number for status in statuses})
        self._trouble.damage(statuses)
        return statuses

    def _sends(self, source: Task, target: Task) -> bool:
        plan = self._loaded.plan
        sends_from, sends_to = (plan.places[plan.task_ids[name][index]] for name, index in (source, target))
        return target[0] not in plan.apart or sends_from == sends_to

    async def _first(self) -> list[Computed]:
        if self._job.blocks_path is not None:
            return [[list(blocks_in(self._job.blocks_path))]]
        return await self._compute(0, [[] for _ in range(self._job.partitions[0])])

    async def _level(self, level: int, above: list[Computed]) -> list[Computed]:
        count = self._job.partitions[level]
        hops: list[Computed] = [[] for _ in range(count)]
        for computed in above:
            parts: list[defaultdict[int, list[Block]]] = []
            for blocks in computed:
                parts.append(defaultdict(list))
                for block in blocks:
                    parts[-1][block.partition % count].append(block)
            for partition in range(count):
                hops[partition].append(self._chosen([part[partition] for part in parts]))
        return await self._compute(level, [[block for blocks in hop for block in blocks] for hop in hops])

    def _chosen(self, computed: Computed) -> list[Block]:
        """Return the blocks of the computation that is read."""
        return self._trouble.draws.choice(computed) if self._trouble.mixes else computed[-1]

    async def _compute(self, level: int, inputs: list[list[Block]]) -> list[Computed]:
        """Compute the partitions of a level side by side."""
        aio_tasks = [asyncio.create_task(self._partition(level, partition, blocks)) for partition, blocks in enumerate(inputs)]
        try:
            return list(await asyncio.gather(*aio_tasks))
        finally:
            for aio_task in aio_tasks:
                aio_task.cancel()
            await asyncio.wait(aio_tasks)

    async def _partition(self, level: int, partition: int, blocks: list[Block]) -> Computed:
        self._trouble.draws.shuffle(blocks)  # Spark fetches the blocks of a partition in any order
        blocks.sort(key=lambda block: block[:1] + block[2:4])
        computed: Computed = []
        for _ in range(MOST_TRIES):
            await self._strike(f"before level {level}")
            found = await self._try(level, partition, blocks)
            if found is not None:
                computed.append(found)
                if self._trouble.happens(self._trouble.computes_twice, "computed twice"):
                    continue
                if self._trouble.happens(self._trouble.loses, "lost partition"):
                    computed.pop()
                    continue
                return computed
        if computed:
            return computed
        raise SparkError(f"Spark (simulated): partition {partition} of level {level} failed {MOST_TRIES} times")

    async def _try(self, level: int, partition: int, blocks: list[Block]) -> list[Block] | None:
        """Compute a partition. None: it was lost in the middle."""
        self._jobs.tries += 1
        number = self._jobs.tries
        events = self._events.tries[number] = Try(self._events)
        TRY.set(events)
        outbox = Outbox(self._loaded.plan, level, partition, number)
        run = LevelRun(self._loaded, self._job.attempt, level, partition, number, outbox)
        try:
            sent = await _computed(run, level, outbox, blocks)
        finally:
            closing = asyncio.create_task(run.close())
            self._jobs.closing.add(closing)
            closing.add_done_callback(self._jobs.closing.discard)
            await asyncio.shield(closing)
        outbox.send_notice(run.status)
        return None if events.is_lost else sent + outbox.take()

    async def _strike(self, where: str) -> None:
        await self._trouble.wait()
        if self._trouble.happens(self._trouble.dies / 3, f"Spark died {where}"):
            self._jobs.die()
        if self._trouble.happens(self._trouble.fails / 3, f"job failed {where}"):
            raise SparkError(f"Spark (simulated): the job failed {where}")


async def _computed(run: LevelRun, level: int, outbox: Outbox, blocks: list[Block]) -> list[Block]:
    """Do the work of `level_run.run_level` on the running loop. Return the blocks that the partition has sent."""
    sent: list[Block] = []
    await run.open()
    for block in blocks:
        if block.level == level:
            await run.take(block)
        else:
            outbox.pass_on(block)
        sent += outbox.take()
    while not await run.finish():
        sent += outbox.take()
    return sent + outbox.take()
