"""A real redis-server for tests: on a free port of 127.0.0.1, its files in a folder of its own, ended by its pid."""

import os
import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

import redis

from engine.state.redis.link import RedisAddress

HOST: Final = "127.0.0.1"
PROGRAM: Final = "redis-server"
START_TRIES: Final = 400
PAUSE_SECS: Final = 0.025
DURABLE: Final = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")


def why_not() -> str | None:
    """Return why there is no server here, None where there is one."""
    if shutil.which(PROGRAM):
        return None
    return f"{PROGRAM} is not installed: scripts/install-system-packages redis"


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        return int(taken.getsockname()[1])


class RedisServer:
    """One server. It may be killed and started again, on the same port and the same files."""

    def __init__(self, folder: Path, *options: str, password: str | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self._password = password
        self._options = (*DURABLE, *options, *(("--requirepass", password) if password else ()))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [PROGRAM, "--port", str(self.port), "--bind", HOST, "--dir", str(self.folder), *self._options]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        for _ in range(START_TRIES):
            if self._answers():
                return
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(PAUSE_SECS)
                break
        self.kill()
        raise RuntimeError(f"{PROGRAM} did not start: {(self.folder / 'server.log').read_text()[-2000:]}")

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except (redis.ConnectionError, redis.exceptions.BusyLoadingError):
            return False

    def client(self, db: int = 0) -> redis.Redis:
        """A plain client, to look from outside."""
        return redis.Redis(HOST, self.port, db, password=self._password, socket_timeout=10)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """End it as by kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def address(self, *, port: int | None = None, db: int = 0, prefix: str = "test") -> RedisAddress:
        return RedisAddress(HOST, self.port if port is None else port, db, password=self._password, prefix=prefix)
