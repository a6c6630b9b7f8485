"""A file system of fsspec."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from spark_bridge.handover.storage.api import Storage, draft_of, taken

EXCLUSIVE: Final = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "memory"})
"""Whose `mode="create"` the store itself keeps: of two that create one name, one is told that it exists.

They also make a file appear whole. The general implementation of fsspec looks first and writes then, which is neither.
"""


class FsspecStorage(Storage):
    """How durable a closed file is, is the file system's."""

    def __init__(self, filesystem: Any, path: str, url: str) -> None:
        super().__init__(url)
        self._fs = filesystem
        self._base = path.rstrip("/")
        protocols = {filesystem.protocol} if isinstance(filesystem.protocol, str) else set(filesystem.protocol)
        self._is_whole = bool(protocols & EXCLUSIVE)
        self.exclusive = self._is_whole and _has_create(filesystem)

    def _path(self, name: str) -> str:
        return f"{self._base}/{name}" if name else self._base

    def _read(self, name: str) -> bytes | None:
        try:
            content: bytes = self._fs.cat_file(self._path(name))
        except FileNotFoundError:
            return None
        return content

    def _exists(self, name: str) -> bool:
        self._fs.invalidate_cache()
        return bool(self._fs.exists(self._path(name)))

    def _names(self, folder: str) -> list[str]:
        self._fs.invalidate_cache()
        try:
            found = self._fs.ls(self._path(folder), detail=True)
        except FileNotFoundError:
            return []
        return [each["name"].rstrip("/").rpartition("/")[2] for each in found if each["type"] == "file"]

    def _create(self, name: str, content: bytes) -> bool:
        if self.exclusive:
            try:
                self._fs.pipe_file(self._path(name), content, mode="create")
            except FileExistsError:
                return False
            return True
        if self._exists(name):
            return False
        self._replace(name, content)
        return True

    def _replace(self, name: str, content: bytes) -> None:
        target = name if self._is_whole else draft_of(name)
        self._fs.pipe_file(self._path(target), content)
        if target != name:
            self._fs.mv(self._path(target), self._path(name))

    def _remove(self, name: str) -> None:
        try:
            self._fs.rm_file(self._path(name))
        except FileNotFoundError:
            return

    def _make_folder(self, name: str) -> None:
        self._fs.makedirs(self._path(name), exist_ok=True)

    @contextmanager
    def _open_output(self, name: str) -> Iterator[Any]:
        """A buffer of pyarrow's, sent when it is whole: it is written without the interpreter's lock."""
        with pa.BufferOutputStream() as buffer:
            yield buffer
            content = buffer.getvalue().to_pybytes()
        if not self.exclusive:
            self._fs.pipe_file(self._path(name), content)
        elif not self._create(name, content) and self._read(name) != content:  # else the client has sent it twice
            raise taken(self.url, name)

    def _open_input(self, name: str) -> Any:
        return self._fs.open(self._path(name), "rb")


def _has_create(filesystem: Any) -> bool:
    """Tell whether this version of a file system knows `mode`: older ones take it for an option of something else."""
    write = filesystem._pipe_file if getattr(filesystem, "async_impl", False) else filesystem.pipe_file
    return "mode" in inspect.signature(write).parameters
