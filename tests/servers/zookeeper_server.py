"""A real ZooKeeper for tests: one standalone server with its own data folder."""

import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.servers.maven import jars, why_no_jars
from tests.servers.process import HOST, ServerProcess, free_port
from tests.servers.server import Server

NAME: Final = "zookeeper"
JARS: Final = (
    "org.apache.zookeeper:zookeeper:3.9.4",
    # Packages of the server that a client does not need. The last one makes it log.
    "io.dropwizard.metrics:metrics-core:4.1.12.1",
    "org.xerial.snappy:snappy-java:1.1.10.7",
    "org.slf4j:slf4j-simple:2.0.13",
)
JAVA: Final = (
    "java",
    "-Xms16m",
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
SETTINGS: Final[Mapping[str, object]] = {
    "admin.enableServer": "false",
    "maxClientCnxns": 0,
    # In ms. The end of a session is noticed up to one tick late. Two ticks are the shortest session.
    "tickTime": 100,
    "maxSessionTimeout": 60_000,
    # In kB: the size of a new transaction log on disk, 64 MB by default.
    "preAllocSize": 1024,
}


def why_not() -> str | None:
    """Return the reason why no server can start here, or None. Fetches its jars the first time."""
    return why_no_jars(NAME, JARS)


def prepare() -> None:
    """Fetch everything for a start into the cache. Does nothing if no server can start."""
    why_not()


class ZooKeeperServer(Server):
    """One server. `settings` override `SETTINGS` in its zoo.cfg."""

    def __init__(self, folder: Path, *, port: int | None = None, settings: Mapping[str, object] | None = None) -> None:
        self.folder = folder
        self.port = port or free_port()
        self._settings = settings or {}
        self.process = ServerProcess(NAME, folder)

    @property
    def hosts(self) -> str:
        """Address of the server: "127.0.0.1:port"."""
        return f"{HOST}:{self.port}"

    def start(self) -> None:
        command = [*JAVA, "-cp", ":".join(map(str, jars(NAME, JARS))), MAIN, str(self._write_settings())]
        self.process.start(command, self._serves)

    def _write_settings(self) -> Path:
        own = {"dataDir": self.folder / "data", "clientPortAddress": HOST, "clientPort": self.port}
        path = self.folder / "zoo.cfg"
        path.write_text("".join(f"{name}={value}\n" for name, value in {**SETTINGS, **own, **self._settings}.items()))
        return path

    def _serves(self) -> bool:
        """Tell whether the server is ready. It accepts connections before it has read its data, and then reports no mode."""
        with suppress(OSError), socket.create_connection((HOST, self.port), timeout=1) as connection:
            connection.sendall(b"srvr")
            return b"Mode: standalone" in b"".join(iter(lambda: connection.recv(4096), b""))
        return False
