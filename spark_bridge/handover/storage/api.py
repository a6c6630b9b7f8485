"""What the hand-over asks of the place that its folder is at: a few calls that block, each safe to repeat."""

import os
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from spark_bridge.handover.errors import HandoverError, NameTaken, StorageUnavailable
from spark_bridge.handover.names import file_text

HINT: Final = (
    "Nothing is lost, and nothing half done is visible. Make room, correct the rights or the name, or wait until the storage is back."
)


class Storage(ABC):
    """A folder and what is below it. Names are relative to the folder, with `/` between their parts.

    Every method raises StorageUnavailable where the storage does not do what it is asked for.
    """

    exclusive: bool
    """True where `create` never replaces, whoever else does the same at that instant."""

    def __init__(self, url: str) -> None:
        self.url: Final = url
        """The folder, as a person names it."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, None where it is not there."""
        with self.telling("read", name):
            return self._read(name)

    def exists(self, name: str) -> bool:
        """Tell whether a file is there."""
        with self.telling("look for", name):
            return self._exists(name)

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, without the folder, in no order; none where there is no folder."""
        with self.telling("list", folder):
            return self._names(folder)

    def create(self, name: str, content: bytes) -> bool:
        """Have a file appear whole and durable; return False, and leave what is there, where the name is taken.

        Where the storage is not `exclusive`, two that create one name at one instant may both be told True, and the later one stays.
        """
        with self.telling("create", name):
            return self._create(name, content)

    def replace(self, name: str, content: bytes) -> None:
        """Have a file be there, whole and durable, in the place of what was there."""
        with self.telling("write", name):
            self._replace(name, content)

    def remove(self, name: str) -> None:
        """Remove a file; it need not be there."""
        with self.telling("remove", name):
            self._remove(name)

    def make_folder(self, name: str) -> None:
        """Make a folder, and those above it; it may be there."""
        with self.telling("make", name):
            self._make_folder(name)

    def open_output(self, name: str) -> AbstractContextManager[Any]:
        """Open a new file for pyarrow.parquet to write; it is durable when the context ends. Use it inside `telling`.

        Raises NameTaken where the name is taken, and the storage is `exclusive`.
        """
        return self._open_output(name)

    def open_input(self, name: str) -> Any:
        """Open a file for pyarrow.parquet: to be read at any place. Raises HandoverError where it is not there."""
        with self.telling("open", name):
            try:
                return self._open_input(name)
            except FileNotFoundError as error:
                raise missing(self.url, name) from error

    @contextmanager
    def telling(self, doing: str, name: str) -> Iterator[None]:
        """Turn what a storage raises into StorageUnavailable, which says what was done to which file."""
        try:
            yield
        except HandoverError:
            raise
        except Exception as error:  # clients of object stores raise whatever they like
            text = f"{self.url}: cannot {doing} {name!r}: {reason(error)}" if name else f"{self.url}: cannot {doing} it: {reason(error)}"
            raise StorageUnavailable(text, hint=HINT) from error

    @abstractmethod
    def _read(self, name: str) -> bytes | None: ...

    @abstractmethod
    def _exists(self, name: str) -> bool: ...

    @abstractmethod
    def _names(self, folder: str) -> list[str]: ...

    @abstractmethod
    def _create(self, name: str, content: bytes) -> bool: ...

    @abstractmethod
    def _replace(self, name: str, content: bytes) -> None: ...

    @abstractmethod
    def _remove(self, name: str) -> None: ...

    @abstractmethod
    def _make_folder(self, name: str) -> None: ...

    @abstractmethod
    def _open_output(self, name: str) -> AbstractContextManager[Any]: ...

    @abstractmethod
    def _open_input(self, name: str) -> Any: ...


def missing(url: str, name: str) -> HandoverError:
    """Return the error for a file that a manifest names and that is not there."""
    text = f"{url}: {file_text(name)} is missing, and a manifest names it"
    return HandoverError(text, hint="The engine removes a file only after its manifest. Restore it from a copy.")


def taken(url: str, name: str) -> NameTaken:
    """Return the error for a file that is there, though its name is new."""
    text = f"{url}: {name!r} is there already, and it was to be written now"
    return NameTaken(text, hint="Does another engine write here, or was the topology's state lost? Begin with an empty folder then.")


def reason(error: Exception) -> str:
    """Return what an error says, with its kind where that is not plain.

    >>> reason(OSError(28, "No space left on device"))
    'No space left on device'
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def draft_of(name: str) -> str:
    """Return what a file is called while it is written: in the same folder, hidden, and of no other thread.

    >>> draft_of("manifests/000000000007.json").startswith("manifests/.000000000007.json.")
    True
    """
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}.{last}.{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}.tmp"


def is_draft(name: str) -> bool:
    """Tell whether a name in a folder is that of a draft."""
    return name.startswith(".") and name.endswith(".tmp")
