"""One storage of each kind, for parametrized tests."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pyarrow import fs

from spark_bridge.handover import Storage, storage_at

_NUMBERS: Final = itertools.count()


def place_at(kind: str, folder: Path) -> dict[str, Any]:
    """Return the arguments of `storage_at` and `Handover.open` for a new, empty folder."""
    if kind == "local":
        return {"folder": str(folder)}
    if kind == "memory":
        return {"folder": f"memory://{folder.name}-{next(_NUMBERS)}"}
    if kind == "fsspec":
        return {"folder": f"local://{folder}"}
    return {"folder": "below", "filesystem": fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())}


KINDS: Final = ("local", "memory", "fsspec", "arrow")
EXCLUSIVE: Final = {"local": True, "memory": True, "fsspec": False, "arrow": False}


def storage_of(kind: str, folder: Path) -> Storage:
    """Return a storage of this kind, with its folder made."""
    storage = storage_at(**place_at(kind, folder))
    storage.make_folder("")
    return storage


MakesStorage = Callable[[], Storage]
