"""Storage on a file system of pyarrow or fsspec. The file system alone decides how durable a closed file is."""

import inspect
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs

from spark_bridge.handover.storage.api import Storage, draft_of, name_taken

OBJECT_STORES_OF_ARROW: Final = frozenset({"s3", "gcs", "abfs"})
"""File systems of pyarrow whose files appear as a whole when they are closed, and replace an existing file."""
OBJECT_STORES_OF_FSSPEC: Final = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "memory"})
"""Protocols of fsspec whose files appear as a whole. Their own `mode="create"` is exclusive, so the second of two writers gets an error."""


class _FileSystemStorage(Storage):
    """Base of both storages. Implements paths, `create` by a check and a write, and `replace` by a draft and a move."""

    def __init__(self, path: str, url: str, *, writes_whole: bool, exclusive: bool) -> None:
        super().__init__(url)
        self._root = path.rstrip("/") or path
        self._writes_whole = writes_whole
        self.exclusive = exclusive

    def _path(self, name: str) -> str:
        if not name or not self._root:
            return self._root or name
        return f"{self._root.rstrip('/')}/{name}"

    def _create(self, name: str, content: bytes) -> bool:
        if self._exists(name):
            return False
        self._replace(name, content)
        return True

    def _replace(self, name: str, content: bytes) -> None:
        if self._writes_whole:
            self._write(self._path(name), content)
            return
        draft = self._path(draft_of(name))
        self._write(draft, content)
        self._move(draft, self._path(name))

    @abstractmethod
    def _write(self, path: str, content: bytes) -> None: ...

    @abstractmethod
    def _move(self, path: str, target: str) -> None: ...


class ArrowStorage(_FileSystemStorage):
    """A file system of pyarrow. No such file system can create exclusively, so manifests are named by attempt."""

    def __init__(self, filesystem: fs.FileSystem, path: str, url: str) -> None:
        super().__init__(path, url, writes_whole=filesystem.type_name in OBJECT_STORES_OF_ARROW, exclusive=False)
        self._fs = filesystem

    def _read(self, name: str) -> bytes | None:
        try:
            with self._fs.open_input_stream(self._path(name)) as file:
                content: bytes = file.read()
                return content
        except FileNotFoundError:
            return None

    def _exists(self, name: str) -> bool:
        return bool(self._fs.get_file_info(self._path(name)).type == fs.FileType.File)

    def _names(self, folder: str) -> list[str]:
        found = self._fs.get_file_info(fs.FileSelector(self._path(folder), allow_not_found=True))
        return [each.base_name for each in found if each.type == fs.FileType.File]

    def _write(self, path: str, content: bytes) -> None:
        with self._fs.open_output_stream(path) as file:
            file.write(content)

    def _move(self, path: str, target: str) -> None:
        self._fs.move(path, target)

    def _remove(self, name: str) -> None:
        try:
            self._fs.delete_file(self._path(name))
        except FileNotFoundError:
            return

    def _make_folder(self, name: str) -> None:
        path = self._path(name)
        if path:
            self._fs.create_dir(path, recursive=True)

    def _open_output(self, name: str) -> AbstractContextManager[Any]:
        stream: AbstractContextManager[Any] = self._fs.open_output_stream(self._path(name))
        return stream

    def _open_input(self, name: str) -> Any:
        return self._fs.open_input_file(self._path(name))


class FsspecStorage(_FileSystemStorage):
    """A file system of fsspec. This module does not import fsspec, which is an optional dependency."""

    def __init__(self, filesystem: Any, path: str, url: str) -> None:
        protocols = {filesystem.protocol} if isinstance(filesystem.protocol, str) else set(filesystem.protocol)
        is_store = bool(protocols & OBJECT_STORES_OF_FSSPEC)
        super().__init__(path, url, writes_whole=is_store, exclusive=is_store and _creates_exclusively(filesystem))
        self._fs = filesystem

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
        if not self.exclusive:
            return super()._create(name, content)
        try:
            self._fs.pipe_file(self._path(name), content, mode="create")
        except FileExistsError:
            return False
        return True

    def _write(self, path: str, content: bytes) -> None:
        self._fs.pipe_file(path, content)

    def _move(self, path: str, target: str) -> None:
        self._fs.mv(path, target)

    def _remove(self, name: str) -> None:
        try:
            self._fs.rm_file(self._path(name))
        except FileNotFoundError:
            return

    def _make_folder(self, name: str) -> None:
        self._fs.makedirs(self._path(name), exist_ok=True)

    @contextmanager
    def _open_output(self, name: str) -> Iterator[Any]:
        """Collect the file in a buffer of pyarrow, which is written without the GIL. Send it as a whole."""
        with pa.BufferOutputStream() as buffer:
            yield buffer
            content = buffer.getvalue().to_pybytes()
        if not self.exclusive:
            self._write(self._path(name), content)
        # A client that lost the store's answer sends the file again. Then the name already exists with our own content.
        elif not self._create(name, content) and self._read(name) != content:
            raise name_taken(self.url, name)

    def _open_input(self, name: str) -> Any:
        return self._fs.open(self._path(name), "rb")


def _creates_exclusively(filesystem: Any) -> bool:
    """Tell whether this file system creates exclusively by itself.

    Older versions treat `mode` as another option, and overwrite. fsspec's general `pipe_file`, which `ArrowFSWrapper` inherits, checks
    first and then writes.
    """
    from fsspec.spec import AbstractFileSystem  # a caller with a file system of fsspec has fsspec

    if getattr(filesystem, "async_impl", False):
        return "mode" in inspect.signature(filesystem._pipe_file).parameters
    is_general = type(filesystem).pipe_file is AbstractFileSystem.pipe_file
    return not is_general and "mode" in inspect.signature(filesystem.pipe_file).parameters
