"""`FileCommitter`: writes the output of each batch to files that appear complete or not at all (TX-8, TX-10)."""

import errno
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from engine.api import TaskContext, Tuple, takes
from engine.errors import FatalError, StateError, StateUnavailable, UsageError
from engine.in_thread import in_thread
from engine.names import POOL_NAME
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.batch_bolt import Committer
from engine.transactional.files.formatted_lines import FormattedLines, formatted_line
from engine.transactional.files.output_files import OWNER, OutputName, name_of, superseded

_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_LATER_START: Final = "this process has been taken over, or the state of its coordinator was restored from an older copy"


def as_json(tup: Tuple) -> str:
    """Return a tuple as a JSON object, with its fields by name and without the attempt."""
    return json.dumps(dict(zip(tup.fields.names[1:], tup.values[1:], strict=True)), ensure_ascii=False)


def as_text(tup: Tuple) -> str:
    """Return the values of a tuple with tabs between them, without the attempt."""
    return "\t".join(map(str, tup.values[1:]))


@dataclass(frozen=True)
class FileCommitter:
    """Bolt factory: writes one file for each task and txid into a folder, in the commit phase.

    `format` returns a line for a tuple. A str is written in UTF-8 with a line end, bytes are written unchanged. A file is written under a
    hidden name, forced to the disk, and renamed. The name has txid, attempt and task. Only the highest attempt of a txid counts, so a
    replay replaces the output, and opaque spouts are supported. `committed_files` and `committed_lines` read the files that count.

    >>> FileCommitter("out", suffix=".jsonl").folder
    'out'
    """

    folder: str | os.PathLike[str]
    """Created if missing. Only one component of one topology may write to it."""
    format: Callable[[Tuple], str | bytes] = as_json
    suffix: str = ".jsonl"

    def create(self) -> "FileWriter":
        """Return a new committer."""
        given: object = self.suffix
        if not isinstance(given, str) or "/" in given or not (given == "" or given.startswith(".")) or given.endswith(".tmp"):
            raise UsageError(f"FileCommitter(suffix) is {given!r}", hint='Use a file ending, for example ".jsonl", or "".')
        folder: object = self.folder
        if not isinstance(folder, (str, os.PathLike)) or not os.fspath(folder):
            raise UsageError(f"FileCommitter(folder) is {folder!r}", hint="Name the folder to write to.")
        line_of: object = self.format
        if not (callable(line_of) and takes(line_of, 1)):
            hint = "Write format=lambda tup: tup[...]."
            raise UsageError(f"FileCommitter(format) is {line_of!r}, which cannot be called with one tuple", hint=hint)
        return FileWriter(OutputFolder(os.path.abspath(self.folder)), self.format, self.suffix)


class FileWriter(Committer):
    """One attempt of a task."""

    needs_transactional_spout = False

    def __init__(self, folder: "OutputFolder", line_of: Callable[[Tuple], str | bytes], suffix: str) -> None:
        self._folder = folder
        self._line_of = line_of
        self._suffix = suffix
        self._lines: list[bytes] = []

    @property
    def combining(self) -> FormattedLines | None:
        """Formats lines in other processes, unless a subclass makes them in another way."""
        return FormattedLines(self._line_of) if type(self).execute is FileWriter.execute else None

    def merge(self, tup: Tuple) -> None:
        """Add formatted lines of another process."""
        self._lines.append(tup.values[-1])

    def execute(self, tup: Tuple) -> None:
        self._lines.append(formatted_line(self._line_of, tup))

    async def finish_batch(self) -> None:
        folder = await self.resources.opened(self._folder)
        context = self.context
        name = OutputName(*self.attempt, context.task_index, context.tasks, self._suffix)
        await folder.write(self.attempt, name, self._lines)

    async def published_txid(self) -> int:
        """Return the newest txid that has a file, 0 before the first (EO-9)."""
        folder = await self.resources.opened(self._folder)
        return await folder.newest()


    async def forget(self) -> None:
        """Raise StateError unless the folder has no files. Their names are all that it knows of txids (EO-11)."""
        if await self.published_txid():
            text = f"the folder {self._folder.path!r} has output files, whose names have the numbers of their batches"
            raise StateError(text, hint="Move or remove these files, all of them.")


@dataclass(frozen=True)
class OutputFolder:
    """The output folder, as a resource of a task."""

    path: str

    async def open(self, context: TaskContext) -> "OpenFolder":
        """Create the folder, and claim it for this component."""
        folder = OpenFolder(self.path, context)
        try:
            await folder.claim()
        except BaseException:
            await folder.close()
            raise
        return folder


class OpenFolder:
    """An output folder of one task, which writes in a thread."""

    def __init__(self, path: str, context: TaskContext) -> None:
        self._path = path
        self._owner: Final = {"topology": context.topology_name, "component": context.component_id}
        self._task = context.task_id
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"{POOL_NAME} {context.component_id}")
        self._last: OutputName | None = None

    async def claim(self) -> None:
        """Create the folder, and claim it for this component. Raises FatalError if another component has claimed it."""
        await in_thread(self._pool, self._claim)

    async def write(self, attempt: TransactionAttempt, name: OutputName, lines: list[bytes]) -> None:
        """Write a complete file, and remove superseded ones. Raises StateUnavailable if the disk fails."""
        await in_thread(self._pool, lambda: self._write(attempt, name, lines))

    async def newest(self) -> int:
        """Return the newest txid that has a file, 0 before the first."""
        return await in_thread(self._pool, lambda: max((name.txid for name, is_draft in self._names() if not is_draft), default=0))

    async def close(self) -> None:
        """End the thread after its current write."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    # In the thread

    def _claim(self) -> None:
        owner = os.path.join(self._path, OWNER)
        try:
            os.makedirs(self._path, exist_ok=True)
            if not os.path.exists(owner):
                draft = f"{owner}.{os.getpid()}.{self._task}.{id(self):x}.tmp"
                _write_durably(draft, [json.dumps(self._owner).encode()])
                _name_once(draft, owner)
                _sync_folder(self._path)
            with open(owner, "rb") as file:
                written_by: Any = json.load(file)
        except ValueError:
            written_by = "an unknown committer"
        except OSError as error:
            raise FatalError(
                f"the folder {self._path!r} cannot be written to: {error.strerror}", hint="Name a folder that can be made, or written to."
            ) from error
        if written_by != self._owner:
            raise FatalError(
                f"the folder {self._path!r} belongs to {written_by}, and {self._owner} may not write to it",
                hint=f"Use another folder. If the other committer no longer exists, remove its files and {OWNER!r}.",
            )

    def _write(self, attempt: TransactionAttempt, name: OutputName, lines: list[bytes]) -> None:
        draft, path = os.path.join(self._path, name.draft), os.path.join(self._path, str(name))
        try:
            if self._last is None:
                self._refuse_later(attempt)
            try:
                _write_durably(draft, lines)
                os.replace(draft, path)
            except BaseException:
                _remove(draft)
                raise
            _sync_folder(self._path)
            self._remove_superseded(attempt, name)
        except OSError as error:
            what = f"file {path!r} cannot be written: {error.strerror}"
            raise StateUnavailable(what, hint="Check the disk. The batch is retried, and no part of it is visible until then.") from error

    def _names(self) -> list[tuple[OutputName, bool]]:
        return [name for text in os.listdir(self._path) if (name := name_of(text)) is not None]

    def _refuse_later(self, attempt: TransactionAttempt) -> None:
        """Raise FatalError if the folder has a later txid or attempt. Then another process runs, or the state was lost."""
        written = max((TransactionAttempt(*name[:2]) for name, is_draft in self._names() if not is_draft), default=attempt)
        if written > attempt:
            raise FatalError(
                f"the folder {self._path!r} has the output of batch {written}, which is later than batch {attempt}: "
                f"{_LATER_START if written.epoch > attempt.epoch else 'the state of the coordinator is older than the folder'}",
                hint="If another process runs the topology, nothing is lost, because that process continues. Otherwise restore the newest "
                "state of the coordinator (state_provider), or begin with an empty folder.",
            )

    def _remove_superseded(self, attempt: TransactionAttempt, name: OutputName) -> None:
        """Remove superseded files. The first call removes those of all tasks, later calls only those of this task."""
        if self._last is None:
            for text in superseded(self._names(), attempt):
                _remove(os.path.join(self._path, text))
        elif self._last.txid == attempt.txid and self._last != name:  # an attempt that is published again has its name
            _remove(os.path.join(self._path, str(self._last)))
        self._last = name


def _write_durably(path: str, lines: list[bytes]) -> None:
    with open(path, "wb") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())


def _name_once(draft: str, path: str) -> None:
    """Give a draft its name unless another process was faster.

    On a file system without hard links the last process wins.
    """
    try:
        os.link(draft, path)
    except OSError as error:
        if error.errno in _NO_LINKS:
            os.replace(draft, path)
        elif error.errno != errno.EEXIST:
            raise
    finally:
        _remove(draft)


def _sync_folder(path: str) -> None:
    """Make file names durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
