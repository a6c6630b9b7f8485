"""A hand-over folder with known rows, in the format of the engine."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_bridge.handover import Contract, Handover, Manifest, StagedFile, storage_at
from spark_bridge.handover.names import CONTRACT, FOLDERS, StagedName

SCHEMA: Final = pa.schema([("number", pa.int64()), ("word", pa.string())])
ROWS: Final = 10
BEGAN_MS: Final = 1_700_000_000_000


class Folder:
    """Writes batches. Txid n has the ten numbers from 10 n."""

    def __init__(self, path: Path, *, topology: str = "clicks", consumers: Iterable[str] = (), is_there: bool = True) -> None:
        self.path = str(path)
        self.topology = topology
        self.storage = storage_at(path)
        self._consumers = tuple(consumers)
        self._newest = 0
        if is_there:
            self.make()

    def make(self) -> None:
        """Create the folder, its contract and its consumers."""
        for name in ("", *FOLDERS):
            self.storage.make_folder(name)
        self.storage.create(CONTRACT, Contract(self.topology, "spark", SCHEMA, "exclusive").encoded())
        for name in self._consumers:
            self.handover().consumer(name).add()

    def handover(self) -> Handover:
        """Open the folder as a reader."""
        return Handover.open(self.path)

    def write(self, batches: int = 1) -> int:
        """Commit further batches. Return the newest txid."""
        for _ in range(batches):
            self._newest += 1
            name = str(StagedName(self._newest, 1, task=0, tasks=1, part=0))
            numbers = list(range(10 * self._newest, 10 * self._newest + ROWS))
            words = ["even" if number % 2 == 0 else "odd" for number in numbers]
            table = pa.table({"number": numbers, "word": words}, schema=SCHEMA)
            with self.storage.open_output(name) as file:
                pq.write_table(table, file)
            staged = StagedFile(name, ROWS, (Path(self.path) / name).stat().st_size)
            manifest = Manifest(self._newest, 1, BEGAN_MS + 1000 * self._newest, (staged,))
            self.storage.create(str(manifest.name(by_attempt=False)), manifest.encoded())
        return self._newest


def numbers(first: int, last: int) -> list[int]:
    """Return the numbers of the batches from `first` to `last`."""
    return [number for txid in range(first, last + 1) for number in range(10 * txid, 10 * txid + ROWS)]


def read_numbers(folder: Path) -> list[int]:
    """Return the numbers in the Parquet files below a folder, sorted, with duplicates."""
    found: list[Any] = []
    for file in folder.rglob("*.parquet"):
        found += pq.ParquetFile(file).read(columns=["number"])["number"].to_pylist()
    return sorted(found)
