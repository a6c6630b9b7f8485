"""`state list` and `state show`: what is stored, in figures, and the head of it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

import click

from engine.checkpoint.record_entries import ALL
from engine.checkpoint.stored import CommittedState, StoredSizes
from engine.cli.figures import NONE, aligned, count_text, name_text
from engine.cli.state_values import decoded, json_form, json_line, text_form
from engine.errors import StateError
from engine.names import did_you_mean
from engine.state import StateInventory

COLUMNS: Final = ("topology", "component", "phase", "codec", "keyed", "tasks", "key groups", "keys", "bytes", "deltas", "txid")
TEXT_COLUMNS: Final = 5
KEY_WIDTH: Final = 40
VALUE_WIDTH: Final = 60


@asynccontextmanager
async def looking(inventory: StateInventory, topology_name: str, *, unpickles: bool) -> AsyncIterator[CommittedState]:
    """What is committed of a topology."""
    async with inventory.look(topology_name) as stored:
        yield await CommittedState.of(stored, topology_name, unpickles=unpickles)


async def chosen_topology(inventory: StateInventory, name: str | None) -> str:
    """Return the topology that is meant, by its name or since it is the only one; raise StateError, with those there are."""
    stored = await inventory.topologies()
    if name is None and len(stored) == 1:
        return stored[0]
    if not stored:
        raise StateError("no topology has stored anything there", hint="Check the URL: it must be the state_provider of the run.")
    if name is None:
        raise StateError(f"{len(stored)} topologies are stored there", hint=f"Say which with --topology. {did_you_mean(None, stored)}")
    if name not in stored:
        raise StateError(f"no topology {name!r} is stored there", hint=did_you_mean(name, stored))
    return name


def chosen_components(state: CommittedState, topology_name: str, names: Sequence[str]) -> list[str]:
    """Return the components that are meant, all where none is named; raise StateError for one that is not there."""
    for name in names:
        if name not in state.components:
            raise StateError(
                f"topology {topology_name!r} has stored nothing of a component {name!r}", hint=did_you_mean(name, state.components)
            )
    return list(dict.fromkeys(names)) or state.components


def being_deleted(state: CommittedState, component_id: str) -> bool:
    """Tell whether a deletion of the component, or of all, has begun and not ended."""
    return bool({component_id, ALL} & state.entries.deleting)


async def list_stored(inventory: StateInventory, topology: str | None, *, unpickles: bool, as_json: bool) -> None:
    """Write one line for each component."""
    names = await inventory.topologies() if topology is None else [await chosen_topology(inventory, topology)]
    rows: list[tuple[str, ...]] = [COLUMNS]
    for name in names:
        async with looking(inventory, name, unpickles=unpickles) as state:
            found = [(component_id, await state.sizes(component_id)) for component_id in state.components]
        for component_id, sizes in found:
            if as_json:
                click.echo(json_line(figures_of(state, name, component_id, sizes)))
            rows.append(_row(state, name, component_id, sizes))
        if not found:
            rows.append((name_text(name), *[NONE] * (len(COLUMNS) - 1)))
    if not as_json:
        click.echo(aligned(rows, text_columns=TEXT_COLUMNS) if names else "no topology has stored anything there")


def figures_of(state: CommittedState, topology_name: str, component_id: str, sizes: StoredSizes) -> dict[str, Any]:
    """Return what is known of a component without its keys and values."""
    layout = state.layout(component_id)
    return {
        "topology": topology_name,
        "component": component_id,
        "tasks": layout and layout.tasks,
        "keyed": layout and layout.keyed,
        "key_groups": layout.key_groups if layout and layout.keyed else None,
        "keys": sizes.keys,
        "rows": sizes.rows,
        "row_bytes": sizes.row_bytes,
        "deltas": sizes.deltas,
        "delta_bytes": sizes.delta_bytes,
        "committed_txid": state.txid,
        "phase": state.record.phase,
        "txid": state.record.txid,
        "codec": state.codec.name,
        "deleting": being_deleted(state, component_id),
    }


def _row(state: CommittedState, topology_name: str, component_id: str, sizes: StoredSizes) -> tuple[str, ...]:
    layout = state.layout(component_id)
    return (
        name_text(topology_name),
        name_text(component_id),
        "being deleted" if being_deleted(state, component_id) else _phase(state),
        state.codec.name,
        NONE if layout is None else "yes" if layout.keyed else "no",
        NONE if layout is None else count_text(layout.tasks),
        count_text(layout.key_groups if layout and layout.keyed else None),
        count_text(sizes.keys),
        count_text(sizes.row_bytes + sizes.delta_bytes),
        count_text(sizes.deltas),
        count_text(state.txid) if state.txid >= 0 else NONE,
    )


def _phase(state: CommittedState) -> str:
    record = state.record
    return record.phase if record.phase == "committed" else f"{record.phase} {record.txid}"


async def show_stored(
    inventory: StateInventory, topology: str | None, components: Sequence[str], limit: int, *, unpickles: bool, as_json: bool
) -> None:
    """Write the record, and of each component the first keys with their values."""
    name = await chosen_topology(inventory, topology)
    async with looking(inventory, name, unpickles=unpickles) as state:
        chosen = chosen_components(state, name, components)
        if not as_json:
            click.echo(_headline(state, name))
        for component_id in chosen:
            head, sizes = await _head(state, component_id, limit), await state.sizes(component_id)
            if as_json:
                shown = [{"key": json_form(key), "value": json_form(value)} for key, value in head]
                record = {"round": state.record.round, "prepared_round": state.record.prepared_round, "counted": state.record.counted}
                click.echo(json_line({**figures_of(state, name, component_id, sizes), **record, "head": shown}))
            else:
                click.echo(f"\n{_described(state, component_id, sizes)}\n{_table(head, sizes.keys)}")


def _headline(state: CommittedState, topology_name: str) -> str:
    committed = f"txid {state.txid} is committed" if state.txid >= 0 else "nothing is committed yet"
    record, codec = state.record, state.codec
    return (
        f"topology {topology_name!r}: {committed}; record: {record.phase} {record.txid}, round {record.round}; "
        f"codec {codec.name}, format {codec.format}"
    )


def _described(state: CommittedState, component_id: str, sizes: StoredSizes) -> str:
    layout = state.layout(component_id)
    parts = [f"{count_text(sizes.keys)} keys, {count_text(sizes.row_bytes + sizes.delta_bytes)} bytes"]
    if sizes.deltas:
        parts.append(f"{count_text(sizes.deltas)} deltas staged")
    if layout is not None:
        parts.append(f"{layout.key_groups} key groups" if layout.keyed else "a state for each task")
        parts.append(f"{layout.tasks} {'task' if layout.tasks == 1 else 'tasks'}")
    if being_deleted(state, component_id):
        parts.append("being deleted: no longer whole")
    return f"{name_text(component_id)}: {', '.join(parts)}"


async def _head(state: CommittedState, component_id: str, limit: int) -> list[tuple[Any, Any]]:
    head = list[tuple[Any, Any]]()
    async with aclosing(state.rows(component_id)) as chunks:  # type: ignore[type-var]
        async for rows in chunks:
            head += [decoded(row, state, component_id) for row in rows[: limit - len(head)]]
            if len(head) == limit:
                break
    return head


def _table(head: list[tuple[Any, Any]], keys: int | None) -> str:
    rows = [("key", "value"), *((text_form(key, KEY_WIDTH), text_form(value, VALUE_WIDTH)) for key, value in head)]
    more = (keys or 0) - len(head)
    return aligned(rows, text_columns=2) + (f"\n… and {count_text(more)} more" if more > 0 else "")
