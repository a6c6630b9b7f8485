"""Programs, packages and servers that a work or a peer needs, by name, and why one cannot be had here."""

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec

from bench import environments
from bench.peers.bare_loop import FLOOR
from bench.servers import BROKER


def missing_need(names: Iterable[str]) -> str | None:
    """Return why one of these cannot be had here, or None. A name with a slash is `environment/package`."""
    reasons = (environments.missing_package(name) if "/" in name else NEEDS[name]() for name in names if name)
    return next((reason for reason in reasons if reason), None)


def _kafka() -> str | None:
    from tests.servers.kafka_broker import why_not

    return _package("aiokafka", "kafka") or (None if os.environ.get(BROKER) else why_not())


def _redis() -> str | None:
    from tests.servers.redis_server import why_not

    return why_not()


def _postgres() -> str | None:
    from tests.servers.postgres_server import why_not

    return _package("asyncpg", "postgres") or why_not()


def _zookeeper() -> str | None:
    from tests.servers.zookeeper_server import why_not

    return why_not()


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
    "kafka": _kafka,
    "redis": _redis,
    "postgres": _postgres,
    "zookeeper": _zookeeper,
    "java": _java,
    "floor": _floor,
    "spark": _spark,
    "pyarrow": lambda: _package("pyarrow", "arrow"),
}
