"""One round: kills an engine and a pipeline again and again, restarts them, and checks the result."""

import asyncio
import json
import os
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from tests.kills.bolt_forms import strike_bolt_process
from tests.kills.lives import RUNS
from tests.spark_bridge.kills.engine_life import Life
from tests.spark_bridge.kills.judge import Watch, folder_faults, position_faults, sink_faults
from tests.spark_bridge.kills.places import PARTITIONS, Places
from tests.spark_bridge.kills.plan import EngineDeath, PipelineDeath
from tests.spark_bridge.kills.processes import CHILD, JVM, LivingProcess, NotInTime, until
from tests.spark_bridge.kills.striking import IN_DRIVER, choose, is_chosen

MOST_SECS: Final = 300.0
"""Longest time of any step."""
STEP_SECS: Final = 60.0
"""An engine that does not reach its step, or commits nothing, within this time is killed anywhere."""
RECOVERY_SECS: Final = 10.0
"""Longest wait for a commit after the death of a bolt's process. Spark may be too far behind for one."""
BOLT: Final = "bolt"
AHEAD: Final = 400
"""Numbers in the input that the engine has not handed over yet."""
MOST_OF_A_BATCH: Final = PARTITIONS * 5
LAST_BATCH: Final = 1000
FEED_SECS: Final = 0.1
TAIL_CHARACTERS: Final = 3000
Strike = Callable[[], bool]


@dataclass
class Killed:
    """Result of a round."""

    deaths: Counter[str] = field(default_factory=Counter)
    """Counts by victim, point and step."""
    engines: Counter[str] = field(default_factory=Counter)
    """Number of engines by the form of their bolts."""
    numbers: int = 0
    txids: int = 0
    violations: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        """Return the number of deaths."""
        return self.deaths.total()


class KilledFlow:
    """Processes of one round. `cluster`: functions by name that kill an executor or a worker, and return True if there was one.

    `is_late`: returns True when no further process should die.
    """

    def __init__(self, places: Places, cluster: Mapping[str, Strike] | None = None, is_late: Callable[[], bool] = lambda: False) -> None:
        self.places = places
        self.killed = Killed()
        self._cluster = cluster or {}
        self._is_late = is_late
        self._watch = Watch(places)
        self.pipeline: LivingProcess | None = None
        self.engine: LivingProcess | None = None
        self._is_over = False

    async def play(
        self,
        pipeline_deaths: Iterable[PipelineDeath],
        engine_deaths: Iterable[EngineDeath],
        then: Callable[[], Awaitable[list[str]]] | None = None,
    ) -> Killed:
        """Kill all of them, run the further step `then`, which returns its faults, let all finish, and judge."""
        self.prepare()
        feeding = asyncio.create_task(self._feed())
        engines = asyncio.create_task(self._kill_engines(engine_deaths))
        try:
            await self._kill_pipelines(pipeline_deaths)
            self._is_over = True
            await engines
            await feeding
            if then is not None and not self.killed.violations:
                self.killed.violations += await then()
            await self.finish()
        except NotInTime as fault:
            self._violated(str(fault))
        finally:
            for task in (engines, feeding):
                task.cancel()
            await asyncio.wait([engines, feeding])
            await self.end()
        return self.killed

    # Numbers

    def prepare(self) -> None:
        """Create the folders."""
        for name in ("lines", "handover", "checkpoints", "spark"):
            self.places.path(name).mkdir()

    async def _feed(self) -> None:
        """Write numbers, always some more than the engine has handed over."""
        while not self._is_over:
            while self.killed.numbers < self.newest() * MOST_OF_A_BATCH + AHEAD:
                self.write(MOST_OF_A_BATCH)
            await asyncio.sleep(FEED_SECS)

    def write(self, count: int) -> None:
        """Write further numbers."""
        first = self.killed.numbers
        self.killed.numbers += count
        for part in range(PARTITIONS):
            lines = "".join(f"{number}\n" for number in range(first, first + count) if number % PARTITIONS == part)
            with self.places.path(f"lines/{part}.txt").open("ab") as file:
                file.write(lines.encode())

    def newest(self) -> int:
        """Return the newest txid with a manifest."""
        folder = self.places.path("handover/manifests")
        names = os.listdir(folder) if folder.exists() else []
        return max((int(name[:12]) for name in names if name[:12].isdigit()), default=0)

    # The engine

    async def _kill_engines(self, deaths: Iterable[EngineDeath]) -> None:
        for death in deaths:
            if self._is_over:
                return
            await self._kill_engine(death)
        self.engine = await self.start_engine(Life(places=self.places))  # until all is over
        await self._wait_for(lambda: self._is_over, 10 * MOST_SECS)
        await self._end_engine("engine")

    async def _kill_engine(self, death: EngineDeath) -> None:
        life = Life(places=self.places, batch=death.batch, pending=death.pending, step=death.step, number=death.number, bolts=death.bolts)
        newest = self.newest()
        engine = self.engine = await self.start_engine(life)
        if not death.from_the_beginning:
            await self._wait_for(lambda: engine.has_ended or engine.last_line == RUNS.decode().strip(), MOST_SECS)
            await self._wait_for(lambda: engine.has_ended or self._is_over or (death.step is None and self.newest() > newest), STEP_SECS)
            await self._strike_bolt(engine, death)
        await self._wait_for(lambda: engine.has_ended or self._is_over, death.secs)
        await self._end_engine(death.name if engine.has_ended else "engine")

    async def _strike_bolt(self, engine: LivingProcess, death: EngineDeath) -> None:
        """Kill the process of a bolt, if there is one, and wait for the next commit."""
        newest = self.newest()
        if death.strike is None or engine.has_ended:
            return
        if strike_bolt_process(engine.process.pid, random.Random(death.strike), [signal.SIGKILL]):
            self.killed.deaths[BOLT] += 1
            await self._wait_for(lambda: engine.has_ended or self._is_over or self.newest() > newest, RECOVERY_SECS)

    async def start_engine(self, life: Life) -> LivingProcess:
        """Start an engine."""
        self.killed.engines[life.bolts] += 1
        return await LivingProcess("tests.spark_bridge.kills.engine_life", life.written(), self.places.path("engine.log")).start()

    async def _end_engine(self, name: str) -> None:
        assert self.engine is not None
        status, left = await self.engine.kill()
        if status == -signal.SIGKILL:
            self.killed.deaths[name] += 1
        else:
            self._violated(f"an engine ended with status {status}, and was not killed")
        self._look(left)

    # The pipeline

    async def _kill_pipelines(self, deaths: Iterable[PipelineDeath]) -> None:
        await self.start_pipeline()
        for death in deaths:
            await self._strike(death)
            self._look([])
            if self.killed.violations or self._is_late():
                return

    async def start_pipeline(self) -> None:
        """Start the pipeline."""
        process = LivingProcess("tests.spark_bridge.kills.pipeline_life", self.places.written(), self.places.path("pipeline.log"))
        self.pipeline = await process.start()

    async def _strike(self, death: PipelineDeath) -> None:
        if death.starts:
            await self.until_true(lambda: self.member(CHILD if death.victim != "jvm" else JVM) is not None, f"a process for {death}")
            await asyncio.sleep(death.secs)
        else:
            await self.progress(death.query)
            await asyncio.sleep(death.secs)
        match death.victim:
            case "pipeline":
                assert self.pipeline is not None
                _, left = await self.pipeline.kill()
                self._look(left)
                await self.start_pipeline()
            case "child" | "jvm":
                await self._kill_member(CHILD if death.victim == "child" else JVM)
            case "point":
                assert death.point is not None
                await self._die_at(death.point, death.query)
            case other:
                await self.until_true(self._cluster[other], f"one to kill: {other}")
        self.killed.deaths[death.name] += 1

    async def _kill_member(self, marking: str) -> None:
        """Kill Spark's child or its JVM. Both end together."""
        child, pid = self.member(CHILD), self.member(marking)
        if pid is None:
            raise NotInTime(f"no process of {marking} is there to be killed")
        os.kill(pid, signal.SIGKILL)
        await self.until_true(lambda: self.member(CHILD) not in (None, child), "another child of Spark")

    async def _die_at(self, point: str, query: str) -> None:
        child = self.member(CHILD)
        choose(self.places.path(""), point, query)
        await self.until_true(lambda: not is_chosen(self.places.path(""), query), f"{query} at the point {point!r}")
        if point in IN_DRIVER:
            await self.until_true(lambda: self.member(CHILD) not in (None, child), "another child of Spark")

    async def progress(self, query: str) -> None:
        """Wait until a query has finished one more micro-batch."""
        before = self._told(query)
        await self.until_true(lambda: self._told(query) > before, f"a micro-batch of {query}")

    def _told(self, query: str) -> int:
        """Return the number of finished micro-batches of a query."""
        assert self.pipeline is not None
        told: dict[str, Any] = json.loads(self.pipeline.last_line or "{}")
        return int(told.get("queries", {}).get(query, [0])[0])

    def member(self, marking: str) -> int | None:
        """Return the descendant of the pipeline with this text in its command line."""
        assert self.pipeline is not None
        return self.pipeline.family_member(marking)

    async def until_true(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition. Raise NotInTime after the limit, or if the pipeline ends."""
        assert self.pipeline is not None
        pipeline = self.pipeline
        await until(lambda: pipeline.has_ended or condition(), MOST_SECS, what)
        if pipeline.has_ended:
            raise NotInTime(f"the pipeline ended with status {pipeline.process.returncode} while {what} was waited for")

    # The end

    async def finish(self) -> None:
        """Let the rest be handed over and written. Then write further numbers, so that the engine deletes old batches."""
        if self.killed.violations:
            return
        await self._run_engine()
        assert self.pipeline is not None
        self.pipeline.say("finish")
        status = await self.pipeline.ended(MOST_SECS)
        if status != 0:
            raise NotInTime(f"the last pipeline did not end within {MOST_SECS:g} s (status {status})")
        self.killed.violations += await sink_faults(self.places, self.killed.numbers)
        self.killed.violations += position_faults(self.places)
        self.write(MOST_OF_A_BATCH)
        await self._run_engine()
        self.killed.violations += folder_faults(self.places)
        self._look([])
        self.killed.txids = self.newest()

    async def _run_engine(self) -> None:
        engine = self.engine = await self.start_engine(Life(places=self.places, batch=LAST_BATCH, stop_at_end=True))
        status = await engine.ended(MOST_SECS)
        if status != 0:
            raise NotInTime(f"the last engine did not end within {MOST_SECS:g} s (status {status})")

    async def end(self) -> None:
        """End all running processes."""
        for process in (self.engine, self.pipeline):
            if process is not None:
                await process.kill()

    async def _wait_for(self, condition: Callable[[], bool], secs: float) -> None:
        with suppress(NotInTime):
            await until(condition, secs, "")

    def _look(self, left: list[int]) -> None:
        """Add the faults of this moment."""
        self.killed.violations += self._watch.faults()
        if left:
            self._violated(f"the processes {left} outlived the one that had started them")

    def _violated(self, text: str) -> None:
        tails = [(name, self.places.path(name)) for name in ("engine.log", "pipeline.log", "spark.log")]
        said = "\n".join(f"{name}: …{path.read_text(errors='replace')[-TAIL_CHARACTERS:]}" for name, path in tails if path.exists())
        self.killed.violations.append(f"{text}\n{said}")
