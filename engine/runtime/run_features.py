"""Opens the features of a run before its tasks begin, and closes them after the tasks."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from engine.cancellation import was_cancelled
from engine.clock import Clock
from engine.config import Config
from engine.control import Feature, FeatureRun, RunHandle, RunStart, SnapshotEntry
from engine.errors import ComponentError, EngineError, UsageError
from engine.log import EngineLogger
from engine.raised import raised_text
from engine.safe_text import safe_repr
from engine.topology import Topology
from engine.waits import waiting_for

if TYPE_CHECKING:
    from engine.state import Ledger, StateProvider


LOGGER: Final = EngineLogger("engine.runtime")


class RunFeatures:
    """The features of a topology in one run, and the state provider that they share.

    An error of a feature becomes a ComponentError that names the feature.
    """

    def __init__(self, topology: Topology, config: Config) -> None:
        self._topology = topology
        self._config = config
        self._parts = {feature.name: _new_run(feature, topology, config) for feature in topology.features if isinstance(feature, Feature)}
        self._opened: list[str] = []
        """Names of the features whose `open` was called."""
        self._provider: StateProvider | None = None
        self._is_closed = False

    async def open(self, clock: Clock) -> Topology:
        """Open the provider, then each feature. With standby=True, first wait for the state. Return the topology that runs.

        Raises StateError if another process has the topology's state.
        """
        if self._topology.stored:
            from engine.state import open_provider, provider_of  # here, because a run that stores nothing must not load stores
            from engine.state.retry import store_named

            provider = provider_of(self._config.state_provider)
            with nullcontext() if self._config.standby else waiting_for(store_named(self._config.state_provider)):
                await open_provider(provider, self._topology.name, standby=self._config.standby)
            self._provider = provider
        running, start = self._topology, RunStart(clock, self._provider)
        for name, part in self._parts.items():
            self._opened.append(name)
            with _named(name, "open"):
                running = await part.open(running, start)
                if not isinstance(running, Topology):
                    raise UsageError(f"open() returned {running!r}", hint="Return the topology to run.")
        return running

    @property
    def ledger_of(self) -> "Callable[[str], Ledger] | None":
        """The ledgers of the provider, by name. None if the run has no provider."""
        return None if self._provider is None else self._provider.ledger

    def join(self, handle: RunHandle) -> None:
        """Give the run's handle to each feature."""
        for name, part in self._parts.items():
            with _named(name, "join"):
                part.join(handle)

    @property
    def has_work(self) -> bool:
        """True while a feature has uncommitted work."""
        for name, part in self._parts.items():
            with _named(name, "has_work", wraps_all=True):
                if part.has_work:
                    return True
        return False

    async def finish(self) -> None:
        """Let each feature commit its remaining work."""
        for name, part in self._parts.items():
            with _named(name, "finish", wraps_all=True):
                await part.finish()

    async def close(self, *, clean: bool) -> None:
        """Close the opened features, the last one first, then the provider. A second call has no effect. Logs the errors of features."""
        if self._is_closed:
            return
        self._is_closed = True
        async with AsyncExitStack() as ends:  # in reverse order, even if the caller is cancelled meanwhile
            if self._provider is not None:
                ends.push_async_callback(self._provider.close)
            for name in self._opened:
                ends.push_async_callback(self._close_part, name, clean=clean)

    async def _close_part(self, name: str, *, clean: bool) -> None:
        try:
            await self._parts[name].close(clean=clean)
        except (Exception, asyncio.CancelledError) as error:
            if was_cancelled(error):
                raise
            LOGGER.error("the feature %r could not be closed", name, exc_info=error)

    def snapshot_entries(self) -> tuple[SnapshotEntry, ...]:
        """Return the features' entries of a snapshot."""
        entries: list[SnapshotEntry] = []
        for name, part in self._parts.items():
            with _named(name, "snapshot_entries"):
                entries += part.snapshot_entries()
        return tuple(entries)


def _new_run(feature: Feature, topology: Topology, config: Config) -> FeatureRun:
    with _named(feature.name, "new_run"):
        part: object = feature.new_run(topology, config)
        if not isinstance(part, FeatureRun):
            raise UsageError(f"new_run() returned {safe_repr(part)}", hint="Return a FeatureRun.")
        return part


@contextmanager
def _named(name: str, method: str, *, wraps_all: bool = False) -> Iterator[None]:
    """Raise an error of a feature as a ComponentError with its name.

    A ComponentError passes unchanged. Unless `wraps_all`, the engine's other errors do too, such as a StateError, but not a UsageError.
    """
    try:
        yield
    except (Exception, asyncio.CancelledError) as error:
        if was_cancelled(error) or isinstance(error, ComponentError):
            raise
        if isinstance(error, EngineError) and not isinstance(error, UsageError) and not wraps_all:
            raise
        message = f"{method}() raised {raised_text(error)}"
        raise ComponentError(f"feature {name}", None, error, message=message, hint="Correct the feature, or remove it.") from error
