"""Validated settings of a hand-over, for the components that write it."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from spark_bridge.handover import Storage


@dataclass(frozen=True, eq=False)
class HandoverSettings:
    """Settings of one `SparkHandover`, which is the public form of them. One instance per hand-over: it is a key of open resources."""

    open_storage: Callable[[], Storage]
    schema: pa.Schema
    compression: str
    keeps_rejects: bool
    """False: a row that does not fit the schema ends the run."""
    consumers: tuple[str, ...]
    max_pending_batches: int
    keep_batches: int
