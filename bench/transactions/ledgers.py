"""Where the coordinator's state is kept, each place empty, and gone after the run."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.state import stores

LEDGERS: Final = (*stores.STORES, "zookeeper")


@contextmanager
def ledger_url(store: str) -> Iterator[str]:
    """The URL of an empty store of this kind; all but memory:// have each write on disk before it is acknowledged."""
    if store != "zookeeper":
        with stores.store_url(store) as url:
            yield url
        return
    from tests.servers.zookeeper_server import ZooKeeperServer

    with tempfile.TemporaryDirectory(prefix="stormcell-bench-") as folder, ZooKeeperServer(Path(folder)) as server:
        yield f"zookeeper://{server.hosts}/bench"


def why_not(store: str) -> str | None:
    """Tell why a store cannot be had here; None where it can."""
    if store != "zookeeper":
        return stores.why_not(store)
    from tests.servers.zookeeper_server import why_not as why_no_server

    return why_no_server()
