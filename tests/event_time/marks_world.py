"""Random topologies whose rows tell their times, and whose tasks note each row that comes behind a watermark."""

import asyncio
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from engine import BasicBolt, Bolt, BurstBolt, Fields, Spout, SpoutExhausted, StatefulBasicBolt, Tuple
from engine.event_time import END_OF_TIME, NO_WATERMARK

ROW: Final = Fields("at", "number")
KINDS: Final = ("plain", "async", "threads", "burst", "keeps", "retries", "diverts", "unanchored", "stateful", "process")
MICROS: Final = 1_000_000


@dataclass
class PartitionPlan:
    """When a partition of a task has rows, in seconds of the run. Otherwise it is read to its end."""

    name: str
    active: list[tuple[float, float]]

    def is_active(self, now: float) -> bool:
        """Tell whether it has rows now."""
        return any(begin <= now < end for begin, end in self.active)


@dataclass
class TaskPlan:
    """One task of a source."""

    partitions: list[PartitionPlan]
    """The first one always has rows."""
    unknown: list[tuple[float, float]]
    """When the task does not know its partitions."""
    pace_secs: float
    bound_secs: float
    until: float


@dataclass
class World:
    """What the tasks of one run share."""

    draws: random.Random
    fails: float = 0.0
    """Chance that a bolt fails an input, whose source sends it again then."""
    began: float | None = None
    violations: list[str] = field(default_factory=list)
    greatest: dict[tuple[str, int], list[tuple[float, str, int]]] = field(default_factory=dict)
    """By task of a source: its rows, as time of the emit, partition and time of the row."""
    told: dict[tuple[str, int], list[tuple[float, int]]] = field(default_factory=dict)
    """By task of a bolt: the watermarks that its instances were told, and when."""
    last: dict[tuple[str, int], int] = field(default_factory=dict)
    """The last watermark of the last instance."""
    rows: int = 0
    checked: int = 0

    def secs(self, now: float) -> float:
        """Return the seconds since the first call of a spout."""
        if self.began is None:
            self.began = now
        return now - self.began


class Rows(Spout):
    """Emits rows at times near the clock, at most `bound_secs` behind it. It remembers no rows, but for those that have failed."""

    output_fields = ROW

    def __init__(self, world: World, name: str, plans: list[TaskPlan]) -> None:
        self.world, self.name, self.plans = world, name, plans

    def open(self) -> None:
        self.plan = self.plans[self.context.task_index]
        self.draws = random.Random(self.world.draws.random())
        self.due = 0.0
        self.is_active = True
        self.noted = self.world.greatest.setdefault((self.name, self.context.task_index), [])
        self.again: list[tuple[float, Any, Any]] = []

    @property
    def now(self) -> float:
        return self.world.secs(self.context.clock.now())

    def activate(self) -> None:
        self.is_active = True

    def deactivate(self) -> None:
        self.is_active = False

    def partitions(self) -> Any:
        if any(begin <= self.now < end for begin, end in self.plan.unknown):
            return self.UNKNOWN_PARTITIONS
        return [each.name for each in self.plan.partitions]

    def partition_of(self, message_id: Any) -> Any:
        return message_id[0]

    def caught_up(self, partition: Any = None) -> bool | None:
        if not self.is_active or partition == self.plan.partitions[0].name:
            return False
        return not any(each.name == partition and each.is_active(self.now) for each in self.plan.partitions)

    def next_tuple(self) -> None:
        now = self.now
        if self.again and self.again[0][0] <= now:
            _, values, message_id = self.again.pop(0)
            self.collector.emit(values, message_id)
            return
        if now >= self.plan.until:
            if self.again:
                return
            raise SpoutExhausted
        if now < self.due:
            return
        self.due = now + self.plan.pace_secs * self.draws.expovariate(1)
        known = not any(begin <= now < end for begin, end in self.plan.unknown)
        partitions = [each for each in self.plan.partitions if each.is_active(now)] if known else []
        if not partitions:
            return
        partition = self.draws.choice(partitions).name
        at = round((now - self.draws.random() * self.plan.bound_secs) * MICROS)
        self.world.rows += 1
        self.noted.append((now, partition, at))
        self.collector.emit((at, self.world.rows), (partition, at, self.world.rows))

    def fail(self, message_id: Any) -> None:
        if self.world.fails:
            self.again.append((self.now + self.draws.random(), message_id[1:], message_id))


class Checks:
    """A bolt that notes each row behind its watermark, and each watermark that falls."""

    world: World
    name: str
    context: Any
    watermark = NO_WATERMARK

    def pass_watermark(self, watermark: int) -> Iterator[None]:
        if watermark <= self.watermark:
            self.world.violations.append(f"{self.name}: the watermark {watermark} follows {self.watermark}")
        self.watermark = watermark
        key = (self.name, self.context.task_index)
        self.world.told.setdefault(key, []).append((self.world.secs(self.context.clock.now()), watermark))
        self.world.last[key] = watermark
        yield

    def check(self, at: int) -> None:
        self.world.checked += 1
        if at < self.watermark:
            where = f"{self.name} ({type(self).__name__}, task {self.context.task_index})"
            self.world.violations.append(f"{where}: the row of {at} comes behind the watermark {self.watermark}")


class Plain(Checks, Bolt):
    """Emits and acks in its call, or fails the input."""

    output_fields = ROW

    def execute(self, tup: Tuple) -> None:
        self.check(tup["at"])
        if self.world.draws.random() < self.world.fails:
            self.collector.fail(tup)
            return
        self.collector.emit(tup.values, tup)
        self.collector.ack(tup)


class Unanchored(Checks, Bolt):
    """Emits rows that belong to no tree."""

    output_fields = ROW

    def execute(self, tup: Tuple) -> None:
        self.check(tup["at"])
        self.collector.emit(tup.values)
        self.collector.ack(tup)


class Async(Checks, BasicBolt):
    """Waits, so later rows overtake earlier ones."""

    output_fields = ROW
    concurrency = 6

    async def execute(self, tup: Tuple) -> tuple[int, int]:
        self.check(tup["at"])
        await asyncio.sleep(self.world.draws.choice((0.0, 0.01, 0.1, 1.5)))
        return tup["at"], tup["number"]


class Threads(Checks, BasicBolt):
    """Runs its calls in threads."""

    output_fields = ROW
    threads = 3

    def execute(self, tup: Tuple) -> tuple[int, int]:
        self.check(tup["at"])
        if tup["number"] % 29 == 0:
            time.sleep(0.002)
        return tup["at"], tup["number"]


class Bursts(Checks, BurstBolt):
    """Takes bursts."""

    output_fields = ROW

    def execute_many(self, burst: Any) -> None:
        for tup in burst:
            self.check(tup["at"])
            self.collector.emit(tup.values, tup)


class Keeps(Checks, Bolt):
    """Keeps its inputs, and emits for them and settles them in the background, in any order."""

    output_fields = ROW

    def prepare(self) -> None:
        self.kept: list[Tuple] = []
        self.context.create_task(self.settle())

    def execute(self, tup: Tuple) -> None:
        self.check(tup["at"])
        self.kept.append(tup)

    async def settle(self) -> None:
        while True:
            await asyncio.sleep(self.world.draws.random())
            self.world.draws.shuffle(self.kept)
            for _ in range(len(self.kept) - self.world.draws.choice((0, 0, 1))):
                tup = self.kept.pop()
                self.collector.emit(tup.values, tup)
                self.collector.ack(tup)


class Retries(Checks, BasicBolt):
    """Raises now and then, and is called again."""

    output_fields = ROW
    concurrency = 4
    retries = 3

    def prepare(self) -> None:
        self.failed: set[int] = set()

    async def execute(self, tup: Tuple) -> tuple[int, int]:
        self.check(tup["at"])
        await asyncio.sleep(0.01)
        if tup["number"] % 11 == 0 and tup["number"] not in self.failed:
            self.failed.add(tup["number"])
            raise ValueError("again")
        return tup["at"], tup["number"]


class Diverts(Checks, BasicBolt):
    """Diverts some rows, after a while."""

    output_fields = ROW
    on_error = "divert"
    concurrency = 3

    async def execute(self, tup: Tuple) -> tuple[int, int]:
        self.check(tup["at"])
        await asyncio.sleep(self.world.draws.random() / 4)
        if tup["number"] % 7 == 0:
            raise ValueError("diverted")
        return tup["at"], tup["number"]


class Diverted(Checks, Bolt):
    """Gets the diverted rows."""

    def execute(self, tup: Tuple) -> None:
        self.check(tup["values"]["at"])
        self.collector.ack(tup)


class Stateful(Checks, StatefulBasicBolt):
    """Has a state, so barriers close the gates of all tasks, and hold sources."""

    output_fields = ROW

    def execute(self, tup: Tuple) -> tuple[int, int]:
        self.check(tup["at"])
        self.state.put(tup["number"], tup["at"])
        return tup["at"], tup["number"]


class InProcess(BasicBolt):
    """Runs in a child process, where nobody sees watermarks."""

    output_fields = ROW

    def execute(self, tup: Tuple) -> tuple[int, int]:
        return tup["at"], tup["number"]


CLASSES: Final[dict[str, type]] = {
    "plain": Plain,
    "async": Async,
    "threads": Threads,
    "burst": Bursts,
    "keeps": Keeps,
    "retries": Retries,
    "diverts": Diverts,
    "diverted": Diverted,
    "unanchored": Unanchored,
    "stateful": Stateful,
    "process": InProcess,
}


def without_checks(kind: type) -> type:
    """Return the class without `pass_watermark`, so the engine only passes marks on. It cannot check rows."""
    return type(kind.__name__, (kind,), {"pass_watermark": None, "check": lambda self, at: None})


def made(world: World, name: str, kind: str, *, checks: bool) -> Any:
    """Return the factory of a bolt."""
    if kind == "process":
        return InProcess
    chosen = CLASSES[kind] if checks else without_checks(CLASSES[kind])

    def create() -> Any:
        bolt = chosen()
        bolt.world, bolt.name = world, name
        return bolt

    return create


def expected(rows: list[tuple[float, str, int]], plan: TaskPlan, now: float, idle_secs: float) -> int:
    """Return the watermark of a task at a time, if a partition without rows is idle after so many seconds. A plain model (ET-1, ET-3)."""
    if any(begin <= now < end for begin, end in plan.unknown):
        return NO_WATERMARK
    least = END_OF_TIME
    for partition in plan.partitions:
        mine = [(secs, at) for secs, name, at in rows if name == partition.name and secs <= now]
        quiet_since = max([secs for secs, _ in mine] + [end for _, end in (*partition.active, *plan.unknown) if end <= now] + [0.0])
        if not partition.is_active(now) and now - quiet_since >= idle_secs:
            continue
        greatest = max((at for _, at in mine), default=NO_WATERMARK)
        least = min(least, greatest if greatest == NO_WATERMARK else greatest - round(plan.bound_secs * MICROS))
    return least
