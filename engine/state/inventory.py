"""What tools see of a store: `StateInventory`. It reads without taking anything from a run, and removes for whoever has taken the state.

A run uses none of it. What counts as committed among what is stored is not known here: `engine.checkpoint` puts that together.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import ClassVar, NamedTuple

from engine.state.api import Row, StagedDelta


class TaskDelta(NamedTuple):
    """A delta and the index of the task that staged it."""

    task_index: int
    delta: StagedDelta


class StoredTopology(ABC):
    """What is stored of one topology, while `StateInventory.look` lasts. Raises StateError for what cannot be read."""

    @abstractmethod
    async def entries(self, ledger: str) -> dict[str, object]:
        """Return all entries of a ledger, none where there is no such ledger."""

    async def epoch(self, ledger: str) -> int | None:
        """Return how often a ledger was claimed; None where that cannot be told."""
        return None

    async def holder(self) -> str | None:
        """Return which process runs the topology now: who it is or "some", "" where none does; None where that cannot be told."""
        return None

    @abstractmethod
    async def components(self) -> list[str]:
        """Return the components of which anything is stored, sorted."""

    @abstractmethod
    async def row_sizes(self, component_id: str) -> tuple[int, int]:
        """Return how many rows a component has, and how many bytes their keys and values are."""

    @abstractmethod
    def rows(self, component_id: str) -> AsyncIterator[list[Row]]:
        """Yield all rows of a component, each once, in chunks of bounded size."""

    @abstractmethod
    async def present(self, component_id: str, places: Sequence[tuple[int, bytes]]) -> int:
        """Return for how many of these slots and keys there is a row."""

    @abstractmethod
    async def deltas(self, component_id: str) -> list[TaskDelta]:
        """Return what the tasks of a component have staged and nobody has folded, ordered by task, txid and round."""

    @abstractmethod
    async def version(self) -> object:
        """Return a value that is another one once rows may have changed; always the same where a look is of one moment.

        Components and deltas are those of the time when they are first asked for, or newer.
        """


class StateInventory(ABC):
    """What a provider keeps, of all topologies. No method takes anything from a run, or waits for one, but `remove`."""

    removes_by: ClassVar[str] = ""
    """One sentence for whoever is asked before a removal: what becomes of a process that runs the topology."""

    @abstractmethod
    async def topologies(self) -> list[str]:
        """Return the names of the topologies of which anything is stored, sorted."""

    @abstractmethod
    def look(self, topology_name: str) -> AbstractAsyncContextManager[StoredTopology]:
        """Look at one topology, which need not be there; writes nothing. Raises StateError where it is of a newer format."""

    @abstractmethod
    def remove(self, component_id: str | None) -> AsyncIterator[int]:
        """Remove what is stored of a component, or (None) of the topology with its ledgers, in bounded steps; yield the rows each removed.

        The provider has been opened for the topology, and has claimed a ledger. The ledgers go last, and at once. May be repeated after
        a crash in between.
        """
