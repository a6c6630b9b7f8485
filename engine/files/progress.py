"""How far the rows of each file were emitted, and the position that says so (FI-5)."""

from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from engine.files.content import EDGE_BYTES, fingerprint
from engine.files.rows import BEGINNING_BYTES, Beginning, Chunk, Rows

PlaceState: TypeAlias = Literal["reading", "at_end", "closed"]
"""at_end: all was read that the file had. closed: its content is lost, because the file was truncated or replaced."""
NOWHERE: Final = b""


class Place(NamedTuple):
    """Stored position in one file."""

    name: str
    """Newest name of the file."""
    inode: int
    offset: int
    """Offset in the content, behind the last row."""
    lines: int
    """Lines up to the offset."""
    fingerprint: str
    state: PlaceState


class FileProgress:
    """Progress in one file. Only the thread of the event loop uses it, after the reader has made it."""

    def __init__(self, key: str, newest_name: str, inode: int, place: Place | None = None, beginning: Beginning | None = None) -> None:
        """place: where the reading begins. beginning: empty, if the format needs it."""
        self.key = key
        """Name of the file in positions and message ids: unique, and the same after a rename."""
        self.name = key.rpartition("#")[0]
        """Its first name, which errors and rows tell."""
        self.newest_name = newest_name
        self.inode = inode
        self.state: PlaceState = "reading"
        self.is_known = place is not None
        """True if positions name this file."""
        self.is_over = False
        """True if the file is read no more in this run."""
        self.found = 1
        """How often the reader has found that the file may have more. Only the reader's thread changes it."""
        self._ended = 0
        """`found` of the end up to which all rows were emitted."""
        self.beginning = beginning
        self._head = self._tail = NOWHERE
        self._offset, self._lines = (0, 0) if place is None else (place.offset, place.lines)
        self._rows: Rows | None = None
        """Rows that are being emitted. They begin at `_offset`."""
        self._done_lines = 0
        """Lines of these rows that are done."""
        self._carry = NOWHERE
        """Beginning of a row whose end is not read. It follows behind the rows, or behind `_offset`."""

    def begin_at(self, edges: tuple[bytes, bytes], beginning: bytes) -> None:
        """Continue behind a position. edges: the bytes that its fingerprint covers."""
        self._head, self._tail = edges
        if self.beginning is not None:
            self.beginning.data = beginning

    def next_chunk(self, data: bytes, *, at_end: bool) -> Chunk:
        """Return the next bytes, with those of an unfinished row before them. The rows of the chunk before must be done."""
        self.state, self.is_over = "reading", False
        beginning = self.beginning
        if beginning is not None and beginning.header is None and self._offset + len(self._carry) == len(beginning.data):
            beginning.data = (beginning.data + data)[:BEGINNING_BYTES]
        return Chunk(self.name, self._carry + data, self._offset, self._lines, at_end)

    def begin_rows(self, rows: Rows) -> None:
        """Begin to emit the rows of a chunk."""
        self._rows, self._done_lines = rows, 0
        self._carry = b"" if rows.chunk.at_end else rows.chunk.data[rows.chunk.offset_of(rows.lines) - self._offset :]

    def note_done(self, lines: int) -> None:
        """Note that the rows of the first lines of the chunk are emitted or skipped."""
        self._done_lines = lines
        self.is_known = True

    def end_rows(self) -> None:
        """Note that all rows of the chunk are done."""
        rows = self._rows
        assert rows is not None
        data = rows.chunk.data[: len(rows.chunk.data) - len(self._carry)]
        self._head, self._tail = self._edges_behind(data)
        self._offset += len(data)
        self._lines += rows.lines
        self._rows = None

    def _edges_behind(self, data: bytes) -> tuple[bytes, bytes]:
        head = self._head if len(self._head) == EDGE_BYTES else (self._head + data)[:EDGE_BYTES]
        return head, (self._tail + data[-EDGE_BYTES:])[-EDGE_BYTES:]

    def skip_line(self, line: "LongLine") -> None:
        """Move behind a line that is too long. There is no unfinished row."""
        self.is_known = True
        self._head = (self._head + line.beginning)[:EDGE_BYTES]
        self._tail = line.tail
        self._offset += line.size
        self._lines += 1

    def note_end(self, end: "FileEnd") -> None:
        """Note that the file was read to its end, or is closed. A row without its end is not read."""
        self._ended = end.found
        self.state = "reading" if self._carry and end.state == "at_end" else end.state
        self.is_over = end.is_last

    @property
    def is_at_end(self) -> bool:
        """True if all rows up to the end that the reader has found last were emitted, and no unfinished row is behind them."""
        return self._ended == self.found and not self._carry

    @property
    def lines(self) -> int:
        """Lines of the file before the rows that are being emitted, or before the next ones."""
        return self._lines

    @property
    def unfinished(self) -> bytes:
        """Beginning of a row whose end is not read."""
        return self._carry

    def place(self) -> Place:
        """Return the position behind the last row that was emitted."""
        offset, lines, head, tail = self._offset, self._lines, self._head, self._tail
        if self._rows is not None and self._done_lines:
            chunk = self._rows.chunk
            offset, lines = chunk.offset_of(self._done_lines), lines + self._done_lines
            head, tail = self._edges_behind(chunk.data[: offset - chunk.offset])
        state: PlaceState = "reading" if self._rows is not None else self.state
        return Place(self.newest_name, self.inode, offset, lines, fingerprint(head, tail), state)


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole lines of a file, in order. The last line of a file may have no line end."""

    progress: FileProgress
    data: bytes


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line that is longer than allowed."""

    progress: FileProgress
    beginning: bytes
    """Its first bytes."""
    size: int
    """Its bytes, with the line end."""
    tail: bytes
    """Its last bytes, up to EDGE_BYTES."""


@dataclass(frozen=True, slots=True)
class FileEnd:
    """The file has no more rows now."""

    progress: FileProgress
    state: PlaceState
    is_last: bool = False
    """True if it is read no more in this run."""
    found: int = 0
    """`FileProgress.found` at this end."""


Event: TypeAlias = Piece | LongLine | FileEnd


def places_of(position: Any) -> dict[str, Place]:
    """Return the places of a stored position. Raises ValueError if it is none."""
    if not isinstance(position, dict):
        raise ValueError(f"{position!r} is not a dict")
    places = {}
    for key, value in position.items():
        if not isinstance(key, str) or not isinstance(value, (list, tuple)) or len(value) != len(Place._fields):
            raise ValueError(f"{key!r}: {value!r} is not a place in a file")
        places[key] = Place(*value)
    return places
