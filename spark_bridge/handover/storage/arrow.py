"""A file system of pyarrow."""

from contextlib import AbstractContextManager
from typing import Any, Final

from pyarrow import fs

from spark_bridge.handover.storage.api import Storage, draft_of

WHOLE: Final = frozenset({"s3", "gcs", "abfs"})
"""Where a file appears when it is closed, whole, and takes the place of another."""


class ArrowStorage(Storage):
    """It cannot create exclusively, so that manifests are named by attempt. How durable a closed file is, is the file system's."""

    exclusive = False

    def __init__(self, filesystem: fs.FileSystem, path: str, url: str) -> None:
        super().__init__(url)
        self._fs = filesystem
        self._base = path.rstrip("/")
        self._is_whole = filesystem.type_name in WHOLE

    def _path(self, name: str) -> str:
        return f"{self._base}/{name}" if name and self._base else self._base or name

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

    def _create(self, name: str, content: bytes) -> bool:
        if self._exists(name):
            return False
        self._replace(name, content)
        return True

    def _replace(self, name: str, content: bytes) -> None:
        target = name if self._is_whole else draft_of(name)
        with self._fs.open_output_stream(self._path(target)) as file:
            file.write(content)
        if target != name:
            self._fs.move(self._path(target), self._path(name))

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
