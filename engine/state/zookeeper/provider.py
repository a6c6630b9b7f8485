"""The provider of `zookeeper://host:port,host:port/path`. It stores the ledgers of coordinators (CP-8), but no rows.

A topology belongs to the process that claimed its ledger last, as in Redis. A second process that starts takes the topology over, and the
first one gets StateFenced at its next write. A standby process waits until the first one has ended.
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

NO_ROWS: Final = "ZooKeeper stores the state of coordinators, not of stateful bolts"


class ZooKeeperProvider(StateProvider):
    """Ledgers in ZooKeeper."""

    def __init__(self, address: ZooKeeperAddress, *, timeout_secs: float = TIMEOUT_SECS) -> None:
        """timeout_secs: limit of one call."""
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
        """Connect, and check the stored format. Raises StateUnavailable at once if ZooKeeper cannot be reached."""
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
        raise StateError(NO_ROWS, hint="Use sqlite:///path or redis://host:port/db for stateful bolts.")

    def inventory(self) -> StateInventory:
        return ZooKeeperInventory(self._address, self._timeout_secs, self._topology)

    @property
    def _opened(self) -> ZooKeeperTopology:
        if self._topology is None:
            raise StateError(f"ZooKeeper at {self._address} is not open", hint="Call open() first.")
        return self._topology


def zookeeper_provider(url: str) -> ZooKeeperProvider:
    """Return the provider of a URL, not yet opened. Raises StateError for an invalid URL."""
    return ZooKeeperProvider(address_of(url))


class ZooKeeperStoredTopology(StoredTopology):
    """One topology, which has only ledgers."""

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
    """Stored topologies below one path."""

    removes_by = "A process that runs the topology now loses its state. It cannot write any more, and its run ends with an error."

    def __init__(self, address: ZooKeeperAddress, timeout_secs: float, opened: ZooKeeperTopology | None) -> None:
        """opened: the open topology of the provider, for removals."""
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
            raise StateError(f"ZooKeeper at {self._address} is not open", hint="Call open() of its provider first.")
        if component_id is None:
            await topology.remove()
        for nothing in list[int]():
            yield nothing
