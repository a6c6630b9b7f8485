"""Programs, packages and servers that a work or a peer needs, by name. Tells why one is not available."""

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec

from bench import environments
from bench.peers.bare_loop import FLOOR
from bench.servers import BROKER


def missing_need(names: Iterable[str]) -> str | None:
    """Return the reason why a need is not available here, or None. A name with a slash is `environment/package`."""
    reasons = (environments.missing_package(name) if "/" in name else NEEDS[name]() for name in names if name)
    return next((reason for reason in reasons if reason), None)


def _server(module: str) -> str | None:
    """Return the reason why a server of the tests cannot start here, or None. Its module imports the server's client."""
    reason: str | None = import_module(f"tests.servers.{module}").why_not()
    return reason


def _java() -> str | None:
    absent = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    return f"not on the path: {', '.join(absent)} (Java 17 and Maven are needed)" if absent else None


def _floor() -> str | None:
    return None if (FLOOR / "floor.pyx").is_file() else "there is no folder ../shared/floor beside the project"


def _spark() -> str | None:
    return _package("pyspark", "spark") or _package("pyarrow", "arrow") or (None if shutil.which("java") else "java is not on the path")


def _package(package: str, extra: str) -> str | None:
    return None if find_spec(package) else f"{package} is not installed (pip install 'stormcell[{extra}]')"


NEEDS: Mapping[str, Callable[[], str | None]] = {
    "kafka": lambda: _package("aiokafka", "kafka") or (None if os.environ.get(BROKER) else _server("kafka_broker")),
    "redis": lambda: _server("redis_server"),
    "postgres": lambda: _package("asyncpg", "postgres") or _server("postgres_server"),
    "zookeeper": lambda: _server("zookeeper_server"),
    "java": _java,
    "floor": _floor,
    "spark": _spark,
    "pyarrow": lambda: _package("pyarrow", "arrow"),
}
