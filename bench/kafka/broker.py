"""The broker that is measured on: the one that KAFKA_BOOTSTRAP names, or one that is started for the run and gone after it."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

VARIABLE: Final = "KAFKA_BOOTSTRAP"


def why_not() -> str | None:
    """Tell why nothing can be measured here; None where it can."""
    if find_spec("aiokafka") is None:
        return "aiokafka is not installed (pip install 'stormcell[kafka]')"
    if os.environ.get(VARIABLE):
        return None
    from tests.servers.kafka_broker import why_not as why_no_broker

    return why_no_broker()


@contextmanager
def broker_address() -> Iterator[str]:
    """The address of the broker, "host:port"."""
    given = os.environ.get(VARIABLE)
    if given:
        yield given
        return
    from tests.servers.kafka_broker import KafkaBroker

    with tempfile.TemporaryDirectory(prefix="stormcell-bench-") as folder, KafkaBroker(Path(folder)) as broker:
        yield broker.bootstrap
