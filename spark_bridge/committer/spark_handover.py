"""`SparkHandover`: each committed batch as Parquet files that Spark reads, exactly once (SP-2, SP-3, SP-6)."""

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, cast, get_args

import pyarrow as pa

from engine.errors import UsageError
from engine.topology import BoltDeclarer
from engine.transactional import TransactionalTopologyBuilder
from spark_bridge.committer.decider import Decider
from spark_bridge.committer.share_writer import Style
from spark_bridge.committer.stager import Stager
from spark_bridge.handover import HandoverError, Storage, schema_of, storage_at
from spark_bridge.handover.names import consumer_file

OnBadRow = Literal["stop", "reject"]
MANIFEST_SUFFIX: Final = "/manifest"


@dataclass(frozen=True, eq=False)
class SparkHandover:
    """Two components, a stager and a decider; `declare` declares both.

    >>> handover = SparkHandover("/tmp/spool", "host string not null, status int", consumers=("per-minute",))
    >>> # handover.declare(builder, "spark", parallelism=2).shuffle_grouping("clean")

    A column takes the field of its name; fields without a column are left out. A timestamp takes a datetime, which is of UTC where it has
    no zone, or an int of microseconds. One component of one topology writes to a folder, and its spout is a transactional one.
    """

    folder: str | os.PathLike[str]
    """A path, or a URL as fsspec knows it; with `filesystem` a path as that knows it."""
    schema: pa.Schema | str
    """By pyarrow, or in Spark's DDL. Not `txid` and `batch_time`, which Spark's side adds."""
    consumers: Collection[str] = ()
    """Names of the queries that must see every batch. Without any nothing is deleted, and nothing is held back."""
    max_pending_batches: int = 16
    """How many batches there may be that a consumer has not begun to read."""
    keep_batches: int = 0
    """How many of the newest batches stay though every consumer has committed them."""
    on_bad_row: OnBadRow = "stop"
    """What a row does that does not fit the schema: it ends the run, or goes to the folder `rejects`, under the same manifest."""
    compression: str = "zstd"
    """Of Parquet, as pyarrow names it."""
    filesystem: object = None
    """Of pyarrow or fsspec, instead of a URL."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """For the file system that fsspec makes of a URL."""

    def __post_init__(self) -> None:
        for text, hint in self._faults():
            raise UsageError(text, hint=hint)
        try:
            schema_of(self.schema)
            for name in self.consumers:
                consumer_file(name)
            self.storage()
        except HandoverError as error:
            raise UsageError(f"SparkHandover: {error.message}", hint=error.hint) from None  # it says all that the other one does

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
        """The schema that is written."""
        return schema_of(self.schema)

    @property
    def style(self) -> Style:
        """How rows are written."""
        return Style(self.arrow_schema, self.compression, self.on_bad_row == "reject")

    def storage(self) -> Storage:
        """Return where the folder is."""
        return storage_at(self.folder, self.options, self.filesystem)

    def stager(self) -> Stager:
        """Return a new stager: a factory for `set_bolt`, with any parallelism."""
        return Stager(self)

    def committer(self) -> Decider:
        """Return a new decider: a factory for `set_committer`, with one task behind a global grouping on the stager."""
        return Decider(self)

    def declare(self, builder: TransactionalTopologyBuilder, component_id: str, parallelism: int = 1, **settings: Any) -> BoltDeclarer:
        """Declare both components, `component_id` and `component_id/manifest`; return the declarer of the first, to subscribe it by."""
        declarer = builder.set_bolt(component_id, self.stager, parallelism, **settings)
        builder.set_committer(f"{component_id}{MANIFEST_SUFFIX}", self.committer).global_grouping(component_id)
        return declarer


def _is_codec(name: str) -> bool:
    """Tell whether Parquet can be written with it here."""
    try:
        return bool(pa.Codec.is_available(name))
    except ValueError:
        return False
