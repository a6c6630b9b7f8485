"""The stores that are measured, each empty, and gone after the run."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

STORES: Final = ("memory", "sqlite", "redis")
VALUE_STORES: Final = (*STORES, "postgres")
"""Where values of transactions can be kept."""


@contextmanager
def store_url(store: str) -> Iterator[str]:
    """The URL of an empty store of this kind; a server is started, with every write on disk before it is acknowledged."""
    if store == "memory":
        yield "memory://"
        return
    with tempfile.TemporaryDirectory(prefix="stormcell-bench-") as name:
        folder = Path(name)
        if store == "sqlite":
            yield f"sqlite:///{folder}/state.db"
            return
        if store == "postgres":
            from tests.servers.postgres_server import PostgresServer

            with PostgresServer(folder, settings={"shared_buffers": "128MB"}) as postgres:
                yield postgres.url
            return
        from tests.servers.redis_server import RedisServer

        server = RedisServer(folder)
        server.start()
        try:
            yield f"redis://127.0.0.1:{server.port}/0"
        finally:
            server.kill()


def why_not(store: str) -> str | None:
    """Tell why a store cannot be had here; None where it can."""
    if store == "postgres":
        from tests.servers.postgres_server import why_not as why_no_postgres

        return why_no_postgres()
    if store != "redis":
        return None
    from tests.servers.redis_server import why_not as why_no_server

    return why_no_server()
