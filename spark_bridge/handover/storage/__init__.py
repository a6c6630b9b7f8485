"""Storage of a hand-over folder. The URL selects a local folder, or a file system of fsspec or pyarrow."""

import os
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from spark_bridge.handover.errors import HandoverError
from spark_bridge.handover.storage.api import Storage, is_draft
from spark_bridge.handover.storage.filesystems import ArrowStorage, FsspecStorage
from spark_bridge.handover.storage.local import LocalStorage

__all__ = ["Storage", "absolute_folder", "is_draft", "storage_at"]

URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://.*")


def storage_at(folder: str | os.PathLike[str], options: Mapping[str, Any] | None = None, filesystem: object = None) -> Storage:
    """Return the storage of a folder. Raise HandoverError if no file system fits. Reads and writes nothing.

    A path or a `file://` URL is a local folder. The library fsspec handles other URLs, with `options` as the arguments of its file system,
    such as `{"endpoint_url": "..."}`. Without fsspec pyarrow handles s3, gs, abfs and hdfs. `filesystem`: an instance of pyarrow or
    fsspec, used with `folder` as a path of that file system.

    >>> storage_at("/tmp/spool").exclusive
    True
    """
    given: object = folder
    if not isinstance(given, (str, os.PathLike)) or not os.fspath(given):
        raise HandoverError(
            f"the folder of a hand-over is {given!r}", hint="Name a folder, such as /data/handover or s3://bucket/handover."
        )
    text = os.fspath(folder)
    if filesystem is not None:
        return _on_filesystem(filesystem, text)
    found = URL.fullmatch(text)
    if found is None:
        return LocalStorage(absolute_folder(text))
    if found[1].lower() == "file":
        return LocalStorage(unquote(urlsplit(text).path))
    return _by_url(text, found[1].lower(), dict(options or {}))


def absolute_folder(folder: str | os.PathLike[str]) -> str:
    """Return a path as an absolute one, and a URL unchanged.

    >>> absolute_folder("s3://bucket/handover")
    's3://bucket/handover'
    """
    text = os.fspath(folder)
    return os.path.abspath(text) if URL.fullmatch(text) is None else text


def _on_filesystem(filesystem: object, path: str) -> Storage:
    if isinstance(filesystem, fs.FileSystem):
        return ArrowStorage(filesystem, path, f"{filesystem.type_name}:{path}")
    if hasattr(filesystem, "pipe_file") and hasattr(filesystem, "protocol"):
        path = filesystem._strip_protocol(path)  # type: ignore[attr-defined]  # fsspec has no public name for it
        return FsspecStorage(filesystem, path, filesystem.unstrip_protocol(path))  # type: ignore[attr-defined]
    kind = type(filesystem).__name__
    raise HandoverError(f"{kind} is not a file system", hint="Give a file system of pyarrow.fs or fsspec, or none and a URL.")


def _by_url(url: str, scheme: str, options: dict[str, Any]) -> Storage:
    try:
        from fsspec.core import url_to_fs  # optional, because local folders and pyarrow's own schemes work without it
    except ImportError:
        return _by_arrow(url, scheme)
    try:
        filesystem, path = url_to_fs(url, **options)
    except (ImportError, ValueError, TypeError, OSError) as error:
        hint = f"Install the package that fsspec needs for {scheme}://, correct the URL or the options, or give a file system of pyarrow."
        raise HandoverError(f"{url!r} cannot be reached: {error}", hint=hint) from error
    return FsspecStorage(filesystem, path, url)


def _by_arrow(url: str, scheme: str) -> Storage:
    try:
        filesystem, path = fs.FileSystem.from_uri(url)
    except (ValueError, OSError, NotImplementedError) as error:
        hint = f"pip install fsspec and the package that it needs for {scheme}://, or give a file system of pyarrow."
        raise HandoverError(f"{url!r} cannot be reached without fsspec: {error}", hint=hint) from error
    return ArrowStorage(filesystem, path, url)
