"""Helpers for tests of a reader, with Spark's terms."""

from collections.abc import Callable
from typing import Any

from spark_bridge.handover import Position
from spark_bridge.source.stream_reader import HandoverStreamReader
from tests.spark_bridge.writing import Writer

MakesReader = Callable[..., HandoverStreamReader]


def at(txid: int) -> dict[str, int]:
    """Return an offset."""
    return {"txid": txid}


def position(writer: Writer) -> Position:
    """Return the position of the fixture's consumer."""
    return writer.handover.consumer("c").read()


def rows_of(reader: HandoverStreamReader, partitions: Any) -> list[tuple[Any, ...]]:
    """Return the rows that executors read from these partitions."""
    batches = [batch for partition in partitions for batch in reader.read(partition)]
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
