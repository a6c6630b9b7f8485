"""Files with the rows of one task, which an executor writes and the engine reads."""

import os
import pickle
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from engine.errors import StateUnavailable
from spark_bridge.topology.blocks import Run


class ResultBlock(NamedTuple):
    """Rows that a task sent to components outside of the job."""

    target: int
    """Task that gets the rows, on a direct stream. 0: the groupings decide."""
    runs: list[Run]


class ResultFile(NamedTuple):
    """A file of one task."""

    source: int
    """Task that sent the rows."""
    path: str
    blocks: int
    checksum: int
    """CRC-32 of the file."""


class ResultWriter:
    """Writes the result files of one partition. `number` is different for each try of the partition."""

    def __init__(self, folder: str, number: int) -> None:
        self._folder = folder
        self._number = number
        self._open: dict[int, _OpenFile] = {}

    def write(self, source: int, pickled: bytes) -> None:
        """Append a pickled block to the file of its source."""
        opened = self._open.get(source)
        if opened is None:
            path = os.path.join(self._folder, f"{source}-{self._number}.rows")
            opened = self._open[source] = _OpenFile(path, open(path, "wb"))  # noqa: SIM115 - closed by `close`
        opened.append(pickled)

    def close(self) -> list[ResultFile]:
        """Close the files, and describe them."""
        opened, self._open = self._open, {}
        for each in opened.values():
            each.file.close()
        return [ResultFile(source, each.path, each.blocks, each.checksum) for source, each in opened.items()]


class _OpenFile:
    def __init__(self, path: str, file: BinaryIO) -> None:
        self.path = path
        self.file = file
        self.blocks = self.checksum = 0

    def append(self, pickled: bytes) -> None:
        self.file.write(pickled)
        self.checksum = zlib.crc32(pickled, self.checksum)
        self.blocks += 1


def read_blocks(described: ResultFile) -> Iterator[ResultBlock]:
    """Yield the blocks of a file, in order. Raise StateUnavailable if the file is not the one that was written."""
    try:
        with open(described.path, "rb") as file:
            _check(described, file)
            for _ in range(described.blocks):
                yield ResultBlock(*pickle.load(file))
    except OSError as error:
        raise StateUnavailable(
            f"the result file {described.path} cannot be read: {error.strerror or error}",
            hint="Give a spool= folder that this machine and all executors reach under the same path.",
        ) from error


def _check(described: ResultFile, file: BinaryIO) -> None:
    checksum = 0
    while piece := file.read(1 << 20):
        checksum = zlib.crc32(piece, checksum)
    if checksum != described.checksum:
        text = f"the result file {described.path} is damaged: its checksum is {checksum:08x}, and {described.checksum:08x} was written"
        raise StateUnavailable(text, hint="The batch is tried again. Check the disk of the spool folder if this repeats.")
    file.seek(0)
