"""One server for all workers of a test session. The first user starts the server. It ends with the last user."""

import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers.cache import locked
from tests.servers.process import accepts
from tests.servers.server import Server


def session_folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """Return the folder that all workers of the test session share."""
    base = factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name


@contextmanager
def shared_port(folder: Path, server_in: Callable[[Path], Server]) -> Iterator[int]:
    """Return the port of the server that the users of this folder share.

    The users hold the lock of its process, and its keeper waits for this lock. A worker that dies releases the lock too.
    """
    with locked(folder / "shared.lock"):
        port, lock = _joined(folder) or _started(folder, server_in)
    try:
        yield port
    finally:
        os.close(lock)


def _joined(folder: Path) -> tuple[int, int] | None:
    """Return a held lock of a running server, or None if there is none or it has just ended."""
    told = folder / "shared.json"
    if not told.exists():
        return None
    known = json.loads(told.read_text())
    lock = _held(Path(known["folder"]))
    if accepts(known["port"]):
        return known["port"], lock
    os.close(lock)
    return None


def _started(folder: Path, server_in: Callable[[Path], Server]) -> tuple[int, int]:
    own = Path(tempfile.mkdtemp(dir=folder))
    server = server_in(own)
    server.start()
    (folder / "shared.json").write_text(json.dumps({"folder": str(own), "port": server.port}))
    lock = _held(own)
    server.process.release()
    return server.port, lock


def _held(folder: Path) -> int:
    lock = os.open(folder / "server.lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock
