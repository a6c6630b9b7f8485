"""The databases that words are counted into, each of the run's own, with each write on disk before it is acknowledged."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from bench.state import stores


@contextmanager
def database_url(store: str) -> Iterator[str]:
    """The URL of a database of this kind: postgres or redis."""
    if store == "redis":
        with stores.store_url(store) as url:
            yield url
        return
    from tests.servers.postgres_server import PostgresServer

    with tempfile.TemporaryDirectory(prefix="stormcell-bench-") as folder, PostgresServer(Path(folder)) as server:
        yield server.url


def why_not(store: str) -> str | None:
    """Tell why a database cannot be had here; None where it can."""
    if store == "redis":
        return stores.why_not(store)
    if find_spec("asyncpg") is None:
        return "asyncpg is not installed (pip install 'stormcell[postgres]')"
    from tests.servers.postgres_server import why_not as why_no_server

    return why_no_server()
