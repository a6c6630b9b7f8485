"""A real PostgreSQL for tests, with its own data folder and a password."""

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from tests.servers.postgres_programs import NAME, TOOL_SECS, USER, NoPrograms, programs, unprivileged
from tests.servers.process import HOST, ServerProcess, free_port
from tests.servers.server import Server

OWNER: Final = "stormcell"
PASSWORD: Final = "s3cret"
DATABASE: Final = "postgres"
ENVIRONMENT: Final = {"LC_ALL": "C"}
SETTINGS: Final[Mapping[str, object]] = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "shared_buffers": "16MB",
    "max_wal_senders": 0,
    "max_logical_replication_workers": 0,
}


def why_not() -> str | None:
    """Return the reason why no server can start here, or None. Fetches its programs the first time."""
    try:
        programs()
    except NoPrograms as no:
        return str(no)
    return None


def prepare() -> None:
    """Fetch everything for a start into the cache. Does nothing if no server can start."""
    why_not()


def url(port: int, database: str = DATABASE) -> str:
    """Return the URL of a database, for a user with all rights."""
    return f"postgresql://{OWNER}:{PASSWORD}@{HOST}:{port}/{database}"


class PostgresServer(Server):
    """One server. `settings` override `SETTINGS` in postgresql.conf."""

    def __init__(self, folder: Path, *, port: int | None = None, settings: Mapping[str, object] | None = None) -> None:
        self.folder = folder
        self.port = port or free_port()
        self._settings = {**SETTINGS, **(settings or {})}
        # Any other signal leaves a segment of shared memory behind. A system has few segments.
        self.process = ServerProcess(NAME, folder, last_signal=signal.SIGQUIT)

    @property
    def url(self) -> str:
        """URL of the first database: "postgresql://user:password@127.0.0.1:port/database"."""
        return url(self.port)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def start(self) -> None:
        if not self._data.exists():
            self._make_data()
        options = [option for name, value in self._settings.items() for option in ("-c", f"{name}={value}")]
        command = [*unprivileged(), str(programs() / "postgres"), "-D", str(self._data), "-p", str(self.port), *options]
        self.process.start(command, self._is_ready, ENVIRONMENT)

    def stop(self) -> None:
        """End it like an administrator, without waiting for clients."""
        self.process.stop(signal.SIGINT)

    def remove(self) -> None:
        """End it and remove its data. Its log stays."""
        self.process.end()
        shutil.rmtree(self._data, ignore_errors=True)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()

    def _make_data(self) -> None:
        self._data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            user = pwd.getpwnam(USER)
            os.chown(self._data, user.pw_uid, user.pw_gid)
        password = self.folder / "password"
        password.write_text(f"{PASSWORD}\n")
        kept = ("--pgdata", str(self._data), "--no-sync", "--encoding", "UTF8", "--no-locale")
        access = ("--username", OWNER, "--pwfile", str(password), "--auth", "scram-sha-256")
        _run(*unprivileged(), str(programs() / "initdb"), *kept, *access)

    def _is_ready(self) -> bool:
        """Tell whether the server is ready. It writes this into a file whose first line is its process id."""
        with suppress(FileNotFoundError):
            words = (self._data / "postmaster.pid").read_text().split()  # the file is missing while the server writes it
            return words[:1] == [str(self.process.pid)] and words[-1] == "ready"
        return False


def _run(*command: str) -> None:
    environment = {**os.environ, **ENVIRONMENT}
    said = subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=TOOL_SECS, check=False, env=environment
    )
    if said.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed: {(said.stdout + said.stderr)[-2000:]}")
