"""`FileTransactionalSpout` and `FileOpaqueSpout`: the lines of the files of a folder (TX-7, TX-10)."""

import os
from collections.abc import Sequence
from typing import ClassVar, Final, TypedDict, Unpack

from engine.api import Fields, OutputFields
from engine.errors import UsageError
from engine.files.folder import Folder
from engine.transactional.files.file_coordinator import FileCoordinator, Reading
from engine.transactional.files.file_emitters import Emission, FileEmitter, FileOpaqueEmitter, Metadata
from engine.transactional.files.lines import PIECE_BYTES, Limits, LineFormat
from engine.transactional.spouts import (
    OpaqueEmitter,
    OpaquePartitionedTransactionalSpout,
    PartitionedCoordinator,
    PartitionedEmitter,
    PartitionedTransactionalSpout,
)


class FileLimits(TypedDict, total=False):
    """Limits of reading."""

    batch_lines: int
    """Largest number of lines of each file in a batch. Default: 1,000."""
    batch_bytes: int
    """Largest number of bytes of each file in a batch. Default: 1 MiB. A longer line is a batch of its own."""
    files_at_once: int
    """Largest number of files in a batch. Default: 16."""
    max_line_bytes: int
    """Largest length of a line. Default: 1 MiB. A longer line ends the run with an error."""
    forget_after_secs: float
    """Seconds after which the position of a missing file is dropped. Default: one day."""


class _FileSpout:
    """Base of both spouts, which differ in their handling of missing and changed files."""

    output_fields: OutputFields = None
    replays_differ: ClassVar[bool] = False

    def __init__(
        self,
        where: str | os.PathLike[str],
        fields: Sequence[str] = ("line",),
        *,
        stop_at_end: bool = False,
        encoding: str | None = "utf-8",
        errors: str = "strict",
        **limits: Unpack[FileLimits],
    ) -> None:
        """where: a folder, a file, or a pattern such as "logs/app-*.log". fields: one or more of line, file and offset.

        A relative path belongs to the working folder at this moment. On a cluster, executors must reach the folder under the same path.

        With `stop_at_end` the run is complete when all files are read, and a last line without a line end counts. Otherwise the spout
        follows the files. With `encoding=None` lines are bytes. `errors` is as in `bytes.decode`. Lines come without "\\n" or "\\r\\n".
        """
        what = type(self).__name__
        given: object = where
        if not isinstance(given, (str, os.PathLike)) or not os.fspath(given):
            raise UsageError(f"{what}: {where!r} is not a path or a pattern", hint='Pass a folder, or a pattern: "logs/app-*.log".')
        folder = Folder.of(os.fspath(where)).absolute()  # emitters may run in other processes, such as executors of Spark
        line_format = LineFormat(fields, encoding, errors)
        chosen = _checked(what, limits)
        line_bytes = chosen["max_line_bytes"]
        self.output_fields = Fields(*line_format.fields)
        self._emission = Emission(folder, line_format, Limits(chosen["batch_lines"], chosen["batch_bytes"], line_bytes), stop_at_end)
        self._reading = Reading(folder, chosen["files_at_once"], line_bytes, stop_at_end, chosen["forget_after_secs"], self.replays_differ)

    def coordinator(self) -> PartitionedCoordinator:
        """Return a new coordinator."""
        return FileCoordinator(self._reading)


class FileTransactionalSpout(_FileSpout, PartitionedTransactionalSpout[Metadata | None]):
    """Emits the lines of files, always the same lines for the same txid. Files must only grow, and stay until they are committed.

    Each file is a partition. The spout recognizes a file by its inode and a digest of its head. So files may be renamed (rotated) at any
    time, and new ones may come. If a file is truncated or replaced under its name, the run ends with an error.
    """

    def emitter(self) -> PartitionedEmitter[Metadata | None]:
        return FileEmitter(self._emission)


class FileOpaqueSpout(_FileSpout, OpaquePartitionedTransactionalSpout[Metadata | None]):
    """Emits the lines of files that may be missing for a while. For opaque values (TX-8).

    A replay emits the lines that exist at that time. Reading of a missing file continues when it is back. A truncated or replaced file is a
    new file.
    """

    replays_differ: ClassVar[bool] = True

    def emitter(self) -> OpaqueEmitter[Metadata | None]:
        return FileOpaqueEmitter(self._emission)


_USUAL: Final = FileLimits(batch_lines=1_000, batch_bytes=2**20, files_at_once=16, max_line_bytes=2**20, forget_after_secs=86_400.0)
_LEAST: Final = FileLimits(batch_lines=1, batch_bytes=1, files_at_once=1, max_line_bytes=PIECE_BYTES, forget_after_secs=0)


def _checked(what: str, given: FileLimits) -> FileLimits:
    """Return all limits. Raises UsageError for a wrong one."""
    usual, least = dict(_USUAL), dict(_LEAST)
    for name, value in given.items():
        if name not in usual:
            raise UsageError(f"{what} has no setting {name!r}", hint=f"It has {', '.join(usual)}.")
        wanted = (int, float) if isinstance(usual[name], float) else (int,)
        if isinstance(value, bool) or not isinstance(value, wanted) or not value >= least[name]:  # type: ignore[operator]
            kind = "a number" if float in wanted else "an int"
            raise UsageError(f"{what}({name}) is {value!r}", hint=f"It is {kind}, {least[name]:,} at least.")
    return FileLimits(**{**_USUAL, **given})
