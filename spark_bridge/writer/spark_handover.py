"""`SparkHandover` writes each committed batch exactly once as Parquet files that Spark reads (SP-2, SP-3, SP-6)."""

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, cast, get_args

import pyarrow as pa

from engine.errors import UsageError
from engine.topology import BoltDeclarer, TopologyBuilder
from spark_bridge.handover import HandoverError, Storage, absolute_folder, schema_of, storage_at
from spark_bridge.handover.names import consumer_file
from spark_bridge.writer.manifest_committer import ManifestCommitter
from spark_bridge.writer.open_folder import HandoverSettings
from spark_bridge.writer.stager import Stager

OnBadRow = Literal["stop", "reject"]
MANIFEST_SUFFIX: Final = "/manifest"


@dataclass(frozen=True, eq=False)
class SparkHandover:
    """Hand-over of committed batches to Spark. `declare` adds its two components, a stager and a manifest committer, to a topology.

    >>> handover = SparkHandover("/tmp/spool", "host string not null, status int", consumers=("per-minute",))
    >>> # handover.declare(builder, "spark", parallelism=2).shuffle_grouping("clean")

    Each column takes the field of its name. Fields without a column are left out. A column stores exactly the value that a row has, or the
    row does not fit (SP-7). A timestamp takes a datetime (in UTC unless it has a zone) or an int of microseconds. One component of one
    topology writes to a folder. Behind batches the spout must be transactional. At checkpoints (EO-9) consumers that are behind hold up
    nothing, so `max_pending_batches` has no effect.
    """

    folder: str | os.PathLike[str]
    """A path, or a URL of fsspec. With `filesystem`, a path of that file system."""
    schema: pa.Schema | str
    """Schema of the rows, as a pyarrow schema or in Spark's DDL. Spark's side adds the columns `txid` and `batch_time`."""
    consumers: Collection[str] = ()
    """Names of the queries that must see every batch. Without consumers nothing is deleted and there is no backpressure."""
    max_pending_batches: int = 16
    """No new batch begins while a consumer is behind by this number of batches."""
    keep_batches: int = 0
    """Number of newest batches to keep after every consumer has committed them. The newest one is always kept."""
    on_bad_row: OnBadRow = "stop"
    """Treatment of a row that does not fit the schema. "stop" ends the run, "reject" writes the row to the folder `rejects`, under the
    same manifest."""
    compression: str = "zstd"
    """Compression of Parquet, by pyarrow's name."""
    filesystem: object = None
    """A file system of pyarrow or fsspec, instead of a URL."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the file system that fsspec makes from a URL."""

    def __post_init__(self) -> None:
        for text, hint in self._faults():
            raise UsageError(text, hint=hint)
        try:
            schema_of(self.schema)
            for name in self.consumers:
                consumer_file(name)
            self.storage()
        except HandoverError as error:
            raise UsageError(f"SparkHandover: {error.message}", hint=error.hint) from None
        if self.filesystem is None:  # an executor of Spark has another working folder
            object.__setattr__(self, "folder", absolute_folder(self.folder))

    def _faults(self) -> Iterator[tuple[str, str]]:
        consumers: object = self.consumers
        if isinstance(consumers, str) or not isinstance(consumers, Collection):
            yield f"SparkHandover(consumers) is {consumers!r}", "Give a tuple of names, such as ('per-minute',)."
        for name, least in (("max_pending_batches", 1), ("keep_batches", 0)):
            given = getattr(self, name)
            if type(given) is not int or given < least:
                yield f"SparkHandover({name}) is {given!r}", f"Give an integer of at least {least}."
        if self.on_bad_row not in get_args(OnBadRow):
            yield f"SparkHandover(on_bad_row) is {self.on_bad_row!r}", "Write 'stop' or 'reject'."
        compression = cast(object, self.compression)
        if not isinstance(compression, str) or (compression != "none" and not _is_codec(compression)):
            yield f"SparkHandover(compression) is {compression!r}", "Write 'zstd', 'snappy', 'gzip', 'lz4', 'brotli' or 'none'."

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the files."""
        return schema_of(self.schema)

    @cached_property
    def _settings(self) -> HandoverSettings:
        """Settings for the components. Cached, because resources of a task are found by its identity."""
        return HandoverSettings(
            open_storage=self.storage,
            schema=self.arrow_schema,
            compression=self.compression,
            keeps_rejects=self.on_bad_row == "reject",
            consumers=tuple(self.consumers),
            max_pending_batches=self.max_pending_batches,
            keep_batches=self.keep_batches,
        )

    def storage(self) -> Storage:
        """Return the storage of the folder."""
        return storage_at(self.folder, self.options, self.filesystem)

    def stager(self) -> Stager:
        """Return a new stager. Use this method as a factory for `set_bolt`, with any parallelism."""
        return Stager(self._settings)

    def committer(self) -> ManifestCommitter:
        """Return a new manifest committer. A factory for `set_committer`, with one task and a global grouping on the stager."""
        return ManifestCommitter(self._settings)

    def declare(self, builder: TopologyBuilder, component_id: str, parallelism: int = 1, **settings: Any) -> BoltDeclarer:
        """Declare both components, `component_id` and `component_id/manifest`. Return the declarer of the first one for its groupings.

        In a TransactionalTopologyBuilder each batch has a manifest, in a TopologyBuilder each interval between two checkpoints (EO-9).
        """
        declarer = builder.set_bolt(component_id, self.stager, parallelism, **settings)
        builder.set_committer(f"{component_id}{MANIFEST_SUFFIX}", self.committer).global_grouping(component_id)
        return declarer


def _is_codec(name: str) -> bool:
    """Tell whether this build of pyarrow can write Parquet with a compression."""
    try:
        return bool(pa.Codec.is_available(name))
    except ValueError:
        return False
