"""Reads the results of a run, Spark's tables and the engine's counts, in the form of plain.py."""

import json
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from plain import Table, Tables
from topology import tallied

KEYS: Final = {"traffic": ("minute",), "pages": ("hour", "section", "page"), "sessions": ("visitor", "country", "began")}
UTC_MICROSECONDS: Final = pa.timestamp("us", tz="UTC")


def read(folder: Path) -> Tables:
    """Return the tables of a run that has ended."""
    tally = tallied(folder)
    tables = {name: table(folder, name) for name in KEYS}
    handed_over = tally["lines"] - tally["broken"] - tally["duplicates"]
    requests = sum(row[0] for row in tables["traffic"].values())
    return Tables(
        lines=tally["lines"],
        broken=tally["broken"],
        duplicates=tally["duplicates"] + handed_over - tally["heartbeats"] - requests,  # the engine's, and Spark's
        heartbeats=tally["heartbeats"],
        duplicates_in_batches=tally["duplicates"],
        **tables,
    )


def table(folder: Path, name: str) -> Table:
    """Return one of Spark's tables. Raise SystemExit if it has a row twice."""
    keys = KEYS[name]
    arrow = pq.read_table(_files(folder / "tables" / name), partitioning=None, coerce_int96_timestamp_unit="us")
    for number, field in enumerate(arrow.schema):
        if pa.types.is_timestamp(field.type):  # Spark writes instants, in one of two ways
            arrow = arrow.set_column(number, field.name, arrow[field.name].cast(UTC_MICROSECONDS))
    rows: list[dict[str, Any]] = arrow.to_pylist()
    found = {tuple(row[key] for key in keys): tuple(value for name, value in row.items() if name not in keys) for row in rows}
    if len(found) < len(rows):
        raise SystemExit(f"table {name!r}: {len(rows) - len(found):,} of {len(rows):,} rows are duplicates")
    return found


def _files(folder: Path) -> Path | list[Path]:
    """Return the files of a table. Delta's log names them. For Parquet these are all files, because all micro-batches are complete."""
    log = sorted((folder / "_delta_log").glob("*.json"))
    actions = (json.loads(line) for path in log for line in path.read_text().splitlines())
    return [folder / action["add"]["path"] for action in actions if "add" in action] or folder
