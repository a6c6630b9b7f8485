"""`SparkTransform` sends a batch through Spark in the processing phase, outside the event loop (SP-4)."""

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
from spark_bridge.transform.job import Job, run_job
from spark_bridge.transform.spool import AttemptFiles, OpenSpool, Spool
from spark_bridge.writer.columns import Row


@dataclass(frozen=True, eq=False)
class SparkTransform:
    """Bolt that sends its rows of a batch through `function` on Spark, and emits the result. For `set_bolt`, with any parallelism.

    >>> def clean(rows):
    ...     return rows.dropDuplicates(["host", "path"])
    >>> transform = SparkTransform(clean, schema="host string, path string", output_fields=("host", "path"))
    >>> # builder.set_bolt("clean", transform, parallelism=2).fields_grouping("lines", "host")

    `function` takes a DataFrame and returns one. The function runs in Spark's process, so its changes to global variables are not visible
    here. A task without rows starts no job. With `max_spout_pending` above 1, the jobs of several batches run at the same time. A failed
    job fails the batch, which is replayed. The job of a replaced attempt is cancelled. A row that does not fit the schema ends the run.
    """

    function: Callable[[Any], Any]
    schema: pa.Schema | str
    """Schema of the input, as a pyarrow schema or in Spark's DDL. A column takes the field of its name. Other fields are ignored.
    """
    output_fields: Fields | str | tuple[str, ...]
    """Columns of the result, by name, which become the fields of the emitted tuples."""
    config: SparkConfig = field(default_factory=SparkConfig)
    """Tasks with an equal configuration share one Spark process."""
    spool: str | os.PathLike[str] | None = None
    """Folder that this machine and all executors can access under this path.

    The default is a folder for temporary files if Spark runs on this machine. Otherwise the rows go through the driver, which takes twice
    the time, and the driver's memory.
    """

    def __post_init__(self) -> None:
        for text, hint in self._faults():
            raise UsageError(f"SparkTransform({text}", hint=hint)
        try:
            schema_of(self.schema)
        except HandoverError as error:
            raise UsageError(f"SparkTransform: {error.message}", hint=error.hint) from None  # the cause has the same text
        declare_streams(self.output_fields)

    def _faults(self) -> Iterator[tuple[str, str]]:
        function: object = self.function
        if not callable(function) or not takes(function, 1):
            yield f"function) is {function!r}", "Give a function that takes a DataFrame and returns one."
        config: object = self.config
        if not isinstance(config, SparkConfig):
            yield f"config) is {config!r}", 'Give a SparkConfig, such as SparkConfig(master="local[2]").'
        spool: object = self.spool
        if spool is not None and not (isinstance(spool, (str, os.PathLike)) and os.fspath(spool)):
            yield f"spool) is {spool!r}", "Give a folder that the executors can access, or None."
        output_fields: object = self.output_fields
        if not isinstance(output_fields, (Fields, str, tuple, list)):
            yield (
                f"output_fields) is {output_fields!r}",
                'Give columns of the result, such as ("host", "hits"). The bolt has one stream.',
            )

    def create(self) -> "SparkTransformer":
        """Return a new bolt."""
        return SparkTransformer(self)


class SparkTransformer(BatchBolt):
    """Bolt of one attempt at one task."""

    def __init__(self, transform: SparkTransform) -> None:
        self._transform = transform
        self._schema: Final = schema_of(transform.schema)
        self._fields: Final = declare_streams(transform.output_fields)[DEFAULT_STREAM]
        self.output_fields = self._fields
        self.reads: Final = tuple(self._schema.names)
        """Fields of the input that become columns."""
        self._tuples: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        self._tuples.append(tup)

    async def finish_batch(self) -> None:
        if not self._tuples:
            return
        transform = self._transform
        spark = await self.resources.opened(SharedSpark(transform.config))
        spool = await self.resources.opened(Spool(None if transform.spool is None else os.fspath(transform.spool)))
        files = await spool.run_in_thread(lambda: spool.create_files(self.attempt))
        try:
            await spool.run_in_thread(self._write_to(files))
            row_count = await spark.call(run_job, self._job(files))
            self.context.counter("spark_jobs").add()
            self.context.counter("spark_result_rows").add(row_count)
            await self._emit(files.read_slices(row_count), spool)
        finally:
            spool.run_later(files.remove)

    def _write_to(self, files: AttemptFiles) -> Callable[[], None]:
        """Return a function that writes the tuples. The bolt drops its own reference to free the memory early."""
        tuples, self._tuples = self._tuples, []
        return lambda: files.write_rows(self._schema, tuples)

    def _job(self, files: AttemptFiles) -> Job:
        transform = self._transform
        executors_read = transform.spool is not None or transform.config.is_on_this_machine
        return Job(transform.function, ddl_of(self._schema), files.rows_path, files.result_path, self._fields.names, executors_read)

    async def _emit(self, slices: Generator[list[Row]], spool: OpenSpool) -> None:
        """Emit the result slice by slice. Waits while the targets are full."""
        try:
            while rows := await spool.run_in_thread(lambda: next(slices, None)):
                self.collector.emit_many(rows)
                await self.collector.ready()
        finally:
            spool.run_later(slices.close)
