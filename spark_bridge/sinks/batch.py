"""Base of all sinks. Has the identity of a micro-batch, its stored form, and the writer of a query."""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_bridge.handover import HandoverError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

QUERY_ID: Final = "sql.streaming.queryId"
"""Spark's local property with the query's id, in the thread that runs a micro-batch."""
_OWN_ERROR: Final = re.compile(r"^spark_bridge\.sinks\.batch\.SinkError: (?P<text>.*)\nFix: (?P<hint>.*)$", re.MULTILINE)


class SinkError(HandoverError):
    """A sink cannot write."""


class SinkUnavailable(SinkError):
    """The target of a sink is temporarily unavailable, full or locked. A pipeline tries again."""


@dataclass(frozen=True)
class SinkBatch:
    """Identity of a micro-batch. The batch ids of each checkpoint begin with 0."""

    query: str
    """Name of the query, which survives a restart."""
    query_id: str
    """Id of the query, which its checkpoint stores. A new checkpoint has a new id."""
    batch_id: int


@dataclass(frozen=True)
class StoredBatch:
    """Newest micro-batch of a query that a sink has stored."""

    query_id: str
    batch_id: int


def parse_stored_batch(where: str, query_id: object, batch_id: object) -> StoredBatch:
    """Return a stored batch. Raise SinkError if the values have wrong types. `where`: name of the sink in errors."""
    if not isinstance(query_id, str) or type(batch_id) is not int:
        text = f"{where}: the record of its newest micro-batch is damaged: query id {query_id!r}, batch id {batch_id!r}"
        raise SinkError(text, hint="Correct the record (the query id is a text, the batch id an integer), or write to another place.")
    return StoredBatch(query_id, batch_id)


def error_of_a_task(error: Exception) -> SinkError | None:
    """Return the SinkError that a sink's own code has raised in a task of Spark, from its text. None for other errors."""
    found = _OWN_ERROR.search(str(error))
    return None if found is None else SinkError(found["text"], hint=found["hint"])


def raised_in_a_task(error: Exception) -> bool:
    """Tell whether Python code of the query's plan, such as its source, raised the error. A sink raises such an error unchanged.

    >>> raised_in_a_task(ValueError("no such table"))
    False
    """
    return "Traceback (most recent call last)" in str(error)


class Sink(ABC):
    """Base class of sinks. A sink writes each micro-batch once."""

    @abstractmethod
    def write(self, df: "DataFrame", batch: SinkBatch) -> None:
        """Write a micro-batch, or skip a stored one. Raises SinkError."""

    def writer(self, df: "DataFrame", name: str) -> "DataStreamWriter":
        """Return the writer of a streaming query with this name. The caller sets its checkpoint and starts it.

        >>> Sqlite("counts.db", "counts").writer(batches, "counts").option("checkpointLocation", "/data/counts").start()  # doctest: +SKIP
        """

        def write(rows: "DataFrame", batch_id: int) -> None:
            self.write(rows, SinkBatch(name, query_id_of(rows.sparkSession, name), batch_id))

        return df.writeStream.queryName(name).foreachBatch(write)


def query_id_of(spark: "SparkSession", name: str) -> str:
    """Return the id of the query whose foreachBatch function is running. Raise SinkError outside of such a function.

    Spark Connect has no local properties here, so the query is found by its name.
    """
    context = getattr(spark, "_sc", None)
    found: str | None = None if context is None else context.getLocalProperty(QUERY_ID)
    found = found or next((str(query.id) for query in spark.streams.active if query.name == name), None)
    if found is None:
        text = f"no micro-batch of a query {name!r} is running"
        raise SinkError(text, hint="Write to the sink from foreachBatch of a query with this name, as sink.writer(df, name) does.")
    return found


def is_new_batch(stored: StoredBatch | None, batch: SinkBatch, where: str, replaces: str | None = None) -> bool:
    """Compare with the stored batch of this query's name, and tell whether a micro-batch must be written.

    Raises SinkError for a batch of another checkpoint, because its rows may be stored already. `replaces` is the id of a checkpoint
    that the user has abandoned.

    >>> is_new_batch(StoredBatch("a", 4), SinkBatch("counts", "a", 4), "counts.db")
    False
    """
    if stored is None or stored.query_id == replaces:
        return True
    if stored.query_id == batch.query_id:
        return batch.batch_id > stored.batch_id
    text = (
        f"{where} has micro-batches of query {batch.query!r} up to {stored.batch_id}, written with another checkpoint "
        f"(id {stored.query_id}; this one has id {batch.query_id}). Rows that both have read would be duplicated"
    )
    hint = (
        "(1) Start the query with its former checkpoint. (2) Write to another place, from the beginning. (3) If that checkpoint is "
        f'abandoned and this one begins after its last transaction, set replaces="{stored.query_id}".'
    )
    raise SinkError(text, hint=hint)
