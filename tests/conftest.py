"""Shared by all tests: profiles of hypothesis, and fixtures of the servers, one of each kind for the whole session."""

import gc
import logging
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

# No deadline, because the machines may be slow and shared. The blob replays a failure of CI.
settings.register_profile("default", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")


@pytest.fixture(autouse=True)
def _own_garbage() -> Iterator[None]:
    """Hide older objects from the garbage collector: many tests collect, and Spark leaves many objects."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _same_path() -> Iterator[None]:
    """Remove the folder of a test's topology file from sys.path, where its modules could hide others."""
    folders = list(sys.path)
    yield
    sys.path[:] = folders


@pytest.fixture(autouse=True)
def _same_logging() -> Iterator[None]:
    """Restore the handlers of the root logger, and the levels of the loggers of before. Commands that run in this process change them."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    loggers = [logger for logger in (root, *root.manager.loggerDict.values()) if isinstance(logger, logging.Logger)]
    levels = [logger.level for logger in loggers]
    yield
    root.handlers[:] = handlers
    for logger, level in zip(loggers, levels, strict=True):
        if logger.level != level:
            logger.setLevel(level)
