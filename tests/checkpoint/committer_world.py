"""A committer at the end of a simulated topology with state, and its target, which outlives the processes (EO-9)."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from engine import TopologyBuilder, Tuple
from engine.checkpoint.machine import Record
from engine.errors import StateUnavailable
from engine.transactional import BadRows, Committer
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.values import MemoryValues, ReduceInto
from tests.checkpoint.slow_store import Conditions, StoreStrike
from tests.checkpoint.world import Chance, World, number_of

NAME: Final = "out"
STEPS: Final = ("before publish", "after publish", "before stage", "after stage", "before fold", "before write", "after write")
MOST_REFUSED: Final = 2
"""Rows that the target names at once, so that it refuses some intervals several times."""
ROWS_PER_PIECE: Final = 3

Kind: TypeAlias = Literal["rows", "pieces", "values"]
"""The engine stages the rows, the committer stages them itself, or they are counted in a map of values."""


class TargetError(Exception):
    """The target of a committer fails by chance."""


@dataclass(frozen=True)
class CommitterPlan:
    """The committer of a topology."""

    kind: Kind
    inputs: Mapping[str, str]
    """Groupings by component."""
    retries: int
    refuses_every: int
    """The target refuses one message in so many; 0 is none."""

    def refuses(self, message: str) -> bool:
        """Tell whether the target refuses the rows of a message."""
        return self.refuses_every > 0 and number_of(message) % self.refuses_every == 1

    def expected(self, world: World, message: str) -> int:
        """Return how many rows of a message arrive."""
        return sum(world.expected(each, message) for each in self.inputs)


@dataclass(frozen=True)
class CommitterFaults:
    """Faults of a committer in one process."""

    fails: float = 0.0
    """Chance that a step of publishing raises."""
    strikes: tuple[StoreStrike, ...] = ()
    kills: tuple[tuple[float, tuple[str | None, int]], ...] = ()


NO_FAULTS: Final = CommitterFaults()


def draw_committer(draws: random.Random, world: World) -> CommitterPlan:
    """Draw a committer behind the last bolt, and maybe behind others or a source."""
    kinds: list[Kind] = ["rows", "rows", "pieces", "values"]
    kind = draws.choice(kinds)
    others = [source.name for source in world.sources] + [bolt.name for bolt in world.bolts[:-1]]
    inputs = [world.bolts[-1].name, *draws.sample(others, draws.choice([0, 0, 1, min(2, len(others))]))]
    groupings = {each: "fields" if kind == "values" else draws.choice(["fields", "shuffle", "load_aware", "global"]) for each in inputs}
    refuses_every = draws.choice([0, 2, 7]) if kind == "rows" else 0
    return CommitterPlan(kind, groupings, draws.choice([0, 0, 2]), refuses_every)


def draw_faults(draws: random.Random) -> CommitterFaults:
    """Draw the faults of one process: deaths of the committer's tasks or of the whole process around each step, and failures."""
    span = draws.choice([0.5, 2.0, 20.0])
    return CommitterFaults(
        fails=draws.choice([0.0, 0.1, 0.4]),
        strikes=tuple(_drawn_strike(draws) for _ in range(draws.choice([0, 1, 2]))),
        kills=tuple((span * draws.random() ** 2, (NAME, draws.randrange(3))) for _ in range(draws.choice([0, 0, 1]))),
    )


def _drawn_strike(draws: random.Random) -> StoreStrike:
    step = draws.choice(STEPS[:2]) if draws.random() < 0.6 else draws.choice(STEPS)
    return StoreStrike(step, draws.randint(1, 8), draws.choice([NAME, NAME, None]), draws.randrange(3))


@dataclass
class Target:
    """What is published, by attempt and task. An attempt that comes again changes nothing, and any other attempt adds its rows."""

    plan: CommitterPlan
    record: Callable[[], Record]
    """Returns the saved record."""
    add_violation: Callable[[str], None]
    published: dict[tuple[int, int, int, int], list[str]] = field(default_factory=dict)
    """Rows by txid, attempt id, task index and number of tasks."""
    values: MemoryValues = field(default_factory=MemoryValues)
    draws: random.Random = field(default_factory=random.Random)
    chance: Chance = field(default_factory=Chance)
    conditions: Conditions = field(default_factory=lambda: Conditions(random.Random()))
    faults: CommitterFaults = NO_FAULTS

    def begins(self, draws: random.Random, chance: Chance, conditions: Conditions, faults: CommitterFaults) -> None:
        """Begin a process."""
        self.draws, self.chance, self.conditions, self.faults = draws, chance, conditions, faults

    def declare(self, builder: TopologyBuilder, tasks: int) -> None:
        """Declare the committer."""
        kinds: dict[Kind, Any] = {"rows": lambda: Rows(self), "pieces": lambda: Pieces(self), "values": Counts(self)}
        declarer = builder.set_committer(NAME, kinds[self.plan.kind], tasks, retries=self.plan.retries)
        for source, grouping in self.plan.inputs.items():
            if grouping == "fields":
                declarer.fields_grouping(source, "message")
            else:
                getattr(declarer, f"{grouping}_grouping")(source)

    @property
    def is_map(self) -> bool:
        """True if the rows are counted in a map of values, which can be read between two processes only."""
        return self.plan.kind == "values"

    def counted(self) -> Counter[str]:
        """Return how many rows of each message are published."""
        if self.is_map:
            return asyncio.run(self._read_values())
        return Counter(row for rows in self.published.values() for row in rows)

    async def _read_values(self) -> Counter[str]:
        async with self.values.reader() as reader:
            return Counter({message: count async for message, count in reader.items()})

    # Called by the committers

    @property
    def newest_txid(self) -> int:
        """The newest txid that a task has published, 0 before the first."""
        return max((txid for txid, *_ in self.published), default=0)

    def takes(self) -> None:
        """Raise by chance after a row was taken."""
        if self.chance.fails_now():
            raise TargetError("by chance")

    async def reach(self, step: str) -> None:
        """Take time at a step of publishing, and maybe fail or die."""
        try:
            await self.conditions.step(step)
        except StateUnavailable as error:
            raise TargetError("the target did not answer") from error
        if self.draws.random() < self.faults.fails:
            raise TargetError(f"by chance {step}")

    def check(self, attempt: TransactionAttempt) -> None:
        """Add a violation unless the record has decided to commit the attempt."""
        record = self.record()
        if (record.phase, record.txid + 1) != ("committing", attempt.txid):
            self.add_violation(f"{attempt} is published while the saved record is {record}")
        elif record.prepared_round != attempt.attempt_id:
            self.add_violation(f"{attempt} is published, which is not the attempt that is committed: the saved record is {record}")

    def write(self, committer: Committer, rows: list[str]) -> None:
        """Publish the rows of an attempt. Raises BadRows for some of those that the target refuses."""
        self.check(committer.attempt)
        if bad := [number for number, row in enumerate(rows) if self.plan.refuses(row)]:
            raise BadRows("the target refuses them", rows=bad[:MOST_REFUSED])
        place = (*committer.attempt, committer.context.task_index, committer.context.tasks)
        if (before := self.published.setdefault(place, list(rows))) != rows:
            self.add_violation(f"task {place[2]} of {place[3]} publishes {rows} as {committer.attempt}, and has published {before}")


class Rows(Committer):
    """Publishes its rows, which the engine stages."""

    refuses_gaps = True

    def __init__(self, target: Target) -> None:
        self.target = target
        self.taken: list[str] = []

    def execute(self, tup: Tuple) -> None:
        self.taken.append(tup["message"])
        self.target.takes()

    async def finish_batch(self) -> None:  # type: ignore[override]
        await self.write(self.taken)

    async def write(self, rows: list[str]) -> None:
        """Publish rows, and maybe raise before or after it."""
        await self.target.reach("before publish")
        self.target.write(self, rows)
        await self.target.reach("after publish")

    def published_txid(self) -> int:
        """Return the newest txid in the target."""
        return self.target.newest_txid


class Pieces(Rows):
    """Stages its rows itself, in pieces."""

    def stage(self) -> Iterator[list[str]]:
        """Yield the rows in pieces."""
        for first in range(0, len(self.taken), ROWS_PER_PIECE):
            yield self.taken[first : first + ROWS_PER_PIECE]

    async def publish(self, pieces: Iterable[list[str]]) -> None:
        """Publish the pieces."""
        await self.write([row for piece in pieces for row in piece])


@dataclass(frozen=True)
class Counts:
    """Makes committers that count the rows of each message in a map of values, and fail like the others."""

    target: Target

    def create(self) -> Any:
        """Return a new committer."""
        target, made = self.target, ReduceInto(self.target.values, key="message").create()
        execute, publish = made.execute, made.publish

        def take(tup: Tuple) -> None:
            execute(tup)
            target.takes()

        async def publish_with_faults(pieces: Any) -> None:
            await target.reach("before publish")
            target.check(made.attempt)
            await publish(pieces)
            await target.reach("after publish")

        made.execute, made.publish = take, publish_with_faults  # type: ignore[method-assign]
        return made
