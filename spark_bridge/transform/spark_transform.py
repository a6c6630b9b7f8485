"""`SparkTransform`: a batch goes through Spark in the processing phase, beside the loop (SP-4)."""

import os
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from engine.api import Fields, Tuple, declare_streams, takes
from engine.errors import UsageError
from engine.names import DEFAULT_STREAM
from engine.transactional import BatchBolt
from spark_bridge.handover import HandoverError, ddl_of, schema_of
from spark_bridge.process import SharedSpark, SparkConfig
from spark_bridge.transform.job import Job, run
from spark_bridge.transform.share import OpenSpool, Share, Spool
from spark_bridge.writer.columns import Row


@dataclass(frozen=True, eq=False)
class SparkTransform:
    """For `set_bolt`, with any parallelism: each task sends its share of a batch through `function`, and emits the rows that come.

    >>> def clean(rows):
    ...     return rows.dropDuplicates(["host", "path"])
    >>> transform = SparkTransform(clean, schema="host string, path string", output_fields=("host", "path"))
    >>> # builder.set_bolt("clean", transform, parallelism=2).fields_grouping("lines", "host")

    `function` takes a DataFrame and returns one; it runs in Spark's process, and nothing that it changes outside is seen here. A share
    without rows makes no job. With `max_spout_pending` above 1 the jobs of several batches run at once. What fails the job fails the batch,
    which is replayed; an attempt that is replaced has its job cancelled. A row that does not fit the schema ends the run.
    """

    function: Callable[[Any], Any]
    schema: pa.Schema | str
    """Of the input: by pyarrow, or in Spark's DDL. A column takes the field of its name; fields without a column are left out."""
    output_fields: Fields | str | tuple[str, ...]
    """The columns of the result that become the fields of the tuples, by name."""
    config: SparkConfig = field(default_factory=SparkConfig)
    """Equal ones share one Spark."""
    spool: str | os.PathLike[str] | None = None
    """A folder that this machine and all executors reach under this path. Without it, files that are temporary where Spark runs on this
    machine; elsewhere the rows go through the driver, which costs twice the time and the driver's memory."""

    def __post_init__(self) -> None:
        for text, hint in self._faults():
            raise UsageError(f"SparkTransform({text}", hint=hint)
        try:
            schema_of(self.schema)
        except HandoverError as error:
            raise UsageError(f"SparkTransform: {error.message}", hint=error.hint) from None  # it says all that the other one does
        declare_streams(self.output_fields)

    def _faults(self) -> Iterator[tuple[str, str]]:
        function: object = self.function
        if not callable(function) or not takes(function, 1):
            yield f"function) is {function!r}", "Give a function of a DataFrame that returns one."
        config: object = self.config
        if not isinstance(config, SparkConfig):
            yield f"config) is {config!r}", 'Give a SparkConfig, such as SparkConfig(master="local[2]").'
        spool: object = self.spool
        if spool is not None and not (isinstance(spool, (str, os.PathLike)) and os.fspath(spool)):
            yield f"spool) is {spool!r}", "Name a folder that the executors reach too, or None."
        output_fields: object = self.output_fields
        if not isinstance(output_fields, (Fields, str, tuple, list)):
            yield f"output_fields) is {output_fields!r}", 'Name the columns of the result, such as ("host", "hits"): it has one stream.'

    def create(self) -> "SparkTransformer":
        """Return a new bolt."""
        return SparkTransformer(self)


class SparkTransformer(BatchBolt):
    """One attempt at one task."""

    def __init__(self, transform: SparkTransform) -> None:
        self._transform = transform
        self._schema: Final = schema_of(transform.schema)
        self._fields: Final = declare_streams(transform.output_fields)[DEFAULT_STREAM]
        self.output_fields = self._fields
        self.reads: Final = tuple(self._schema.names)
        """The fields of its input that become columns."""
        self._tuples: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        self._tuples.append(tup)

    async def finish_batch(self) -> None:
        if not self._tuples:
            return
        transform = self._transform
        spark = await self.resources.opened(SharedSpark(transform.config))
        spool = await self.resources.opened(Spool(None if transform.spool is None else os.fspath(transform.spool)))
        share = await spool.call(lambda: spool.share(self.attempt))
        try:
            await spool.call(self._write_to(share))
            rows = await spark.call(run, self._job(share))
            self.context.counter("spark_jobs").add()
            self.context.counter("spark_result_rows").add(rows)
            await self._emit(share.slices(rows), spool)
        finally:
            spool.call_later(share.remove)

    def _write_to(self, share: Share) -> Callable[[], None]:
        """Return what writes the tuples, which are let go of."""
        tuples, self._tuples = self._tuples, []
        return lambda: share.write(self._schema, tuples)

    def _job(self, share: Share) -> Job:
        transform = self._transform
        executors_read = transform.spool is not None or transform.config.is_on_this_machine
        return Job(transform.function, ddl_of(self._schema), share.rows_path, share.result_path, self._fields.names, executors_read)

    async def _emit(self, slices: Generator[list[Row]], spool: OpenSpool) -> None:
        """Emit the rows of the result, a slice at a time, as fast as they are taken."""
        try:
            while rows := await spool.call(lambda: next(slices, None)):
                self.collector.emit_many(rows)
                await self.collector.ready()
        finally:
            spool.call_later(slices.close)
