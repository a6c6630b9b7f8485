"""`FileCommitter`: the output of each batch as files that are there as a whole, or not (TX-8, TX-10)."""

import errno
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from engine.errors import FatalError, StateUnavailable, UsageError
from engine.in_thread import in_thread
from engine.names import POOL_NAME
from engine.topology import TaskContext, Tuple, takes
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.batch_bolt import Committer
from engine.transactional.files.output_files import OWNER, OutputName, name_of, superseded

_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_LATER_START: Final = "this process has been taken over, or the state of its coordinator was set back"


def as_json(tup: Tuple) -> str:
    """Return a tuple as a JSON object: its fields by name, without the attempt."""
    return json.dumps(dict(zip(tup.fields.names[1:], tup.values[1:], strict=True)), ensure_ascii=False)


def as_text(tup: Tuple) -> str:
    """Return the values of a tuple with tabs between them, without the attempt."""
    return "\t".join(map(str, tup.values[1:]))


@dataclass(frozen=True)
class FileCommitter:
    """For `set_bolt`: writes what comes of each batch to files of a folder, one for each task and txid, in the commit phase.

    `format` makes of a tuple a line (str, written in UTF-8 with an end), or bytes, which are written as they are. A file is written under
    a hidden name, forced to the disk, and renamed; its name says txid, attempt and task. Of a txid only the highest attempt counts, so a
    replay replaces, and an opaque spout will do; `committed_files` and `committed_lines` read what counts.

    >>> FileCommitter("out", suffix=".jsonl").folder
    'out'
    """

    folder: str | os.PathLike[str]
    """Made where it is not there. One component of one topology writes to it."""
    format: Callable[[Tuple], str | bytes] = as_json
    suffix: str = ".jsonl"

    def create(self) -> "FileWriter":
        """Return a new committer."""
        given: object = self.suffix
        if not isinstance(given, str) or "/" in given or not (given == "" or given.startswith(".")) or given.endswith(".tmp"):
            raise UsageError(f"FileCommitter(suffix) is {given!r}", hint='Such as ".jsonl", or "".')
        folder: object = self.folder
        if not isinstance(folder, (str, os.PathLike)) or not os.fspath(folder):
            raise UsageError(f"FileCommitter(folder) is {folder!r}", hint="Name the folder to write to.")
        line_of: object = self.format
        if not (callable(line_of) and takes(line_of, 1)):
            hint = "Write format=lambda tup: tup[...]."
            raise UsageError(f"FileCommitter(format) is {line_of!r}, which cannot be called with one tuple", hint=hint)
        return FileWriter(OutputFolder(os.path.abspath(self.folder)), self.format, self.suffix)


class FileWriter(Committer):
    """One attempt at one task."""

    needs_transactional_spout = False

    def __init__(self, folder: "OutputFolder", line_of: Callable[[Tuple], str | bytes], suffix: str) -> None:
        self._folder = folder
        self._line_of = line_of
        self._suffix = suffix
        self._lines: list[bytes] = []

    def execute(self, tup: Tuple) -> None:
        line = self._line_of(tup)
        if isinstance(line, str):
            self._lines.append(line.encode() + b"\n")
        elif isinstance(line, bytes):
            self._lines.append(line)
        else:
            raise FatalError(f"FileCommitter: format({tup!r}) returned {line!r}", hint="Return a str, which is a line, or bytes.")

    async def finish_batch(self) -> None:
        folder = await self.resources.opened(self._folder)
        context = self.context
        name = OutputName(*self.attempt, context.task_index, context.tasks, self._suffix)
        await folder.write(self.attempt, name, self._lines)


@dataclass(frozen=True)
class OutputFolder:
    """Where a task writes, as a resource."""

    path: str

    async def open(self, context: TaskContext) -> "OpenFolder":
        """Make it, and see that nobody else writes there."""
        folder = OpenFolder(self.path, context)
        try:
            await folder.claim()
        except BaseException:
            await folder.close()
            raise
        return folder


class OpenFolder:
    """A folder that one task writes to, in a thread."""

    def __init__(self, path: str, context: TaskContext) -> None:
        self._path = path
        self._owner: Final = {"topology": context.topology_name, "component": context.component_id}
        self._task = context.task_id
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"{POOL_NAME} {context.component_id}")
        self._last: OutputName | None = None

    async def claim(self) -> None:
        """Make the folder, and note who writes to it; raise FatalError where somebody else does."""
        await in_thread(self._pool, self._claim)

    async def write(self, attempt: TransactionAttempt, name: OutputName, lines: list[bytes]) -> None:
        """Have a file be there, whole, or raise StateUnavailable. What it supersedes is removed."""
        await in_thread(self._pool, lambda: self._write(attempt, name, lines))

    async def close(self) -> None:
        """Let go of the thread; what it is writing, it writes."""
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
            written_by = "nobody knows whom"
        except OSError as error:
            raise FatalError(
                f"the folder {self._path!r} cannot be written to: {error.strerror}", hint="Name a folder that can be made, or written to."
            ) from error
        if written_by != self._owner:
            raise FatalError(
                f"the folder {self._path!r} is written by {written_by}, and now by {self._owner}",
                hint=f"Give each committer a folder of its own. If the other one is no more, take its files away, with {OWNER!r}.",
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
            raise StateUnavailable(what, hint="The batch is tried again until it can; nothing of it is visible.") from error

    def _names(self) -> list[tuple[OutputName, bool]]:
        return [name for text in os.listdir(self._path) if (name := name_of(text)) is not None]

    def _refuse_later(self, attempt: TransactionAttempt) -> None:
        """Raise FatalError where a later txid or attempt has been written: by who has taken over, or before the state was lost."""
        written = max((TransactionAttempt(*name[:2]) for name, is_draft in self._names() if not is_draft), default=attempt)
        if written > attempt:
            raise FatalError(
                f"the folder {self._path!r} has the output of batch {written}, and this is batch {attempt}: "
                f"{_LATER_START if written.epoch > attempt.epoch else 'what the coordinator has stored does not reach so far'}",
                hint="Where another process runs the topology, nothing is lost: that one goes on. Where none does, give the coordinator "
                "its newest state back (state_provider), or begin with an empty folder.",
            )

    def _remove_superseded(self, attempt: TransactionAttempt, name: OutputName) -> None:
        """Remove what counts no more: the first time all that there is, then what this task itself has left."""
        if self._last is None:
            for text in superseded(self._names(), attempt):
                _remove(os.path.join(self._path, text))
        elif self._last.txid == attempt.txid:
            _remove(os.path.join(self._path, str(self._last)))
        self._last = name


def _write_durably(path: str, lines: list[bytes]) -> None:
    with open(path, "wb") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())


def _name_once(draft: str, path: str) -> None:
    """Give a draft its name, unless another process was faster since it was looked; where no links are made, the last one has it."""
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
    """Make names durable."""
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
