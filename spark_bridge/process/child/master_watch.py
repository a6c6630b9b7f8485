"""Notices that a standalone cluster has forgotten its application.

If the master ends and starts again, it does not know the application, unless it keeps its state (`spark.deploy.recoveryMode`). Spark's
driver then waits for executors without end. It has a new chance only with a new session.
"""

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

LOOK_SECS: Final = 1.0
LOOKS: Final = 3
"""Number of looks without executors in a row that count as a loss. Executors of a recovered application stay all the time."""
CONNECT_SECS: Final = 5.0


class MasterWatch:
    """Keeps a connection to each master. After all have ended, waits until no executors are left, then calls `on_loss(text)` once.

    A master that was reached is not asked again, because a master that has restarted does not know the application.
    """

    def __init__(
        self, masters: Sequence[tuple[str, int]], executors: Callable[[], int], on_loss: Callable[[str], None], look_secs: float = LOOK_SECS
    ) -> None:
        """executors: number of registered executors. May raise after the end of the session, which ends the watch."""
        self._masters = masters
        self._executors = executors
        self._on_loss = on_loss
        self._look_secs = look_secs

    def start(self) -> None:
        """Start the watch in a thread."""
        threading.Thread(target=self.watch, name="stormcell master watch", daemon=True).start()

    def watch(self) -> None:
        """Watch until the loss. Blocks."""
        unreached = list(self._masters)
        pause, looks = threading.Event(), 0
        while looks < LOOKS:
            if connections := _connect(unreached):
                looks = 0
                for connection in connections:
                    _wait_for_end(connection)
            pause.wait(self._look_secs)
            try:
                looks = 0 if self._executors() else looks + 1
            except Exception as error:  # noqa: BLE001 - the JVM or the session has ended, and others report it
                print(f"the watch of the master ends: {type(error).__name__}: {error}")
                return
        places = ", ".join(f"{host}:{port}" for host, port in self._masters)
        self._on_loss(f"its master ({places}) went away, and no executors are left")


def _connect(unreached: list[tuple[str, int]]) -> list[socket.socket]:
    """Connect to masters, and remove them from the list. The others may be standbys that start later."""
    connections = []
    for address in tuple(unreached):
        with suppress(OSError):
            connections.append(socket.create_connection(address, CONNECT_SECS))
            unreached.remove(address)
    return connections


def _wait_for_end(connection: socket.socket) -> None:
    """Wait until the other side closes a connection. The master sends nothing on it."""
    with connection:
        connection.settimeout(None)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        with suppress(OSError):
            while connection.recv(4096):
                continue
