"""Bolts of a random transactional topology: basic ones of every style, batch bolts and committers."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from engine import BasicBolt, TaskContext, Topology, Tuple
from engine.transactional import BatchBolt, Committer, TransactionalTopologyBuilder
from tests.transactional.model.faults import Faults
from tests.transactional.model.interpreter import Items
from tests.transactional.model.shape import STREAMS, BasicStyle, BoltShape, Item, Neighbours, chosen_task, streams_of
from tests.transactional.model.source import SPOUTS, Source
from tests.transactional.model.stores import Files, Server, ValueMap
from tests.transactional.model.tries import TRY, Recorder, SharedByJobs
from tests.transactional.model.witness import Task, Witness


@dataclass
class ProcessState(SharedByJobs):
    """State that all components of one process share."""

    source: Source
    witness: Witness
    faults: Faults
    server: Server
    values: Mapping[str, ValueMap]
    files: Mapping[str, Files]
    run: Any = None
    is_dead: bool = False

    def is_gone(self) -> bool:
        """Whether the process was killed."""
        return self.is_dead

    def takes(self, recorder: Recorder, where: Task, tup: Tuple) -> bool:
        """Begin a call of execute; False if its tuple is lost."""
        if self.faults.reach("execute", self.source_context[where]):
            recorder.loses(self.run, self.source_context[where].task_id, tup)
            return False
        recorder.takes(where, tup[0], item_in(tup))
        return True

    @property
    def recorder(self) -> Recorder:
        """Recorder of the events of an instance that is created now."""
        return TRY.get() or self.witness

    def __post_init__(self) -> None:
        self.source_context: dict[Task, TaskContext] = {}


class BoltBase:
    """Common part of all bolts."""

    shape: BoltShape
    process: ProcessState
    recorder: Recorder
    context: TaskContext
    collector: Any
    where: Task

    def read_context(self) -> None:
        """Read the context, which is set by then."""
        self.where = (self.context.component_id, self.context.task_index)
        self.process.source_context[self.where] = self.context
        self.direct_targets = self.process.source.shape.direct_targets(self.shape.name)

    def send(self, item: Item, *, all_but_last: bool = False) -> Item | None:
        """Send copies of an item on every stream. With `all_but_last`, return the last copy for `default` instead of sending it."""
        rest = self.shape.sends
        for number in range(rest):
            for stream in streams_of(item[1]):
                if all_but_last and stream == "default" and number == rest - 1:
                    continue
                self.collector.emit(item, stream)
            for target in self.direct_targets:
                self.collector.emit_direct(chosen_task(self.context, target, item[1]), item, "direct")
        return item if rest and all_but_last else None


def item_in(tup: Tuple) -> Item:
    """Return the item in a tuple."""
    return tup["key"], tup["item"]


class Basic(BoltBase, BasicBolt):
    """Base of the basic bolts."""

    output_fields = STREAMS

    def __init__(self, shape: BoltShape, process: ProcessState) -> None:
        self.shape, self.process, self.recorder = shape, process, process.recorder

    def prepare(self) -> None:
        self.read_context()
        self.process.faults.reach("prepare task", self.context)

    def cleanup(self) -> None:
        return None


class Collects(Basic):
    """EmitterBase through its collector."""

    def execute(self, tup: Tuple) -> None:
        if self.process.takes(self.recorder, self.where, tup):
            self.send(item_in(tup))


class Returns(Basic):
    """Returns values."""

    def execute(self, tup: Tuple) -> Item | None:
        return self.send(item_in(tup), all_but_last=True) if self.process.takes(self.recorder, self.where, tup) else None


class Yields(Basic):
    """Yields values."""

    def execute(self, tup: Tuple) -> Iterator[Item]:
        if self.process.takes(self.recorder, self.where, tup):
            last = self.send(item_in(tup), all_but_last=True)
            if last is not None:
                yield last


class Waits(Basic):
    """Returns values after a while."""

    async def execute(self, tup: Tuple) -> Item | None:
        await self.process.faults.wait()
        if not self.process.takes(self.recorder, self.where, tup):
            return None
        last = self.send(item_in(tup), all_but_last=True)
        await self.process.faults.wait()
        return last


class WaitsAndYields(Basic):
    """Yields values after a while."""

    async def execute(self, tup: Tuple) -> AsyncIterator[Item]:
        await self.process.faults.wait()
        if self.process.takes(self.recorder, self.where, tup):
            last = self.send(item_in(tup), all_but_last=True)
            await self.process.faults.wait()
            if last is not None:
                yield last


class InThreads(Basic):
    """Runs in a thread pool, where it only calls the witness, which counts."""

    def execute(self, tup: Tuple) -> Iterator[Item]:
        self.recorder.takes(self.where, tup[0], item_in(tup))
        last = self.send(item_in(tup), all_but_last=True)
        if last is not None:
            yield last


STYLES: Final[Mapping[BasicStyle, type[Basic]]] = {
    "returns": Returns,
    "yields": Yields,
    "collects": Collects,
    "waits": Waits,
    "waits and yields": WaitsAndYields,
    "threads": InThreads,
}


class Batch(BoltBase, BatchBolt):
    """A batch bolt, or a committer by `set_committer`."""

    output_fields = STREAMS

    def __init__(self, shape: BoltShape, process: ProcessState) -> None:
        self.shape, self.process, self.recorder = shape, process, process.recorder
        self.items: Items = Counter()
        self.calls = 0
        self.is_prepared = self.is_over = False

    def prepare(self) -> Any:
        self.read_context()
        if self.replays_differ != (self.process.source.shape.kind == "opaque"):
            self.process.witness.add_violation(f"{self.where} is told {self.replays_differ} of replays")
        return self._later("prepare", self._prepare) if "prepare" in self.shape.awaits else self._prepare()

    def _prepare(self) -> None:
        self.process.faults.reach("prepare", self.context)
        self.is_prepared = True

    def execute(self, tup: Tuple) -> Any:
        if tup[0] != self.attempt or tup["attempt"] != self.attempt:
            self.process.witness.add_violation(f"a tuple of {tup[0]} came to {self.attempt} in {self.where}")
        if self.is_over or not self.is_prepared:
            self.process.witness.add_violation(
                f"a tuple of {tup[0]} came to {self.where} {'after finish' if self.is_over else 'before prepare'}"
            )
        if not self.process.takes(self.recorder, self.where, tup):
            return None
        take = partial(self._take, item_in(tup))
        return self._later("execute", take) if "execute" in self.shape.awaits else take()

    def _take(self, item: Item) -> None:
        self.items[item] += 1
        if not self.shape.at_finish and not self.shape.distinct:
            self.send(item)

    def finish_batch(self) -> Any:
        self.recorder.asks(self.where, self.attempt)
        self.is_over = True
        if self.calls:
            self.process.witness.add_violation(f"finish_batch of {self.attempt} in {self.where} while execute goes on")
        return self._finish_later() if "finish" in self.shape.awaits else self._finish_now()

    def _finish_now(self) -> None:
        """Commit at once if it is a committer, then send."""
        self._begins()
        try:
            self.process.faults.reach("finish", self.context)
            if self.shape.is_committer:
                self._refuse_if_dead()
                self._commit()
            self._send_all()
            self.process.faults.reach("finished", self.context)
            self.recorder.has_finished(self.where, self.attempt)
        finally:
            self._ends()

    async def _finish_later(self) -> None:
        self._begins()
        try:
            self.process.faults.reach("finish", self.context)
            await self.process.faults.wait()
            if self.shape.is_committer:
                await self.process.server.write(self._commit, self._pause, self.process.is_gone)
            self._send_all()
            await self.process.faults.wait()
            self.process.faults.reach("finished", self.context)
            self.recorder.has_finished(self.where, self.attempt)
        except asyncio.CancelledError:
            if self.shape.stubborn:
                await asyncio.sleep(self.process.faults.longest_secs)
            raise
        finally:
            self._ends()

    def _begins(self) -> None:
        if self.shape.is_committer:
            self.process.witness.begins_finish(self.where, self.attempt)

    def _ends(self) -> None:
        if self.shape.is_committer:
            self.process.witness.ends_finish(self.where, self.attempt)

    async def _pause(self, point: str) -> None:
        self.process.faults.reach("keep", self.context)
        await self.process.faults.wait()

    def _refuse_if_dead(self) -> None:
        if self.process.is_dead:
            raise RuntimeError("the process is dead")

    def _commit(self) -> None:
        if self.shape.keeps == "files":
            self.process.files[self.shape.name].write(self.attempt, self.context.task_index, self.items)
            return
        changes: dict[int, Items] = {}
        for item, count in self.items.items():
            changes.setdefault(item[0], Counter())[item] = count
        self.process.values[self.shape.name].write(self.attempt, changes)

    def _send_all(self) -> None:
        name = self.shape.name
        if self.shape.distinct:
            self._send_each((key, f"{name}:{key}") for key in sorted({key for key, _ in self.items}))
        elif self.shape.at_finish:
            self._send_each(self.items.elements())
        if self.shape.ticks and self.shape.sends:
            self._tick((0, f"{name}:0"))

    def _send_each(self, items: Iterable[Item]) -> None:
        for item in items:
            self.send(item)

    def _tick(self, item: Item) -> None:
        for stream in streams_of(item[1]):
            self.collector.emit_many([item], stream)
        for target in self.direct_targets:
            self.collector.emit_direct(chosen_task(self.context, target, item[1]), item, "direct")

    async def _later(self, method: str, do: Any) -> None:
        if self.calls:
            self.process.witness.add_violation(f"{method} of {self.attempt} begins in {self.where} while another call goes on")
        self.calls += 1
        try:
            await self.process.faults.wait()
            do()
            await self.process.faults.wait()
        finally:
            self.calls -= 1

    def cleanup(self) -> Any:
        return self._clean_up_later() if "cleanup" in self.shape.awaits else self._clean_up()

    def _clean_up(self) -> None:
        if self.calls:
            self.process.witness.add_violation(f"cleanup of {self.attempt} in {self.where} while a call goes on")
        self.process.faults.reach("cleanup", self.context)

    async def _clean_up_later(self) -> None:
        self._clean_up()
        await self.process.faults.wait()


class Commits(Batch, Committer):
    """A committer by its class."""


def topology_of(process: ProcessState, emitters: int, most_open: int) -> Topology:
    """Build the topology of one process."""
    shape = process.source.shape
    builder = TransactionalTopologyBuilder(
        "world", "s", SPOUTS[shape.kind](process.source), emitters, on_error="restart", max_spout_pending=most_open
    )
    for bolt in shape.bolts:
        declarer = _declared(builder, bolt, process)
        for each in bolt.inputs:
            match each.grouping:
                case "fields" | "partial_key":
                    getattr(declarer, f"{each.grouping}_grouping")(each.source, "key", stream=each.stream)
                case "custom":
                    declarer.custom_grouping(each.source, Neighbours, stream=each.stream)
                case _:
                    getattr(declarer, f"{each.grouping}_grouping")(each.source, stream=each.stream)
    return builder.build()


def _declared(builder: TransactionalTopologyBuilder, bolt: BoltShape, process: ProcessState) -> Any:
    if bolt.basic is not None:
        settings: dict[str, Any] = {"threads": 2} if bolt.basic == "threads" else {}
        if bolt.basic.startswith("waits"):
            settings = {"concurrency": bolt.tasks}
        return builder.set_bolt(bolt.name, partial(STYLES[bolt.basic], bolt, process), bolt.tasks, **settings)
    if bolt.is_committer and bolt.marked:
        return builder.set_committer(bolt.name, partial(Batch, bolt, process), bolt.tasks)
    return builder.set_bolt(bolt.name, partial(Commits if bolt.is_committer else Batch, bolt, process), bolt.tasks)
