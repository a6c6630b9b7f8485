"""`state delete`: takes what is stored of a topology, or of one of its components, away, for good."""

import sys
from contextlib import aclosing

import click

from engine.checkpoint.deletion import delete_state
from engine.cli.figures import count_text
from engine.cli.output import tell
from engine.cli.state_look import chosen_components, chosen_topology, looking
from engine.cli.state_progress import progress
from engine.state import StateInventory, StateProvider
from engine.transactional.transactional_state import ENTRY, LEDGER, read_record

DECLINED = 1


async def delete_stored(provider: StateProvider, topology: str | None, component_id: str | None, *, is_sure: bool) -> int:
    """Say what goes, ask, delete; return the exit status."""
    inventory = provider.inventory()
    name = await chosen_topology(inventory, topology)
    question = await _question(inventory, name, component_id)
    if not is_sure:
        if not sys.stdin.isatty():
            raise click.UsageError(f"{question} There is no terminal to ask on: say --yes.")
        if not click.confirm(f"{question}\nNothing brings it back. Delete it?", err=True):
            tell("nothing was deleted")
            return DECLINED
    rows = 0
    with progress("deleted") as advance:
        async with aclosing(delete_state(provider, name, component_id)) as steps:  # type: ignore[type-var]
            async for gone in steps:
                rows += gone
                advance(gone)
    tell(f"{_what(name, component_id)} is deleted")
    return 0


async def _question(inventory: StateInventory, topology_name: str, component_id: str | None) -> str:
    async with looking(inventory, topology_name, unpickles=False) as state:
        named = [] if component_id is None else [component_id]
        sizes = [await state.sizes(each) for each in chosen_components(state, topology_name, named)]
    keys = sum(each.rows if each.keys is None else each.keys for each in sizes)
    size = sum(each.row_bytes + each.delta_bytes for each in sizes)
    more = "" if component_id is not None else await _transactions(inventory, topology_name)
    return f"{_what(topology_name, component_id)}: {count_text(keys)} keys, {count_text(size)} bytes{more}. {inventory.removes_by}"


async def _transactions(inventory: StateInventory, topology_name: str) -> str:
    """What goes with a transactional topology: it would begin again with txid 1."""
    async with inventory.look(topology_name) as stored:
        entries = await stored.entries(LEDGER)
    if ENTRY not in entries:
        return ""
    return f", and how far its transactions are: txid {count_text(read_record(entries[ENTRY], topology_name).record.committed)}"


def _what(topology_name: str, component_id: str | None) -> str:
    owner = f"topology {topology_name!r}"
    return f"the state of {owner}" if component_id is None else f"the state of {component_id!r} of {owner}"
