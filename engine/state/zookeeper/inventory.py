"""What a ZooKeeper holds of ledgers, for tools: read without a claim, and without a write."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from kazoo.exceptions import NoNodeError

from engine.errors import StateError
from engine.state.api import Row
from engine.state.inventory import StateInventory, StoredTopology, TaskDelta
from engine.state.zookeeper.ledger import ZooKeeperLedger
from engine.state.zookeeper.link import ZooKeeperLink
from engine.state.zookeeper.names import NodePaths, ZooKeeperAddress, topology_of
from engine.state.zookeeper.topology import ZooKeeperTopology


class ZooKeeperStoredTopology(StoredTopology):
    """One topology, as it becomes. It has ledgers alone."""

    def __init__(self, topology: ZooKeeperTopology) -> None:
        self._topology = topology

    async def entries(self, ledger: str) -> dict[str, object]:
        return await ZooKeeperLedger(self._topology, ledger).read()

    async def epoch(self, ledger: str) -> int:
        return await ZooKeeperLedger(self._topology, ledger).epoch()

    async def holder(self) -> str | None:
        return await self._topology.holder() or ""

    async def components(self) -> list[str]:
        return []

    async def row_sizes(self, component_id: str) -> tuple[int, int]:
        return 0, 0

    async def rows(self, component_id: str) -> AsyncIterator[list[Row]]:
        for nothing in list[list[Row]]():
            yield nothing

    async def present(self, component_id: str, places: Sequence[tuple[int, bytes]]) -> int:
        return 0

    async def deltas(self, component_id: str) -> list[TaskDelta]:
        return []

    async def version(self) -> object:
        return None


class ZooKeeperInventory(StateInventory):
    """What `zookeeper://host:port/path` keeps."""

    removes_by = "A process that runs the topology now loses its state: it can write no more, and its run ends with an error."

    def __init__(self, address: ZooKeeperAddress, timeout_secs: float, opened: ZooKeeperTopology | None) -> None:
        """Take what a provider takes, and the topology that it has open, to remove."""
        self._address = address
        self._timeout_secs = timeout_secs
        self._opened = opened

    @asynccontextmanager
    async def _linked(self) -> AsyncIterator[ZooKeeperLink]:
        link = ZooKeeperLink(self._address, self._timeout_secs)
        try:
            await link.open()
            yield link
        finally:
            await link.close()

    async def topologies(self) -> list[str]:
        async with self._linked() as link:
            try:
                nodes = await link.call(lambda: link.client.get_children_async(self._address.root))
            except NoNodeError:
                return []
            return sorted(topology_of(node) for node in nodes)

    @asynccontextmanager
    async def look(self, topology_name: str) -> AsyncIterator[StoredTopology]:
        async with self._linked() as link:
            topology = ZooKeeperTopology(link, NodePaths(self._address.root, topology_name))
            await topology.check_format()
            yield ZooKeeperStoredTopology(topology)

    async def remove(self, component_id: str | None) -> AsyncIterator[int]:
        topology = self._opened
        if topology is None:
            raise StateError(f"ZooKeeper at {self._address}: it is not open", hint="Call open() of its provider first.")
        if component_id is None:
            await topology.remove()
        for nothing in list[int]():
            yield nothing
