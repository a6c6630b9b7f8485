"""A query that dies at a chosen point: the source's process, or the driver and its JVM (kill -9).

python -m tests.spark_bridge.sinks.crashing FOLDER DATABASE KIND ...     a driver, which dies at the point in the file `point`
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from spark_bridge.sinks import Sink, SinkBatch
from spark_bridge.source import StormcellDataSource
from spark_bridge.source.stream_reader import HandoverStreamReader
from tests.servers.spark_session import session
from tests.spark_bridge.sinks.kinds import place_of, sink_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IN_SOURCE: Final = ("before planned", "after planned", "in commit")
IN_DRIVER: Final = ("between sinks", "after the sinks")


def crash_at(point: str, folder: Path) -> None:
    """Die if this is the chosen point, once."""
    chosen = folder / "point"
    if chosen.exists() and chosen.read_text() == point:
        chosen.unlink()
        if point in IN_DRIVER:
            os.kill(int((folder / "jvm").read_text()), signal.SIGKILL)
        os._exit(1)


class CrashingReader(HandoverStreamReader):
    """Dies before or after an update of the consumer."""

    @property
    def _folder(self) -> Path:
        return Path(self._options.folder).parent

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        crash_at("before planned", self._folder)
        planned = super().partitions(start, end)
        crash_at("after planned", self._folder)
        return planned

    def commit(self, end: dict[str, int]) -> None:
        crash_at("in commit", self._folder)
        super().commit(end)


class CrashingSource(StormcellDataSource):
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return CrashingReader(self._options)


class Several(Sink):
    """Writes to several sinks in turn."""

    def __init__(self, sinks: Sequence[Sink], folder: Path) -> None:
        self.sinks, self._folder = sinks, folder

    def write(self, df: "DataFrame", batch: SinkBatch) -> None:
        for number, sink in enumerate(self.sinks):
            if number == len(self.sinks) // 2:
                crash_at("between sinks", self._folder)
            sink.write(df, batch)
        crash_at("after the sinks", self._folder)


def sinks_of(kinds: Sequence[str], folder: Path, database: str) -> list[Sink]:
    """Return a sink of each kind, in its own folder."""
    places = {kind: folder / kind.replace(" ", "-") for kind in kinds}
    for place in places.values():
        place.mkdir(exist_ok=True)
    return [sink_of(kind, place_of(kind, place, lambda: database)) for kind, place in places.items()]


def run(spark: Any, sinks: Sequence[Sink], folder: Path) -> None:
    """Process all transactions, one per micro-batch."""
    spark.dataSource.register(CrashingSource)
    options = {"consumer": "c", "maxTransactionsPerBatch": "1"}
    batches = spark.readStream.format("stormcell").options(**options).load(str(folder / "handover"))
    query = Several(sinks, folder).writer(batches, "words").option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def main(folder: Path, database: str, *kinds: str) -> None:
    with session(folder / "spark") as spark:
        (folder / "jvm").write_text(str(spark._jvm.java.lang.ProcessHandle.current().pid()))
        run(spark, sinks_of(kinds, folder, database), folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
