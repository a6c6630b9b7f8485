"""`transactions`: the coordinators' records, in figures, and the positions of one topology."""

from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import click

from engine.cli.durations import duration_text
from engine.cli.figures import NONE, aligned, count_text, name_text
from engine.cli.state_values import json_form, json_line, text_form
from engine.clock import Clock
from engine.errors import StateError
from engine.names import did_you_mean
from engine.state import StateInventory
from engine.transactional.batches import WHOLE, Record
from engine.transactional.transactional_state import ENTRY, LEDGER, StoredRecord, read_record

COLUMNS: Final = ("topology", "runs", "committed", "in doubt", "epoch", "partitions", "written")
TEXT_COLUMNS: Final = 2
METADATA_WIDTH: Final = 60
_NOBODY: Final = "There are none before the first batch begins to commit. Check the URL: it must be the state_provider of the run."


class Found(NamedTuple):
    """What a store tells of one topology."""

    topology: str
    stored: StoredRecord
    epoch: int | None
    holder: str | None
    """Which process runs it; "" where none does, None where the store cannot tell."""

    @property
    def record(self) -> Record:
        """What is durable."""
        return self.stored.record

    @property
    def in_doubt(self) -> int | None:
        """The txid whose commit phase had begun."""
        return None if self.record.next_shares is None else self.record.committed + 1


async def show_transactions(inventory: StateInventory, topology: str | None, *, as_json: bool) -> None:
    """Write a line for each topology; of one alone its positions, too."""
    found = await _found(inventory, topology)
    if as_json:
        for each in found:
            click.echo(json_line(_all_of(each)))
        return
    click.echo(aligned([COLUMNS, *map(_row, found)], text_columns=TEXT_COLUMNS))
    if len(found) == 1:
        click.echo(f"\n{_positions(found[0])}")


async def _found(inventory: StateInventory, topology: str | None) -> list[Found]:
    """All topologies with transactions, or the one that is named; raise StateError where there are none."""
    stored = await inventory.topologies()
    if topology is not None and topology not in stored:
        raise StateError(f"no topology {topology!r} is stored there", hint=did_you_mean(topology, stored) if stored else _NOBODY)
    looked = [await _look(inventory, name) for name in (stored if topology is None else [topology])]
    found = [each for each in looked if each is not None]
    if not found:
        raise StateError(
            "no transactions are stored there" if topology is None else f"topology {topology!r} has no transactions", hint=_NOBODY
        )
    return found


async def _look(inventory: StateInventory, name: str) -> Found | None:
    async with inventory.look(name) as stored:
        entries = await stored.entries(LEDGER)
        if ENTRY not in entries:
            return None
        return Found(name, read_record(entries[ENTRY], name), await stored.epoch(LEDGER), await stored.holder())


def _row(found: Found) -> tuple[str, ...]:
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


def _age(found: Found) -> float | None:
    written_at = found.stored.written_at
    return None if written_at is None else max(0.0, Clock().wall() - written_at)


def _partitions(found: Found) -> list[Any]:
    shares = found.record.next_shares or {}
    named = {**found.record.positions, **{partition: None for partition in shares if partition != WHOLE}}
    return sorted(named, key=lambda name: (isinstance(name, str), name))


def _positions(found: Found) -> str:
    """The metadata of what is committed and of what is in doubt, cut to what can be read."""
    record, shares = found.record, found.record.next_shares or {}
    if not found.stored.partitioned:
        rows = [("txid", "metadata"), (count_text(record.committed), text_form(record.metadata, METADATA_WIDTH))]
        if found.in_doubt is not None:
            rows.append((f"{count_text(found.in_doubt)} in doubt", text_form(record.next_metadata, METADATA_WIDTH)))
        return aligned(rows, text_columns=2)
    columns = 2 if found.in_doubt is None else 3
    header = ("partition", f"after {count_text(record.committed)}, committed", f"of {count_text(found.in_doubt)}, in doubt")
    lines = [header[:columns]]
    for name in _partitions(found):
        ended = text_form(record.positions[name], METADATA_WIDTH) if name in record.positions else NONE
        next_one = text_form(shares[name].metadata, METADATA_WIDTH) if name in shares else NONE
        lines.append((text_form(name, METADATA_WIDTH), ended, next_one)[:columns])
    return aligned(lines, text_columns=columns)


def _all_of(found: Found) -> dict[str, Any]:
    """Everything, for a program. Partitions are a list, since their names may be numbers."""
    record, written_at = found.record, found.stored.written_at
    shares = {} if record.next_shares is None else record.next_shares
    in_doubt = None
    if found.in_doubt is not None:
        told = [{"partition": name, "metadata": json_form(share.metadata), "tuples": share.tuples} for name, share in shares.items()]
        in_doubt = {"txid": found.in_doubt, "metadata": json_form(record.next_metadata), "shares": told}
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
