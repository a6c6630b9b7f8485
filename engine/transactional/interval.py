"""`Interval`: the rows of a task between two checkpoints, with the collector and the context of the instance that works on them (EO-9)."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, count
from typing import Any, Final

from engine.api import Fields, Tuple, Values
from engine.errors import BadRows, FatalError
from engine.kernel import Source, make_tuple
from engine.names import DEFAULT_STREAM
from engine.state.codec import Codec
from engine.topology import ComponentSpec
from engine.topology.interval_output import RefusedRow
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.batch_bolt import BatchBolt
from engine.transactional.batch_collectors import ATTEMPT_FIELD

FIRST_TXID: Final = 1
"""Checkpoints count from 0, and batches from 1."""
MANY_ROWS: Final = 20
"""If a target refuses so many rows, and all of them, it is the target that is wrong."""


@dataclass(slots=True, eq=False)
class Interval:
    """One interval of a task, with the instance that works on it."""

    attempt: TransactionAttempt
    instance: BatchBolt
    kept: list[bytes] = field(default_factory=list)
    """The rows, encoded. Empty for a committer that stages its output itself."""
    pieces: list[object] = field(default_factory=list)
    """What such a committer has staged."""
    taken: list[Tuple] = field(default_factory=list)
    """The rows of a bolt that keeps none encoded, if the interval may count although a call has raised.

    So it may after a retry or a diversion, and after the failure of a row whose source cannot rewind.
    """
    has_rows: bool = False
    is_spoiled: bool = False
    """True after a call that has raised, because it may have taken a part of its row. The rows are then executed again before the end."""
    lost: BaseException | None = None
    """Error of a row that belongs to no tree, so that only the checkpoint can fail."""


class IntervalCollector:
    """`self.collector` of an instance (`BatchCollector`)."""

    def __init__(self, outer: Any, spec: ComponentSpec, *, may_emit: bool) -> None:
        self._outer = outer
        self._where = spec.where
        self._may_emit = may_emit
        self.is_mute = False
        """True while rows are executed again. What they emit is dropped."""
        self.report_error = outer.report_error
        self.ready = outer.ready

    def emit(self, values: Values, stream: str = DEFAULT_STREAM) -> None:
        if self._may():
            self._outer.emit(values, (), stream)

    def emit_many(self, rows: Iterable[Values], stream: str = DEFAULT_STREAM) -> None:
        if self._may():
            self._outer.emit_many(rows, (), stream)

    def emit_each(self, values: Iterable[Any], stream: str = DEFAULT_STREAM) -> None:
        if self._may():
            self._outer.emit_each(values, (), stream)

    def emit_direct(self, task: int, values: Values, stream: str = DEFAULT_STREAM) -> None:
        if self._may():
            self._outer.emit_direct(task, values, (), stream)

    def _may(self) -> bool:
        if not self._may_emit:
            text = f"{self._where}: a committer of a topology without batches emits nothing, because nobody can subscribe to it"
            raise FatalError(text, hint="Emit in a bolt before it, or build the topology with TransactionalTopologyBuilder.")
        return not self.is_mute


class TaskOfBefore:
    """The context of a task, under the number that another task had in an earlier run."""

    def __init__(self, context: Any, task_index: int, tasks: int) -> None:
        self._context = context
        self.task_index: Final = task_index
        self.tasks: Final = tasks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def stages_itself(instance: BatchBolt) -> bool:
    """True for a committer that stages its output in place of its rows. A subclass that overrides its `finish_batch` gets the rows."""
    return _is_staging(type(instance))


@lru_cache
def _is_staging(kind: type) -> bool:
    first = next((each for each in kind.__mro__ if vars(each).keys() & {"stage", "finish_batch"}), object)
    return hasattr(kind, "stage") and "stage" in vars(first)


# Rows of a staged output


def rows_to_publish(codec: Codec, output: Any) -> Iterator[tuple[int, Tuple]]:
    """Yield the rows of a staged output that are not left out, each with its number. Not for a committer that stages its output itself."""
    given = chain.from_iterable(decoded_rows(codec, attempt_of(output), blob) for blob in output.blobs)
    return ((number, tup) for number, tup in enumerate(given) if number not in output.left_out)


def attempt_of(output: Any) -> TransactionAttempt:
    """Return the attempt with which a staged output is published."""
    return TransactionAttempt(output.txid + FIRST_TXID, output.round)


def encoded_rows(codec: Codec, rows: list[Tuple]) -> bytes:
    """Return a blob of a staged output. Raises Unencodable."""
    origins: dict[tuple[int, str], int] = {}
    described: list[object] = []
    places = []
    for tup in rows:
        name = (tup.source_task, tup.stream)
        if name not in origins:
            origins[name] = len(described)
            described.append([tup.source_component, tup.stream, tup.source_task, list(tup.fields)])
        places.append(origins[name])
    return codec.encode([described, places, [list(tup.values) for tup in rows]])


def decoded_rows(codec: Codec, attempt: TransactionAttempt, blob: bytes) -> Iterator[Tuple]:
    """Yield the rows of a blob, with the attempt in front of their values (TX-1)."""
    described, places, rows = codec.decode(blob)
    sources = [row_source(*each) for each in described]
    for place, values in zip(places, rows, strict=True):
        yield make_tuple((attempt, *values), sources[place])


def row_source(component_id: str, stream: str, task_id: int, names: Iterable[str]) -> Source:
    """Return the source of rows with an attempt."""
    return Source(component_id, stream, task_id, Fields(ATTEMPT_FIELD, *names))


def without_entries(pieces: Iterable[Any], left_out: Collection[int]) -> list[Any]:
    """Return pieces without the entries with these numbers. Only pieces that are lists have entries."""
    if not left_out:
        return list(pieces)
    numbers = count()
    return [[entry for entry in piece if next(numbers) not in left_out] for piece in pieces]


def check_not_all_refused(where: str, error: BadRows, published: int) -> None:
    """Raise FatalError if the target refuses all of many rows. Then the rows are not bad, but the table or the statement is."""
    if len(error.rows) == published >= MANY_ROWS:
        first = error.errors[error.rows[0]]
        text = f"{where}: the target refuses all {published:,} rows that it should publish, the first one because: {first}"
        hint = (
            "Correct the table, the statement or the fields, and start again: the rows are published then. "
            "To make dead letters of them instead: python -m engine committers give-up FILE.py."
        )
        raise FatalError(text, hint=hint) from error


def refused_entries(pieces: Iterable[Any], left_out: Collection[int], error: BadRows, component_id: str) -> list[RefusedRow]:
    """Return the refused entries of pieces, each with key and partial result. Its rows may have come from any input of the committer.

    left_out: numbers of the entries that have not been published now, which the numbers of the error do not count.
    """
    published = [(number, entry) for number, entry in enumerate(chain.from_iterable(pieces)) if number not in left_out]
    refused = []
    for at in error.rows:
        number, (key, partial) = published[at]
        values = (*key, partial) if isinstance(key, tuple) else (key, partial)
        refused.append(RefusedRow(number, component_id, DEFAULT_STREAM, values, error.errors[at]))
    return refused
