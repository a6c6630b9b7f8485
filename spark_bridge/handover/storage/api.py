"""`Storage` has the few file operations that a hand-over needs. All operations block, and may be repeated safely."""

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
    "Nothing is lost, and no partial batch is visible. Make room, correct the permissions or the name, or wait until the storage is back."
)


class Storage(ABC):
    """A folder. Names are relative to it, with `/` between their parts.

    Every method raises StorageUnavailable if the storage fails.
    """

    exclusive: bool
    """True if `create` never replaces a file, even if two processes create one name at the same instant."""

    def __init__(self, url: str) -> None:
        self.url: Final = url
        """URL of the folder, for error messages."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file. None if it does not exist."""
        with self.translate_errors("read", name):
            return self._read(name)

    def exists(self, name: str) -> bool:
        """Tell whether a file exists."""
        with self.translate_errors("look for", name):
            return self._exists(name)

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, without the folder, in any order. A missing folder has none."""
        with self.translate_errors("list", folder):
            return self._names(folder)

    def create(self, name: str, content: bytes) -> bool:
        """Create a whole and durable file. If the name exists, change nothing and return False.

        Without `exclusive`, two processes that create one name at the same instant may both get True. Then the later content stays.
        """
        with self.translate_errors("create", name):
            return self._create(name, content)

    def replace(self, name: str, content: bytes) -> None:
        """Write a whole and durable file. Replaces an existing one."""
        with self.translate_errors("write", name):
            self._replace(name, content)

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        with self.translate_errors("remove", name):
            self._remove(name)

    def make_folder(self, name: str) -> None:
        """Make a folder and its parents, if they do not exist."""
        with self.translate_errors("make", name):
            self._make_folder(name)

    def open_output(self, name: str) -> AbstractContextManager[Any]:
        """Open a new file that pyarrow.parquet writes. The file is durable when the context ends. Use this inside `translate_errors`.

        Raises NameTaken if the name exists and the storage is `exclusive`.
        """
        return self._open_output(name)

    def open_input(self, name: str) -> Any:
        """Open a file for pyarrow.parquet, with random access. Raises HandoverError if it does not exist."""
        with self.translate_errors("open", name):
            try:
                return self._open_input(name)
            except FileNotFoundError as error:
                raise missing_file(self.url, name) from error

    @contextmanager
    def translate_errors(self, action: str, name: str) -> Iterator[None]:
        """Translate errors of the storage into StorageUnavailable, with the action and the file."""
        try:
            yield
        except HandoverError:
            raise
        except Exception as error:  # clients of object stores have no common base of errors
            what = repr(name) if name else "the folder"
            raise StorageUnavailable(f"{self.url}: cannot {action} {what}: {reason(error)}", hint=HINT) from error

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


def missing_file(url: str, name: str) -> HandoverError:
    """Return the error for a file that a manifest names but that does not exist."""
    text = f"{url}: {file_text(name)} is missing, and a manifest names it"
    return HandoverError(text, hint="The engine removes a file only after its manifest. Restore it from a copy.")


def name_taken(url: str, name: str) -> NameTaken:
    """Return the error for a new, unique name that already exists."""
    text = f"{url}: {name!r} already exists, but this attempt must create it"
    return NameTaken(
        text, hint="Another engine writes here, or the state of the topology was lost. In the second case, begin with an empty folder."
    )


def reason(error: Exception) -> str:
    """Return the text of an error. Begin it with the class of the error, unless the operating system made the text.

    >>> reason(OSError(28, "No space left on device"))
    'No space left on device'
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def draft_of(name: str) -> str:
    """Return a temporary name for a file that is being written. The name is hidden, in the same folder, and unique to this thread.

    >>> draft_of("manifests/000000000007.json").startswith("manifests/.000000000007.json.")
    True
    """
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}.{last}.{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}.tmp"


def is_draft(name: str) -> bool:
    """Tell whether a name in a folder is a draft."""
    return name.startswith(".") and name.endswith(".tmp")
