"""Chooses the files of the next batch (TX-7)."""

import os
from collections import defaultdict, deque
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from engine.api import SpoutExhausted
from engine.errors import FatalError
from engine.files.folder import Folder, Found
from engine.files.regular_file import open_file
from engine.log import EngineLogger
from engine.transactional.files.file_identity import Position, fault_of
from engine.transactional.files.lines import end_of_last_line
from engine.transactional.spouts import Partition, PartitionedCoordinator

LOOK_EVERY_SECS: Final = 0.05
LOOK_SHARE: Final = 20
"""Listing the folder takes at most 1/LOOK_SHARE of the time."""
LOGGER: Final = EngineLogger("engine.transactional")


@dataclass(frozen=True, slots=True)
class Reading:
    """Settings of the coordinator."""

    folder: Folder
    files_at_once: int
    line_bytes: int
    stop_at_end: bool
    forget_after_secs: float
    replays_differ: bool


@dataclass(slots=True)
class _Known:
    """A partition whose file was in the last listing."""

    found: Found
    readable: int
    """The offset after the last readable line."""


class FileCoordinator(PartitionedCoordinator):
    """Lists the folder periodically, maps files to partitions, and puts files with new lines into the batches."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._known: dict[Partition, _Known] = {}
        self._sizes: dict[Partition, int] = {}
        """Last known sizes of missing files."""
        self._away_since: dict[Partition, float] = {}
        self._places: list[Partition] = []
        """Partitions of the newest batch. A partition keeps its index while it has lines, so that the same task reads it."""
        self._waiting: deque[Partition] = deque()
        self._look_at = 0.0
        self._was_missing = False

    def open(self) -> None:
        if not self._reading.folder.exists():
            raise FatalError(f"the input folder {self._reading.folder.path!r} does not exist", hint="Create it, or use another path.")

    # Batches

    def is_ready(self) -> bool | Awaitable[bool]:
        if self.context.clock.now() >= self._look_at:
            return self._look()
        return self._fill_places()

    async def _look(self) -> bool:
        began = self.context.clock.now()
        if self._reading.folder.exists():
            self._was_missing = False
            await self._match(await self._reading.folder.look(), _positions_of(self.positions))
        elif not self._was_missing:
            self._was_missing = True
            LOGGER.warning("the input folder %r is missing. Its files are read when it is back", self._reading.folder.path)
        now = self.context.clock.now()
        self._look_at = now + max(LOOK_EVERY_SECS, (now - began) * LOOK_SHARE)
        if self._fill_places():
            return True
        if self._reading.stop_at_end and not self._was_missing and self._all_is_read():
            raise SpoutExhausted
        return False

    def _all_is_read(self) -> bool:
        """Return whether all files are read, including missing ones."""
        positions = _positions_of(self.positions)
        return all(size <= (positions[partition].end if partition in positions else 0) for partition, size in self._sizes.items())

    def partitions(self) -> Sequence[Partition]:
        return list(self._places)

    def forgotten(self) -> Collection[Partition]:
        """Return the partitions whose files have been missing for `forget_after_secs`."""
        long_ago = self.context.clock.now() - self._reading.forget_after_secs
        return [partition for partition, since in self._away_since.items() if since <= long_ago]

    def _fill_places(self) -> bool:
        """Replace files without new lines by waiting files. Return False if no file has new lines."""
        for number, partition in enumerate(self._places):
            if not self._has_more(partition):
                self._places[number] = self._next_waiting() or partition
        while len(self._places) < self._reading.files_at_once and (waiting := self._next_waiting()) is not None:
            self._places.append(waiting)
        while self._places and not self._has_more(self._places[-1]):
            self._places.pop()
        return bool(self._places)

    def _next_waiting(self) -> Partition | None:
        while self._waiting:
            partition = self._waiting.popleft()
            if partition not in self._places and self._has_more(partition):
                return partition
        return None

    def _has_more(self, partition: Partition) -> bool:
        """Return whether a file has new lines, or a new name that is not stored yet."""
        known, metadata = self._known.get(partition), self.positions.get(partition)
        if known is None:
            return False
        if metadata is None:
            return known.readable > 0
        position = Position(*metadata)
        return known.readable > position.end or known.found.path != position.path

    # Mapping files to partitions

    async def _match(self, files: Mapping[int, Found], positions: Mapping[Partition, Position]) -> None:
        """Map the listed files to partitions."""
        by_inode: dict[int, list[Partition]] = defaultdict(list)
        for partition, position in positions.items():
            by_inode[position.inode].append(partition)
        named = {self._partition_of(found, by_inode[inode], positions): found for inode, found in files.items()}
        self._adopt(named, positions)
        self._note_away(named, positions)
        self._known = {partition: self._look_into(partition, found, positions.get(partition)) for partition, found in named.items()}
        in_order = sorted(self._known, key=lambda partition: (self._known[partition].found.modified_ns, self._known[partition].found.path))
        self._waiting = deque(in_order)

    def _partition_of(self, found: Found, candidates: Iterable[Partition], positions: Mapping[Partition, Position]) -> Partition:
        """Return the partition of a file, a known or a new one. Raises FatalError if the file was truncated or replaced."""
        faults = {partition: self._fault(partition, found, positions[partition]) for partition in candidates}
        for partition, why in faults.items():
            if why is None:
                return partition
        for partition, why in faults.items():
            known = self._known.get(partition)
            path = positions[partition].path if known is None else known.found.path
            if path == found.path and partition not in self._away_since and not self._reading.replays_differ:
                raise FatalError(
                    f"file {os.path.join(self._reading.folder.path, path)!r} was truncated or replaced: {why}",
                    hint="Rotate files by renaming them (logrotate: `create`, not `copytruncate`). To have this one read as a new file, "
                    "move it away, start the run, and move it back.",
                )
        number = max(map(_number_of, faults), default=0)
        return f"inode-{found.inode}" if not number else f"inode-{found.inode}.{number + 1}"

    def _fault(self, partition: Partition, found: Found, position: Position) -> str | None:
        """Return the reason why a file is not the file of a position. None if it is this file, or was just removed."""
        known = self._known.get(partition)
        if known is not None and (known.found.inode, known.found.size, known.found.modified_ns) == (
            found.inode,
            found.size,
            found.modified_ns,
        ):
            return None
        file = open_file(self._reading.folder.path, found.path)
        if file is None:
            return None
        with file:
            return fault_of(file, position) if file.inode == found.inode else None

    def _adopt(self, named: dict[Partition, Found], positions: Mapping[Partition, Position]) -> None:
        """Continue a partition with a new inode if its file was restored with the same name and content."""
        new_by_path = {found.path: partition for partition, found in named.items() if partition not in positions}
        for partition, position in positions.items():
            new = new_by_path.get(position.path)
            is_new = new is not None and new not in self._known and partition not in named
            if new is not None and is_new and position.end and self._fault(partition, named[new], position) is None:
                named[partition] = named.pop(new)

    def _note_away(self, named: Mapping[Partition, Found], positions: Mapping[Partition, Position]) -> None:
        for partition, known in self._known.items():
            if partition not in named:
                self._sizes[partition] = known.found.size
                unread = known.found.size - (positions[partition].end if partition in positions else 0)
                if unread > 0:
                    LOGGER.warning("the file %r is missing, and %s of its bytes are not read", known.found.path, f"{unread:,}")
        now = self.context.clock.now()
        since = {partition: self._away_since.get(partition, now) for partition in (*positions, *self._sizes) if partition not in named}
        earliest = now - self._reading.forget_after_secs
        self._away_since = {partition: at for partition, at in since.items() if at > earliest or partition in positions}
        self._sizes = {partition: size for partition, size in self._sizes.items() if partition in self._away_since}

    def _look_into(self, partition: Partition, found: Found, position: Position | None) -> _Known:
        """Return the readable end of a file. Without `stop_at_end` it is the end of the last complete line."""
        known = self._known.get(partition)
        if self._reading.stop_at_end:
            return _Known(found, found.size)
        if known is not None and known.found.size == found.size:
            return _Known(found, known.readable)
        start = known.readable if known is not None else position.end if position is not None else 0
        file = open_file(self._reading.folder.path, found.path)
        if file is None:
            return _Known(found, start)
        with file:
            return _Known(found, end_of_last_line(file, start, self._reading.line_bytes))


def _number_of(partition: Partition) -> int:
    """Return the number of a partition among the files that had its inode one after another."""
    _, _, number = str(partition).partition(".")
    return int(number or 1)


def _positions_of(positions: Mapping[Partition, object]) -> dict[Partition, Position]:
    return {partition: Position(*metadata) for partition, metadata in positions.items() if metadata is not None}  # type: ignore[misc]
