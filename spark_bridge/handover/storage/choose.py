"""Which storage a folder is at: by its URL, or by the file system that the user gives."""

import os
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from spark_bridge.handover.errors import HandoverError
from spark_bridge.handover.storage.api import Storage
from spark_bridge.handover.storage.arrow import ArrowStorage
from spark_bridge.handover.storage.local import LocalStorage

URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://.*")


def storage_at(folder: str | os.PathLike[str], options: Mapping[str, Any] | None = None, filesystem: object = None) -> Storage:
    """Return the storage of a folder; raise HandoverError where nothing can reach it. Nothing is read or written yet.

    A path, or `file://`, is a folder of this machine. Another URL is fsspec's, with `options` as the arguments of its file system, such
    as `{"endpoint_url": "..."}`; without fsspec it is pyarrow's own (s3, gs, abfs, hdfs). `filesystem`: one of pyarrow or of fsspec, used
    as it is; the folder is then a path as it knows it.

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
        return _given(filesystem, text)
    found = URL.fullmatch(text)
    if found is None:
        return LocalStorage(os.path.abspath(text))
    if found[1].lower() == "file":
        return LocalStorage(unquote(urlsplit(text).path))
    return _by_url(text, found[1].lower(), dict(options or {}))


def _given(filesystem: object, path: str) -> Storage:
    if isinstance(filesystem, fs.FileSystem):
        return ArrowStorage(filesystem, path, f"{filesystem.type_name}:{path}")
    if hasattr(filesystem, "pipe_file") and hasattr(filesystem, "protocol"):
        from spark_bridge.handover.storage.fsspec_storage import FsspecStorage

        path = filesystem._strip_protocol(path)  # type: ignore[attr-defined]  # fsspec's own name for it
        return FsspecStorage(filesystem, path, filesystem.unstrip_protocol(path))  # type: ignore[attr-defined]
    kind = type(filesystem).__name__
    raise HandoverError(f"{kind} is no file system", hint="Give one of pyarrow.fs or of fsspec, or none and a URL.")


def _by_url(url: str, scheme: str, options: dict[str, Any]) -> Storage:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        return _by_arrow(url, scheme)
    from spark_bridge.handover.storage.fsspec_storage import FsspecStorage

    try:
        filesystem, path = url_to_fs(url, **options)
    except (ImportError, ValueError, TypeError, OSError) as error:
        hint = f"Install what fsspec needs for {scheme}://, correct the URL or the options, or give a file system of pyarrow."
        raise HandoverError(f"{url!r} cannot be reached: {error}", hint=hint) from error
    return FsspecStorage(filesystem, path, url)


def _by_arrow(url: str, scheme: str) -> Storage:
    try:
        filesystem, path = fs.FileSystem.from_uri(url)
    except (ValueError, OSError, NotImplementedError) as error:
        hint = f"pip install fsspec, and what it needs for {scheme}://, or give a file system of pyarrow."
        raise HandoverError(f"{url!r} cannot be reached without fsspec: {error}", hint=hint) from error
    return ArrowStorage(filesystem, path, url)
