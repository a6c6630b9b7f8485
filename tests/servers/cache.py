"""Files of servers in the user's cache folder, fetched or made once."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """Return `stormcell/servers` in the user's cache folder. It may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "stormcell" / "servers"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file's lock. Other processes wait for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def made_once(target: Path, make: Callable[[Path], None]) -> Path:
    """Return a file or folder of the cache. The first caller makes it, and it is complete or missing."""
    if target.exists():
        return target
    with locked(target.parent / f"{target.name}.lock"):
        if not target.exists():
            making = Path(tempfile.mkdtemp(prefix="making-", dir=target.parent))
            try:
                make(making / target.name)
                (making / target.name).rename(target)
            finally:
                shutil.rmtree(making)
    return target
