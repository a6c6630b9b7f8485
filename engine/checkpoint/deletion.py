"""Deletes what is stored of a topology, or of one of its components, so that a run never takes the half of it for the whole.

First the state is taken, as a run takes it. Then the ledger is marked, and a run that finds the mark is refused. The rest goes in bounded
steps; last, in one write, the mark and what it stands for.
"""

from collections.abc import AsyncIterator

from engine.checkpoint.record_entries import ALL, LEDGER, StoredEntries, deleted_layout_entry, deletion_entry
from engine.state import StateProvider


async def delete_state(provider: StateProvider, topology_name: str, component_id: str | None = None) -> AsyncIterator[int]:
    """Open a provider, delete, close it; yield how many rows each step took away. Repeat it where it was interrupted.

    Raises StateError where a process runs the topology, or on a provider where the last one wins: ends that one's run.
    """
    await provider.open(topology_name)
    try:
        ledger = provider.ledger(LEDGER)
        await ledger.claim()
        stored = StoredEntries(await ledger.read(), topology_name)
        _ = stored.codec  # of a newer version: refused
        deleting = stored.deleting | {ALL if component_id is None else component_id}
        await ledger.write(deletion_entry(deleting))
        async for rows in provider.inventory().remove(component_id):
            yield rows
        if component_id is not None:
            await ledger.write({**deleted_layout_entry(component_id), **deletion_entry(deleting - {component_id})})
    finally:
        await provider.close()
