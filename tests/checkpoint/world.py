"""A topology in which any loss is visible: sources replay, and stateful bolts remember every message that they counted."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any, Final

from engine import (
    BasicBolt,
    Burst,
    BurstBolt,
    FailTuple,
    Fields,
    Spout,
    SpoutExhausted,
    StatefulBolt,
    TaskContext,
    TopologyBuilder,
    Tuple,
)
from engine.event_time import NO_WATERMARK, EventTime
from tests.checkpoint.model import Layout, Witness

KEYS: Final = 5
MOST_FAILURES: Final = 60
"""Inputs that fail by chance in one process."""
STREAMS: Final = {"default": Fields("key", "message"), "direct": Fields("key", "message", direct=True)}


@dataclass
class Source:
    """Messages `name:0` to `name:n-1`, each emitted until it is acked. It outlives the instances of its spout, and the process."""

    name: str
    waiting: list[str]
    open: set[str] = field(default_factory=set)
    emitted: Counter[str] = field(default_factory=Counter)
    acked: Counter[str] = field(default_factory=Counter)
    replayed: set[str] = field(default_factory=set)
    is_gone: bool = False
    """The process was killed, so calls of its spout are ignored."""
    on_acked: Callable[[str], None] = lambda message: None
    """Called at each ack."""
    pace_secs: float = 0.0
    """Average pause between two messages, so that some arrive during a checkpoint."""
    draws: random.Random = field(default_factory=random.Random)
    rewinds: bool = False
    """Its spout can seek, so each message is counted exactly once, whatever fails (EO-1)."""
    has_ids: bool = False
    """The messages of a spout that can seek have message ids."""
    committed: int = 0
    """Position that the spout was last told."""

    is_timed: bool = False
    """Its messages have event times."""
    waits_for_acks: bool = True
    """False: only the order of marks and messages keeps the watermark behind the messages. So nothing may fail."""
    repeated: set[str] = field(default_factory=set)
    """Messages that were open when an instance died. Their effects may stand, and the watermark may have passed them."""

    def again(self, message: str) -> None:
        """Queue a message to be emitted again."""
        self.open.discard(message)
        self.replayed.add(message)
        self.waiting.append(message)


class ReplayingSpout(Spout):
    """Emits the messages of its source, a few at a time."""

    output_fields = STREAMS["default"]

    def __init__(self, source: Source) -> None:
        self.source = source
        self.due = 0.0

    def open(self) -> None:
        self.source.repeated |= self.source.open
        for message in sorted(self.source.open):  # an earlier instance died
            self.source.again(message)
        if self.source.is_timed:  # nobody knows what comes again, so it comes in order
            self.source.waiting.sort(key=number_of)

    def next_tuple(self) -> None:
        if not self.source.waiting or self.source.is_gone:
            raise SpoutExhausted
        if self.source.pace_secs:
            now = self.context.clock.now()
            if now < self.due:
                return
            self.due = now + self.source.pace_secs * self.source.draws.expovariate(1)
        message = self.source.waiting.pop(0)
        self.source.open.add(message)
        self.source.emitted[message] += 1
        self.collector.emit((number_of(message) % KEYS, message), message)

    def ack(self, message_id: Any) -> None:
        if not self.source.is_gone:
            self.source.open.discard(message_id)
            self.source.acked[message_id] += 1
            self.source.on_acked(message_id)

    def fail(self, message_id: Any) -> None:
        if not self.source.is_gone:
            self.source.again(message_id)


class SeekingSpout(Spout):
    """Emits the messages of its source from a position."""

    output_fields = STREAMS["default"]

    def __init__(self, source: Source, messages: int) -> None:
        self.source, self.messages = source, messages
        self.due = 0.0

    def seek(self, position: int | None) -> None:
        self.next = position or 0

    def position(self) -> int:
        return self.next

    def committed(self, position: int) -> None:
        if not self.source.is_gone:
            self.source.committed = position

    def next_tuple(self) -> None:
        if self.next == self.messages or self.source.is_gone:
            raise SpoutExhausted
        if self.source.pace_secs:
            now = self.context.clock.now()
            if now < self.due:
                return
            self.due = now + self.source.pace_secs * self.source.draws.expovariate(1)
        message = f"{self.source.name}:{self.next}"
        self.next += 1
        self.source.emitted[message] += 1
        self.collector.emit((number_of(message) % KEYS, message), message if self.source.has_ids else None)


def number_of(message: str) -> int:
    """Number in the name of a message."""
    return int(message.split(":")[1])


class MessageTime(EventTime):
    """The time of a message: its number in seconds, less up to 4 s, so that times do not come in order."""

    def micros(self, value: Any) -> int:
        return time_of(value)


BOUND_SECS: Final = 5


def time_of(message: str) -> int:
    """Time of a message in microseconds."""
    number = number_of(message)
    return (number - number * 7919 % BOUND_SECS) * 1_000_000


@dataclass
class Chance:
    """Random behaviour of the bolts."""

    draws: random.Random = field(default_factory=random.Random)
    fails: float = 0.0
    """Chance that an input is failed, or that its call raises FailTuple."""
    waits: float = 0.0
    """Chance that a hook or an async call waits."""
    longest_secs: float = 1.0
    """Longest wait."""
    early: random.Random | None = None
    """Draws the messages that stateless bolts fail, each a few times. Those that have reached no state are retried alone."""
    fails_left: dict[tuple[str, str], int] = field(default_factory=dict)
    """How often a bolt still fails a message."""

    failures: int = 0
    on_late: Callable[[str | None, str], None] = print
    """Called for each message that a watermark has passed, and for a watermark that falls (None)."""
    watermarks: dict[tuple[str, int], int] = field(default_factory=dict)
    """The watermark of each instance in this process."""

    def fails_now(self) -> bool:
        """Tell whether an input fails. There is an end of it, because an interval that fails as a whole is repeated without a bound."""
        fails = self.draws.random() < self.fails and self.failures < MOST_FAILURES
        self.failures += fails
        return fails

    def fails_early(self, component_id: str, message: str) -> bool:
        """Tell whether a stateless bolt fails a message now."""
        if self.early is None:
            return False
        name = (component_id, message)
        if name not in self.fails_left:
            self.fails_left[name] = self.early.choice([0, 0, 0, 0, 0, 0, 1, 4])
        self.fails_left[name] -= 1
        return self.fails_left[name] >= 0

    async def wait(self) -> None:
        """Wait for a random time."""
        if self.draws.random() < self.waits:
            await asyncio.sleep(self.longest_secs * self.draws.random() ** 3)


class Watching:
    """Part of a bolt that checks that no message comes behind a watermark that has passed it (ET-1)."""

    chance: Chance
    context: TaskContext
    watermark = NO_WATERMARK

    def prepare(self) -> None:
        self.forget_watermark()

    def forget_watermark(self) -> None:
        """Start anew. The sources send the watermark of the commit again."""
        self.watermark = self.chance.watermarks[self.context.component_id, self.context.task_index] = NO_WATERMARK

    def pass_watermark(self, watermark: int) -> Iterator[None]:
        if watermark <= self.watermark:
            text = f"{self.context.component_id}: the watermark falls from {self.watermark} to {watermark} (ET-1)"
            self.chance.on_late(None, text)
        self.watermark = self.chance.watermarks[self.context.component_id, self.context.task_index] = watermark
        return iter([None])

    def watch(self, tup: Tuple) -> None:
        """Check one message."""
        if time_of(tup["message"]) < self.watermark:
            where = f"{self.context.component_id}[{self.context.task_index}] at {self.context.clock.now():g} s"
            text = f"{where}: {tup['message']} comes behind the watermark {self.watermark / 1e6:g} s (ET-1)"
            self.chance.on_late(tup["message"], text)


class PassOn(Watching, BasicBolt):
    """Passes on its input: to one task of each direct subscriber, and to the others."""

    output_fields = STREAMS

    def __init__(self, chance: Chance | None = None, direct: Sequence[str] = ()) -> None:
        self.chance, self.direct = chance or Chance(), direct

    def execute(self, tup: Tuple) -> Any:
        self.watch(tup)
        if self.chance.fails_now() or self.chance.fails_early(self.context.component_id, tup["message"]):
            raise FailTuple
        for task in chosen_tasks(self.context, self.direct, tup):
            self.collector.emit_direct(task, tup.values, "direct")
        return tup.values


class PassOnLater(PassOn):
    """Passes on its input later, while others overtake it."""

    async def execute(self, tup: Tuple) -> Any:
        await self.chance.wait()
        return super().execute(tup)


def chosen_tasks(context: TaskContext, components: Sequence[str], tup: Tuple) -> list[int]:
    """Choose one task of each component."""
    return [tasks[number_of(tup["message"]) % len(tasks)] for tasks in map(context.task_ids, components)]


class TwoTasks:
    """A custom grouping: two neighbouring tasks, if there are two."""

    def prepare(self, context: TaskContext, stream: str, targets: Sequence[int]) -> None:
        self.targets = targets

    def choose_tasks(self, source_task: int, values: Sequence[Any]) -> Sequence[int]:
        first = number_of(values[1])
        return sorted({self.targets[each % len(self.targets)] for each in (first, first + 1)})


class Remember(Watching, StatefulBolt):
    """Keeps every message by key, in a list that it changes in place. The state must cope with that."""

    output_fields = STREAMS

    def __init__(self, witness: Witness, chance: Chance | None = None, direct: Sequence[str] = ()) -> None:
        self.witness, self.chance, self.direct = witness, chance or Chance(), direct

    def init_state(self, state: Any) -> Awaitable[None]:
        self.state = state
        self.task = (self.context.component_id, self.context.task_index)
        self.witness.initialised(self.task, state)
        return self.chance.wait()

    def execute(self, tup: Tuple) -> None:
        self.witness.touches(self.task)
        self.watch(tup)
        if self.chance.fails_now():
            self.collector.fail(tup)
            return
        self.count(tup["key"], tup["message"])
        self.tell(tup, tup)
        self.collector.ack(tup)

    def tell(self, tup: Tuple, anchors: Any) -> None:
        """Pass on a message."""
        self.collector.emit(tup.values, anchors)
        for task in chosen_tasks(self.context, self.direct, tup):
            self.collector.emit_direct(task, tup.values, anchors, "direct")

    def count(self, key: Any, message: str) -> None:
        """Add a message to the list of its key."""
        seen = self.state.get(key, [])
        seen.append(message)
        self.put(key, seen)

    def put(self, key: Any, value: Any) -> None:
        """Change the state; None deletes."""
        if value is None:
            self.state.delete(key)
        else:
            self.state.put(key, value)
        self.witness.changed(self.task, key, value)

    async def pre_prepare(self, txid: int) -> None:
        await self.chance.wait()
        self.witness.prepares(self.task, txid)

    async def pre_commit(self, txid: int) -> None:
        self.witness.commits(self.task, txid)
        await self.chance.wait()
        self.witness.has_committed(self.task, txid)

    async def pre_rollback(self) -> None:
        self.witness.rolls_back(self.task)
        self.forget_watermark()
        await self.chance.wait()


class Tells(Remember):
    """Passes on its messages without an anchor, as a window does with its results. So no source knows what becomes of them (EO-6)."""

    def tell(self, tup: Tuple, anchors: Any) -> None:
        super().tell(tup, ())


class RememberByParts(Remember):
    """Has keys of two parts, grouped by the second one; some keys come and go."""

    def key_of(self, key: Any) -> Any:
        return key[1]

    def count(self, key: Any, message: str) -> None:
        super().count(("seen", key), message)
        self.put(("last", key), None if number_of(message) % 4 == 0 else message)

    async def pre_prepare(self, txid: int) -> None:
        self.witness.touches(self.task)
        for key in [key for key, _ in self.state.items() if key[0] == "last"]:
            self.put(key, f"at {txid}")  # a value that is made here belongs to txid
        await super().pre_prepare(txid)


class RememberMany(Remember, BurstBolt):
    """Counts the tuples of a burst. Sometimes it raises after all changes, which are then undone, and the tuples run again one by one."""

    execute = BurstBolt.execute

    def execute_many(self, burst: Burst) -> None:
        self.witness.touches(self.task)
        self.changes: list[tuple[Any, Any]] = []
        for tup in burst:
            self.watch(tup)
            if self.chance.fails_now():
                burst.fail(tup)
                continue
            self.count(tup["key"], tup["message"])
            self.collector.emit_many([tup.values], tup)
            for task in chosen_tasks(self.context, self.direct, tup):
                self.collector.emit_direct(task, tup.values, tup, "direct")
        if len(burst) > 1 and self.chance.fails_now():
            raise FailTuple
        for key, value in self.changes:
            self.witness.changed(self.task, key, value)

    def put(self, key: Any, value: Any) -> None:
        self.state.put(key, value)
        self.changes.append((key, list(value)))


class PassOnMany(Watching, BurstBolt):
    """Passes on the tuples of a burst."""

    output_fields = STREAMS

    def __init__(self, chance: Chance | None = None, direct: Sequence[str] = ()) -> None:
        self.chance, self.direct = chance or Chance(), direct

    def execute_many(self, burst: Burst) -> None:
        for tup in burst:
            self.watch(tup)
            if self.chance.fails_now() or self.chance.fails_early(self.context.component_id, tup["message"]):
                burst.fail(tup)
                continue
            self.collector.emit_many([tup.values], tup)
            for task in chosen_tasks(self.context, self.direct, tup):
                self.collector.emit_direct(task, tup.values, tup, "direct")


@dataclass(frozen=True)
class BoltPlan:
    """One bolt of a random topology, with its inputs and their groupings."""

    name: str
    kind: type[Remember] | type[PassOn] | type[PassOnMany]
    tasks: int
    inputs: Mapping[str, str]
    processes: bool = False

    @property
    def keeps(self) -> bool:
        """Whether it is stateful."""
        return issubclass(self.kind, Remember)

    @property
    def is_keyed(self) -> bool:
        """Whether its state is distributed by key."""
        return set(self.inputs.values()) == {"fields"}

    def copies(self, source: str) -> int:
        """Number of tasks that get each tuple of a source."""
        return {"all": self.tasks, "custom": min(2, self.tasks)}.get(self.inputs[source], 1)


@dataclass
class World:
    """One topology with its sources, through all its processes, and the expected counts of each bolt."""

    sources: list[Source]
    bolts: list[BoltPlan]
    messages: int

    def __post_init__(self) -> None:
        self.paths: dict[str, Counter[str]] = {source.name: Counter({source.name: 1}) for source in self.sources}
        """By component: how often the messages of each source arrive there."""
        for bolt in self.bolts:
            self.paths[bolt.name] = Counter()
            for each in bolt.inputs:
                self.paths[bolt.name].update({name: count * bolt.copies(each) for name, count in self.paths[each].items()})

    @property
    def stateful(self) -> list[BoltPlan]:
        """Bolts with state."""
        return [bolt for bolt in self.bolts if bolt.keeps]

    @property
    def all_messages(self) -> list[str]:
        """All messages."""
        return [f"{source.name}:{number}" for source in self.sources for number in range(self.messages)]

    def expected(self, component_id: str, message: str) -> int:
        """Expected count of a message that never failed."""
        return self.paths[component_id][message.split(":")[0]]

    def layouts(self, tasks: Mapping[str, int], key_groups: int) -> dict[str, Layout]:
        """Layout of the states in a process with these numbers of tasks."""
        return {
            bolt.name: Layout(tasks[bolt.name], bolt.is_keyed, key_groups, key_of=part_of if bolt.kind is RememberByParts else whole)
            for bolt in self.stateful
        }

    def builder(self, tools_of: Callable[[BoltPlan], tuple[Witness, Chance]], tasks: Mapping[str, int]) -> TopologyBuilder:
        """Declare the topology of one process of the run. `tools_of` returns the witness and the chance of a bolt."""
        builder = TopologyBuilder("world")
        for source in self.sources:
            make_spout = partial(SeekingSpout, source, self.messages) if source.rewinds else partial(ReplayingSpout, source)
            times = MessageTime(
                "message", max_out_of_order=timedelta(seconds=BOUND_SECS), idle_secs=1e6, hold_secs=1e6, wait_for_acks=source.waits_for_acks
            )
            builder.set_spout(source.name, make_spout, event_time=times if source.is_timed else None)
        for bolt in self.bolts:
            direct = [each.name for each in self.bolts if each.inputs.get(bolt.name) == "direct"]
            witness, chance = tools_of(bolt)
            kept: tuple[Any, ...] = (witness,) if issubclass(bolt.kind, Remember) else ()
            kind: Any = bolt.kind
            make: Any = partial(kind, *kept, chance, direct)
            settings: dict[str, Any] = {"processes": bolt.processes} | ({"concurrency": 3} if bolt.kind is PassOnLater else {})
            declarer = builder.set_bolt(bolt.name, make, parallelism=tasks[bolt.name], **settings)
            for source_id, grouping in bolt.inputs.items():
                match grouping:
                    case "fields" | "partial_key":
                        getattr(declarer, f"{grouping}_grouping")(source_id, "key")
                    case "custom":
                        declarer.custom_grouping(source_id, TwoTasks)
                    case "direct":
                        declarer.direct_grouping(source_id, "direct")
                    case _:
                        getattr(declarer, f"{grouping}_grouping")(source_id)
        return builder


def whole(key: Any) -> Any:
    """Grouping key of a plain key."""
    return key


def part_of(key: Any) -> Any:
    """Grouping key of a key of two parts."""
    return key[1]


GROUPINGS: Final = ("shuffle", "local_or_shuffle", "load_aware", "partial_key", "global", "all", "custom", "direct")
MOST_COPIES: Final = 12


def draw_world(draws: random.Random, messages: int) -> World:
    """Draw a DAG with one to three spouts and up to three layers of bolts, at least one stateful.

    Sometimes it has one of two special shapes instead.
    """
    sources = [Source(f"s{index}", [f"s{index}:{n}" for n in range(messages)]) for index in range(draws.randint(1, 3))]
    names = [source.name for source in sources]
    bolts: list[BoltPlan] = []
    if draws.random() < 0.1:  # a single task gets everything
        return World(sources, [BoltPlan("b00", Remember, 1, dict.fromkeys(names, "fields"))], messages)
    if draws.random() < 0.15:  # only between two stateful bolts is it visible if a stateless one passes on tuples too early
        return World(sources, _drawn_chain(draws, names), messages)
    depth = draws.randint(1, 3)
    for level in range(depth):
        above = [*names, *(bolt.name for bolt in bolts)]
        for index in range(draws.randint(1, 2)):
            inputs = names if level == index == 0 else draws.sample(above, draws.randint(1, min(3, len(above))))
            keeps = draws.random() < 0.6 or (level == depth - 1 and not any(bolt.keeps for bolt in bolts))
            kind = draws.choice([Remember, RememberByParts, RememberMany] if keeps else [PassOn, PassOnLater, PassOnMany])
            bolts.append(_drawn_bolt(draws, f"b{level}{index}", kind, inputs, World(sources, bolts, messages)))
    return World(sources, bolts, messages)


def behind_a_stateless_bolt(draws: random.Random, world: World) -> World:
    """Return the world with a stateless bolt in front of all others. What it fails has had no effect."""
    sources = {source.name for source in world.sources}
    first = BoltPlan("a00", draws.choice([PassOn, PassOnLater, PassOnMany]), draws.randint(1, 3), dict.fromkeys(sorted(sources), "shuffle"))
    bolts = [first]
    for bolt in world.bolts:
        inputs = {each: grouping for each, grouping in bolt.inputs.items() if each not in sources}
        if len(inputs) < len(bolt.inputs):
            inputs[first.name] = "fields" if bolt.is_keyed else "shuffle"
        bolts.append(replace(bolt, inputs=inputs))
    return World(world.sources, bolts, world.messages)


def _drawn_chain(draws: random.Random, inputs: Sequence[str]) -> list[BoltPlan]:
    """Three bolts in a row, with several tasks each: with state, without state, with state."""
    chain: list[BoltPlan] = []
    kinds: list[Any] = [Remember, draws.choice([PassOn, PassOnLater, PassOnMany]), Remember]
    for index, kind in enumerate(kinds):
        grouping = draws.choice(["fields", "shuffle"])
        chain.append(BoltPlan(f"b{index}0", kind, draws.randint(2, 3), dict.fromkeys(inputs, grouping)))
        inputs = [chain[-1].name]
    return chain


def _drawn_bolt(draws: random.Random, name: str, kind: Any, inputs: Sequence[str], above: World) -> BoltPlan:
    """Draw one bolt. If its inputs would become too many, each goes to one task only."""
    keyed = draws.random() < 0.5
    spouts = {source.name for source in above.sources}
    groupings = {each: "fields" if keyed else draws.choice(GROUPINGS[:-1] if each in spouts else GROUPINGS) for each in inputs}
    bolt = BoltPlan(name, kind, draws.randint(1, 3), groupings)
    copies = sum(max(above.paths[each].values()) * bolt.copies(each) for each in inputs)
    return bolt if copies <= MOST_COPIES else BoltPlan(name, kind, bolt.tasks, dict.fromkeys(inputs, "shuffle"))
