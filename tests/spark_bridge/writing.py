"""Writes a hand-over folder without an engine, in the order of the committer: files first, then the manifest."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_bridge.handover import Contract, Handover, Manifest, StagedFile, Storage, schema_of, storage_at
from spark_bridge.handover.handover import mark_deleted
from spark_bridge.handover.manifest import digest_of
from spark_bridge.handover.names import CONSUMERS, CONTRACT, FILES, FOLDERS, StagedName

SCHEMA: Final = "word string not null, n bigint"
TIME_MS: Final = 1_700_000_000_000


class Writer:
    """One hand-over. Its rows are (word, n) by default. Without `digests`, its manifests are of an earlier version."""

    def __init__(
        self, folder: Path, *, schema: str = SCHEMA, consumers: Sequence[str] = (), by_attempt: bool = False, digests: bool = True
    ) -> None:
        self.folder = str(folder)
        self.storage: Storage = storage_at(self.folder)
        self.schema = schema_of(schema)
        self.newest = 0
        self._by_attempt, self._digests = by_attempt, digests
        for name in ("", *FOLDERS):
            self.storage.make_folder(name)
        contract = Contract("test", "spark", self.schema, "by attempt" if by_attempt else "exclusive")
        self.storage.create(CONTRACT, contract.encoded())
        for consumer in consumers:
            self.handover.consumer(consumer).add()

    @property
    def handover(self) -> Handover:
        """Return the hand-over as readers see it."""
        return Handover.open(self.folder)

    def commit(self, *parts: Sequence[tuple[Any, ...]], attempt: int = 1) -> int:
        """Commit the next txid with one file per part, and return it."""
        txid = self.newest + 1
        files = tuple(self._stage(txid, attempt, number, rows) for number, rows in enumerate(parts))
        self._publish(Manifest(txid, attempt, TIME_MS + txid, files))
        self.newest = txid
        return txid

    def commit_many(self, count: int, rows: int = 10) -> None:
        """Commit `count` txids with `rows` rows each, in two files: ("<txid>", 0 …)."""
        for _ in range(count):
            made = [(str(self.newest + 1), number) for number in range(rows)]
            self.commit(made[: rows // 2], made[rows // 2 :])

    def delete_up_to(self, txid: int) -> None:
        """Delete transactions in the order of the engine."""
        mark_deleted(self.storage, txid)
        for number in range(1, txid + 1):
            self.storage.remove(f"manifests/{number:012}.json")

    def consumer_file(self, name: str) -> str:
        """Return the path of a consumer's file."""
        return os.path.join(self.folder, CONSUMERS, f"{name}.json")

    def _stage(self, txid: int, attempt: int, task: int, rows: Sequence[tuple[Any, ...]]) -> StagedFile:
        name = str(StagedName(txid, attempt, task, 8, 0, FILES))
        columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), self.schema, strict=True)]
        with self.storage.open_output(name) as file:
            pq.write_table(pa.Table.from_arrays(columns, schema=self.schema), file, compression="zstd")
        content = self.storage.read(name) or b""
        return StagedFile(name, len(rows), len(content), digest_of(content) if self._digests else None)

    def _publish(self, manifest: Manifest) -> None:
        name = str(manifest.name(by_attempt=self._by_attempt))
        assert self.storage.create(name, manifest.encoded())
