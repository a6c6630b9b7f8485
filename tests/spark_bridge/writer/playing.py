"""Topologies that hand batches over, played in virtual time, and what is in a folder, read with pyarrow alone."""

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
    """Rows that fit DDL."""
    return [(number, f"n{number}") for number in numbers]


def handover_at(kind: str, folder: Path, **settings: Any) -> SparkHandover:
    """A hand-over to a new, empty folder of this kind of storage."""
    folder.mkdir(exist_ok=True)
    return SparkHandover(schema=settings.pop("schema", DDL), **place_at(kind, folder), **settings)


def handing(handover: SparkHandover, spout: Any = None, *, tasks: int = 2, pending: int = 3, name: str = "t") -> Topology:
    """Batches of 4 of 30 numbers, or those of a spout, handed over by so many tasks."""
    source = spout or MemoryTransactionalSpout(rows_of(range(30)), FIELDS, 4)
    builder = TransactionalTopologyBuilder(name, "rows", source, max_spout_pending=pending)
    handover.declare(builder, "spark", tasks).shuffle_grouping("rows")
    return builder.build()


def run_hand_over(handover: SparkHandover, spout: Any = None, *, state: Path | None = None, **how: Any) -> Finished:
    """Run it to its end."""
    settings = {} if state is None else {"state_provider": f"sqlite:///{state}"}
    shape = {key: how.pop(key) for key in ("tasks", "pending", "name") if key in how}
    return run_topology(handing(handover, spout, **shape), Config(**settings, **how.pop("config", {})), **how)


def opened(handover: SparkHandover) -> Handover:
    """The folder as a reader has it."""
    return Handover.open(handover.folder, handover.options, filesystem=handover.filesystem)


def read_back(handover: SparkHandover) -> list[list[dict[str, Any]]]:
    """The rows of each batch that is there, by its manifest; their counts and sizes are those of the files."""
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
    """All numbers that are there, in order."""
    return sorted(row["number"] for batch in read_back(handover) for row in batch)


def staged(handover: SparkHandover) -> set[str]:
    """The names of all Parquet files."""
    storage = handover.storage()
    return {f"{folder}/{name}" for folder in ("files", "rejects") for name in storage.names(folder)}


def named(handover: SparkHandover) -> set[str]:
    """The names of those that a manifest names."""
    folder = opened(handover)
    manifests = [folder.manifest(txid) for txid in range(folder.deleted() + 1, folder.newest() + 1)]
    return {file.name for manifest in manifests for file in (*manifest.files, *manifest.rejects)}
