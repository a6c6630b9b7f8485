"""Values of Parquet files, so that readers other than Spark find the values that were written."""

from typing import TYPE_CHECKING, Final

from spark_bridge.sinks.batch import SinkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

SETTINGS: Final = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # Spark's default, INT96, has no range and no statistics in other readers
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",  # Spark may otherwise write days before 1582-10-15 in the Julian calendar
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}
"""Settings of the session that writes, because Spark has no options of a writer for them."""
NO_TYPE: Final = ("time", "interval")
"""Names of Spark's types that its writer of Parquet refuses without the name of the column."""


def write_exact_times(spark: "SparkSession") -> None:
    """Set the session that writes. The sinks never set it back, since the queries of a Connect session share it and write concurrently."""
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)


def check_types(schema: "StructType", where: str) -> None:
    """Raise SinkError for a column whose type Parquet files do not have. `where`: name of the sink."""
    for column in schema:
        if (kind := _refused(column.dataType)) is not None:
            text = f"{where}: column {column.name!r} has the type {kind}, which Spark cannot write to Parquet files"
            raise SinkError(text, hint="Convert it in the query with cast('string'), or leave it out.")


def _refused(kind: "DataType") -> str | None:
    """Return the first type in a type that cannot be written."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, ArrayType):
        return _refused(kind.elementType)
    if isinstance(kind, MapType):
        return _refused(kind.keyType) or _refused(kind.valueType)
    if isinstance(kind, StructType):
        return next(filter(None, (_refused(inner.dataType) for inner in kind)), None)
    name = kind.simpleString()
    return name if name.partition("(")[0] in NO_TYPE else None
