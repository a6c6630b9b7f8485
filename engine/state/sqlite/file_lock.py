"""A lock that dies with its process: on a file beside what it protects, kept by the operating system."""

import hashlib
import os
import sys
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class FileLock:
    """One exclusive lock. The file stays, empty; what was locked by a process that died is free."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def take(self) -> bool:
        """Take the lock; False where somebody has it. Raises OSError where the file cannot be made."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _try_lock(descriptor)
        except OSError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def is_taken(self) -> bool | None:
        """Tell whether a process has it; None where this one may not ask. Takes it for a moment where nobody has."""
        if not self.path.exists():
            return False
        try:
            taken = not self.take()
        except OSError:
            return None
        self.release()
        return taken

    def release(self) -> None:
        """Give it back; without effect where it was not taken."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def lock_of(path: Path, topology_name: str) -> FileLock | None:
    """Return the lock of a topology whose state is in a file; None where there is no folder for it, which opening the file says better."""
    if not path.parent.is_dir():
        return None
    digest = hashlib.sha256(topology_name.encode()).hexdigest()[:12]
    real = path.resolve()  # a link to the file has the same lock
    return FileLock(real.with_name(f"{real.name}.{digest}.lock"))
