"""One file that is read forward, in pieces of whole lines (FI-1). The thread of the reader uses it."""

from engine.files.content import EDGE_BYTES, Content, edges_at, fingerprint, open_content
from engine.files.listing import Found
from engine.files.progress import FileProgress, LongLine, Piece, Place
from engine.files.regular_file import open_file
from engine.files.rows import BEGINNING_BYTES
from engine.files.settings import PIECE_BYTES


class InputFile:
    """A file, whatever its name is now."""

    def __init__(self, found: Found, progress: FileProgress, max_line_bytes: int, place: Place | None = None) -> None:
        self.path = found.path
        self.name = found.name
        self.identity = found.identity
        self.progress = progress
        self.offset = 0 if place is None else place.offset
        """Offset of the next byte to read."""
        self.is_gone = False
        """True if no path leads to it any more."""
        self.idle_since: float | None = None
        """Time since when its end is read. None while there may be more."""
        self.after: InputFile | None = None
        """The file that had its name before, and is read to its end first."""
        self.seen_size = found.size
        """Size of the file at the last look."""
        self._place = place
        self._max_line_bytes = max_line_bytes
        self._content: Content | None = None
        self._last = b""
        """The last bytes that were read."""
        self._long_line = b""
        """Beginning of a line that is too long, and whose end is not read."""
        self._scanned = 0
        """Bytes of this line that were read. They are behind the offset."""

    @property
    def is_open(self) -> bool:
        """True if the file is open."""
        return self._content is not None

    @property
    def has_partial_line(self) -> bool:
        """True if the file has bytes behind the last whole line."""
        return bool(self.content.read(self.offset, 1))

    @property
    def content(self) -> Content:
        """The content of the open file."""
        assert self._content is not None
        return self._content

    def open(self) -> bool:
        """Open the file, or return False if its path leads to no file or another one. Raises FatalError if it may not be read."""
        if self._content is not None:
            return True
        file = open_file("", self.path)
        if file is None:
            return False
        if file.inode != self.identity[1]:
            file.close()
            return False
        content = open_content(file)
        if self._place is not None:
            beginning = content.read(0, BEGINNING_BYTES) if self.progress.beginning is not None else b""
            edges = edges_at(content, self.offset)
            if edges is None:
                content.close()
                return False
            self.progress.begin_at(edges, beginning)
            self._last, self._place = edges[1], None
        self._content = content
        return True

    def close(self) -> None:
        """Close the file. `open` opens it again."""
        if self._content is not None:
            self._content.close()
            self._content = None

    def place(self) -> Place:
        """Return the place behind what was read of the open file."""
        edges = edges_at(self.content, self.offset) or (b"", b"")
        return Place(self.name, self.identity[1], self.offset, 0, fingerprint(*edges), "at_end")

    def has_lost_its_end(self) -> bool:
        """Return whether the file was truncated behind what was read, also if it has grown again since."""
        if self.content.size() < self.seen_size:
            return True
        end = self.offset + self._scanned
        return not self.content.is_compressed and self.content.read(end - len(self._last), len(self._last)) != self._last

    def next_piece(self, *, to_the_end: bool) -> Piece | LongLine | None:
        """Return the next whole lines, or None if there are none now. to_the_end: a last line without a line end is whole."""
        if self._long_line:
            return self._skip_long_line(to_the_end=to_the_end)
        most, wanted = self._max_line_bytes, PIECE_BYTES
        data = self.content.read(self.offset, wanted)
        while len(data) == wanted <= most and b"\n" not in data:
            wanted = min(2 * wanted, most + 1)
            data = self.content.read(self.offset, wanted)
        if len(data) > most and b"\n" not in data:
            self._long_line, self._scanned, self._last = data[:most], len(data), data[-EDGE_BYTES:]
            return self._skip_long_line(to_the_end=to_the_end)
        if not (to_the_end and len(data) < wanted and not self.content.is_cut):
            data = data[: data.rfind(b"\n") + 1]
        if not data:
            return None
        self.offset += len(data)
        self._last = (self._last + data[-EDGE_BYTES:])[-EDGE_BYTES:]
        return Piece(self.progress, data)

    def _skip_long_line(self, *, to_the_end: bool) -> LongLine | None:
        """Read on to the end of a line that is too long. Return None if its end is not written yet."""
        is_whole = False
        while not is_whole:
            data = self.content.read(self.offset + self._scanned, PIECE_BYTES)
            found = data.find(b"\n") + 1
            is_whole = found > 0 or (to_the_end and len(data) < PIECE_BYTES and not self.content.is_cut)
            data = data[:found] if found else data
            self._scanned += len(data)
            self._last = (self._last + data[-EDGE_BYTES:])[-EDGE_BYTES:]
            if not data and not is_whole:
                return None
        line = LongLine(self.progress, self._long_line, self._scanned, self._last)
        self.offset += self._scanned
        self._long_line, self._scanned = b"", 0
        return line
