"""Which process runs a topology, as far as a store on a server can know: a lease that it keeps alive, for processes that stand by.

A lease keeps nobody from writing; the epoch of a ledger does that.
"""

import os
import socket
from typing import Final

from engine.errors import StateError

DEFAULT_LEASE_SECS: Final = 10.0
SHORTEST_LEASE_SECS: Final = 0.2
LONGEST_LEASE_SECS: Final = 3600.0


def lease_secs_of(text: str, scheme: str) -> float:
    """Return the `lease_secs` of a URL; raise StateError for what is no such time."""
    try:
        secs = float(text)
    except ValueError:
        secs = 0.0
    if not SHORTEST_LEASE_SECS <= secs <= LONGEST_LEASE_SECS:
        raise StateError(
            f"state_provider: {scheme}://: lease_secs={text!r} is no number from {SHORTEST_LEASE_SECS:g} to {LONGEST_LEASE_SECS:g}",
            hint=f"So many seconds a process that does not answer counts as alive; the default is {DEFAULT_LEASE_SECS:g}.",
        )
    return secs


def this_process() -> str:
    """Return who is asking, for a person.

    >>> this_process().startswith("pid ")
    True
    """
    return f"pid {os.getpid()} on {socket.gethostname()}"
