"""`transactions` shows the durable progress of transactional topologies."""

from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import click

from engine.cli.console.formatting import NONE, aligned, count_text, duration_text, name_text
from engine.cli.console.output import write_line
from engine.cli.json_values import json_form, text_form
from engine.cli.stored_state import run_on_store
from engine.clock import Clock
from engine.errors import StateError
from engine.json_text import json_text
from engine.names import did_you_mean
from engine.state import StateInventory
from engine.transactional.open_batches import UNPARTITIONED, Record
from engine.transactional.transactional_state import ENTRY, LEDGER, StoredRecord, read_record

COLUMNS: Final = ("topology", "runs", "committed", "in doubt", "epoch", "partitions", "written")
TEXT_COLUMNS: Final = 2
METADATA_WIDTH: Final = 60
_NOTHING_STORED_HINT: Final = (
    "The first entry is written when the first batch begins to commit. Check the URL: it must be the state_provider of the run."
)


@click.command("transactions", short_help="Show the progress of transactional topologies.")
@click.argument("url")
@click.option("--topology", metavar="NAME", help="Only this topology, with the positions of its partitions.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object for each topology, with all of its metadata.")
def command(url: str, topology: str | None, *, as_json: bool) -> int:
    """Show the stored transactions at URL: one line for each topology. For a single topology also show its positions.

    URL is the state_provider of the run: sqlite:///counts.db, redis://:password@host:6379/0, zookeeper://host:2181/stormcell.
    The command writes nothing and does not disturb a running topology.

    \b
      transactions sqlite:///counts.db
      transactions zookeeper://localhost:2181/stormcell --topology counts
      transactions redis://localhost:6379/0 --json | jq .committed

    \b
    committed  the newest txid that is durably known to be committed
    in doubt   the txid whose commit phase had begun. The next run commits it again
    epoch      number of starts of the topology. An attempt is epoch.number
    written    age of the entry, by the clock of the process that wrote it
    runs       the process that runs the topology now, if the store knows it

    Exit status: 0, or 2 if the store cannot be reached or contains no transactions.
    """
    return run_on_store(url, lambda provider: show_transactions(provider.inventory(), topology, as_json=as_json))


class StoredTransactions(NamedTuple):
    """Stored transactions of one topology."""

    topology: str
    stored: StoredRecord
    epoch: int | None
    holder: str | None
    """The process that runs the topology. "" if there is none, None if the store does not know."""

    @property
    def record(self) -> Record:
        """The durable record."""
        return self.stored.record

    @property
    def in_doubt(self) -> int | None:
        """The txid whose commit phase had begun."""
        return None if self.record.next_output is None else self.record.committed + 1


async def show_transactions(inventory: StateInventory, topology: str | None, *, as_json: bool) -> None:
    """Write a line for each topology. For a single topology also write its positions."""
    found = await _read_all(inventory, topology)
    if as_json:
        for each in found:
            write_line(json_text(_fields(each)))
        return
    write_line(aligned([COLUMNS, *map(_row, found)], text_columns=TEXT_COLUMNS))
    if len(found) == 1:
        write_line(f"\n{_positions(found[0])}")


async def _read_all(inventory: StateInventory, topology: str | None) -> list[StoredTransactions]:
    """Return all topologies with transactions, or the named one. Raise StateError if there are none."""
    stored = await inventory.topologies()
    if topology is not None and topology not in stored:
        hint = did_you_mean(topology, stored) if stored else _NOTHING_STORED_HINT
        raise StateError(f"the store contains no topology {topology!r}", hint=hint)
    read = [await _read(inventory, name) for name in (stored if topology is None else [topology])]
    found = [each for each in read if each is not None]
    if not found:
        owner = "the store" if topology is None else f"topology {topology!r}"
        raise StateError(f"{owner} contains no transactions", hint=_NOTHING_STORED_HINT)
    return found


async def _read(inventory: StateInventory, name: str) -> StoredTransactions | None:
    async with inventory.look(name) as stored:
        entries = await stored.entries(LEDGER)
        if ENTRY not in entries:
            return None
        return StoredTransactions(name, read_record(entries[ENTRY], name), await stored.epoch(LEDGER), await stored.holder())


def _row(found: StoredTransactions) -> tuple[str, ...]:
    parts = found.record.positions if found.stored.partitioned else None
    return (
        name_text(found.topology),
        NONE if found.holder is None else name_text(found.holder) or "no process",
        count_text(found.record.committed),
        count_text(found.in_doubt),
        count_text(found.epoch),
        NONE if parts is None else count_text(len(_partitions(found))),
        f"{duration_text(age)} ago" if (age := _age(found)) is not None else NONE,
    )


def _age(found: StoredTransactions) -> float | None:
    written_at = found.stored.written_at
    return None if written_at is None else max(0.0, Clock().wall() - written_at)


def _partitions(found: StoredTransactions) -> list[Any]:
    shares = found.record.next_output or {}
    named = {**found.record.positions, **{partition: None for partition in shares if partition != UNPARTITIONED}}
    return sorted(named, key=lambda name: (isinstance(name, str), name))


def _positions(found: StoredTransactions) -> str:
    """Return the metadata of the committed txid and of the txid in doubt, clipped for a table."""
    record, shares = found.record, found.record.next_output or {}
    if not found.stored.partitioned:
        rows = [("txid", "metadata"), (count_text(record.committed), text_form(record.metadata, METADATA_WIDTH))]
        if found.in_doubt is not None:
            rows.append((f"{count_text(found.in_doubt)} in doubt", text_form(record.next_metadata, METADATA_WIDTH)))
        return aligned(rows, text_columns=2)
    columns = 2 if found.in_doubt is None else 3
    header = ("partition", f"after {count_text(record.committed)}, committed", f"of {count_text(found.in_doubt)}, in doubt")
    lines = [header[:columns]]
    for name in _partitions(found):
        committed = text_form(record.positions[name], METADATA_WIDTH) if name in record.positions else NONE
        in_doubt = text_form(shares[name].metadata, METADATA_WIDTH) if name in shares else NONE
        lines.append((text_form(name, METADATA_WIDTH), committed, in_doubt)[:columns])
    return aligned(lines, text_columns=columns)


def _fields(found: StoredTransactions) -> dict[str, Any]:
    """Return all fields for JSON. Partitions are a list, because their names may be numbers."""
    record, written_at = found.record, found.stored.written_at
    in_doubt = None
    if record.next_output is not None:
        shares = [
            {"partition": name, "metadata": json_form(share.metadata), "tuples": share.tuples} for name, share in record.next_output.items()
        ]
        in_doubt = {"txid": found.in_doubt, "metadata": json_form(record.next_metadata), "shares": shares}
    return {
        "topology": found.topology,
        "holder": found.holder,
        "committed": record.committed,
        "epoch": found.epoch,
        "written_at": None if written_at is None else datetime.fromtimestamp(written_at, UTC).isoformat(timespec="milliseconds"),
        "age_secs": _age(found),
        "partitioned": found.stored.partitioned,
        "metadata": json_form(record.metadata),
        "positions": [{"partition": name, "metadata": json_form(metadata)} for name, metadata in record.positions.items()],
        "in_doubt": in_doubt,
    }
