"""What all sinks share: a micro-batch, what is noted of it, and how a query is connected."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_bridge.handover import HandoverError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

QUERY_ID: Final = "sql.streaming.queryId"
"""What Spark calls it in the thread that runs a micro-batch."""


class SinkError(HandoverError):
    """A sink cannot write; says what, where, and what to do."""


class SinkUnavailable(SinkError):
    """What a sink writes to is away, full, or held by another just now. A pipeline tries again by itself."""


@dataclass(frozen=True)
class SinkBatch:
    """A micro-batch. The first of each checkpoint is 0."""

    query: str
    """The query's name: the same one after a restart."""
    query_id: str
    """Of its checkpoint: another checkpoint, another id."""
    batch_id: int


@dataclass(frozen=True)
class Noted:
    """The newest micro-batch that a sink holds of a query."""

    query_id: str
    batch_id: int


def noted_of(where: str, query_id: object, batch_id: object) -> Noted:
    """Return what a sink's note says; raise SinkError where it can be none of ours. `where`: the sink, as errors name it."""
    if not isinstance(query_id, str) or type(batch_id) is not int:
        text = f"{where}: the note of its newest micro-batch says {batch_id!r} of query {query_id!r}, which is none"
        raise SinkError(text, hint="Correct the note (the id of the query is a text, the micro-batch a number), or write to another place.")
    return Noted(query_id, batch_id)


def raised_in_a_task(error: Exception) -> bool:
    """Tell whether Python code of the query's plan has raised it, such as its source: then it says itself what, and where.

    >>> raised_in_a_task(ValueError("no such table"))
    False
    """
    return "Traceback (most recent call last)" in str(error)


class Sink(ABC):
    """Writes micro-batches, each once."""

    @abstractmethod
    def write(self, df: "DataFrame", batch: SinkBatch) -> None:
        """Write a micro-batch, or skip it where it is there. Raises SinkError."""

    def writer(self, df: "DataFrame", name: str) -> "DataStreamWriter":
        """Return the writer of a streaming query with this name; give it a checkpoint and start it.

        >>> Sqlite("counts.db", "counts").writer(batches, "counts").option("checkpointLocation", "/data/counts").start()  # doctest: +SKIP
        """

        def write(rows: "DataFrame", batch_id: int) -> None:
            self.write(rows, SinkBatch(name, query_id_of(rows.sparkSession, name), batch_id))

        return df.writeStream.queryName(name).foreachBatch(write)


def query_id_of(spark: "SparkSession", name: str) -> str:
    """Return the id of the query whose micro-batch is written now, in a function of foreachBatch; raise SinkError elsewhere.

    In a session of Spark Connect, which has no such thread, it is found by its name.
    """
    context = getattr(spark, "_sc", None)
    found: str | None = None if context is None else context.getLocalProperty(QUERY_ID)
    found = found or next((str(query.id) for query in spark.streams.active if query.name == name), None)
    if found is None:
        text = f"no query {name!r} writes a micro-batch here"
        raise SinkError(text, hint="Call it from the function that foreachBatch calls, in a query of that name: sink.writer(df, name).")
    return found


def is_new(noted: Noted | None, batch: SinkBatch, where: str, replaces: str | None = None) -> bool:
    """Tell whether a micro-batch is to be written, by what the sink holds of this query's name.

    Raises SinkError where it is of another checkpoint, since it may hold rows that are there; `replaces` is the id of the checkpoint that
    the user gave up.

    >>> is_new(Noted("a", 4), SinkBatch("counts", "a", 4), "counts.db")
    False
    """
    if noted is None or noted.query_id == replaces:
        return True
    if noted.query_id == batch.query_id:
        return batch.batch_id > noted.batch_id
    text = (
        f"{where} has micro-batches of query {batch.query!r} up to {noted.batch_id}, written with another checkpoint "
        f"(its id is {noted.query_id}, that of this one {batch.query_id}): rows that both have read would be there twice"
    )
    hint = (
        "(1) Start the query with the checkpoint that it had. (2) Write to another place, from the beginning. (3) If that checkpoint is "
        f'given up and this one begins behind it, say so: replaces="{noted.query_id}".'
    )
    raise SinkError(text, hint=hint)
