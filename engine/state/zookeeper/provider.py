"""`zookeeper://host:port,host:port/path`: ledgers in ZooKeeper (CP-8), for a coordinator's state. It keeps no rows.

As in Redis, a topology belongs to whoever claimed its ledger last: a second process that is started while the first lives takes it over,
and the first gets StateFenced at its next write. One that stands by waits instead until the first has ended.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from kazoo.exceptions import NoNodeError

from engine.errors import StateError
from engine.state.api import Ledger, Row, StateInventory, StateProvider, StoredTopology, TaskDelta, TaskStore
from engine.state.zookeeper.ledger import ZooKeeperLedger
from engine.state.zookeeper.link import TIMEOUT_SECS, ZooKeeperLink
from engine.state.zookeeper.names import NodePaths, ZooKeeperAddress, address_of, topology_of
from engine.state.zookeeper.topology import ZooKeeperTopology

NO_ROWS: Final = "ZooKeeper keeps a coordinator's state, not that of stateful bolts"


class ZooKeeperProvider(StateProvider):
    """What `zookeeper://host:port/path` means."""

    def __init__(self, address: ZooKeeperAddress, *, timeout_secs: float = TIMEOUT_SECS) -> None:
        """Take where it is, and how long one call may take."""
        self._address = address
        self._timeout_secs = timeout_secs
        self._topology: ZooKeeperTopology | None = None
        self._ledgers: dict[str, ZooKeeperLedger] = {}

    async def stand_by(self, topology_name: str, on_waiting: Callable[[str], None]) -> None:
        topology = await self._linked(topology_name)
        try:
            await topology.wait(on_waiting)
        except BaseException:
            await self.close()
            raise

    async def open(self, topology_name: str) -> None:
        """Reach it and look at what it keeps; raise StateUnavailable at once where it cannot be reached."""
        if self._topology is None:
            await self._linked(topology_name)

    async def _linked(self, topology_name: str) -> ZooKeeperTopology:
        link = ZooKeeperLink(self._address, self._timeout_secs)
        topology = ZooKeeperTopology(link, NodePaths(self._address.root, topology_name))
        try:
            await link.open()
            await topology.make()
        except BaseException:
            await link.close()
            raise
        self._topology = topology
        return topology

    async def close(self) -> None:
        if self._topology is not None:
            await self._topology.link.close()

    def ledger(self, name: str) -> Ledger:
        return self._ledgers.setdefault(name, ZooKeeperLedger(self._opened, name))

    async def store(self, component_id: str, task_index: int, slots: range) -> TaskStore:
        raise StateError(NO_ROWS, hint="Keep the state of stateful bolts in sqlite:///path or redis://host:port/db.")

    def inventory(self) -> StateInventory:
        return ZooKeeperInventory(self._address, self._timeout_secs, self._topology)

    @property
    def _opened(self) -> ZooKeeperTopology:
        if self._topology is None:
            raise StateError(f"ZooKeeper at {self._address}: it is not open", hint="Call open() first.")
        return self._topology


def zookeeper_provider(url: str) -> ZooKeeperProvider:
    """Return the provider of a URL, not opened yet; raise StateError where the URL is not clear."""
    return ZooKeeperProvider(address_of(url))


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
