"""Standby (`Config.standby`) makes a process wait until no other process runs the topology.

On a server, the running process holds a lease, and renews it. The lease does not prevent writes. The epoch of a ledger prevents the writes
of a replaced process.
"""

import asyncio
import os
import socket
from typing import Final

from engine.errors import StateError
from engine.log import EngineLogger
from engine.state.api import StateProvider

DEFAULT_LEASE_SECS: Final = 10.0
MIN_LEASE_SECS: Final = 0.2
MAX_LEASE_SECS: Final = 3600.0
LOGGER: Final = EngineLogger("engine.state")


async def open_provider(provider: StateProvider, topology_name: str, *, standby: bool) -> None:
    """Open a provider. standby: first wait while another process runs the topology. Leaves nothing open if it is cancelled."""
    if standby:
        await _stand_by(provider, topology_name)
    await provider.open(topology_name)


async def _stand_by(provider: StateProvider, topology_name: str) -> None:
    now = asyncio.get_running_loop().time
    began, waits = now(), False

    def log_waiting(holder: str) -> None:
        nonlocal waits
        waits = True
        LOGGER.warning(
            "topology %r runs in another process%s. Waiting until that process ends", topology_name, f" ({holder})" if holder else ""
        )

    await provider.stand_by(topology_name, log_waiting)
    if waits:
        LOGGER.warning("topology %r is free after %.1f s: this process runs it now", topology_name, now() - began)


def parse_lease_secs(text: str, scheme: str) -> float:
    """Return the `lease_secs` of a URL. Raises StateError if it is not a number of seconds within the limits."""
    try:
        secs = float(text)
    except ValueError:
        secs = 0.0
    if not MIN_LEASE_SECS <= secs <= MAX_LEASE_SECS:
        raise StateError(
            f"state_provider: {scheme}://: lease_secs={text!r} is not a number from {MIN_LEASE_SECS:g} to {MAX_LEASE_SECS:g}",
            hint=f"A process that is silent for so many seconds counts as dead. The default is {DEFAULT_LEASE_SECS:g}.",
        )
    return secs


def process_name() -> str:
    """Return a readable name of this process: its pid and its host.

    >>> process_name().startswith("pid ")
    True
    """
    return f"pid {os.getpid()} on {socket.gethostname()}"
