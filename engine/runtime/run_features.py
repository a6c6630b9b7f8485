"""The features of one run: opened before its tasks begin, closed after them."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from engine.clock import Clock
from engine.config import Config
from engine.control import Feature, RunHandle, RunStart, SnapshotEntry
from engine.topology import Topology

if TYPE_CHECKING:
    from engine.state import Ledger, StateProvider


class RunFeatures:
    """The features of a topology in one run, and the state provider that they share."""

    def __init__(self, topology: Topology, config: Config) -> None:
        self._topology = topology
        self._config = config
        self._parts = tuple(feature.new_run(topology, config) for feature in topology.features if isinstance(feature, Feature))
        self._provider: StateProvider | None = None
        self._is_closed = False

    async def open(self, clock: Clock) -> Topology:
        """Open the provider, with standby=True after a wait, then each feature. Return the topology that runs.

        Raises StateError if another process has the topology's state.
        """
        if self._topology.stored:
            from engine.state import open_provider, provider_of  # here: a run that stores nothing must not load them

            provider = provider_of(self._config.state_provider)
            await open_provider(provider, self._topology.name, standby=self._config.standby)
            self._provider = provider
        running, start = self._topology, RunStart(clock, self._provider)
        for part in self._parts:
            running = await part.open(running, start)
        return running

    @property
    def ledger_of(self) -> "Callable[[str], Ledger] | None":
        """The ledgers of the provider, by name. None if the run has no provider."""
        return None if self._provider is None else self._provider.ledger

    def join(self, handle: RunHandle) -> None:
        """Give the run's handle to each feature."""
        for part in self._parts:
            part.join(handle)

    @property
    def has_work(self) -> bool:
        """True while a feature has uncommitted work."""
        return any(part.has_work for part in self._parts)

    async def finish(self) -> None:
        """Let each feature commit its remaining work."""
        for part in self._parts:
            await part.finish()

    async def close(self, *, clean: bool) -> None:
        """Close the features, the last one first, then the provider. A second call has no effect."""
        if self._is_closed:
            return
        self._is_closed = True
        async with AsyncExitStack() as ends:  # in reverse order, even if one raises
            if self._provider is not None:
                ends.push_async_callback(self._provider.close)
            for part in self._parts:
                ends.push_async_callback(part.close, clean=clean)

    def snapshot_entries(self) -> tuple[SnapshotEntry, ...]:
        """Return the features' entries of a snapshot."""
        return tuple(entry for part in self._parts for entry in part.snapshot_entries())
