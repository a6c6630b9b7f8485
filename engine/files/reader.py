"""Reads the files of one task: which files, in which order, from where (FI-2 to FI-6). It runs in a thread, one call at a time."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from engine.errors import FatalError
from engine.files.content import edges_at, fingerprint, open_content
from engine.files.input_file import InputFile
from engine.files.listing import Found, Identity, Listing, files_beside
from engine.files.progress import Event, FileEnd, FileProgress, LongLine, Piece, Place, PlaceState
from engine.files.recognition import match_places
from engine.files.regular_file import open_file
from engine.files.rows import Beginning
from engine.files.settings import FileSettings
from engine.log import EngineLogger

OPEN_FILES: Final = 256
"""Files that a task keeps open. Above this number, those that have not grown for the longest time are closed, and opened when they grow."""
ROTATED_SECS: Final = 5.0
"""Time for which a file without a path is watched after its last row, because its writer may not have noticed the rotation."""
REMEMBERED_FILES: Final = 10_000
"""Largest number of files that were moved away and may come back, for example with a network file system."""


@dataclass(slots=True)
class ReaderCounts:
    """What has happened to the files, for the metrics."""

    files: int = 0
    rotated: int = 0
    truncated: int = 0
    lost: int = 0
    lag_bytes: int = 0


class FileReader:
    """The files of one task of a spout. A file belongs to the task that its inode chooses, so it stays there under any name."""

    def __init__(
        self, settings: FileSettings, listing: Listing, share: tuple[int, int], logger: EngineLogger, now: Callable[[], float]
    ) -> None:
        """share: the index of the task, and the number of tasks."""
        self.counts = ReaderCounts()
        self._settings = settings
        self._listing = listing
        self._index, self._tasks = share
        self._logger = logger
        self._now = now
        self._keys: set[str] = set()
        """Keys of all files of the run and of the stored position."""
        self._files: dict[Identity, InputFile] = {}
        self._queue: deque[InputFile] = deque()
        """Files that may have more rows."""
        self._ignored: set[Identity] = set()
        """Compressed copies of files that were read."""
        self._away: dict[Identity, InputFile] = {}
        """Files that were moved away, but not deleted, after they were read."""
        self._names: set[str] = set()
        """Names in the last listing."""
        self._events: list[Event] = []
        """Ends of files, for the next `read`."""
        self._begun: list[FileProgress] = []
        """Files that have been found since the last `take_begun`."""

    # The start

    def begin(self, places: Mapping[str, Place]) -> None:
        """List the files, and begin each at its place. Raises FatalError for a lost place."""
        self._keys.update(places)
        listed = self._listing.files()
        matched = match_places(places, listed.values(), self._is_same)
        missing = {key: place for key, place in places.items() if key not in matched and place.state != "closed"}
        beside = {found.identity: found for place in missing.values() for found in files_beside(place.name)}
        if beside:
            matched |= match_places(missing, (found for identity, found in beside.items() if identity not in listed), self._is_same)
        for key, found in matched.items():
            if self._is_mine(found.identity):
                self._continue(found, key, places[key])
        for key, place in missing.items():
            if key not in matched and place.inode % self._tasks == self._index:
                self._note_lost(key, place, next((found for found in listed.values() if found.name == place.name), None))
        taken = {found.identity for found in matched.values()}
        for identity, found in listed.items():
            if identity not in taken and self._is_mine(identity):
                self._add(found)
        order = {identity: number for number, identity in enumerate(listed)}
        self._queue = deque(sorted(self._files.values(), key=lambda file: order.get(file.identity, -1)))
        self._names = {found.name for found in listed.values()}

    def take_begun(self) -> list[FileProgress]:
        """Return the files that were found since the last call. Their `FileEnd` with `is_last` follows if they are read no more."""
        begun, self._begun = self._begun, []
        return begun

    def _is_mine(self, identity: Identity) -> bool:
        return identity[1] % self._tasks == self._index

    def _is_same(self, found: Found, place: Place) -> bool:
        """Return whether the content of a file up to a place is the one that was read."""
        is_known = place.inode == found.identity[1] or place.name == found.name
        file = open_file("", found.path)
        if file is None:
            return False
        content = open_content(file)
        try:
            if content.is_compressed and is_known and not self._is_mine(found.identity):
                return True  # its task compares it, and that may take long
            if not content.is_compressed and file.size < place.offset:
                return False
            edges = edges_at(content, place.offset)
            return edges is not None and fingerprint(*edges) == place.fingerprint
        finally:
            content.close()

    def _continue(self, found: Found, key: str, place: Place) -> None:
        if found.name != place.name:
            self._logger.info("%r is %r now. Reading continues behind its row at line %s", place.name, found.name, f"{place.lines:,}")
        self._files[found.identity] = self._input_file(found, key, place)

    def _input_file(self, found: Found, key: str, place: Place | None = None) -> InputFile:
        beginning = Beginning() if self._settings.format == "csv" and self._settings.header else None
        progress = FileProgress(key, found.name, found.identity[1], place, beginning)
        self._begun.append(progress)
        return InputFile(found, progress, self._settings.max_line_bytes, place)

    def _add(self, found: Found) -> InputFile:
        """Add a new file."""
        key = first = f"{found.name}#{found.identity[1]}"
        number = 1
        while key in self._keys:
            number += 1
            key = f"{first}.{number}"
        self._keys.add(key)
        file = self._files[found.identity] = self._input_file(found, key)
        if self._settings.follow and len(self._files) <= OPEN_FILES:
            file.open()  # so that it can be read to its end even if it is removed
        return file

    def _note_lost(self, key: str, place: Place, found: Found | None) -> None:
        """Handle a place without a file. It is nothing special if the file was read to its end and removed."""
        if found is None and place.state == "at_end":
            self._logger.info("%r is gone. It was read to its end", place.name)
            return
        what = f"the position in file {place.name!r} is lost: {place.offset:,} bytes of it were read, and "
        if found is None:
            what += "there is no such file now"
        elif found.size < place.offset and not found.name.endswith(".gz"):
            what += f"it has {found.size:,} bytes now"
        else:
            what += "other bytes are there now"
        if self._settings.on_lost == "fail":
            raise FatalError(
                what,
                hint="Restore the file under any name that its pattern matches. To read what is there now as new rows, and give the rest "
                'up, write on_lost="skip".',
            )
        self.counts.lost += 1
        self._logger.warning('%s. It is given up (on_lost="skip")%s', what, "" if found is None else ", and the file is read as a new one")
        self._events.append(FileEnd(FileProgress(key, place.name, place.inode, place), "closed", is_last=True))

    # Reading

    @property
    def has_more(self) -> bool:
        """True if `read` may return events."""
        return bool(self._queue or self._events)

    @property
    def is_finished(self) -> bool:
        """True if all files are read, and no new rows are waited for."""
        return not self._settings.follow and not self.has_more

    def read(self, most_bytes: int) -> list[Event]:
        """Return the next pieces, about `most_bytes` of them. An empty list means that there are none now."""
        events, self._events = self._events, []
        while most_bytes > 0 and (file := self._next_file()) is not None:
            piece = self._next_piece(file)
            if piece is None:
                self._queue.remove(file)
                events += self._ended(file)
                continue
            events.append(piece)
            most_bytes -= len(piece.data) if isinstance(piece, Piece) else piece.size
            if self._settings.follow:
                self._queue.rotate(-1)
        self._close_idle()
        self.counts.lag_bytes = sum(file.content.unread(file.offset) if file.is_open else file.seen_size for file in self._queue)
        return events

    def _next_file(self) -> InputFile | None:
        """Return the next file. A file that has taken the name of another one waits until that one is read."""
        for _ in range(len(self._queue)):
            file = self._queue[0]
            if file.after is None or file.after.idle_since is not None:
                file.after = None
                return file
            self._queue.rotate(-1)
        return None

    def _next_piece(self, file: InputFile) -> Piece | LongLine | None:
        try:
            if file.open():
                size = file.content.size()  # before the read, so that the next look notices what is written behind its end
                piece = file.next_piece(to_the_end=not self._settings.follow)
                if piece is None:
                    file.seen_size = max(file.seen_size, size)
                return piece
        except OSError as error:
            raise FatalError(
                f"file {file.name!r} cannot be read: {error.strerror or error}", hint="Repair this, and start again."
            ) from error
        if not self._settings.follow:
            raise FatalError(f"file {file.name!r} was removed or replaced before it was read", hint="Restore it, and start again.")
        return None

    def _ended(self, file: InputFile) -> list[Event]:
        """Note that a file has no more whole lines now."""
        file.idle_since = self._now()
        if not file.is_open:  # its next name, or the file that replaced it, is in the next listing
            return []
        if self._settings.follow:
            return [] if file.has_partial_line else [FileEnd(file.progress, "at_end", found=file.progress.found)]
        if file.content.is_cut:
            raise FatalError(
                f"file {file.name!r} ends in the middle of its compressed data", hint="Wait until it is written, or restore it."
            )
        if file.has_lost_its_end():
            raise FatalError(f"file {file.name!r} was truncated while it was read", hint="Restore it, and start again.")
        self.counts.files += 1
        file.close()
        return [FileEnd(file.progress, "at_end", found=file.progress.found)]

    def _close_idle(self) -> None:
        """Close files above OPEN_FILES, those first that have been idle for the longest time."""
        opened = [file for file in self._files.values() if file.is_open]
        if len(opened) > OPEN_FILES:
            idle = sorted(
                (file for file in opened if file.idle_since is not None and not file.is_gone), key=lambda file: file.idle_since or 0
            )
            for file in idle[: len(opened) - OPEN_FILES]:
                file.close()

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()

    # Following

    def look(self) -> None:
        """List the files again: new, grown, renamed, removed and truncated ones."""
        listed = self._listing.files()
        names = {found.name for found in listed.values()}
        by_name = {file.name: file for file in self._files.values()}
        for identity, file in list(self._files.items()):
            self._look_at(file, listed.get(identity))
        is_reading_gone = any(file.is_gone and file.idle_since is None for file in self._files.values())
        for identity, found in listed.items():
            if identity not in self._files and identity not in self._ignored and self._is_mine(identity):
                if is_reading_gone and found.name.endswith(".gz"):
                    continue  # perhaps its copy; the next look compares both
                if self._is_compressed_copy(found, names):
                    self._ignored.add(identity)
                    self._logger.info("%r is taken for a compressed copy of a file that was read. It is not read", found.name)
                    continue
                if self._comes_back(found):
                    continue
                file = self._add(found)
                file.after = by_name.get(found.name)
                self._queue.append(file)
        self._ignored &= listed.keys()
        self._names = names

    def _look_at(self, file: InputFile, found: Found | None) -> None:
        if found is not None and found.name != file.name:
            self.counts.rotated += 1
            self._logger.info("%r was renamed to %r. Reading continues", file.name, found.name)
            file.path, file.name = found.path, found.name
            file.progress.newest_name = found.name
        elif found is None and not file.is_gone and file.is_open:
            self.counts.rotated += 1
            self._logger.info("%r was moved away or removed. Its rest is read", file.name)
        file.is_gone = found is None
        if not file.is_open and found is not None and file.idle_since is not None and found.size != file.seen_size:
            file.open()
        if file.is_open:
            self._look_into(file)
        elif file.is_gone:
            if file.idle_since is None:
                self.counts.lost += 1
                self._logger.warning("%r was moved away or removed before it was read. Its rows are lost", file.name)
            self._forget(file)

    def _look_into(self, file: InputFile) -> None:
        """Queue an open file that has changed. Forget one that is gone and was read."""
        size = file.content.size()
        if size == file.seen_size:
            if file.is_gone and file.idle_since is not None and self._now() - file.idle_since >= ROTATED_SECS:
                self._forget(file)
            return
        if file.has_lost_its_end():
            self._truncated(file)
            return
        file.seen_size = size
        self._read_on(file)

    def _read_on(self, file: InputFile) -> None:
        """Queue a file, unless it is queued."""
        if file.idle_since is not None:
            file.idle_since = None
            file.progress.found += 1
            self._queue.append(file)

    def _truncated(self, file: InputFile) -> None:
        """Read a truncated file from its beginning, as a new one."""
        self.counts.truncated += 1
        self._logger.warning(
            "%r was truncated: it had %s bytes and has %s. It is read from its beginning. Rows that were cut off before they were read are "
            "lost. Rotate files by renaming them (logrotate: `create`, not `copytruncate`)",
            file.name,
            f"{file.seen_size:,}",
            f"{file.content.size():,}",
        )
        self._forget(file, "closed")
        self._away.pop(file.identity, None)
        self._queue.append(self._add(Found(file.path, file.name, file.identity, 0)))

    def _forget(self, file: InputFile, state: PlaceState = "at_end") -> None:
        """Read no more of a file."""
        if file.is_open and file.is_gone and file.has_partial_line:
            self._logger.warning("%r is gone, and its last line has no line end. This line is not read", file.name)
        if file in self._queue:
            self._queue.remove(file)
        file.idle_since = self._now()
        if file.is_open and file.content.has_name():
            self._away[file.identity] = file
            while len(self._away) > REMEMBERED_FILES:
                del self._away[next(iter(self._away))]
        file.close()
        del self._files[file.identity]
        self.counts.files += 1
        self._events.append(FileEnd(file.progress, state, is_last=True, found=file.progress.found))

    def _comes_back(self, found: Found) -> bool:
        """Continue a file that was moved away. Return False if this is not one, or has changed before its end."""
        file = self._away.pop(found.identity, None)
        if file is None:
            return False
        file.path, file.name = found.path, found.name
        if not file.open() or file.has_lost_its_end():
            file.close()
            return False
        file.progress.newest_name, file.is_gone = found.name, False
        self._files[found.identity] = file
        self._begun.append(file.progress)
        self._logger.info("%r is back. Reading continues", found.name)
        file.seen_size = file.content.size()
        self._read_on(file)
        return True

    def _is_compressed_copy(self, found: Found, names: set[str]) -> bool:
        """Return whether a new file is a compressed copy, made after a rotation, of a file that is or was read."""
        if not found.name.endswith(".gz"):
            return False
        if found.name.removesuffix(".gz") in self._names | names:
            return True
        return any(file.is_gone and file.is_open and file.offset and self._is_same(found, file.place()) for file in self._files.values())
