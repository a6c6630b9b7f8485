"""Spouts and bolts of a simulated run, which make the mistakes of user code at random."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from engine import (
    BasicBolt,
    Bolt,
    Burst,
    BurstBolt,
    BurstSpout,
    FailTuple,
    Failure,
    Fields,
    Inlet,
    InletClosed,
    InletHandle,
    Spout,
    SpoutExhausted,
    TaskContext,
    Tuple,
    TupleFailed,
    spout,
)
from engine.testing import InjectedError
from tests.simulation.plan import BoltPlan, SpoutPlan
from tests.simulation.world import MessageId, World

FIELDS = Fields("label", "hops")
STREAMS = {"default": FIELDS, "direct": Fields("label", "hops", direct=True)}


class Source(Spout):
    """Emits the numbers of a source that replays them: after a failure or a death, up to `max_tries` times."""

    output_fields = FIELDS

    def __init__(self, world: World, plan: SpoutPlan, hops: int) -> None:
        self.world, self.plan, self.hops = world, plan, hops
        self.count = 0
        self.due = 0.0
        world.note_instance(self)

    def open(self) -> None:
        self.key = (self.context.component_id, self.context.task_index)
        self.book = self.world.books[self.key]
        self.incarnation = self.world.begin_instance(self.book, self.plan.max_tries)
        self.world.note("opened", *self.key)

    def next_tuple(self) -> None:
        now = self.context.clock.now()
        if now < self.due:
            return
        self.due = now + self.plan.pause_secs
        for _ in range(self.plan.batch):
            self.emit_one()
        if self.world.chance(self.plan.error):
            raise InjectedError("next_tuple")

    def emit_one(self) -> None:
        """Emit one number."""
        if not self.book.left:
            raise SpoutExhausted
        number = self.book.left.popleft()
        values = (self.world.label(), self.hops)
        if self.world.chance(self.plan.untracked):
            self.collector.emit(values)
            return
        self.book.tries[number] = self.book.tries.get(number, 0) + 1
        self.count += 1
        message_id: MessageId = (*self.key, self.incarnation, self.count)
        self.collector.emit(values, message_id)
        self.world.note_emit(self.book, message_id, number)

    def ack(self, message_id: Any) -> None:
        self.note_verdict(message_id, None)

    def fail(self, message_id: Any) -> None:
        if self.context.failure is None:
            self.world.add_violation(f"{message_id} failed without a reason (ACK-16)")
        self.note_verdict(message_id, self.context.failure)

    def note_verdict(self, message_id: MessageId, failure: Failure | None) -> None:
        """Record a verdict."""
        if message_id[:3] != (*self.key, self.incarnation):
            self.world.add_violation(f"{failure or 'acked'} for {message_id} came to incarnation {self.incarnation} of {self.key}")
        self.world.note_verdict(self.book, message_id, failure, self.plan.max_tries)
        if self.world.chance(self.plan.error):
            raise InjectedError("ack or fail")


class AsyncSource(Source):
    """A `Source` with methods that wait."""

    async def next_tuple(self) -> None:  # type: ignore[override]
        if self.world.chance(0.3):
            await asyncio.sleep(self.world.random.random() / 20)
        super().next_tuple()

    async def ack(self, message_id: Any) -> None:  # type: ignore[override]
        if self.world.chance(0.2):
            await asyncio.sleep(self.world.random.random() / 100)
        super().ack(message_id)

    async def fail(self, message_id: Any) -> None:  # type: ignore[override]
        super().fail(message_id)
        await asyncio.sleep(0)


class BurstSource(Source, BurstSpout):
    """A `Source` that emits several numbers in one call, and gets lists of acks."""

    def next_tuples(self, limit: int) -> None:
        for _ in range(min(limit, self.world.random.randint(1, 2 * self.plan.batch))):
            self.emit_one()
        if self.world.chance(self.plan.error):
            raise InjectedError("next_tuples")

    next_tuple = Source.next_tuple

    def ack_many(self, message_ids: list[Any]) -> None:
        for message_id in message_ids:
            self.world.note_verdict(self.book, message_id, None, self.plan.max_tries)
        if self.world.chance(self.plan.error):
            raise InjectedError("ack_many")


class AsyncBurstSource(BurstSource):
    """A `BurstSource` with methods that wait."""

    async def next_tuples(self, limit: int) -> None:  # type: ignore[override]
        if self.world.chance(0.3):
            await asyncio.sleep(self.world.random.random() / 20)
        super().next_tuples(limit)

    async def ack_many(self, message_ids: list[Any]) -> None:  # type: ignore[override]
        if self.world.chance(0.3):
            await asyncio.sleep(self.world.random.random() / 100)
        super().ack_many(message_ids)


def generator_of(world: World, plan: SpoutPlan, hops: int) -> Callable[[], Spout]:
    """Return a factory of generator spouts, which replay on their own. An exception ends the run, or restarts an async generator."""

    @spout("label", "hops", max_retries=plan.max_tries - 1)
    def numbers() -> Iterator[tuple[int, int]]:
        for _ in range(plan.tuples):
            yield (world.label(), hops)
            if world.chance(plan.error):
                raise InjectedError("generator")

    @spout("label", "hops", max_retries=plan.max_tries - 1, restartable=True)
    async def awaited_numbers() -> AsyncIterator[tuple[int, int]]:
        for _ in range(plan.tuples):
            if world.chance(0.3):
                await asyncio.sleep(world.random.random() / 20)
            yield (world.label(), hops)
            if world.chance(plan.error):
                raise InjectedError("async generator")

    @spout("label", "hops", max_retries=plan.max_tries - 1, burst=True)
    def lists() -> Iterator[list[tuple[int, int]] | None]:
        for size in world.list_sizes(plan.tuples):
            yield [(world.label(), hops) for _ in range(size)] or None
            if world.chance(plan.error):
                raise InjectedError("generator of lists")

    @spout("label", "hops", max_retries=plan.max_tries - 1, burst=True, restartable=True)
    async def awaited_lists() -> AsyncIterator[list[tuple[int, int]]]:
        for size in world.list_sizes(plan.tuples):
            if world.chance(0.3):
                await asyncio.sleep(world.random.random() / 20)
            yield [(world.label(), hops) for _ in range(size)]
            if world.chance(plan.error):
                raise InjectedError("async generator of lists")

    functions = {"generator": numbers, "async generator": awaited_numbers, "burst generator": lists, "async burst generator": awaited_lists}

    def create() -> Spout:
        made = functions[plan.kind].create()
        world.note_instance(made)
        return made

    return create


def inlet_of(world: World) -> Callable[[], Spout]:
    """Return a factory of inlets."""

    def create() -> Spout:
        made = Inlet("label", "hops", max_waiting=7)
        world.note_instance(made)
        return made

    return create


async def send_all(world: World, plan: SpoutPlan, hops: int, inlet: InletHandle) -> None:
    """Send through an inlet, and close it when every send has its answer."""

    async def send() -> None:
        await asyncio.sleep(world.random.random() * plan.pause_secs * plan.tuples)
        try:
            await inlet.send((world.label(), hops))
        except (TupleFailed, InletClosed) as error:
            world.note("not sent", type(error).__name__)
        else:
            world.note("sent")

    await asyncio.gather(*(send() for _ in range(plan.tuples * plan.tasks)))
    inlet.close()


class ManualBolt(Bolt):
    """Anchors and settles by hand: now, later, twice or never."""

    output_fields = STREAMS

    def __init__(self, world: World, plan: BoltPlan) -> None:
        self.world, self.plan = world, plan
        self.held: deque[Tuple] = deque()
        world.note_instance(self)

    def execute(self, tup: Tuple) -> None:
        self.act(tup)

    def act(self, tup: Tuple) -> None:
        """Process an input, with random mistakes."""
        world, plan = self.world, self.plan
        if tup.is_tick:
            while self.held:
                self.collector.ack(self.held.popleft())
            return
        world.note_input(tup, self.context.task_id, in_order=plan.in_order, may_repeat=plan.retries > 0)
        self.emit_children(tup)
        if world.chance(plan.error):
            raise InjectedError(f"label {tup['label']}")
        if world.chance(plan.hold):
            self.held.append(tup)
        elif world.chance(plan.keep):
            world.kept.append(tup)
        elif not world.chance(plan.forget):
            self.settle(tup)
        if self.held and plan.tick_secs is None and world.chance(0.5):
            self.settle(self.held.popleft())

    def emit_children(self, tup: Tuple) -> None:
        """Emit some tuples, each anchored to the input once or twice, to others too, or to none."""
        if tup["hops"] <= 0:
            return
        for _ in range(self.world.random.randint(0, self.plan.fan_out)):
            anchors: Sequence[Tuple] = [tup]
            if self.held and self.world.chance(0.5):
                anchors = [tup, *list(self.held)[:2]]
            elif self.world.chance(0.1):
                anchors = [tup, tup]
            elif self.world.chance(0.1):
                anchors = []
            values = (self.world.label(), tup["hops"] - 1)
            self.collector.emit(values, anchors)
            targets = self.context.targets("direct")
            if targets and self.world.chance(0.5):
                self.collector.emit_direct(self.world.random.choice(list(targets)), (self.world.label(), tup["hops"] - 1), tup, "direct")

    def settle(self, tup: Tuple) -> None:
        """Ack or fail an input, maybe twice."""
        settle = self.collector.fail if self.world.chance(self.plan.fail) else self.collector.ack
        settle(tup)
        if self.world.chance(self.plan.twice):
            self.collector.ack(tup)
        if self.world.chance(0.05):
            self.collector.reset_timeout(tup)


class AwaitingBolt(ManualBolt):
    """A `ManualBolt` that waits."""

    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        if self.plan.slow_secs and self.world.chance(0.7):
            await asyncio.sleep(self.world.random.random() * self.plan.slow_secs)
        self.act(tup)
        if self.world.chance(0.2):
            await asyncio.sleep(0)


class BurstingBolt(BurstBolt):
    """Takes bursts. It settles some tuples itself, and may raise in the middle. Emits of several kinds are anchored to each tuple."""

    output_fields = STREAMS

    def __init__(self, world: World, plan: BoltPlan) -> None:
        self.world, self.plan = world, plan
        self.seen: set[int] = set()
        world.note_instance(self)

    def execute_many(self, burst: Burst) -> Any:
        if not burst.is_tick:
            for tup in burst:
                self.act(tup, burst)
        return None

    def act(self, tup: Tuple, burst: Burst) -> None:
        """Process a tuple of a burst, with random mistakes."""
        world, plan, label = self.world, self.plan, tup["label"]
        task_id = self.context.task_id
        seen = world.seen_by_task[task_id] if plan.retries else self.seen  # a tuple may run again alone; a retry at the next instance too
        world.note_input(tup, task_id, in_order=plan.in_order and label not in seen)
        seen.add(label)
        hops = tup["hops"]
        if hops > 0:
            rows = [(world.label(), hops - 1) for _ in range(world.random.randint(0, plan.fan_out))]
            self.collector.emit_many(rows, world.random.choice([tup, [tup, tup], None]))
            targets = self.context.targets("direct")
            if targets and world.chance(0.5):
                self.collector.emit_direct(world.random.choice(list(targets)), (world.label(), hops - 1), tup, "direct")
        if world.chance(plan.error):
            raise InjectedError(f"label {label}")
        if world.chance(plan.fail):
            burst.fail(tup, "by chance")
        elif world.chance(0.1):
            burst.ack(tup)
        if world.chance(plan.twice):
            burst.ack(tup)


class AwaitingBurstingBolt(BurstingBolt):
    """A `BurstingBolt` that waits in the middle of a burst."""

    async def execute_many(self, burst: Burst) -> None:
        if burst.is_tick:
            return
        for tup in burst:
            self.act(tup, burst)
            if self.world.chance(0.2):
                await asyncio.sleep(self.world.random.random() * self.plan.slow_secs)


class GeneratorBolt(BasicBolt):
    """Yields its children. It may raise between two of them."""

    output_fields = FIELDS

    def __init__(self, world: World, plan: BoltPlan) -> None:
        self.world, self.plan = world, plan
        world.note_instance(self)

    def execute(self, tup: Tuple) -> Iterator[tuple[int, int]]:
        if tup.is_tick:
            return
        self.world.note_input(tup, self.context.task_id, in_order=self.plan.in_order, may_repeat=self.plan.retries > 0)
        for _ in range(self.world.random.randint(0, self.plan.fan_out) if tup["hops"] > 0 else 0):
            yield (self.world.label(), tup["hops"] - 1)
            if self.world.chance(self.plan.fail):
                raise FailTuple("by chance", report=self.world.chance(0.5))
            if self.world.chance(self.plan.error):
                raise InjectedError(f"label {tup['label']}")


class ReturningBolt(BasicBolt):
    """Returns one child, and emits another through its collector."""

    output_fields = FIELDS

    def __init__(self, world: World, plan: BoltPlan) -> None:
        self.world, self.plan = world, plan
        world.note_instance(self)

    def execute(self, tup: Tuple) -> Any:
        if tup.is_tick or tup["hops"] <= 0:
            return None
        self.world.note_input(tup, self.context.task_id, in_order=self.plan.in_order, may_repeat=self.plan.retries > 0)
        if self.world.chance(0.3):
            self.collector.emit((self.world.label(), tup["hops"] - 1))
        if self.world.chance(self.plan.error):
            raise InjectedError(f"label {tup['label']}")
        return (self.world.label(), tup["hops"] - 1) if self.plan.fan_out else None


class AwaitingBasicBolt(ReturningBolt):
    """A `ReturningBolt` that waits."""

    async def execute(self, tup: Tuple) -> Any:
        await asyncio.sleep(self.world.random.random() * self.plan.slow_secs)
        return super().execute(tup)


class ThreadedBolt(BasicBolt):
    """Runs in a thread pool. Its actions depend on the input alone, because the order of threads is random."""

    output_fields = FIELDS

    def __init__(self, world: World, plan: BoltPlan) -> None:
        self.world, self.plan = world, plan
        world.note_instance(self)

    def execute(self, tup: Tuple) -> Any:
        if tup.is_tick:
            return None
        label, hops = tup["label"], tup["hops"]
        if self.plan.error and label % 29 == 0:
            raise InjectedError(f"label {label}")
        return (label, hops - 1) if self.plan.fan_out and hops > 0 else None  # bolts behind it may see labels in any order


class Scatter:
    """A custom grouping: none, one or several tasks, by the label."""

    def prepare(self, context: TaskContext, stream: str, targets: Sequence[int]) -> None:
        self.targets = targets

    def choose_tasks(self, source_task: int, values: Any) -> Sequence[int]:
        return [task for task in self.targets if (values[0] >> task % 8) & 1]


SOURCES = {"plain": Source, "async": AsyncSource, "burst": BurstSource, "async burst": AsyncBurstSource}
BOLTS: dict[str, Any] = {
    "plain": ManualBolt,
    "async": AwaitingBolt,
    "burst": BurstingBolt,
    "async burst": AwaitingBurstingBolt,
    "generator": GeneratorBolt,
    "returning": ReturningBolt,
    "basic async": AwaitingBasicBolt,
    "threads": ThreadedBolt,
}
