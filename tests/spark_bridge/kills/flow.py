"""The killed programs: numbers in files become committed batches, which queries write to each ready-made sink.

numbers in files → parse → spark (2 stagers) → spark/manifest     rows: into parquet, delta, sqlite, postgres; windows: how many a minute
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from engine import BasicBolt, Burst, Topology, Tuple
from engine.transactional import BurstBolt, FileTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge import Delta, Parquet, Postgres, SparkConfig, SparkHandover, Sqlite
from spark_bridge.pipeline import pipeline
from spark_bridge.sinks import Sink
from tests.servers.spark_programs import JVM_OPTIONS
from tests.servers.spark_session import DELTA_SETTINGS
from tests.spark_bridge.kills.places import WINDOWS, Places
from tests.spark_bridge.kills.striking import Striking, StrikingSource

SCHEMA: Final = "number bigint not null, at timestamp not null"
BEGAN_SECS: Final = 1_700_000_040
"""Time of number 0, at the begin of a minute. Each number is one second later."""
MICROS: Final = 1_000_000
WINDOW_SECS: Final = 60
MAX_PENDING_BATCHES: Final = 12
TRANSACTIONS_PER_BATCH: Final = 4


class Parse(BasicBolt):
    """Converts lines to rows."""

    output_fields = ("number", "at")

    def execute(self, tup: Tuple) -> list[tuple[int, int]]:  # type: ignore[override]
        return [row_of(tup["line"])]


class ParseMany(BurstBolt):
    """Does the same in bursts."""

    output_fields = ("number", "at")

    def execute_many(self, burst: Burst) -> None:
        self.collector.emit_many([row_of(line) for line in burst["line"]])

    def finish_batch(self) -> None:
        """Emit nothing more."""


def row_of(line: str) -> tuple[int, int]:
    """Return the row of a line."""
    number = int(line)
    return number, (BEGAN_SECS + number) * MICROS


def handover_of(places: Places) -> SparkHandover:
    """Return the hand-over of all lives."""
    return SparkHandover(places.path("handover"), SCHEMA, consumers=places.queries, max_pending_batches=MAX_PENDING_BATCHES)


def topology_of(places: Places, *, bolts: str, batch: int, pending: int, stop_at_end: bool) -> Topology:
    """Return the topology, which hands over lines of files in two tasks. `bolts`: a form of the bolts from `BOLTS`."""
    processes = "processes" in bolts
    spout = FileTransactionalSpout(places.path("lines"), batch_lines=batch, stop_at_end=stop_at_end)
    builder = TransactionalTopologyBuilder("numbers", "lines", spout, 2, max_spout_pending=pending)
    builder.set_bolt("parse", ParseMany if "bursts" in bolts else Parse, 2, processes=processes).shuffle_grouping("lines")
    handover_of(places).declare(builder, "spark", 2, processes=processes).shuffle_grouping("parse")
    return builder.build()


def sinks_of(places: Places) -> Mapping[str, Sink]:
    """Return the sinks of the rows and the sink of the windows, by name."""
    return {
        "parquet": Parquet(str(places.path("parquet"))),
        "delta": Delta(str(places.path("delta"))),
        "sqlite": Sqlite(str(places.path("rows.db")), "rows"),
        "postgres": Postgres(places.database, places.table),
        WINDOWS: Sqlite(str(places.path("windows.db")), WINDOWS, key="second"),
    }


def pipeline_of(places: Places) -> Callable[..., object]:
    """Return the pipeline. Its kill points are in `striking`."""

    @pipeline(name="kills")
    def queries(stream: Any) -> dict[str, Any]:
        if places.master.startswith("local"):  # executors elsewhere do not know the tests
            stream.sparkSession.dataSource.register(StrikingSource)
        rows = stream.select("number", "txid")
        sinks = sinks_of(places)
        striking = {
            name: Striking([sinks[sink] for sink in own], name, places.folder)
            for name, own in {**places.row_queries, WINDOWS: (WINDOWS,)}.items()
        }
        writers = {name: striking[name].writer(rows, name) for name in places.row_queries}
        return {**writers, WINDOWS: striking[WINDOWS].writer(per_window(stream), WINDOWS).outputMode("update")}

    return queries


def per_window(stream: Any) -> Any:
    """Return the number of rows per window, by the second of its begin."""
    from pyspark.sql import functions as F

    windows = stream.withWatermark("at", "10 minutes").groupBy(F.window("at", f"{WINDOW_SECS} seconds"))
    return windows.count().select(F.unix_timestamp("window.start").alias("second"), "count")


def spark_config(places: Places) -> SparkConfig:
    """Return a small configuration with Delta Lake and PostgreSQL's driver."""
    conf: dict[str, Any] = {
        "spark.sql.shuffle.partitions": 2,
        "spark.driver.extraJavaOptions": JVM_OPTIONS,
        "spark.local.dir": str(places.path("spark")),
        **(DELTA_SETTINGS if places.has_delta else {}),
    }
    if not places.master.startswith("local"):
        from tests.servers.spark_cluster import driver_settings

        conf |= {name: value for name, value in driver_settings().items() if name != "spark.executor.memory"}
    memory = None if places.master.startswith("local") else "512m"
    return SparkConfig(
        master=places.master,
        driver_memory="768m",
        executor_memory=memory,
        conf=conf,
        jars=places.jars,
        log_file=str(places.path("spark.log")),
        app_name="killed",
    )
