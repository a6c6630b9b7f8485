"""Runs topologies that hand batches over, in virtual time, and reads a folder with pyarrow alone."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from engine import Config, Topology
from engine.testing import Finished, run_topology
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge import Handover, SparkHandover
from tests.spark_bridge.handover.places import place_at

DDL: Final = "number long not null, name string"
FIELDS: Final = ("number", "name")


def rows_of(numbers: Iterable[int]) -> list[tuple[int, str]]:
    """Return rows that fit DDL."""
    return [(number, f"n{number}") for number in numbers]


def handover_at(kind: str, folder: Path, **settings: Any) -> SparkHandover:
    """Return a hand-over to a new, empty folder on this kind of storage."""
    folder.mkdir(exist_ok=True)
    return SparkHandover(schema=settings.pop("schema", DDL), **place_at(kind, folder), **settings)


def handing(handover: SparkHandover, spout: Any = None, *, tasks: int = 2, pending: int = 3, name: str = "t") -> Topology:
    """Build a topology that hands over batches of a spout, by default 30 numbers in batches of 4."""
    source = spout or MemoryTransactionalSpout(rows_of(range(30)), FIELDS, 4)
    builder = TransactionalTopologyBuilder(name, "rows", source, max_spout_pending=pending)
    handover.declare(builder, "spark", tasks).shuffle_grouping("rows")
    return builder.build()


def run_hand_over(handover: SparkHandover, spout: Any = None, *, state: Path | None = None, **how: Any) -> Finished:
    """Run a hand-over to its end."""
    settings = {} if state is None else {"state_provider": f"sqlite:///{state}"}
    shape = {key: how.pop(key) for key in ("tasks", "pending", "name") if key in how}
    return run_topology(handing(handover, spout, **shape), Config(**settings, **how.pop("config", {})), **how)


def opened(handover: SparkHandover) -> Handover:
    """Open the folder for reading."""
    return Handover.open(handover.folder, handover.options, filesystem=handover.filesystem)


def read_back(handover: SparkHandover) -> list[list[dict[str, Any]]]:
    """Return the rows of each visible batch; check counts, sizes and schema of its files on the way."""
    folder, batches = opened(handover), []
    for txid in range(folder.deleted() + 1, folder.newest() + 1):
        manifest, rows = folder.manifest(txid), []
        for file in manifest.files:
            table = pq.read_table(folder.open_input(file), page_checksum_verification=True)
            assert table.schema.equals(handover.arrow_schema)
            assert table.num_rows == file.rows > 0
            assert len(folder.storage.read(file.name) or b"") == file.bytes
            rows += table.to_pylist()
        assert len(rows) == manifest.rows
        batches.append(rows)
    return batches


def numbers(handover: SparkHandover) -> list[int]:
    """Return all visible numbers, sorted."""
    return sorted(row["number"] for batch in read_back(handover) for row in batch)


def staged(handover: SparkHandover) -> set[str]:
    """Return the names of all Parquet files, visible or not."""
    storage = handover.storage()
    return {f"{folder}/{name}" for folder in ("files", "rejects") for name in storage.names(folder)}


def named(handover: SparkHandover) -> set[str]:
    """Return the names of the Parquet files that a manifest names."""
    folder = opened(handover)
    manifests = [folder.manifest(txid) for txid in range(folder.deleted() + 1, folder.newest() + 1)]
    return {file.name for manifest in manifests for file in (*manifest.files, *manifest.rejects)}
