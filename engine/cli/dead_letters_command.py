"""`dead-letters` shows and drops the rows that topologies have given up."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import click

from engine.checkpoint.record_entries import LEDGER as CHECKPOINTS
from engine.checkpoint.record_entries import StoredEntries
from engine.checkpoint.stored_positions import entry_name as positions_name
from engine.cli.console.commands import DECLINED, CommandGroup, confirm
from engine.cli.console.formatting import aligned, clipped, count_text, name_text, plural
from engine.cli.console.output import print_to_stderr, write_line
from engine.cli.json_values import StoredPickle, json_form, text_form
from engine.cli.state_command import topology_option, unpickle_option
from engine.cli.stored_state import chosen_topology, run_on_store
from engine.dead_letters import DeadLetter, entry_name, letters_in, retry_name, shown_name
from engine.errors import StateError
from engine.json_text import json_text
from engine.state import StateInventory, StateProvider, codec_named
from engine.transactional.transactional_state import ENTRY, LEDGER, read_record

COLUMNS: Final = ("letter", "given up at", "component", "error", "row", "attempts", "state")
ERROR_WIDTH: Final = 40
ROW_WIDTH: Final = 40
GIVEN_UP: Final = "given up"
IN_DOUBT: Final = "in doubt"
RETRIED: Final = "to be retried"


@click.group("dead-letters", cls=CommandGroup, short_help="Show, retry and drop rows that a topology has given up.")
def command() -> None:
    """Show, retry and drop the rows that topologies have given up: transactional ones, and those with state and exact spouts.

    URL is the state_provider of the run: sqlite:///counts.db, redis://:password@host:6379/0, package.module:function?text.
    list and show write nothing and do not disturb a running topology.

    Exit status: 0, or 1 if you decline a removal, or 2 if the store cannot be reached or read, or contains no such letter.

    \b
      dead-letters list sqlite:///counts.db
      dead-letters show sqlite:///counts.db 17.3
      dead-letters retry sqlite:///counts.db --component parse
      dead-letters drop sqlite:///counts.db 17.3 17.4
      dead-letters drop sqlite:///counts.db --component parse --yes
    """


@command.command("list", short_help="List the newest dead letters.")
@click.argument("url")
@topology_option
@click.option("--component", "components", metavar="ID", multiple=True, help="Only letters of this component. May be repeated.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="Show the newest N letters.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line, for programs.")
def list_command(url: str, topology: str | None, components: tuple[str, ...], limit: int, *, as_json: bool) -> int:
    """List the dead letters at URL: one line for each, the newest last.

    \b
      dead-letters list sqlite:///counts.db
      dead-letters list redis://localhost:6379/0 --topology counts --component parse --json

    A letter is named by the txid of its batch or checkpoint, and a number. It is in doubt until the store says that the batch is committed.
    """
    return run_on_store(url, lambda provider: list_letters(provider.inventory(), topology, components, limit, as_json=as_json))


@command.command("show", short_help="Show one dead letter with all of its values.")
@click.argument("url")
@click.argument("letter")
@topology_option
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object, for programs.")
@unpickle_option
def show_command(url: str, letter: str, topology: str | None, *, as_json: bool, unpickle: bool) -> int:
    """Show the dead letter LETTER, such as 17.3, with all of its values.

    \b
      dead-letters show sqlite:///counts.db 17.3
      dead-letters show sqlite:///counts.db 17.3 --json | jq .values
    """
    return run_on_store(url, lambda provider: show_letter(provider.inventory(), topology, letter, unpickles=unpickle, as_json=as_json))


@command.command("retry", short_help="Let the next run emit the rows of dead letters again.")
@click.argument("url")
@click.argument("letters", nargs=-1)
@topology_option
@click.option("--component", metavar="ID", help="All letters of this component.")
@click.option("--all", "retries_all", is_flag=True, help="All letters of the topology.")
def retry_command(url: str, letters: tuple[str, ...], topology: str | None, component: str | None, *, retries_all: bool) -> int:
    """Mark dead letters, so that their spout emits the rows again in the next run. Refused while a process runs the topology.

    \b
      dead-letters retry sqlite:///counts.db 17.3
      dead-letters retry sqlite:///counts.db --component parse

    The letter ends in the same commit that has the effect of its row. If the row fails again in `max_retries` passes, it gets a new letter.
    The letters of a transactional topology cannot be retried.
    """
    if bool(letters) + (component is not None) + retries_all != 1:
        raise click.UsageError("Name the letters to retry, or write --component ID, or --all.")
    return run_on_store(url, lambda provider: retry_letters(provider, topology, letters, component))


@command.command("drop", short_help="Remove dead letters.")
@click.argument("url")
@click.argument("letters", nargs=-1)
@topology_option
@click.option("--component", metavar="ID", help="All letters of this component.")
@click.option("--all", "drops_all", is_flag=True, help="All letters of the topology.")
@click.option("--yes", "is_sure", is_flag=True, help="Drop without asking.")
def drop_command(url: str, letters: tuple[str, ...], topology: str | None, component: str | None, *, drops_all: bool, is_sure: bool) -> int:
    """Remove dead letters, by their names, by their component, or all. Refused while a process runs the topology. Asks first.

    \b
      dead-letters drop sqlite:///counts.db 17.3
      dead-letters drop sqlite:///counts.db --all --yes

    A letter in doubt stays. Run the topology once more to settle it.
    """
    if bool(letters) + (component is not None) + drops_all != 1:
        raise click.UsageError("Name the letters to drop, or write --component ID, or --all.")
    return run_on_store(url, lambda provider: drop_letters(provider, topology, letters, component, is_sure=is_sure))


class FoundLetters:
    """The dead letters of a topology at one moment."""

    def __init__(self, topology: str, ledger: str, entries: Mapping[str, object], holder: str | None) -> None:
        """ledger: the one that has the letters. entries: of this ledger. holder: the process that runs the topology."""
        self.topology = topology
        self.ledger = ledger
        self.letters = letters_in(entries)
        self.holder = holder
        self._entries = entries
        if ledger == CHECKPOINTS:
            self._committed = StoredEntries(entries, topology).record.decided_txid
        else:
            self._committed = read_record(entries[ENTRY], topology).record.committed if ENTRY in entries else 0

    def state(self, name: str) -> str:
        """Return the state of a letter. name: of its entry."""
        if retry_name(name) in self._entries:
            return RETRIED
        return GIVEN_UP if self.letters[name].txid <= self._committed else IN_DOUBT

    def has_position(self, spout: str) -> bool:
        """Tell whether a spout has its positions in the checkpoint, so that it can emit a row again."""
        return positions_name(spout) in self._entries


async def read_letters(inventory: StateInventory, topology: str | None) -> FoundLetters:
    """Return the letters of the named topology, or of the only one."""
    name = await chosen_topology(inventory, topology)
    async with inventory.look(name) as stored:
        entries = await stored.entries(LEDGER)
        if ENTRY in entries:
            return FoundLetters(name, LEDGER, entries, await stored.holder())
        return FoundLetters(name, CHECKPOINTS, await stored.entries(CHECKPOINTS), await stored.holder())


async def list_letters(inventory: StateInventory, topology: str | None, components: Sequence[str], limit: int, *, as_json: bool) -> None:
    """Write a line for each of the newest letters."""
    found = await read_letters(inventory, topology)
    chosen = {name: letter for name, letter in found.letters.items() if not components or letter.component_id in components}
    newest = dict(list(chosen.items())[-limit:])
    if as_json:
        for name, letter in newest.items():
            write_line(json_text(letter_fields(found, name, letter, unpickles=False)))
    elif newest:
        rows = [_row(found, name, letter) for name, letter in newest.items()]
        write_line(aligned([COLUMNS, *rows], text_columns=5))
        if len(newest) < len(chosen):
            print_to_stderr(f"{count_text(len(chosen) - len(newest))} older letters are not shown. Write --limit {len(chosen)}.")
    else:
        write_line(f"topology {found.topology!r} has no dead letter" + (f" of {', '.join(map(repr, components))}" if components else ""))


async def show_letter(inventory: StateInventory, topology: str | None, name: str, *, unpickles: bool, as_json: bool) -> None:
    """Write one complete letter."""
    found = await read_letters(inventory, topology)
    letter = _named(found, name)
    if as_json:
        write_line(json_text(letter_fields(found, entry_name(name), letter, unpickles=unpickles)))
        return
    lines = [
        ("letter", f"{name} of topology {found.topology!r}, {found.state(entry_name(name))}"),
        ("given up at", f"{_clock(letter)} by attempt {letter.attempt_id} of txid {letter.txid}, after {letter.attempts} failed attempts"),
        ("component", f"{name_text(letter.component_id)} (task {letter.task_id})"),
        ("from", f"{name_text(letter.row.source)}, stream {name_text(letter.row.stream)}"),
        *(("error" if number == 0 else "", name_text(line)) for number, line in enumerate(letter.error.split("\n"))),
    ]
    if letter.row.encoded is None:
        lines += [("values", "could not be stored; their text begins:"), ("", name_text(letter.row.text))]
    else:
        values = [json_text(json_form(value)) for value in _values(letter, unpickles=unpickles)]
        lines += [("values" if number == 0 else "", value) for number, value in enumerate(values)]
    width = max(len(label) for label, _ in lines)
    write_line("\n".join(f"{label.ljust(width)}  {text}" for label, text in lines))


async def drop_letters(provider: StateProvider, topology: str | None, names: Sequence[str], component: str | None, *, is_sure: bool) -> int:
    """Ask, and remove letters. Return the exit status."""
    found = await read_letters(provider.inventory(), topology)
    _check_idle(found, "dropped")
    wanted = _chosen(found, names, component)
    due = [name for name in wanted if found.state(name) != IN_DOUBT]
    if len(due) < len(wanted):
        print_to_stderr(f"{plural(len(wanted) - len(due), 'letter')} in doubt stay: run the topology once more to settle them")
    if not due:
        print_to_stderr("nothing was dropped")
        return 0
    question = f"{plural(len(due), 'dead letter')} of topology {found.topology!r}, with all of their values."
    if not is_sure and not confirm(question, "This cannot be undone. Drop them?", separator=" "):
        print_to_stderr("nothing was dropped")
        return DECLINED
    await _write(provider, found, dict.fromkeys([*due, *map(retry_name, due)]))
    print_to_stderr(f"dropped {plural(len(due), 'dead letter')}")
    return 0


async def retry_letters(provider: StateProvider, topology: str | None, names: Sequence[str], component: str | None) -> int:
    """Mark letters, so that the next run emits their rows again. Return the exit status."""
    found = await read_letters(provider.inventory(), topology)
    if found.ledger != CHECKPOINTS:
        raise StateError(
            f"topology {found.topology!r} is transactional, and no batch can take up a row that an earlier one has left out",
            hint="Write the values to the source again: `dead-letters show` has them. Then drop the letter.",
        )
    _check_idle(found, "retried")
    wanted = _chosen(found, names, component)
    for name in wanted:
        letter = found.letters[name]
        row = letter.row
        if letter.is_processed:
            text = f"the dead letter {shown_name(name)} is a row that only the target of the committer {letter.component_id!r} lacks"
            hint = "Emitted again, the rest of the topology would process it twice. Write it to the target by hand, then drop the letter."
            raise StateError(text, hint=hint)
        if row.encoded is None:
            raise StateError(f"the values of the dead letter {shown_name(name)} could not be stored, so it cannot be retried")
        if not found.has_position(row.source):
            text = f"the dead letter {shown_name(name)} is an input from {row.source!r}, which is no spout with positions"
            hint = "Only a spout can emit a row again. Process the values of a bolt's result by hand, then drop the letter."
            raise StateError(text, hint=hint)
    if wanted:
        await _write(provider, found, {retry_name(name): True for name in wanted})
    print_to_stderr(f"the next run of {found.topology!r} emits {plural(len(wanted), 'row')} again")
    return 0


def _check_idle(found: FoundLetters, what: str) -> None:
    if found.holder:
        raise StateError(
            f"topology {found.topology!r} runs now, in {found.holder}, so its dead letters cannot be {what}",
            hint="Stop the run first. It continues where it stopped.",
        )


def _chosen(found: FoundLetters, names: Sequence[str], component: str | None) -> list[str]:
    """Return the names of the entries of the named letters, or of those of a component. None: of all."""
    for name in names:
        _named(found, name)
    return [entry_name(name) for name in names] or [
        name for name, letter in found.letters.items() if component in (None, letter.component_id)
    ]


async def _write(provider: StateProvider, found: FoundLetters, changes: Mapping[str, object]) -> None:
    await provider.open(found.topology)
    try:
        ledger = provider.ledger(found.ledger)
        await ledger.claim()
        await ledger.write(changes)
    finally:
        await provider.close()


def _named(found: FoundLetters, name: str) -> DeadLetter:
    letter = found.letters.get(entry_name(name))
    if letter is None:
        raise StateError(
            f"topology {found.topology!r} has no dead letter {name!r}", hint="`dead-letters list` shows the names. A name is TXID.NUMBER."
        )
    return letter


def letter_fields(found: FoundLetters, name: str, letter: DeadLetter, *, unpickles: bool) -> dict[str, Any]:
    """Return a letter as plain values."""
    return {
        "topology": found.topology,
        "letter": shown_name(name),
        "state": found.state(name),
        "component": letter.component_id,
        "task": letter.task_id,
        "error": letter.error,
        "attempts": letter.attempts,
        "source": letter.row.source,
        "stream": letter.row.stream,
        "values": None if letter.row.encoded is None else [json_form(value) for value in _values(letter, unpickles=unpickles)],
        "text": letter.row.text or None,
        "txid": letter.txid,
        "attempt": letter.attempt_id,
        "written_at": letter.written_at,
    }


def _row(found: FoundLetters, name: str, letter: DeadLetter) -> tuple[str, ...]:
    row = clipped(letter.row.text, ROW_WIDTH) if letter.row.encoded is None else text_form(_values(letter, unpickles=False), ROW_WIDTH)
    return (
        shown_name(name),
        _clock(letter),
        name_text(letter.component_id),
        name_text(clipped(letter.error.partition("\n")[0], ERROR_WIDTH)),
        name_text(row),
        count_text(letter.attempts),
        found.state(name),
    )


def _values(letter: DeadLetter, *, unpickles: bool) -> list[Any]:
    """Return the values. Pickled ones are unpickled only on request, because that runs code of the store."""
    assert letter.row.encoded is not None
    if letter.row.codec == "pickle" and not unpickles:
        return [StoredPickle(letter.row.encoded)]
    try:
        return list(codec_named(letter.row.codec).decode(letter.row.encoded))  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise StateError(f"the values of a dead letter of txid {letter.txid} cannot be read: {error}", hint="They are damaged.") from None


def _clock(letter: DeadLetter) -> str:
    try:
        return datetime.fromtimestamp(letter.written_at).isoformat(" ", "seconds")
    except (ValueError, OverflowError, OSError):
        return str(letter.written_at)
