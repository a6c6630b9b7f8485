"""Warns if a run keeps state, positions or transactions in `memory://`, because a crash loses them."""

import re
from typing import Final

from engine.config import Config
from engine.log import EngineLogger
from engine.topology import Topology

LOGGER: Final = EngineLogger("engine.runtime")
_MEMORY: Final = "memory://"


def warn_of_memory(topology: Topology, config: Config) -> None:
    """Warn of data that a crash would lose, with the setting that keeps it. A run with a durable store logs nothing."""
    if config.state_provider != _MEMORY or not topology.stored:
        return
    file = re.sub(r"[^A-Za-z0-9_]+", "-", topology.name).strip("-") or "state"
    url = f"sqlite:///{file}.db"
    LOGGER.warning(
        "topology %r keeps %s in memory:// (the default of state_provider), so a crash, or the end of this process, loses it and the next "
        "run begins anew. Give it a store: -c state_provider=%s, or Config(state_provider=%r).",
        topology.name,
        " and ".join(topology.stored),
        url,
        url,
    )
