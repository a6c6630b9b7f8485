"""State provider that notes each written position in the journal. A run names it by `noting_provider?ARGUMENT`."""

import json
from collections.abc import Mapping
from typing import Any

from engine.flow.position_keeper import ENTRY
from engine.state import Ledger, StateProvider, TaskStore, provider_of
from tests.flow.kills.journal import Journal
from tests.flow.kills.numbering import Places


class NotingLedger(Ledger):
    """The ledger of one task of the spout."""

    def __init__(self, ledger: Ledger, task: int, places: Places, journal: Journal) -> None:
        self._ledger, self._task = ledger, task
        self.places, self._journal = places, journal

    async def claim(self) -> int:
        return await self._ledger.claim()

    async def read(self) -> dict[str, object]:
        return await self._ledger.read()

    async def write(self, changes: Mapping[str, object]) -> None:
        entry: Any = changes[ENTRY]
        number = self.places.number_of(entry[2])
        self._journal.note("writes", self._task, number, entry[3])
        await self._ledger.write(changes)
        self._journal.note("written", self._task, number, entry[3])


class NotingProvider(StateProvider):
    """Wraps a provider, and notes the writes of its ledgers."""

    def __init__(self, provider: StateProvider, places: Places, journal: Journal) -> None:
        self._provider, self._places, self._journal = provider, places, journal

    async def open(self, topology_name: str) -> None:
        await self._provider.open(topology_name)

    async def close(self) -> None:
        await self._provider.close()

    def ledger(self, name: str) -> Ledger:
        task = int(name.rpartition(":")[2])
        return NotingLedger(self._provider.ledger(name), task, self._places, self._journal)

    async def store(self, component_id: str, task_index: int, slots: range) -> TaskStore:
        return await self._provider.store(component_id, task_index, slots)


def noting_provider(argument: str) -> NotingProvider:
    """Make the provider of `state_provider`. The argument is the life and the places as JSON."""
    life, fields = json.loads(argument)
    places = Places(**fields)
    return NotingProvider(provider_of(places.state), places, Journal(places.journal, life))
