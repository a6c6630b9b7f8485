"""A real redis-server for tests, on a free port of 127.0.0.1 and with its own folder."""

import shutil
from pathlib import Path
from typing import Final

import redis

from engine.state.redis.link import RedisAddress
from tests.servers.process import HOST, ServerProcess, free_port
from tests.servers.server import Server

PROGRAM: Final = "redis-server"
DURABLE: Final = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")


def why_not() -> str | None:
    """Return the reason why there is no server here, or None."""
    if shutil.which(PROGRAM):
        return None
    return f"{PROGRAM} is not installed: scripts/install-system-packages redis"


class RedisServer(Server):
    """One server."""

    def __init__(self, folder: Path, *options: str, password: str | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self._password = password
        self._options = (*DURABLE, *options, *(("--requirepass", password) if password else ()))
        self.process = ServerProcess(PROGRAM, folder)

    def start(self) -> None:
        command = [PROGRAM, "--port", str(self.port), "--bind", HOST, "--dir", str(self.folder), *self._options]
        self.process.start(command, self._answers)

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except (redis.ConnectionError, redis.exceptions.BusyLoadingError):
            return False

    def client(self, db: int = 0) -> redis.Redis:
        """Return a plain client to inspect the server."""
        return redis.Redis(HOST, self.port, db, password=self._password, socket_timeout=10)

    def address(self, *, port: int | None = None, db: int = 0, prefix: str = "test") -> RedisAddress:
        return RedisAddress(HOST, self.port if port is None else port, db, password=self._password, prefix=prefix)
