"""`state export`: what is committed, as JSON lines, to standard output or into a file that is whole or not there."""

import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TextIO

import click

from engine.checkpoint.stored import CommittedState
from engine.cli.figures import count_text
from engine.cli.output import tell, write_line
from engine.cli.state_look import chosen_components, chosen_topology, looking
from engine.cli.state_progress import progress
from engine.cli.state_values import decoded, json_form, json_line
from engine.state import StateInventory

TRIES: Final = 3
"""So often a file is written again where a run has folded meanwhile, on a store that has no view of one moment."""


async def export_stored(
    inventory: StateInventory, topology: str | None, components: Sequence[str], output: Path | None, *, unpickles: bool
) -> None:
    """Write one line for each committed key."""
    name = await chosen_topology(inventory, topology)
    tries = 1 if output is None else TRIES
    with _written(output) as file:
        for number in range(tries):
            if number:
                file.seek(0)
                file.truncate()
            async with looking(inventory, name, unpickles=unpickles) as state:
                state.entries.check_whole()
                keys = 0
                with progress("exported") as advance:
                    async for lines in _lines(state, name, chosen_components(state, name, components)):
                        _write(lines, file, output)
                        keys += len(lines)
                        advance(len(lines))
                has_moved = await state.has_moved()
            if not has_moved:
                break
    if has_moved:
        tell(f"Note: the topology ran on while it was read: some keys may be of a txid later than {state.txid}.")
    if output is not None:
        tell(f"{output} is written: {count_text(keys)} keys of topology {name!r}, as of txid {state.txid}")


async def _lines(state: CommittedState, topology_name: str, component_ids: Sequence[str]) -> AsyncIterator[list[str]]:
    for component_id in component_ids:
        layout = state.layout(component_id)
        is_keyed = layout is None or layout.keyed
        async for rows in state.rows(component_id):
            lines = []
            for row in rows:
                key, value = decoded(row, state, component_id)
                owner = {} if is_keyed else {"task": row.slot}  # each task has keys of its own
                line = {"topology": topology_name, "component": component_id, **owner, "key": json_form(key), "value": json_form(value)}
                lines.append(json_line(line))
            if lines:
                yield lines


def _write(lines: Sequence[str], file: TextIO, output: Path | None) -> None:
    text = "\n".join(lines)
    if output is None:
        write_line(text, file)
        return
    with _telling(output):
        file.write(f"{text}\n")


@contextmanager
def _written(output: Path | None) -> Iterator[TextIO]:
    """Standard output, or a new file that takes the place of `output` once all is in it."""
    if output is None:
        yield sys.stdout
        return
    with _telling(output), suppress(FileNotFoundError):
        output.stat()  # a link in a circle, a name that is too long
    target = output.resolve()
    if target.exists() and not target.is_file():
        raise click.UsageError(f"{output} is no regular file. Name another one with -o, or leave -o out and redirect.")
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    with _telling(output):
        file = draft.open("x", encoding="utf-8", newline="\n")
    try:
        with file:
            yield file
            with _telling(output):
                file.flush()
                os.fsync(file.fileno())
        with _telling(output):
            draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _telling(output: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise click.UsageError(f"{output} cannot be written: {error.strerror}. Name another file with -o.") from error
