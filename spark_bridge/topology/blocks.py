"""Blocks: rows that go from one task to another through Spark, packed into one binary cell."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from engine.names import REPORT_STREAM

Run: TypeAlias = tuple[str, list[tuple[Any, ...]]]
"""A stream, and rows of this stream in order. The rows of REPORT_STREAM are values of control tuples. Other rows have no attempt."""

BLOCK_ROWS: Final = 4_096
"""Rows of a full block."""
NOTICE: Final = -1
"""Source of blocks that no task has sent. They sort before all others."""

DDL: Final = "level int, partition int, source int, sequence int, target int, payload binary"
_SCHEMA: Final = pa.schema(
    [*((name, pa.int32()) for name in ("level", "partition", "source", "sequence", "target")), ("payload", pa.binary())]
)


class Block(NamedTuple):
    """One row of Spark. `payload` has pickled runs, or a pickled notice."""

    level: int
    """Level that reads the block. The number of levels means the end of the job."""
    partition: int
    source: int
    """Task that sent the rows, or NOTICE."""
    sequence: int
    """Number of the block among those of its source, in the partition that sent it."""
    target: int
    """Task that gets the rows. 0 for a notice."""
    payload: bytes

    def content(self) -> Any:
        """Return the unpickled payload."""
        return pickle.loads(self.payload)


def pack(content: object) -> bytes:
    """Return the payload of a block."""
    return pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)


def to_arrow(blocks: list[Block]) -> pa.RecordBatch:
    """Return blocks as a batch of Arrow."""
    columns = zip(*blocks, strict=True) if blocks else ((),) * len(_SCHEMA)
    return pa.record_batch([pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA)


def from_arrow(batch: pa.RecordBatch) -> Iterator[Block]:
    """Yield the blocks of a batch."""
    for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
        yield Block(*row)


class Packer:
    """Collects the rows of tasks, and passes full blocks on.

    `send(source, target, runs, rows)` gets the runs of one block. Rows of one source and target keep their order.
    """

    def __init__(self, send: Callable[[int, int, list[Run], int], None]) -> None:
        self._send = send
        self._open: dict[tuple[int, int], tuple[list[Run], list[int]]] = {}

    def add(self, target: int, runs: Iterable[tuple[Any, list[tuple[Any, ...]]]]) -> None:
        """Add runs of (origin, rows) for a target. A report ends its block, because nothing of its source follows."""
        for origin, rows in runs:
            packed, count = self._open.setdefault((origin.task_id, target), ([], [0]))
            if packed and packed[-1][0] == origin.stream:
                packed[-1][1].extend(rows)
            else:
                packed.append((origin.stream, rows))
            count[0] += len(rows)
            if count[0] >= BLOCK_ROWS or origin.stream == REPORT_STREAM:
                self._flush(origin.task_id, target)

    def _flush(self, source: int, target: int) -> None:
        packed, [count] = self._open.pop((source, target))
        self._send(source, target, packed, count)

    def flush(self) -> None:
        """Pass all open blocks on."""
        for source, target in list(self._open):
            self._flush(source, target)
