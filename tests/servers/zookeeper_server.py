"""A real ZooKeeper for tests: one server that stands alone, its data in a folder of its own, ended by its pid."""

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
    # What a client does not need, and a server does; the last one has it tell its log.
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
    # In ms. A tick is how late the end of a session is seen; two of them are the shortest session.
    "tickTime": 100,
    "maxSessionTimeout": 60_000,
    # In kB: what a log of transactions takes on the disk from its first one on; 64 MB by default.
    "preAllocSize": 1024,
}


def why_not() -> str | None:
    """Return why no server can be started here; None where it can, after fetching its jars where that is not done."""
    return why_no_jars(NAME, JARS)


def prepare() -> None:
    """Have all that a start needs in the cache; nothing where no server can be started."""
    why_not()


class ZooKeeperServer(Server):
    """One server. `settings` go into its zoo.cfg, over those of `SETTINGS`."""

    def __init__(self, folder: Path, *, port: int | None = None, settings: Mapping[str, object] | None = None) -> None:
        self.folder = folder
        self.port = port or free_port()
        self._settings = settings or {}
        self.process = ServerProcess(NAME, folder)

    @property
    def hosts(self) -> str:
        """Where it is reached: "127.0.0.1:port"."""
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
        """It accepts connections before it has read its data; what it says then names no mode."""
        with suppress(OSError), socket.create_connection((HOST, self.port), timeout=1) as connection:
            connection.sendall(b"srvr")
            return b"Mode: standalone" in b"".join(iter(lambda: connection.recv(4096), b""))
        return False
