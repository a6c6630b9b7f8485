"""Emitters of the lines of files, by ranges of bytes (TX-7)."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from engine.errors import FatalError
from engine.files.folder import Folder
from engine.files.regular_file import OpenFile, open_file
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.batch_bolt import BatchCollector
from engine.transactional.files.file_identity import Position, fault_of, position_of
from engine.transactional.files.lines import Limits, LineFormat, Piece, new_lines, same_lines
from engine.transactional.spouts import OpaqueEmitter, Partition, PartitionedEmitter

Metadata: TypeAlias = list[Any]
"""A `Position` as a list."""


@dataclass(frozen=True, slots=True)
class Emission:
    """Settings of the emitters."""

    folder: Folder
    format: LineFormat
    limits: Limits
    to_the_end: bool
    """True: a last line without a line end counts."""


class Lines:
    """Finds the file of a partition, and emits its lines. Used by both kinds of emitters."""

    def __init__(self, emission: Emission) -> None:
        self._emission = emission
        self._paths: dict[int, str] = {}
        """Paths of the files in the last listing, by inode."""

    async def emit_new(self, collector: BatchCollector, partition: Partition, previous: Metadata | None) -> Metadata | None:
        """Emit the next lines of a file, and return their metadata. A missing or replaced file has none."""
        return await self._next(partition, previous, collector)

    async def plan_new(self, partition: Partition, previous: Metadata | None) -> Metadata | None:
        """Return the metadata of the next lines of a file. Reads the file, because only its lines tell where a batch ends."""
        return await self._next(partition, previous, None)

    async def _next(self, partition: Partition, previous: Metadata | None, collector: BatchCollector | None) -> Metadata | None:
        position = None if previous is None else Position(*previous)
        file, _ = await self._find(_inode_of(partition) if position is None else position.inode, position)
        if file is None:
            return previous
        with file:
            start = 0 if position is None else position.end
            pieces = new_lines(file, start, self._emission.limits, to_the_end=self._emission.to_the_end)
            if collector is None:
                end = await _end_of(pieces, start)
            else:
                end = await self._emit(collector, pieces, file.path if position is None else position.name, start)
            return list(position_of(file, position, start, end))

    async def emit_again(self, attempt: TransactionAttempt, collector: BatchCollector, metadata: Metadata) -> None:
        """Emit the lines of a batch again. Raises FatalError if the file is missing or replaced."""
        position = Position(*metadata)
        if position.start == position.end:
            return
        file, why = await self._find(position.inode, position)
        if file is None:
            raise FatalError(
                f"batch {attempt} holds the bytes {position.start:,} to {position.end:,} of the file "
                f"{os.path.join(self._emission.folder.path, position.path)!r}, which cannot be read again: {why}",
                hint="Restore the file. If files may disappear before they are committed, use a FileOpaqueSpout with opaque values. "
                "On a cluster, each executor must reach the folder under this path.",
            )
        with file:
            await self._emit(collector, same_lines(file, position.start, position.end), position.name, position.start)

    async def _emit(self, collector: BatchCollector, pieces: Iterator[Piece], name: str, start: int) -> int:
        """Emit pieces with a turn of the event loop between them. Return the offset after the last."""
        end = start
        for piece in pieces:
            if end > start:
                await collector.ready()
                await asyncio.sleep(0)
            collector.emit_many(self._emission.format.rows(piece.data, piece.offset, name))
            end = piece.end
        return end

    # Finding files

    async def _find(self, inode: int, position: Position | None) -> tuple[OpenFile | None, str]:
        """Open the file of an inode and a position. Return None and the reason if it is missing or replaced."""
        path = self._paths.get(inode) or (None if position is None else position.path)
        file, why = self._open(path, inode, position)
        if file is None:
            self._paths = {found.inode: found.path for found in (await self._emission.folder.look()).values()}
            path = self._paths.get(inode)
            file, why = self._open(path or (None if position is None else position.path), None if path is None else inode, position)
        return file, why

    def _open(self, path: str | None, inode: int | None, position: Position | None) -> tuple[OpenFile | None, str]:
        """Open a path if it is the right file. Without an inode its content decides."""
        if path is None:
            return None, "it is missing"
        file = open_file(self._emission.folder.path, path)
        if file is None:
            return None, "it is missing"
        if inode is not None and file.inode != inode:
            why: str | None = "it is missing"
        else:
            why = None if position is None else fault_of(file, position)
        if why is None and (inode is not None or (position is not None and position.end)):
            return file, ""
        file.close()
        return None, why or "it is missing"


class FileEmitter(PartitionedEmitter[Metadata | None]):
    """Emitter of a FileTransactionalSpout."""

    def __init__(self, emission: Emission) -> None:
        self._lines = Lines(emission)

    async def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, previous: Metadata | None
    ) -> Metadata | None:
        return await self._lines.emit_new(collector, partition, previous)

    async def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, metadata: Metadata | None
    ) -> None:
        if metadata is not None:
            await self._lines.emit_again(attempt, collector, metadata)

    async def plan_partition_batch(self, attempt: TransactionAttempt, partition: Partition, previous: Metadata | None) -> Metadata | None:
        return await self._lines.plan_new(partition, previous)


class FileOpaqueEmitter(OpaqueEmitter[Metadata | None]):
    """Emitter of a FileOpaqueSpout."""

    def __init__(self, emission: Emission) -> None:
        self._lines = Lines(emission)

    async def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, previous: Metadata | None
    ) -> Metadata | None:
        return await self._lines.emit_new(collector, partition, previous)


async def _end_of(pieces: Iterator[Piece], start: int) -> int:
    """Read pieces with a turn of the event loop between them. Return the offset after the last."""
    end = start
    for piece in pieces:
        if end > start:
            await asyncio.sleep(0)
        end = piece.end
    return end


def _inode_of(partition: Partition) -> int:
    return int(str(partition).removeprefix("inode-").partition(".")[0])
