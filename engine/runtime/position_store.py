"""The store of a run whose spouts keep positions, and whose bolts keep no state: opened before its tasks, closed after them (FC-6)."""

from engine.config import Config
from engine.state import Ledger, open_provider, provider_of
from engine.topology import Topology


class PositionStore:
    """What such a run needs before it begins (`RunPreparation`): the state provider, for its ledgers alone."""

    def __init__(self, topology: Topology, config: Config) -> None:
        self._topology = topology
        self._standby = config.standby
        self._provider = provider_of(config.state_provider)
        self._is_open = False

    async def open(self) -> Topology:
        """Take the store, perhaps after standing by; raise StateError where another process has it."""
        await open_provider(self._provider, self._topology.name, standby=self._standby)
        self._is_open = True
        return self._topology

    def ledger(self, name: str) -> Ledger:
        """Return the ledger of this name."""
        return self._provider.ledger(name)

    async def close(self) -> None:
        """Let go of it; without effect the second time."""
        if self._is_open:
            self._is_open = False
            await self._provider.close()
