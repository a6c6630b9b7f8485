"""`positions` shows, sets and resets the stored positions of exact sources."""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from engine.checkpoint.record_entries import LEDGER, StoredEntries
from engine.checkpoint.stored_positions import StoredPositions, change_positions, letters_of, positions_in
from engine.cli.console.commands import DECLINED, CommandGroup, confirm
from engine.cli.console.formatting import NONE, aligned, clipped, count_text, name_text
from engine.cli.console.output import print_to_stderr, show_error, write_line
from engine.cli.console.timestamps import timestamp_ms
from engine.cli.json_values import json_form, value_of_json
from engine.cli.kafka_command import SECURITY_HELP, cluster_config, optional_cluster_options, silent_client
from engine.cli.stored_state import WRONG, chosen_topology, run_on_store
from engine.errors import EngineError, StateError
from engine.json_text import json_text
from engine.names import did_you_mean
from engine.state import StateInventory, StateProvider
from engine.state.codec import Unencodable

if TYPE_CHECKING:
    from engine.cli.kafka_positions import OffsetsAtTime

COLUMNS: Final = ("topology", "spout", "partition", "position", "txid")
POSITION_WIDTH: Final = 80
NUMBERED: Final = re.compile(r"(.+)[-/](\d+)")
"""Name of a partition of a topic."""


@click.group("positions", cls=CommandGroup, short_help="Show, set and reset the positions of exact sources.")
def command() -> None:
    """Show and move the positions from which the exact sources of a topology continue.

    URL is the state_provider of the run: sqlite:///counts.db, redis://:password@host:6379/0, package.module:function?text.
    show writes nothing and does not disturb a running topology. set and reset are refused while a process runs it.

    Exit status: 0, or 1 if you decline a reset, or 2 if the store cannot be reached or read, or has no such topology, spout or partition.

    \b
      positions show sqlite:///counts.db
      positions set sqlite:///counts.db words lines 0=1200
      positions reset sqlite:///counts.db words lines

    The state of the bolts stays as it is. So rows behind an earlier position count again, and rows before a later one never.
    """


@command.command("show", short_help="Show the stored positions.")
@click.argument("url")
@click.argument("topology", required=False)
@click.argument("spout", required=False)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line, for programs.")
def show_command(url: str, topology: str | None, spout: str | None, *, as_json: bool) -> int:
    """Show the positions at URL: one line for each partition, or for each task of a spout without partitions.

    \b
      positions show sqlite:///counts.db
      positions show redis://localhost:6379/0 words lines --json | jq .position

    \b
    partition  the partition, or the index of the task
    position   behind the last row that is committed
    txid       of the last committed checkpoint, which has stored it
    """
    return run_on_store(url, lambda provider: show_positions(provider.inventory(), topology, spout, as_json=as_json))


@command.command("set", short_help="Set the positions of a spout.", epilog=SECURITY_HELP)
@click.argument("url")
@click.argument("topology")
@click.argument("spout")
@click.argument("positions", metavar="PARTITION=POSITION...", nargs=-1)
@click.option("--to-time", metavar="TIME", help="For Kafka: the first record of this time or later, such as 2026-01-31T12:00Z.")
@optional_cluster_options
def set_command(
    url: str, topology: str, spout: str, positions: tuple[str, ...], to_time: str | None, **cluster: Any
) -> int:
    """Let a spout continue elsewhere. The other partitions keep their positions. Refused while a process runs the topology.

    \b
      positions set sqlite:///counts.db words lines 0=1200
      positions set sqlite:///counts.db words lines text-0=17 text-1=0
      positions set sqlite:///counts.db words events '0="2026-01-31T12:00:00"'
      positions set sqlite:///counts.db words clicks --to-time 2026-01-31T12:00Z --brokers localhost:9092

    PARTITION is written as `positions show` writes it. POSITION is JSON: a number, a text in quotes, a list, an object. Other types are
    written as in `positions show --json`. For a spout with repeatable=True it is a number of rows, for Kafka an offset.

    With --to-time, name partitions without =POSITION, or none for all partitions of the topics. A time without a UTC offset is local. A
    partition without a record of that time or later continues at its end.
    """
    if to_time is None:
        if not positions:
            raise click.UsageError("nothing to set. Write PARTITION=POSITION, such as 0=1200, or --to-time TIME for a Kafka spout.")
        return run_on_store(url, lambda provider: set_positions(provider, topology, spout, positions))
    try:
        wanted = _offsets_at(to_time, positions, **cluster)
        with silent_client():
            return run_on_store(url, lambda provider: set_found_positions(provider, topology, spout, wanted))
    except EngineError as error:
        show_error(error)
        return WRONG


def _offsets_at(time: str, partitions: Sequence[str], *, brokers: str | None, security: Path | None) -> "OffsetsAtTime":
    milliseconds = timestamp_ms(time)
    if milliseconds is None:
        raise click.UsageError(
            f"--to-time {time!r} is not a valid time. Write the date and the time, with Z for UTC or an offset: 2026-01-31T12:00Z, "
            "2026-01-31T13:00+01:00."
        )
    if brokers is None:
        raise click.UsageError("--to-time asks the brokers for the offsets. Name them: --brokers HOST:PORT, or KAFKA_BROKERS.")
    config = cluster_config(brokers, security)
    from engine.cli.kafka_positions import OffsetsAtTime  # needs aiokafka, which cluster_config() has found

    return OffsetsAtTime(config, time, milliseconds, partitions)


@command.command("reset", short_help="Let a topology or a spout begin at the beginning.")
@click.argument("url")
@click.argument("topology")
@click.argument("spout", required=False)
@click.option("--yes", "is_sure", is_flag=True, help="Reset without asking.")
def reset_command(url: str, topology: str, spout: str | None, *, is_sure: bool) -> int:
    """Forget the positions of a spout, or of all spouts, which then begin at the beginning. Refused while a process runs the topology.

    \b
      positions reset sqlite:///counts.db words lines
      positions reset sqlite:///counts.db words --yes

    To count everything anew, also delete the state: `state delete URL --topology words`.
    """
    return run_on_store(url, lambda provider: reset_positions(provider, topology, spout, is_sure=is_sure))


async def show_positions(inventory: StateInventory, topology: str | None, spout: str | None, *, as_json: bool) -> None:
    """Write a line for each position."""
    names = await inventory.topologies() if topology is None else [await chosen_topology(inventory, topology)]
    rows: list[tuple[str, ...]] = []
    for name in names:
        stored, entries = await _read(inventory, name)
        record = entries.record
        for each in stored.values() if spout is None else [_spout_of(stored, name, spout)]:
            if as_json:
                for partition, position in each.positions.items():
                    write_line(json_text(_fields(each, name, partition, position) | {"txid": record.decided_txid, "phase": record.phase}))
            rows += _rows(each, name, count_text(record.decided_txid) if record.decided_txid >= 0 else NONE)
    if not as_json:
        none = "the store has no position of an exact source" if topology is None else f"topology {topology!r} has no exact source"
        write_line(aligned([COLUMNS, *rows], text_columns=4) if rows else none)


async def _read(inventory: StateInventory, topology: str) -> tuple[dict[str, StoredPositions], StoredEntries]:
    async with inventory.look(topology) as found:
        entries = await found.entries(LEDGER)
    return positions_in(entries, topology), StoredEntries(entries, topology)


def _fields(stored: StoredPositions, topology: str, partition: Any, position: Any) -> dict[str, Any]:
    """Return one position as plain values."""
    return {
        "topology": topology,
        "spout": stored.component_id,
        "partitioned": stored.partitioned,
        "tasks": stored.tasks,
        "partition": json_form(partition),
        "position": json_form(position),
    }


def _rows(stored: StoredPositions, topology: str, txid: str) -> list[tuple[str, ...]]:
    head = (name_text(topology), name_text(stored.component_id))
    places = [(*head, shown_partition(each), _shown(position), txid) for each, position in stored.positions.items()]
    return sorted(places, key=lambda row: _order(row[2])) or [(*head, NONE, "from the beginning", txid)]


def _order(name: str) -> tuple[str, int]:
    """Return a key that sorts the partitions of a topic by their numbers."""
    found = NUMBERED.fullmatch(name)
    return (found[1], int(found[2])) if found else ("", int(name)) if name.isdecimal() else (name, 0)


def shown_partition(partition: Any) -> str:
    """Return a partition as the user writes it.

    >>> shown_partition("text-0"), shown_partition(3), shown_partition(("eu", 1))
    ('text-0', '3', '{"$tuple": ["eu", 1]}')
    """
    return name_text(partition) if isinstance(partition, str) else json_text(json_form(partition))


def _shown(position: Any) -> str:
    return clipped(json_text(json_form(position)), POSITION_WIDTH)


async def set_positions(provider: StateProvider, topology: str, spout: str, arguments: Sequence[str]) -> None:
    """Write some positions of a spout, and what they were."""
    name = await _idle_topology(provider.inventory(), topology, "set")
    await _change(provider, name, spout, lambda stored: _all_parsed(stored, name, arguments))


async def set_found_positions(provider: StateProvider, topology: str, spout: str, wanted: "OffsetsAtTime") -> None:
    """Let the brokers find positions of a Kafka spout, write them, and what they were."""
    name = await _idle_topology(provider.inventory(), topology, "set")
    stored = _spout_of((await _read(provider.inventory(), name))[0], name, spout)
    found = await wanted.find(stored, name)
    await _change(provider, name, spout, lambda _: found.offsets)
    for text in found.notes:
        print_to_stderr(text)


async def _change(
    provider: StateProvider, name: str, spout: str, changes_of: Callable[[StoredPositions], Mapping[Any, Any]]
) -> None:
    told: list[tuple[str, ...]] = []

    def change(found: dict[str, StoredPositions]) -> list[StoredPositions]:
        stored = _spout_of(found, name, spout)
        changes, before = changes_of(stored), stored.positions
        told.extend((shown_partition(each), _shown(before[each]) if each in before else NONE, _shown(changes[each])) for each in changes)
        try:
            return [stored.with_positions(changes)]
        except Unencodable as error:
            raise StateError(f"a position cannot be stored: {error}", hint="Write numbers, texts, lists or objects.") from None

    await change_positions(provider, name, change)
    write_line(aligned([("partition", "before", "now"), *told], text_columns=3))
    print_to_stderr(_warning(name))


async def reset_positions(provider: StateProvider, topology: str, spout: str | None, *, is_sure: bool) -> int:
    """Ask, and forget the positions of one spout or of all. Return the exit status."""
    name = await _idle_topology(provider.inventory(), topology, "reset")

    def chosen(found: dict[str, StoredPositions]) -> list[StoredPositions]:
        if spout is None and not found:
            raise StateError(f"topology {name!r} has no exact source", hint="Its sources have no stored positions in the checkpoint.")
        return list(found.values()) if spout is None else [_spout_of(found, name, spout)]

    found, stored = await _read(provider.inventory(), name)
    ids = [each.component_id for each in chosen(found)]
    spouts = ", ".join(map(repr, ids))
    warning = _warning(name)
    if letters := sum(len(letters_of(stored.entries, each)) for each in ids):
        rows = "the row of 1 dead letter" if letters == 1 else f"the rows of {letters:,} dead letters"
        warning += f"\nThe spouts emit {rows} again. So that none counts twice, drop these letters: python -m engine dead-letters drop"
    question = f"{spouts} of topology {name!r} will begin at the beginning. {warning}"
    if not is_sure and not confirm(question, "Reset the positions?"):
        print_to_stderr("nothing was reset")
        return DECLINED
    await change_positions(provider, name, lambda found: [each.without_positions() for each in chosen(found)])
    print_to_stderr(f"reset the positions of {spouts} of topology {name!r}")
    if is_sure:
        print_to_stderr(warning)
    return 0


def _warning(topology: str) -> str:
    command = f"python -m engine state delete URL --topology {shlex.quote(topology)}"
    return f"The state of the bolts stays as it is, so some rows may count again, or never. To begin without it: {command}"


async def _idle_topology(inventory: StateInventory, topology: str, verb: str) -> str:
    name = await chosen_topology(inventory, topology)
    async with inventory.look(name) as stored:
        holder = await stored.holder()
    if holder:
        text = f"topology {name!r} runs now, in {holder}, so its positions cannot be {verb}"
        raise StateError(text, hint="Stop the run first. The next one begins at the new positions.")
    return name


def _spout_of(found: dict[str, StoredPositions], topology: str, spout: str) -> StoredPositions:
    if spout not in found:
        hint = did_you_mean(spout, found) if found else "A spout has positions after the first checkpoint of a topology with state."
        raise StateError(f"topology {topology!r} has stored no positions of a spout {spout!r}", hint=hint)
    return found[spout]


def _all_parsed(stored: StoredPositions, topology: str, arguments: Sequence[str]) -> dict[Any, Any]:
    """Return the positions of all arguments by partition."""
    wanted: dict[Any, Any] = {}
    for argument in arguments:
        partition, position = _parsed(stored, topology, argument)
        if partition in wanted:
            raise StateError(f"there are two positions of {shown_partition(partition)!r}", hint="Write one.")
        wanted[partition] = position
    return wanted


def _parsed(stored: StoredPositions, topology: str, argument: str) -> tuple[Any, Any]:
    """Return the partition and the position of an argument."""
    known = {shown_partition(each): each for each in (stored.positions if stored.partitioned else range(stored.tasks))}
    name, equals, text = _split(argument, known)
    if not equals:
        raise StateError(f"{argument!r} is not PARTITION=POSITION", hint=f"Write {next(iter(known), '0')}=1200.")
    try:
        position = value_of_json(json.loads(text))
    except (ValueError, RecursionError):  # of nested brackets, thousands deep
        hint = f"Write a number, or a text in quotes: '{name}=\"abc\"'."
        raise StateError(f"the position {clipped(repr(text), POSITION_WIDTH)} of {name!r} is not JSON", hint=hint) from None
    return _partition_named(name, known, stored, topology), position


def _split(argument: str, known: Iterable[str]) -> tuple[str, str, str]:
    """Split an argument at the `=` behind a known name, which may have one itself, else at the first one."""
    for name in sorted(known, key=len, reverse=True):
        if argument.startswith(f"{name}="):
            return name, "=", argument[len(name) + 1 :]
    return argument.partition("=")


def _partition_named(name: str, known: dict[str, Any], stored: StoredPositions, topology: str) -> Any:
    if name in known:
        return known[name]
    numbered = NUMBERED.fullmatch(name)
    topics = {found[1] for each in known.values() if isinstance(each, str) and (found := NUMBERED.fullmatch(each))}
    if numbered is not None and numbered[1] in topics:  # of a topic, also a new one, also written as topic/7
        return f"{numbered[1]}-{numbered[2]}"
    what = "partition" if stored.partitioned else "task"
    where = f"spout {stored.component_id!r} of topology {topology!r}"
    raise StateError(f"{where} has no {what} {name!r}", hint=did_you_mean(name, known))
