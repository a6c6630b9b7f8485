"""Implements the `state` commands, which list, show, export and delete the committed state of topologies in a store."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TextIO

import click

from engine.checkpoint.deletion import delete_state
from engine.checkpoint.record_entries import ALL, StoredEntries
from engine.checkpoint.record_entries import LEDGER as CHECKPOINTS
from engine.checkpoint.stored import CommittedState, StoredSizes
from engine.cli.console.commands import DECLINED, confirm, output_file_errors
from engine.cli.console.formatting import NONE, aligned, count_text, name_text
from engine.cli.console.live_display import progress_counter
from engine.cli.console.output import print_to_stderr, show_error, write_line
from engine.cli.json_values import StoredPickle, json_form
from engine.errors import StateError
from engine.json_text import json_text
from engine.names import did_you_mean
from engine.state import Row, StateInventory, StateProvider, codec_named, provider_of
from engine.state.api import slot_text
from engine.state.namespaces import name_of, stored_prefix
from engine.transactional.transactional_state import ENTRY, LEDGER, read_record

WRONG: Final = 2
MOST_EXPORTS: Final = 3
"""Largest number of attempts to export from a store without snapshots. A running topology may change the state during an attempt."""
LIST_COLUMNS: Final = ("topology", "component", "phase", "codec", "keyed", "tasks", "key groups", "keys", "bytes", "deltas", "txid")
NAMESPACES: Final = "namespaces"
"""Last column of the list, if a component has any."""
LIST_TEXT_COLUMNS: Final = 5
_KEY_CODEC: Final = codec_named("msgpack")


def run_on_store(url: str, work: Callable[[StateProvider], Coroutine[Any, Any, int | None]]) -> int:
    """Open the store and do the work. Print errors of the store, and return the exit status."""
    try:
        return asyncio.run(work(_provider(url))) or 0
    except StateError as error:
        show_error(error)
        return WRONG


def _provider(url: str) -> StateProvider:
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # the URL `package.module:function` and pickles name modules of this folder
    return provider_of(url)


@asynccontextmanager
async def open_committed_state(inventory: StateInventory, topology_name: str, *, unpickles: bool) -> AsyncIterator[CommittedState]:
    """Open the committed state of a topology."""
    async with inventory.look(topology_name) as stored:
        yield await CommittedState.of(stored, topology_name, unpickles=unpickles)


async def chosen_topology(inventory: StateInventory, name: str | None) -> str:
    """Return the named topology, or the only stored one. Raise StateError with the stored names if this is not possible."""
    stored = await inventory.topologies()
    if name is None and len(stored) == 1:
        return stored[0]
    if not stored:
        raise StateError("the store contains no topology", hint="Check the URL: it must be the state_provider of the run.")
    if name is None:
        raise StateError(f"the store contains {len(stored)} topologies", hint=f"Choose one with --topology. {did_you_mean(None, stored)}")
    if name not in stored:
        raise StateError(f"the store contains no topology {name!r}", hint=did_you_mean(name, stored))
    return name


def chosen_components(state: CommittedState, topology_name: str, names: Sequence[str]) -> list[str]:
    """Return the named components, or all components if none is named. Raise StateError for an unknown name."""
    for name in names:
        if name not in state.components:
            raise StateError(f"topology {topology_name!r} has stored no component {name!r}", hint=did_you_mean(name, state.components))
    return list(dict.fromkeys(names)) or state.components


def is_being_deleted(state: CommittedState, component_id: str) -> bool:
    """Tell whether a deletion of the component, or of all components, has begun and not ended."""
    return bool({component_id, ALL} & state.entries.deleting)


async def list_state(inventory: StateInventory, topology: str | None, *, unpickles: bool, as_json: bool) -> None:
    """Write one line for each component."""
    names = await inventory.topologies() if topology is None else [await chosen_topology(inventory, topology)]
    rows: list[tuple[str, ...]] = [(*LIST_COLUMNS, NAMESPACES)]
    for name in names:
        async with open_committed_state(inventory, name, unpickles=unpickles) as state:
            found = [(component_id, await state.sizes(component_id)) for component_id in state.components]
        for component_id, sizes in found:
            if as_json:
                write_line(json_text(component_fields(state, name, component_id, sizes)))
            rows.append(_row(state, name, component_id, sizes))
        if not found:
            rows.append((name_text(name), *[NONE] * (len(LIST_COLUMNS) - 1), ""))
    if not as_json:
        write_line(aligned(_without_namespaces(rows), text_columns=LIST_TEXT_COLUMNS) if names else "the store contains no topology")


def _without_namespaces(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the rows of a list, without their last column if no component has a namespace."""
    has_any = any(row[-1] not in ("", "0") for row in rows[1:])
    return rows if has_any else [row[:-1] for row in rows]


def component_fields(state: CommittedState, topology_name: str, component_id: str, sizes: StoredSizes) -> dict[str, Any]:
    """Return the layout, the sizes and the record of a component as plain values."""
    layout = state.layout(component_id)
    return {
        "topology": topology_name,
        "component": component_id,
        "tasks": layout and layout.tasks,
        "keyed": layout and layout.keyed,
        "key_groups": layout.key_groups if layout and layout.keyed else None,
        "keys": sizes.keys,
        "namespaces": None if sizes.namespaces is None else len(sizes.namespaces),
        "rows": sizes.rows,
        "row_bytes": sizes.row_bytes,
        "deltas": sizes.deltas,
        "delta_bytes": sizes.delta_bytes,
        "committed_txid": state.txid,
        "phase": state.record.phase,
        "txid": state.record.txid,
        "codec": state.codec.name,
        "deleting": is_being_deleted(state, component_id),
    }


def _row(state: CommittedState, topology_name: str, component_id: str, sizes: StoredSizes) -> tuple[str, ...]:
    layout = state.layout(component_id)
    return (
        name_text(topology_name),
        name_text(component_id),
        "being deleted" if is_being_deleted(state, component_id) else _phase(state),
        state.codec.name,
        NONE if layout is None else "yes" if layout.keyed else "no",
        NONE if layout is None else count_text(layout.tasks),
        count_text(layout.key_groups if layout and layout.keyed else None),
        count_text(sizes.keys),
        count_text(sizes.row_bytes + sizes.delta_bytes),
        count_text(sizes.deltas),
        count_text(state.txid) if state.txid >= 0 else NONE,
        count_text(len(sizes.namespaces)) if sizes.namespaces is not None else "",
    )


def _phase(state: CommittedState) -> str:
    record = state.record
    return record.phase if record.phase == "committed" else f"{record.phase} {record.txid}"


def decoded(row: Row, state: CommittedState, component_id: str) -> tuple[Any, Any]:
    """Return key and value of a row. A value that must not be unpickled is returned as StoredPickle."""
    stored = row.value or b""
    try:
        key = row.key[len(stored_prefix(row.key)) :]
        return _KEY_CODEC.decode(key), state.codec.decode(stored) if state.decodes else StoredPickle(stored)
    except (TypeError, ValueError) as error:
        slot = slot_text(row.slot, keyed=state.is_keyed(component_id))
        raise StateError(
            f"a stored row of {component_id!r}, {slot}, cannot be decoded (read as of txid {state.txid}): {error}",
            hint="The store is damaged. Restore it from a backup.",
        ) from None


async def export_state(
    inventory: StateInventory, topology: str | None, components: Sequence[str], output: Path | None, *, unpickles: bool
) -> None:
    """Write one line for each committed key to standard output, or to a file that appears when it is complete."""
    name = await chosen_topology(inventory, topology)
    tries = 1 if output is None else MOST_EXPORTS
    with _output_file(output) as file:
        for number in range(tries):
            if number:
                file.seek(0)
                file.truncate()
            async with open_committed_state(inventory, name, unpickles=unpickles) as state:
                state.entries.check_whole()
                keys = 0
                with progress_counter("exported") as advance:
                    async for lines in _export_lines(state, name, chosen_components(state, name, components)):
                        _write_lines(lines, file, output)
                        keys += len(lines)
                        advance(len(lines))
                has_changed = await state.has_moved()
            if not has_changed:
                break
    if has_changed:
        print_to_stderr(f"Note: the topology was running during the export. Some keys may be newer than txid {state.txid}.")
    if output is not None:
        print_to_stderr(f"wrote {output}: {count_text(keys)} keys of topology {name!r} at txid {state.txid}")


async def _export_lines(state: CommittedState, topology_name: str, component_ids: Sequence[str]) -> AsyncIterator[list[str]]:
    for component_id in component_ids:
        is_keyed = state.is_keyed(component_id)
        async for rows in state.rows(component_id):
            lines = []
            for row in rows:
                key, value = decoded(row, state, component_id)
                name = name_of(stored_prefix(row.key))
                owner: dict[str, object] = {} if is_keyed else {"task": row.slot}  # each task has its own keys
                owner |= {} if name is None else {"namespace": name}
                line = {"topology": topology_name, "component": component_id, **owner, "key": json_form(key), "value": json_form(value)}
                lines.append(json_text(line))
            if lines:
                yield lines


def _write_lines(lines: Sequence[str], file: TextIO, output: Path | None) -> None:
    text = "\n".join(lines)
    if output is None:
        write_line(text)
        return
    with output_file_errors(output):
        file.write(f"{text}\n")


@contextmanager
def _output_file(output: Path | None) -> Iterator[TextIO]:
    """Yield standard output, or a new file that replaces `output` when it is complete."""
    if output is None:
        yield sys.stdout
        return
    with output_file_errors(output), suppress(FileNotFoundError):
        output.stat()  # raises for a circular link, or if the name is too long
    target = output.resolve()
    if target.exists() and not target.is_file():
        raise click.UsageError(f"{output} is not a regular file. Name another file with -o, or redirect standard output.")
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    with output_file_errors(output):
        file = draft.open("x", encoding="utf-8", newline="\n")
    try:
        with file:
            yield file
            with output_file_errors(output):
                file.flush()
                os.fsync(file.fileno())
        with output_file_errors(output):
            draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


async def delete_stored_state(provider: StateProvider, topology: str | None, component_id: str | None, *, is_sure: bool) -> int:
    """Show the size of the state, ask, and delete it. Return the exit status."""
    inventory = provider.inventory()
    name = await chosen_topology(inventory, topology)
    question = await _deletion_question(inventory, name, component_id)
    committers = [] if component_id is not None else await _committers(inventory, name)
    if not is_sure and not confirm(question, "This cannot be undone. Delete it?", separator=" "):
        print_to_stderr("nothing was deleted")
        return DECLINED
    with progress_counter("deleted") as advance:
        async with aclosing(delete_state(provider, name, component_id)) as steps:  # type: ignore[type-var]
            async for count in steps:
                advance(count)
    print_to_stderr(f"deleted {_state_name(name, component_id)}")
    if committers:
        text = f"The targets of {', '.join(map(repr, committers))} still have what was published, and refuse to begin anew."
        print_to_stderr(f"{text} See: python -m engine committers --help")
    return 0


async def _committers(inventory: StateInventory, topology_name: str) -> list[str]:
    """Return the committers of a topology, which have staged their outputs in the store (EO-9)."""
    async with inventory.look(topology_name) as stored:
        return sorted(StoredEntries(await stored.entries(CHECKPOINTS), topology_name).outputs)


async def _deletion_question(inventory: StateInventory, topology_name: str, component_id: str | None) -> str:
    async with open_committed_state(inventory, topology_name, unpickles=False) as state:
        named = [] if component_id is None else [component_id]
        sizes = [await state.sizes(each) for each in chosen_components(state, topology_name, named)]
    keys = sum(each.rows if each.keys is None else each.keys for each in sizes)
    size = sum(each.row_bytes + each.delta_bytes for each in sizes)
    more = "" if component_id is not None else await _transactions_text(inventory, topology_name)
    return f"{_state_name(topology_name, component_id)}: {count_text(keys)} keys, {count_text(size)} bytes{more}. {inventory.removes_by}"


async def _transactions_text(inventory: StateInventory, topology_name: str) -> str:
    """Return the progress that a transactional topology loses, because it would start again with txid 1."""
    async with inventory.look(topology_name) as stored:
        entries = await stored.entries(LEDGER)
    if ENTRY not in entries:
        return ""
    return f", and its transactions up to txid {count_text(read_record(entries[ENTRY], topology_name).record.committed)}"


def _state_name(topology_name: str, component_id: str | None) -> str:
    owner = f"topology {topology_name!r}"
    return f"the state of {owner}" if component_id is None else f"the state of {component_id!r} of {owner}"
