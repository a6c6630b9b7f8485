"""Stores the format of a topology in ZooKeeper, and the node of the process that runs it.

The node of the process is ephemeral. ZooKeeper removes it when the process ends, or `lease_secs` after the last message of a process that
died.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError

from engine.errors import StateUnavailable
from engine.log import EngineLogger
from engine.state.checksums import BARE, FORMAT, MIXED, parse_format
from engine.state.standby import process_name
from engine.state.zookeeper.link import ZooKeeperLink, call_in_loop
from engine.state.zookeeper.names import NodePaths

TRIES: Final = 20
PAUSE_SECS: Final = 0.5
"""Pause between two attempts of a standby process, while ZooKeeper cannot be reached."""
LOGGER: Final = EngineLogger("engine.state")


class ZooKeeperTopology:
    """One stored topology, which the ledgers of a provider share."""

    def __init__(self, link: ZooKeeperLink, paths: NodePaths) -> None:
        self.link: Final = link
        self.paths: Final = paths
        self._runs = False
        self._format = FORMAT
        link.on_connected = self._be_there_again

    async def check_format(self) -> bool:
        """Return whether anything is stored. Raises StateError for a newer format."""
        try:
            stored, _ = await self.link.get(self.paths.topology)
        except NoNodeError:
            return False
        self._format = parse_format(stored, f"{self.link}: {self.paths.topology}", hint="Choose another path in the zookeeper:// URL.")
        return True

    @property
    def has_bare_blocks(self) -> bool:
        """True if stored data may lack checksums, because an older version has run the topology."""
        return self._format < FORMAT

    async def make(self) -> None:
        """Create the node of the topology if needed."""
        if not await self.check_format():
            await self.link.make(self.paths.topology, str(FORMAT).encode())

    async def remove(self) -> None:
        """Remove all nodes of the topology, in one step. Raises StateUnavailable if another process keeps creating nodes."""
        client, root = self.link.client, self.paths.topology
        for _ in range(TRIES):
            try:
                nodes = [f"{root}/{name}" for name in await self.link.call(lambda: client.get_children_async(root))]
                below = [f"{node}/{name}" for node in nodes for name in await self._children(node)]
                await self.link.transaction(lambda steps: [steps.delete(path) for path in (*below, *nodes, root)])  # noqa: B023
            except (NoNodeError, NotEmptyError):
                if await self.link.call(lambda: client.exists_async(root)) is not None:
                    continue
            return
        raise StateUnavailable(
            f"{self.link}: another process writes to this topology during the removal", hint="Stop that process, and try again."
        )

    async def _children(self, path: str) -> list[str]:
        found: list[str] = await self.link.call(lambda: self.link.client.get_children_async(path))
        return found

    # The process that runs it

    async def holder(self) -> str | None:
        """Return the process that runs the topology, None if none does."""
        try:
            return (await self.link.get(self.paths.owner))[0].decode("utf-8", "replace")
        except NoNodeError:
            return None

    async def begin(self) -> None:
        """Take the owner's node from any process. From now on this process writes checksums, which older versions cannot read."""
        if self._format == BARE:
            await self.link.call(lambda: self.link.client.set_async(self.paths.topology, str(MIXED).encode()))
            self._format = MIXED
        if self._runs:
            return
        for _ in range(TRIES):
            try:
                await self.link.transaction(lambda steps: (steps.delete(self.paths.owner), self._create(steps.create)))
            except NoNodeError:
                if not await self._is_first():
                    continue
            self._runs = True
            return
        raise StateUnavailable(f"{self.link}: other processes take this topology again and again", hint="Run each topology in one process.")

    async def wait(self, on_waiting: Callable[[str], None]) -> None:
        """Wait until no process runs the topology, then take it. Calls `on_waiting` once with the name of the owner."""
        asked = False
        while not self._runs:
            try:
                if await self._is_first():
                    self._runs = True
                    return
                gone = asyncio.Event()
                loop = asyncio.get_running_loop()
                seen = await self.link.call(
                    lambda: self.link.client.exists_async(self.paths.owner, lambda event: call_in_loop(loop, gone.set))  # noqa: B023 - in this turn
                )
                if seen is None:
                    continue
                if seen.ephemeralOwner == self.link.session:  # an abandoned attempt succeeded after all
                    self._runs = True
                    return
                if not asked:
                    asked = True
                    on_waiting(await self.holder() or "")
                await gone.wait()
            except StateUnavailable as error:
                LOGGER.info("%s. Still waiting.", error.message)
                await asyncio.sleep(PAUSE_SECS)

    async def _is_first(self) -> bool:
        try:
            await self.link.call(lambda: self._create(self.link.client.create_async))
        except NodeExistsError:
            return False
        return True

    def _create(self, create: Callable[..., object]) -> object:
        return create(self.paths.owner, process_name().encode(), ephemeral=True)

    def _be_there_again(self) -> None:
        """Recreate the owner's node after a reconnect in a new session. If another process has taken over, its node stays."""
        if self._runs:
            self._create(self.link.client.create_async)
