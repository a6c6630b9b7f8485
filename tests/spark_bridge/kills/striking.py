"""Kill points of a query, chosen by a file: they kill the source's process or Spark's child."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from spark_bridge.sinks import Sink, SinkBatch
from spark_bridge.source import StormcellDataSource
from spark_bridge.source.stream_reader import HandoverStreamReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IN_SOURCE: Final = ("before planned", "after planned", "in commit", "committed")
BETWEEN: Final = "between sinks"
"""Point of a query with several sinks."""
IN_DRIVER: Final = ("before the sinks", BETWEEN, "after the sinks")
POINTS: Final = (*IN_SOURCE, *IN_DRIVER)


def choose(folder: Path, point: str, query: str) -> None:
    """Choose the point at which this query dies, once."""
    (folder / "chosen").write_text(point)
    (folder / "chosen").rename(_chosen(folder, query))


def is_chosen(folder: Path, query: str) -> bool:
    """Tell whether the query has not died yet."""
    return _chosen(folder, query).exists()


def strike_at(folder: Path, point: str, query: str | None) -> None:
    """Die if this is the chosen point."""
    chosen = _chosen(folder, str(query))
    if chosen.exists() and chosen.read_text() == point:
        chosen.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def _chosen(folder: Path, query: str) -> Path:
    return folder / f"point-{query}"


class StrikingReader(HandoverStreamReader):
    """Dies before or after an update of the consumer."""

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        self._strike("before planned")
        planned = super().partitions(start, end)
        self._strike("after planned")
        return planned

    def commit(self, end: dict[str, int]) -> None:
        self._strike("in commit")
        super().commit(end)
        self._strike("committed")

    def _strike(self, point: str) -> None:
        strike_at(Path(self._options.folder).parent, point, self._options.consumer)


class StrikingSource(StormcellDataSource):
    """The source with kill points."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StrikingReader(self._options)


class Striking(Sink):
    """Writes to the sinks of a query in turn, with kill points before, between and after them."""

    def __init__(self, sinks: Sequence[Sink], query: str, folder: str) -> None:
        self._sinks, self._query, self._folder = sinks, query, Path(folder)

    def write(self, df: "DataFrame", batch: SinkBatch) -> None:
        self._strike("before the sinks")
        for number, sink in enumerate(self._sinks):
            if number and number == 1 + batch.batch_id % (len(self._sinks) - 1):  # behind another one each time
                self._strike(BETWEEN)
            sink.write(df, batch)
        self._strike("after the sinks")

    def _strike(self, point: str) -> None:
        strike_at(self._folder, point, self._query)
