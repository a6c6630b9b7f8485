"""What tests of a reader ask it, in the words of Spark."""

from collections.abc import Callable
from typing import Any

from spark_bridge.handover import Position
from spark_bridge.source.stream_reader import HandoverStreamReader
from tests.spark_bridge.writing import Writer

MakesReader = Callable[..., HandoverStreamReader]


def at(txid: int) -> dict[str, int]:
    """An offset."""
    return {"txid": txid}


def position(writer: Writer) -> Position:
    """Where the consumer of the fixture stands."""
    return writer.handover.consumer("c").read()


def rows_of(reader: HandoverStreamReader, partitions: Any) -> list[tuple[Any, ...]]:
    """What executors read of these partitions."""
    batches = [batch for partition in partitions for batch in reader.read(partition)]
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
