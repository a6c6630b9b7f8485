"""Blocks: rows that go from one task to another through Spark, packed into one value."""

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from engine.names import REPORT_STREAM

Run: TypeAlias = tuple[str, list[tuple[Any, ...]]]
"""A stream, and rows of this stream in order. The rows of REPORT_STREAM are values of control tuples. Other rows have no attempt."""

BLOCK_ROWS: Final = 4_096
"""Rows of a full block."""
BLOCK_BYTES: Final = 4 << 20
"""Text and bytes of a full block, estimated from a few of its rows."""
NOTICE: Final = -1
"""Source of blocks that no task has sent. They sort before all others."""


class Block(NamedTuple):
    """One value of Spark. `payload` has pickled runs, or a pickled notice."""

    level: int
    """Level that reads the block. The number of levels means the end of the job."""
    partition: int
    source: int
    """Task that sent the rows, or NOTICE."""
    sequence: int
    """Number of the block among those of its source, in the partition that sent it."""
    target: int
    """Task that gets the rows. 0 for a notice."""
    attempt: int
    """Number of the try of the partition that sent the block. A partition that Spark computes again has another one."""
    payload: bytes

    def content(self) -> Any:
        """Return the unpickled payload."""
        return pickle.loads(self.payload)


def pack(content: object) -> bytes:
    """Return the payload of a block."""
    return pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)


def rows_in(runs: Iterable[Run]) -> int:
    """Return the number of rows, without reports."""
    return sum(len(rows) for stream, rows in runs if stream != REPORT_STREAM)


def unpicklable_row(runs: Iterable[Run]) -> tuple[Any, ...] | None:
    """Return the first row that cannot be pickled, None if each one can."""
    for _, rows in runs:
        for row in rows:
            try:
                pack(row)
            except Exception:  # noqa: BLE001 - of user code
                return row
    return None


@dataclass(slots=True)
class _OpenBlock:
    runs: list[Run] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0


def estimated_bytes(row: Sequence[Any]) -> int:
    """Return the size of the texts of a row."""
    return sum(len(value) for value in row if isinstance(value, (str, bytes, bytearray)))


class Packer:
    """Collects the rows of tasks, and passes full blocks on.

    `send(source, target, runs, rows)` gets the runs of one block. Rows of one source and target keep their order.
    """

    def __init__(self, send: Callable[[int, int, list[Run], int], None]) -> None:
        self._send = send
        self._open: dict[tuple[int, int], _OpenBlock] = {}

    def add(self, target: int, runs: Iterable[tuple[Any, list[tuple[Any, ...]]]]) -> None:
        """Add runs of (origin, rows) for a target. A report ends its block, because nothing of its source follows."""
        for origin, rows in runs:
            row_bytes = max(estimated_bytes(rows[0]), estimated_bytes(rows[len(rows) // 2]), estimated_bytes(rows[-1]))
            step = max(1, min(BLOCK_ROWS, BLOCK_BYTES // max(row_bytes, 1)))
            for begin in range(0, len(rows), step):
                self._add(origin, target, rows[begin : begin + step] if len(rows) > step else rows, row_bytes)
            if origin.stream == REPORT_STREAM:
                self._flush(origin.task_id, target)

    def _add(self, origin: Any, target: int, rows: list[tuple[Any, ...]], row_bytes: int) -> None:
        opened = self._open.get((origin.task_id, target))
        if opened is None:
            opened = self._open[origin.task_id, target] = _OpenBlock()
        if opened.runs and opened.runs[-1][0] == origin.stream:
            opened.runs[-1][1].extend(rows)
        else:
            opened.runs.append((origin.stream, rows))
        opened.rows += len(rows)
        opened.bytes += len(rows) * row_bytes
        if opened.rows >= BLOCK_ROWS or opened.bytes >= BLOCK_BYTES:
            self._flush(origin.task_id, target)

    def _flush(self, source: int, target: int) -> None:
        opened = self._open.pop((source, target), None)
        if opened is not None:
            self._send(source, target, opened.runs, opened.rows)

    def flush(self) -> None:
        """Pass all open blocks on."""
        for source, target in list(self._open):
            self._flush(source, target)
