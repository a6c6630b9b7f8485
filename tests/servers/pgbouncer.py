"""A real pgbouncer for tests, in front of a PostgreSQL."""

import os
import shutil
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tests.servers.postgres_programs import unprivileged
from tests.servers.process import HOST, ServerProcess, accepts, free_port
from tests.servers.server import Server

NAME: Final = "pgbouncer"
FOLDERS: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
"""Debian installs the program in a folder that is not on the path of all users."""


def why_not() -> str | None:
    """Return the reason why there is no pgbouncer here, or None."""
    return None if shutil.which(NAME, path=FOLDERS) else f"{NAME} is not installed: scripts/install-system-packages {NAME}"


class PgBouncer(Server):
    """One pooler. All its clients are the user of `url`, and its databases are those of the server there."""

    def __init__(self, folder: Path, url: str, pool_mode: str) -> None:
        """pool_mode: "session", "transaction" or "statement"."""
        self.folder = folder
        self.port = free_port()
        self._url = url
        self._pool_mode = pool_mode
        self.process = ServerProcess(NAME, folder)

    @property
    def url(self) -> str:
        """The URL, led through the pooler."""
        return urlsplit(self._url)._replace(netloc=f"{HOST}:{self.port}").geturl()

    def start(self) -> None:
        server, config = urlsplit(self._url), self.folder / "pgbouncer.ini"
        config.write_text(f"""
[databases]
* = host={server.hostname} port={server.port or 5432} user={server.username} password={server.password}
[pgbouncer]
listen_addr = {HOST}
listen_port = {self.port}
unix_socket_dir =
auth_type = any
pool_mode = {self._pool_mode}
""")
        program = shutil.which(NAME, path=FOLDERS)
        self.process.start([*unprivileged(), str(program), str(config)], lambda: accepts(self.port))
