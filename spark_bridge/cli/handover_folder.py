"""Implements `look` and `consumers`, which show a hand-over folder, and add, remove and repair its consumers."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from engine.cli.console.commands import DECLINED, confirm
from engine.cli.console.formatting import NONE, aligned, count_text, name_text
from engine.cli.console.output import print_to_stderr, write_line
from engine.json_text import json_text
from engine.names import did_you_mean
from spark_bridge.handover import Handover, HandoverError, Manifest, Position, StorageUnavailable, TornFile, TransactionDeleted, ddl_of
from spark_bridge.handover.errors import ForeignFile
from spark_bridge.pipeline.errors import PipelineRefused, folder_error
from spark_bridge.pipeline.offsets import checkpoint_position

MAX_MANIFESTS: Final = 1000
"""Largest number of newest manifests that are read for the counts."""
EXIT_DAMAGED: Final = 2
CONSUMER_COLUMNS: Final = ("consumer", "planned", "committed", "lag")
TRANSACTION_COLUMNS: Final = ("committed at", "txid", "rows", "files", "bytes", "rejects")


def run_on_folder(folder: str, command: Callable[[Handover], int]) -> int:
    """Call a command with the hand-over in a folder. Raise PipelineRefused for any error of the folder."""
    try:
        return command(Handover.open(folder))
    except HandoverError as error:
        raise folder_error(error) from error


# Showing


def show_folder(handover: Handover, *, as_json: bool) -> int:
    """Print the summary of a folder. Return the exit status."""
    found = folder_fields(handover)
    if as_json:
        write_line(json_text(found))
        return EXIT_DAMAGED if any("error" in fields for fields in found["consumers"]) else 0
    newest, deleted = found["newest_txid"], found["deleted_txid"]
    write_line(f"hand-over {name_text(found['folder'])}")
    write_line(f"  written by  component {found['component']!r} of topology {found['topology']!r}")
    write_line(f"  columns     {found['columns']}")
    write_line(f"  manifests   {found['manifests']}")
    write_line(f"  newest txid {count_text(newest)}{'' if found['newest_at'] is None else ', committed at ' + found['newest_at']}")
    write_line(f"  deleted     {f'up to txid {count_text(deleted)}' if deleted else 'nothing'}")
    among = "" if found["measured"] == newest - deleted else f" in the newest {count_text(found['measured'])} transactions"
    write_line(
        f"  kept        {count_text(found['rows'])} rows, {count_text(found['bytes'])} bytes in {count_text(found['files'])} files{among}\n"
    )
    return show_consumers(handover)


def show_consumers(handover: Handover, *, as_json: bool = False) -> int:
    """Print one line per consumer, and the errors of damaged consumer files. Return the exit status."""
    found = consumer_fields(handover)
    if as_json:
        for fields in found:
            write_line(json_text(fields))
    else:
        write_line(_consumer_table(found))
    damaged = [fields["error"] for fields in found if "error" in fields]
    for error in damaged:
        print_to_stderr(f"Error: {error}")
    return EXIT_DAMAGED if damaged else 0


def show_transactions(handover: Handover, first: int, last: int | None, *, as_json: bool) -> int:
    """Print one line per transaction from `first` to `last`, without deleted and uncommitted ones."""
    rows: list[tuple[str, ...]] = [TRANSACTION_COLUMNS]
    for manifest in _manifests(handover, first, last):
        if as_json:
            write_line(json_text(_fields(manifest)))
        rows.append(_row(manifest))
    if not as_json:
        write_line(
            aligned(rows) if len(rows) > 1 else f"none of them exists: the folder has {handover.deleted() + 1} to {handover.newest()}"
        )
    return 0


def folder_fields(handover: Handover) -> dict[str, Any]:
    """Return the summary of a folder as plain values."""
    contract, newest, deleted = handover.contract, handover.newest(), handover.deleted()
    manifests = list(_manifests(handover, max(deleted, newest - MAX_MANIFESTS) + 1, newest))
    return {
        "folder": handover.storage.url,
        "topology": contract.topology,
        "component": contract.component,
        "columns": ddl_of(contract.schema),
        "manifests": contract.manifests,
        "newest_txid": newest,
        "newest_at": _time(manifests[-1].time_ms) if manifests else None,
        "deleted_txid": deleted,
        "measured": len(manifests),
        "rows": sum(manifest.rows for manifest in manifests),
        "files": sum(len(manifest.files) for manifest in manifests),
        "bytes": sum(manifest.byte_count for manifest in manifests),
        "consumers": consumer_fields(handover),
    }


def consumer_fields(handover: Handover) -> list[dict[str, Any]]:
    """Return the position of each consumer, and an `error` for a damaged consumer file."""
    newest = handover.newest()
    return [_consumer(handover, name, newest) for name in handover.consumer_names()]


def _consumer(handover: Handover, name: str, newest: int) -> dict[str, Any]:
    try:
        position = handover.consumer(name).read()
    except StorageUnavailable:
        raise
    except HandoverError as error:
        return {"name": name, "planned": None, "committed": None, "lag": None, "error": str(error)}
    return {"name": name, "planned": position.planned, "committed": position.committed, "lag": newest - position.planned}


def _consumer_table(found: list[dict[str, Any]]) -> str:
    if not found:
        return "no consumers: nothing is deleted, and the engine never waits"
    rows = [(name_text(each["name"]), *(count_text(each[column]) for column in CONSUMER_COLUMNS[1:])) for each in found]
    return aligned([CONSUMER_COLUMNS, *rows])


def _manifests(handover: Handover, first: int, last: int | None) -> Iterator[Manifest]:
    newest = handover.newest()
    for txid in range(max(first, handover.deleted() + 1), min(newest if last is None else last, newest) + 1):
        try:
            yield handover.manifest(txid)
        except TransactionDeleted:
            continue  # deleted since newest() was read


def _fields(manifest: Manifest) -> dict[str, Any]:
    files = [{"name": file.name, "rows": file.rows, "bytes": file.bytes} for file in manifest.files]
    rejected = sum(file.rows for file in manifest.rejects)
    return {
        "txid": manifest.txid,
        "committed_at": _time(manifest.time_ms),
        "rows": manifest.rows,
        "bytes": manifest.byte_count,
        "rejects": rejected,
        "files": files,
    }


def _row(manifest: Manifest) -> tuple[str, ...]:
    rejected = sum(file.rows for file in manifest.rejects)
    counts = (manifest.txid, manifest.rows, len(manifest.files), manifest.byte_count)
    return _time(manifest.time_ms), *map(count_text, counts), count_text(rejected) if manifest.rejects else NONE


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


# Changing consumers


def add_consumers(handover: Handover, names: Sequence[str]) -> int:
    """Add consumers. Existing ones keep their positions. Return the exit status."""
    consumers = [handover.consumer(name) for name in names]
    for consumer in consumers:
        position = consumer.find()
        if position is not None:
            print_to_stderr(f"{consumer.name!r} is already a consumer: it has committed txid {count_text(position.committed)}")
        else:
            consumer.add()
            print_to_stderr(f"added consumer {consumer.name!r}: it begins with txid {count_text(handover.deleted() + 1)}")
    return 0


def remove_consumers(handover: Handover, names: Sequence[str], *, is_sure: bool) -> int:
    """Ask with the number of unread transactions, and remove consumers. Return the exit status."""
    _check_known(handover, names)
    lags = {fields["name"]: fields["lag"] for fields in consumer_fields(handover)}
    unread = [
        f"{name!r} has {'an unknown number of' if lags[name] is None else count_text(lags[name])} unread transactions" for name in names
    ]
    question = f"{handover.storage.url}: {', '.join(unread)}, which can then be deleted. A query of this name will need a new checkpoint."
    if not is_sure and not confirm(question, f"Remove {'it' if len(names) == 1 else 'them'}?", separator=" "):
        print_to_stderr("nothing was removed")
        return DECLINED
    for name in names:
        handover.consumer(name).remove()
        print_to_stderr(f"removed consumer {name!r}")
    return 0


def repair_consumer(handover: Handover, name: str, checkpoint: str) -> int:
    """Set a damaged or recreated consumer to the position of its query's checkpoint. Return the exit status."""
    _check_known(handover, [name])
    consumer = handover.consumer(name)
    try:
        position = consumer.read()
    except (TornFile, ForeignFile):
        position = Position()
    if position.planned:
        print_to_stderr(f"{name!r} is not damaged: it has planned txid {count_text(position.planned)}. Nothing was changed.")
        return 0
    reached, newest, deleted = checkpoint_position(checkpoint), handover.newest(), handover.deleted()
    if not deleted <= reached.txid <= newest:
        raise PipelineRefused(
            f"the checkpoint {checkpoint} is at txid {reached.txid}, but {handover.storage.url} has {deleted + 1} to {newest}",
            hint="This checkpoint belongs to another hand-over or query. Name the checkpoint of this consumer's query.",
        )
    consumer.put(Position(reached.txid, deleted if reached.batch_id or reached.is_done else 0))
    repeated = (
        "" if reached.is_done else f"repeats micro-batch {reached.batch_id}, which ends with txid {count_text(reached.txid)}, and then "
    )
    print_to_stderr(f"{name!r} {repeated}continues with txid {count_text(reached.txid + 1)}, by the checkpoint {checkpoint}")
    return 0


def _check_known(handover: Handover, names: Sequence[str]) -> None:
    known = handover.consumer_names()
    for name in names:
        if name not in known:
            raise PipelineRefused(f"{handover.storage.url} has no consumer {name!r}", hint=did_you_mean(name, known))
