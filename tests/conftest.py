"""What all tests share: the profiles of hypothesis, and the fixtures of the servers, one of each for the whole session."""

import gc
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.servers import spark_programs

pytest_plugins = [
    "tests.tiers",
    "tests.servers.kafka_fixtures",
    "tests.servers.postgres_fixtures",
    "tests.servers.spark_fixtures",
    "tests.servers.zookeeper_fixtures",
]

spark_programs.set_environment()

# No deadline: the machines that run this are slow and shared. The blob replays a failure that CI found.
settings.register_profile("default", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")


@pytest.fixture(autouse=True)
def _own_garbage() -> Iterator[None]:
    """Hide what was there before a test from the garbage collector: many tests collect, and a process that has loaded Spark has much."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _same_path() -> Iterator[None]:
    """Leave no folder of a test's topology file on sys.path: its modules would hide others from every process that is started later."""
    folders = list(sys.path)
    yield
    sys.path[:] = folders
