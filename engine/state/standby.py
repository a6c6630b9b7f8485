"""Taking a topology's part of a store: at once, or as soon as the process that runs the topology has ended (`Config.standby`)."""

import asyncio
import logging
from typing import Final

from engine.state.api import StateProvider

LOGGER: Final = logging.getLogger("engine.state")


async def take(provider: StateProvider, topology_name: str, *, standby: bool) -> None:
    """Open a provider; where `standby`, wait before while another process runs the topology. Cancelled, nothing is left open."""
    if standby:
        await _stand_by(provider, topology_name)
    await provider.open(topology_name)


async def _stand_by(provider: StateProvider, topology_name: str) -> None:
    now = asyncio.get_running_loop().time
    began, waits = now(), False

    def tell(holder: str) -> None:
        nonlocal waits
        waits = True
        LOGGER.warning(
            "topology %r runs in another process%s. Waiting until that one has ended", topology_name, f" ({holder})" if holder else ""
        )

    await provider.stand_by(topology_name, tell)
    if waits:
        LOGGER.warning("topology %r is free after %.1f s: this process runs it now", topology_name, now() - began)
