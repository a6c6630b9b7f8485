"""Bolts that run fused stages: a tree of steps over a burst, or over one row in a thread."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from engine.api import BasicBolt, Burst, BurstBolt, Fields, Tuple
from engine.api.context import UserCounter
from engine.kernel import BoltCollector
from engine.streams.calls import Call, OpenCalls
from engine.streams.readers import ReadStep
from engine.streams.rows import ROW, TIME
from engine.streams.steps import Batch, Step, StepChain, StepPlan

STAGE_ROWS: Final = "stage_rows"
"""Metric with the number of results of each fused stage."""


@dataclass(frozen=True, slots=True)
class Output:
    """A stream of a bolt, and its fields."""

    stream: str
    layout: tuple[str, ...]
    is_selected: bool = False
    """True: a row is the tuple of the values already."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Steps that run one behind the other, and what follows them. It can be pickled if the user's functions can."""

    steps: tuple[StepPlan, ...]
    output: Output | None = None
    predicates: tuple[str, tuple[Call, ...]] | None = None
    """Stage and functions of a branch. Each branch then has its port."""
    parts: tuple[tuple[int, "Segment"], ...] = ()
    """What reads the rows, by the number of the branch; 0 without one."""

    def calls(self) -> Iterator[Call]:
        """Yield all functions and classes of the user."""
        for step in self.steps:
            yield step.call
        yield from self.predicates[1] if self.predicates else ()
        for _, part in self.parts:
            yield from part.calls()

    def outputs(self) -> Iterator[Output]:
        """Yield the outputs, first its own."""
        if self.output is not None:
            yield self.output
        for _, part in self.parts:
            yield from part.outputs()

    def stages(self) -> int:
        """Return the number of stages whose errors need a name."""
        return sum(not step.kind.names_itself for step in self.steps) + bool(self.predicates) + sum(part.stages() for _, part in self.parts)


class LiveSegment:
    """A segment of one task."""

    def __init__(self, segment: Segment, functions: Mapping[int, Callable[..., Any]], *, names_stage: bool) -> None:
        """functions: by the id of the Call."""
        steps = [plan.live(functions[id(plan.call)]) for plan in segment.steps]
        self.chain = StepChain(steps, names_stage=names_stage)
        self.output = segment.output
        self.parts = [(number, LiveSegment(part, functions, names_stage=names_stage)) for number, part in segment.parts]
        self.branch: StepChain | None = None
        self.branches = 0
        if segment.predicates is not None:
            stage, calls = segment.predicates
            self.branches = len(calls)
            self.branch = StepChain([BranchStep(stage, [functions[id(call)] for call in calls])], names_stage=names_stage)

    def count_rows(self, counter: Callable[[str], UserCounter]) -> None:
        """Count the results of each stage in a counter of its own."""
        for chain in (self.chain, self.branch):
            if chain is not None:
                chain.counters = [None if step.names_itself else counter(step.stage) for step in chain.steps]
        for _, part in self.parts:
            part.count_rows(counter)

    def run(self, batch: Batch, results: list[tuple[Output, Batch]]) -> None:
        """Run over a batch, and add what leaves the bolt."""
        self.follow(self.chain.run(batch), results)

    def run_one(self, row: Any, origin: Any, time: int | None, results: list[tuple[Output, Batch]]) -> None:
        """Run over one row, so that an error names it."""
        self.follow(self.chain.run_one(row, origin, time), results)

    def follow(self, batch: Batch, results: list[tuple[Output, Batch]]) -> None:
        """Hand the rows to the output, and to the segments behind."""
        if not batch.rows:
            return
        if self.output is not None:
            results.append((self.output, batch))
        if self.branch is None:
            for _, part in self.parts:
                part.run(batch.copy(), results)
            return
        chosen = self.branch.run(batch.copy()).keys or []
        for number, part in self.parts:
            branch = batch.copy()
            branch.keep([each == number for each in chosen])
            part.run(branch, results)


class BranchStep(Step):
    """Chooses the branch of each row: the number of the first predicate that is true, else the number of predicates."""

    def __init__(self, stage: str, predicates: list[Callable[[Any], Any]]) -> None:
        super().__init__(stage, self._choose)
        self._numbered = list(enumerate(predicates))

    def apply(self, batch: Batch) -> None:
        batch.keys = list(map(self.function, batch.rows))

    def _choose(self, row: Any) -> int:
        for number, predicate in self._numbered:
            if predicate(row):
                return number
        return len(self._numbered)


class RunsChain:
    """What the bolts of fused stages share: the instances of the user's classes, and the reader of foreign tuples."""

    context: Any
    live: LiveSegment
    read: ReadStep | None = None
    has_time = False

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self.survives_rollback = not any(call.is_class for call in segment.calls())
        """A class of the user may keep rows in its attributes."""

    async def prepare(self) -> None:
        """Make the instances of the user's classes."""
        self._open = OpenCalls(self.context)
        functions = {id(call): await self._open.function_of(call) for call in self._segment.calls()}
        self.live = LiveSegment(self._segment, functions, names_stage=self._segment.stages() > 1)
        if self._segment.stages() > 1:
            self.live.count_rows(lambda stage: self.context.counter(STAGE_ROWS, stage=stage))
        first = self.live.chain.steps[0] if self.live.chain.steps else None
        self.read = first if isinstance(first, ReadStep) else None

    async def cleanup(self) -> None:
        """End the instances of the user's classes."""
        await self._open.close()


class ChainBolt(RunsChain, BurstBolt):
    """Runs fused stages over a burst. Each result is anchored to the tuple that it comes from.

    Nothing is emitted before all steps have returned. If one raises, the engine calls again for each tuple alone (BU-1), and then the
    error names its row.
    """

    def __init__(self, segment: Segment) -> None:
        super().__init__(segment)
        self.output_fields = {each.stream: Fields(*each.layout) for each in segment.outputs()} or None

    def execute_many(self, burst: Burst) -> Awaitable[None] | None:
        origins: list[Any] = list(burst)
        if self.read is not None:
            self.read.set_fields(burst.fields)
            rows: list[Any] = burst.rows
            times = None
        else:
            rows = burst[ROW]
            times = burst[TIME] if TIME in burst.fields else None
        results: list[tuple[Output, Batch]] = []
        if len(rows) == 1:
            self.live.run_one(rows[0], origins[0], times[0] if times else None, results)
        else:
            self.live.run(Batch(rows, origins, times), results)
        for output, batch in results:
            emit_aligned(self.collector, output, batch)
        return None


def emit_aligned(collector: Any, output: Output, batch: Batch) -> None:
    """Emit one tuple for each row, anchored to what it comes from."""
    origins = batch.origins or []
    is_single = output.layout == (ROW,)
    values = batch.rows if is_single or output.is_selected else list(batch.values(output.layout))
    if type(collector) is BoltCollector:
        collector.emit_aligned(values, origins, output.stream, is_single)
        return
    for row, origin in zip(values, origins, strict=True):
        collector.emit((row,) if is_single else row, origin, output.stream)


class ThreadChainBolt(RunsChain, BasicBolt):
    """Runs one stage with `threads` over one row at a time. Its only output is the default stream."""

    def __init__(self, segment: Segment) -> None:
        super().__init__(segment)
        self.output_fields = {each.stream: Fields(*each.layout) for each in segment.outputs()} or None

    def execute(self, tup: Tuple) -> list[tuple[Any, ...]]:
        """Run over one row."""
        results: list[tuple[Output, Batch]] = []
        if self.read is not None:
            self.read.set_fields(tup.fields)
        time = tup[TIME] if TIME in tup.fields else None
        self.live.run_one(tup.values if self.read is not None else tup[ROW], None, time, results)
        return [tuple(values) for output, batch in results for values in batch.values(output.layout)]


@dataclass(frozen=True, slots=True)
class ChainFactory:
    """Factory of the bolt of fused stages."""

    segment: Segment
    in_threads: bool = False

    def create(self) -> ChainBolt | ThreadChainBolt:
        """Return a new bolt."""
        return ThreadChainBolt(self.segment) if self.in_threads else ChainBolt(self.segment)


