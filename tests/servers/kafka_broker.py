"""A real Kafka broker for tests: one process that is broker and controller, with its own folder."""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.servers.cache import cache_folder, made_once
from tests.servers.kafka_security import KafkaSecurity
from tests.servers.maven import jars, why_no_jars
from tests.servers.process import HOST, ServerProcess, accepts, free_port
from tests.servers.server import Server

NAME: Final = "kafka"
JARS: Final = ("org.apache.kafka:kafka_2.13:4.1.0", "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3")
JAVA: Final = ("java", "-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=WARN")
MAIN: Final = "kafka.Kafka"
FORMAT: Final = "kafka.tools.StorageTool"
CLUSTER_ID: Final = "stormcell-tests-000000"
TOOL_SECS: Final = 60
SETTINGS: Final[Mapping[str, object]] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "num.partitions": 4,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    # After kill -9 the controller waits for the end of the dead broker's session: 9 s by default.
    "broker.session.timeout.ms": 1000,
    "broker.heartbeat.interval.ms": 200,
    # A small machine: the smallest number of threads that works.
    "num.network.threads": 2,
    "num.io.threads": 4,
    "background.threads": 2,
    "log.cleaner.dedupe.buffer.size": 2 << 20,
}


def why_not() -> str | None:
    """Return the reason why no broker can start here, or None. Fetches its jars the first time."""
    return why_no_jars(NAME, JARS)


def prepare() -> None:
    """Fetch everything for a start into the cache. Does nothing if no broker can start."""
    if why_not() is None:
        _archive()


class KafkaBroker(Server):
    """One broker.

    `settings` override `SETTINGS` in its server.properties. `security` opens more listeners beside the plain one.
    """

    def __init__(
        self, folder: Path, *, port: int | None = None, settings: Mapping[str, object] | None = None, security: KafkaSecurity | None = None
    ) -> None:
        self.folder = folder
        self.security = security or KafkaSecurity()
        self.port = port or free_port()
        self._ports = {"PLAINTEXT": self.port, **{listener: free_port() for listener in self.security.listeners}}
        self._controller_port = free_port()
        self._settings = settings or {}
        self.process = ServerProcess(NAME, folder)

    @property
    def bootstrap(self) -> str:
        """Address without TLS and password, with all rights: "127.0.0.1:port"."""
        return self.address("PLAINTEXT")

    def address(self, listener: str) -> str:
        """Return the address of a listener: PLAINTEXT, SASL_PLAINTEXT, SSL or SASL_SSL."""
        return f"{HOST}:{self._ports[listener]}"

    def start(self) -> None:
        self._start(f"-XX:SharedArchiveFile={_archive()}", "-Xshare:auto")

    def _start(self, *options: str) -> None:
        properties = str(self._write_properties())
        if not (self.folder / "records").exists():
            users = self.security.format_options()
            _run(*options, FORMAT, "format", "--standalone", "-t", CLUSTER_ID, "-c", properties, *users)
        self.process.start(_java(*options, MAIN, properties), lambda: all(map(accepts, self._ports.values())))

    def _write_properties(self) -> Path:
        listeners = ",".join(f"{name}://{self.address(name)}" for name in self._ports)
        controller = f"CONTROLLER://{HOST}:{self._controller_port}"
        settings = {
            **SETTINGS,
            "controller.quorum.bootstrap.servers": f"{HOST}:{self._controller_port}",
            "listeners": f"{listeners},{controller}",
            "advertised.listeners": f"{listeners},{controller}",
            "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in self._ports) + ",CONTROLLER:PLAINTEXT",
            "log.dirs": self.folder / "records",
            **self.security.settings(self.folder),
            **self._settings,
        }
        path = self.folder / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return path


def _java(*arguments: str) -> list[str]:
    return [*JAVA, "-cp", ":".join(map(str, jars(NAME, JARS))), *arguments]


def _run(*arguments: str) -> None:
    said = subprocess.run(_java(*arguments), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=TOOL_SECS, check=False)
    if said.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)} failed: {(said.stdout + said.stderr)[-2000:]}")


def _archive() -> Path:
    """Class archive of a broker for this machine's JVM, which halves the start time. A broker makes it once."""
    java = Path(shutil.which("java") or "java").resolve()
    files = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in (java, *jars(NAME, JARS))]  # in the order of Java
    told = f"{java} {files} {JAVA}"
    return made_once(cache_folder() / f"{NAME}-{hashlib.sha256(told.encode()).hexdigest()[:12]}.jsa", _make_archive)


def _make_archive(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        broker = KafkaBroker(Path(folder))
        broker._start(f"-XX:ArchiveClassesAtExit={path}")
        broker.stop()
    if not path.exists():
        path.touch()  # a JVM that cannot make an archive cannot use one
