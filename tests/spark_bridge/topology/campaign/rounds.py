"""One round: kills around one topology on Spark again and again, restarts engines, and compares the counts."""

import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tests.kills.bolt_forms import strike_bolt_process
from tests.servers.keeper import command_line, descendants
from tests.servers.spark_cluster import SparkCluster
from tests.spark_bridge.kills.processes import CHILD, JVM, LivingProcess, NotInTime, until
from tests.spark_bridge.topology.campaign import striking
from tests.spark_bridge.topology.campaign.judge import faults_of
from tests.spark_bridge.topology.campaign.places import FILES, STRUCK, Life, Places
from tests.spark_bridge.topology.campaign.plan import Death

MOST_SECS = 240.0
"""Longest time until the next job is done."""
STEP_SECS = 60.0
"""Longest time until a step or point is reached. After it, the engine dies anywhere."""
LAST_BATCH = 5_000
TAIL_CHARACTERS = 3000


@dataclass
class Killed:
    """Result of a round."""

    deaths: Counter[str] = field(default_factory=Counter)
    """Counts by victim, and by step or point."""
    lives: int = 0
    violations: list[str] = field(default_factory=list)


class KilledCluster:
    """The processes of one round."""

    def __init__(self, places: Places, lines: Sequence[str], cluster: SparkCluster | None, is_late: Callable[[], bool]) -> None:
        self.places = places
        self.killed = Killed()
        self._lines = lines
        self._cluster = cluster
        self._is_late = is_late
        self._engine: LivingProcess | None = None

    async def play(self, deaths: Iterable[Death]) -> Killed:
        """Kill all of them, let the last process finish, and judge."""
        self._write_lines()
        try:
            for death in deaths:
                if self._is_late() or not await self._die(death):
                    break
            await self._finish()
        except NotInTime as fault:
            self._violated(str(fault))
        finally:
            await self._end_engine()
        return self.killed

    def _write_lines(self) -> None:
        self.places.path("lines").mkdir()
        for number in range(FILES):
            text = "".join(f"{line}\n" for line in self._lines[number::FILES])
            self.places.path(f"lines/{number}.txt").write_text(text)

    # Deaths

    async def _die(self, death: Death) -> bool:
        """Let one victim die. Return False if the topology is complete."""
        if death.at is not None and death.victim not in striking.VICTIMS:
            await self._die_at_step(death)
        else:
            if not await self._progress() or not await self._wait(death.secs):
                return False
            await self._strike(death)
        engine = self._engine
        return engine is None or not engine.has_ended or engine.process.returncode == -signal.SIGKILL

    async def _die_at_step(self, death: Death) -> None:
        """Start an engine that dies, or kills the victim, when it comes to the step."""
        await self._end_engine()
        engine = await self._start(Life(places=self.places, step=death.at, number=death.number, victim=death.victim))
        struck = self.places.path(STRUCK)
        with suppress(NotInTime):
            await until(lambda: engine.has_ended or struck.exists(), STEP_SECS, "")
        if engine.has_ended and engine.process.returncode == 0:
            return
        if death.victim == "engine":
            if not engine.has_ended:
                self._violated(f"an engine did not come to the step {death.at!r}")
            await self._end_engine(death.name)
        elif struck.exists():
            struck.unlink()
            self._count(death.name)
        else:
            self._violated(f"{death.name}: nothing was struck")

    async def _strike(self, death: Death) -> None:
        match death.victim:
            case "engine":
                await self._end_engine(death.name)
                return
            case "child" | "jvm":
                struck = self._kill_first(self._members(CHILD if death.victim == "child" else JVM))
            case "python worker" if death.at is None:
                struck = self._kill_first(self._python_workers())
            case "committer":
                engine = self._engine
                struck = engine is not None and strike_bolt_process(engine.process.pid, random.Random(death.secs), [signal.SIGKILL])
            case "executor" if self._cluster is not None:
                struck = self._kill_first(self._cluster.executors())
            case "worker daemon" if self._cluster is not None:
                struck = self._kill_first(self._cluster.workers())
            case _:
                assert death.at is not None
                striking.choose(self.places.path(""), death.at, death.victim)
                with suppress(NotInTime):
                    await until(lambda: self._has_ended or not striking.is_chosen(self.places.path("")), STEP_SECS, "")
                struck = not striking.forget(self.places.path(""))
        if struck:
            self._count(death.name)

    def _count(self, name: str) -> None:
        self.killed.deaths[name] += 1
        print(f"    killed: {name}", flush=True)

    def _kill_first(self, pids: Sequence[int]) -> bool:
        """Kill a process. Return False if there is none."""
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    def _members(self, marking: str) -> list[int]:
        engine = self._engine
        family = [] if engine is None or engine.has_ended else descendants(engine.process.pid)
        return [pid for pid in family if marking in command_line(pid)]

    def _python_workers(self) -> list[int]:
        """Return the Python workers, and their daemons behind them."""
        if self._cluster is None:
            return self._members("pyspark.daemon")[::-1]
        return [
            pid for pid in descendants(self._cluster.process.pid) if "pyspark" in command_line(pid) and "java" not in command_line(pid)
        ][::-1]

    # The engine

    @property
    def _has_ended(self) -> bool:
        return self._engine is None or self._engine.has_ended

    async def _start(self, life: Life) -> LivingProcess:
        self.killed.lives += 1
        module = "tests.spark_bridge.topology.campaign.life"
        self._engine = await LivingProcess(module, life.written(), self.places.path("engine.log")).start()
        return self._engine

    async def _progress(self) -> bool:
        """Wait until one more job is done, in a new process if there is none. Return False if the topology is complete."""
        if self._engine is None or self._has_ended:
            await self._end_engine()
            await self._start(Life(places=self.places))
        engine = self._engine
        assert engine is not None
        before = engine.last_line
        await until(lambda: engine.has_ended or engine.last_line not in (before, "0", ""), MOST_SECS, "the next job")
        return not self._ended_by_itself()

    async def _wait(self, secs: float) -> bool:
        with suppress(NotInTime):
            await until(lambda: self._has_ended, secs, "")
        return not self._ended_by_itself()

    def _ended_by_itself(self) -> bool:
        if not self._has_ended:
            return False
        assert self._engine is not None
        if (status := self._engine.process.returncode) != 0:
            self._violated(f"an engine ended with status {status}, and was not killed")
        return True

    async def _finish(self) -> None:
        """Run to the end in large batches, and judge."""
        await self._end_engine()
        if self.killed.violations:
            return
        engine = await self._start(Life(places=self.places, batch=LAST_BATCH))
        status = await engine.ended(MOST_SECS)
        if status != 0:
            raise NotInTime(f"the last engine did not end within {MOST_SECS:g} s (status {status})")
        self.killed.violations += await faults_of(self.places, self._lines)

    async def _end_engine(self, name: str | None = None) -> None:
        """Kill the engine if it runs. It is counted if it has a name."""
        engine, self._engine = self._engine, None
        if engine is None:
            return
        status, left = await engine.kill()
        if name is not None and status == -signal.SIGKILL:
            self._count(name)
        if left:
            self._violated(f"the processes {left} outlived the engine")
        if status not in (0, -signal.SIGKILL):
            self._violated(f"an engine ended with status {status}")

    def _violated(self, text: str) -> None:
        tails = [(name, self.places.path(name)) for name in ("engine.log", "spark.log")]
        said = "\n".join(f"{name}: …{path.read_text(errors='replace')[-TAIL_CHARACTERS:]}" for name, path in tails if path.exists())
        self.killed.violations.append(f"{text}\n{said}")
