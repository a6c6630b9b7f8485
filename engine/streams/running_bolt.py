"""The bolt of running counts and reductions: a value for each key, and its next revision for each row."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.api import Burst, Fields
from engine.checkpoint import StatefulBurstBolt
from engine.errors import FatalError
from engine.kernel import named_tuples
from engine.state import KeyValueState, LayeredState
from engine.state.codec import canonical_keys
from engine.streams.aggregates import REMEDY, Count, Reduction, ReductionPlan
from engine.streams.calls import OpenCalls
from engine.streams.chain_bolt import Output, emit_aligned
from engine.streams.rows import KEY, ROW, TIME, Keyed, Revised
from engine.streams.steps import Batch


class RunningBolt(StatefulBurstBolt):
    """Keeps a value for each key, and emits the next revision of it for each row, anchored to the row.

    The state has (kind, revision, value) for each key, and for a count the number alone.
    """

    def __init__(self, stage: "RunningStage") -> None:
        self._stage = stage
        self._plan = stage.reduction
        self._seen: type | None = None
        """Type of the rows, if the flow does not know it."""
        self._output = Output("default", stage.layout)
        self.output_fields = Fields(*stage.layout)
        self.survives_rollback = False  # type: ignore[misc]

    async def prepare(self) -> None:
        self._open = OpenCalls(self.context)
        call = self._plan.call
        function = None if call is None else await self._open.function_of(call)
        self.reduction: Reduction = self._plan.live(function, self._stage.name)

    async def cleanup(self) -> None:
        await self._open.close()

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        """Receive the state, and check that its values are of this stage. One of them stands for all."""
        assert isinstance(state, LayeredState)
        self.state = state
        if state.namespaces():
            raise FatalError(f"stage {self._stage.name!r} has stored windows, and is {self.reduction.kind}() now", hint=REMEDY)
        for _, stored in state.items():
            self._loaded(stored)
            break

    def execute_many(self, burst: Burst) -> Awaitable[None] | None:
        rows, keys = burst[ROW], burst[KEY]
        if self._plan.row_type is None and self.reduction.keeps_rows and self._seen is None:
            self._seen = type(rows[0])
            self.reduction.set_row_type(self._seen)
        forms = canonical_keys(keys)
        known = list(dict.fromkeys(forms))
        stored = self.state.get_many(known)
        if self.reduction.counts:
            values, revisions = self._counted(forms, dict(zip(known, stored, strict=True)))
        else:
            values, revisions = self._reduced(forms, rows, dict(zip(known, map(self._loaded, stored), strict=True)))
        results = _revised(keys, values, revisions)
        times = burst[TIME] if TIME in self._output.layout else None
        emit_aligned(self.collector, self._output, Batch(results, list(burst), times))
        return None

    def _counted(self, keys: Sequence[Any], counts: dict[Any, int | None]) -> tuple[list[Any], list[int]]:
        """Count each key. Return the value and the revision of each result."""
        revisions, values = [], []
        for key in keys:
            before = counts[key] or 0
            counts[key] = count = before + 1
            revisions.append(before)
            values.append(count)
        self.state.put_many(counts)
        return values, revisions

    def _reduced(self, keys: Sequence[Any], rows: list[Any], values: dict[Any, tuple[int, Any]]) -> tuple[list[Any], list[int]]:
        """Add each row to the value of its key. Return the value and the revision of each result."""
        add, result = self.reduction.add, self.reduction.result
        revisions, results = [], []
        for key, row in zip(keys, rows, strict=True):
            revision, value = values[key]
            value = add(value, row)
            values[key] = revision + 1, value
            revisions.append(revision)
            results.append(result(value))
        self.state.put_many([(key, self._stored(*value)) for key, value in values.items()])
        return results, revisions

    def _stored(self, revisions: int, value: Any) -> Any:
        return self.reduction.kind, revisions, self.reduction.stored(value)

    def _loaded(self, stored: Any) -> tuple[int, Any]:
        """Return the number of revisions of a key, and its value. Raise FatalError for a value of another stage or type."""
        if stored is None:
            return 0, None
        if type(stored) is not tuple:
            kind, revisions, value = Count.kind, stored, stored
        else:
            kind, revisions, value = stored
        if kind != self.reduction.kind:
            text = f"stage {self._stage.name!r} has stored values of {kind}(), and is {self.reduction.kind}() now"
            raise FatalError(text, hint=REMEDY)
        return revisions, self.reduction.loaded(value)


def _revised(keys: list[Any], values: list[Any], revisions: list[int]) -> list[Any]:
    """Return a revision of the value of each key."""
    return named_tuples(Revised, named_tuples(Keyed, keys, values), revisions, ["early"] * len(keys), [()] * len(keys))


@dataclass(frozen=True, slots=True)
class RunningStage:
    """Factory of the bolts of one running count or reduction."""

    name: str
    reduction: ReductionPlan
    layout: tuple[str, ...]

    def create(self) -> RunningBolt:
        """Return a new bolt."""
        return RunningBolt(self)
