"""`TimedRows`: the rows of a flow that a source makes at its emit, because only the source knows the partition of a row (ET-1)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from engine.event_time import MadeRows, RowParts
from engine.kernel import as_class
from engine.streams.calls import Call
from engine.streams.readers import Read, SourceRows
from engine.streams.rows import KEY, ROW, TIME
from engine.streams.steps import StepChain, StepPlan, check_key


@dataclass(frozen=True, eq=False)
class TimedRows(MadeRows):
    """Reads rows, runs the stateless steps in front of `event_time`, and takes the key and the time of each row."""

    stream: str
    reads: SourceRows
    steps: tuple[StepPlan, ...]
    time: Call
    key: Call | None
    diverts: bool
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", (ROW, TIME) if self.key is None else (ROW, KEY, TIME))

    def parts(self, given: tuple[str, ...]) -> RowParts:
        """Return the functions of one task."""
        reads = self.reads(given)
        read, key_of = _one_row(reads), None if self.key is None else self.key.given
        if not self.steps:
            row_class = reads.args[0] if isinstance(reads, partial) and reads.func is as_class else None
            return RowParts(read, False, key_of, check_key, self.time.given, row_class)
        chain = StepChain([step.live(step.call.given) for step in self.steps])
        return RowParts(lambda values: chain.run_one(read(values)).rows, True, key_of, check_key, self.time.given)


def _one_row(read: Read) -> Callable[[tuple[Any, ...]], Any]:
    if isinstance(read, partial) and read.func is as_class:
        return partial(tuple.__new__, *read.args)  # in C
    return lambda values: read([values])[0]
