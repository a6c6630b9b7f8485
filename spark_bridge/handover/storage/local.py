"""Storage in a local folder, or in one that the operating system mounts.

fsspec does not fit here. The local file system of fsspec never calls fsync, and its `mode="create"` checks first and then writes.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from spark_bridge.handover.errors import HandoverError
from spark_bridge.handover.storage.api import Storage, draft_of, name_taken

NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK})


class LocalStorage(Storage):
    """Files and their folder entries are forced to the disk. A hard link creates exclusively, because it fails if the name exists."""

    exclusive = True

    def __init__(self, folder: str) -> None:
        super().__init__(folder)

    def _path(self, name: str) -> str:
        return os.path.join(self.url, name)

    def _read(self, name: str) -> bytes | None:
        try:
            with open(self._path(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def _exists(self, name: str) -> bool:
        # Not os.path.exists, which returns False for every error of the storage.
        try:
            os.stat(self._path(name))
        except FileNotFoundError:
            return False
        return True

    def _names(self, folder: str) -> list[str]:
        try:
            with os.scandir(self._path(folder)) as found:
                return [each.name for each in found if each.is_file()]
        except FileNotFoundError:
            return []

    def _create(self, name: str, content: bytes) -> bool:
        draft, path = self._path(draft_of(name)), self._path(name)
        try:
            _write_durably(draft, content)
            link(draft, path)
        except FileExistsError:
            return False
        finally:
            _remove(draft)
        sync_folder(os.path.dirname(path))
        return True

    def _replace(self, name: str, content: bytes) -> None:
        draft, path = self._path(draft_of(name)), self._path(name)
        try:
            _write_durably(draft, content)
            os.replace(draft, path)
        except BaseException:
            _remove(draft)
            raise
        sync_folder(os.path.dirname(path))

    def _remove(self, name: str) -> None:
        _remove(self._path(name))

    def _make_folder(self, name: str) -> None:
        path = self._path(name)
        if not os.path.isdir(path):
            os.makedirs(path, exist_ok=True)
            sync_folder(os.path.dirname(path))

    @contextmanager
    def _open_output(self, name: str) -> Iterator[Any]:
        """Open a file of pyarrow, which is written without the GIL."""
        path = self._path(name)
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError:
            raise name_taken(self.url, name) from None
        try:
            with pa.OSFile(path, "wb") as file:
                yield file
            sync_file(descriptor)
        finally:
            os.close(descriptor)
        sync_folder(os.path.dirname(path))

    def _open_input(self, name: str) -> Any:
        return pa.OSFile(self._path(name), "rb")


def link(draft: str, path: str) -> None:
    """Give a draft its final name. Raise FileExistsError if the name exists, HandoverError if the file system has no hard links."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        text = f"the file system of {path!r} makes no hard links, which a manifest needs ({error.strerror})"
        raise HandoverError(text, hint="Write the folder as local:///path: its manifests are then named by attempt.") from error


def sync_file(descriptor: int) -> None:
    """Force a file to the disk."""
    os.fsync(descriptor)


def sync_folder(path: str) -> None:
    """Force the entries of a folder to the disk."""
    descriptor = os.open(path or os.curdir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_durably(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        sync_file(file.fileno())


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
