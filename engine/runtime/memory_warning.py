"""Warning of a run that keeps state, positions or transactions in `memory://`, so that a crash loses them."""

import logging
import re
from typing import Final

from engine.config import Config
from engine.topology import Topology

LOGGER: Final = logging.getLogger("engine.runtime")
_MEMORY: Final = "memory://"


def warn_of_memory(topology: Topology, config: Config) -> None:
    """Log what is lost at the first crash, and the setting that keeps it; nothing where nothing is kept, or where a store keeps it."""
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
