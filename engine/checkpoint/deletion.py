"""Deletes the stored state of a topology or a component. No run can use a partly deleted state.

The deletion opens the state like a run, and writes a mark to the ledger. A run that finds the mark raises StateError. The rows are deleted
in bounded steps. The last step removes the mark and the layout.
"""

from collections.abc import AsyncIterator

from engine.checkpoint.record_entries import ALL, LEDGER, StoredEntries, deleted_layout_entry, deletion_entry
from engine.state import StateProvider


async def delete_state(provider: StateProvider, topology_name: str, component_id: str | None = None) -> AsyncIterator[int]:
    """Open a provider, delete, and close it. Yield the number of rows that each step deleted. Repeat the call after an interruption.

    Raises StateError if a process runs the topology. If the provider accepts the newest claim instead, the deletion ends the run of that
    process.
    """
    await provider.open(topology_name)
    try:
        ledger = provider.ledger(LEDGER)
        await ledger.claim()
        stored = StoredEntries(await ledger.read(), topology_name)
        _ = stored.codec  # raises StateError if a newer version wrote the state
        deleting = stored.deleting | {ALL if component_id is None else component_id}
        await ledger.write(deletion_entry(deleting))
        async for rows in provider.inventory().remove(component_id):
            yield rows
        if component_id is not None:
            await ledger.write({**deleted_layout_entry(component_id), **deletion_entry(deleting - {component_id})})
    finally:
        await provider.close()
