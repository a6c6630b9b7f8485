"""Stores, databases and the Kafka broker of a run. Each is empty at the start of the run, and deleted at its end.

The servers come from the tests. Redis, PostgreSQL and ZooKeeper write to the disk before they acknowledge.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

BROKER: Final = "KAFKA_BOOTSTRAP"
"""Environment variable with the address of the broker. Measured runs read it too."""


@contextmanager
def broker() -> Iterator[None]:
    """Provide a broker at the address in `BROKER`. Starts a new broker if the variable is not set."""
    if os.environ.get(BROKER):
        yield
        return
    from tests.servers.kafka_broker import KafkaBroker

    with _folder() as folder, KafkaBroker(folder) as started:
        os.environ[BROKER] = started.bootstrap
        try:
            yield
        finally:
            del os.environ[BROKER]


@contextmanager
def store_url(store: str) -> Iterator[str]:
    """Return the URL of an empty store of this kind."""
    if store == "memory":
        yield "memory://"
        return
    with _folder() as folder:
        if store == "sqlite":
            yield f"sqlite:///{folder}/state.db"
        elif store == "redis":
            from tests.servers.redis_server import RedisServer

            with RedisServer(folder) as server:
                yield f"redis://127.0.0.1:{server.port}/0"
        elif store == "postgres":
            from tests.servers.postgres_server import PostgresServer

            with PostgresServer(folder, settings={"shared_buffers": "128MB"}) as postgres:
                yield postgres.url
        elif store == "zookeeper":
            from tests.servers.zookeeper_server import ZooKeeperServer

            with ZooKeeperServer(folder) as zookeeper:
                yield f"zookeeper://{zookeeper.hosts}/bench"
        else:
            raise SystemExit(f"unknown store {store!r}. Choose memory, sqlite, redis, postgres or zookeeper.")


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="stormcell-bench-") as folder:
        yield Path(folder)
