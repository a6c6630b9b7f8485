"""Checks of a round: the folder at any time, the sinks and the folder at the end (SP-1, SP-2, SP-3). Needs no Spark."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow.parquet as pq

from spark_bridge import Handover, Parquet
from spark_bridge.handover import Position
from tests.spark_bridge.kills.flow import BEGAN_SECS, WINDOW_SECS, handover_of
from tests.spark_bridge.kills.places import WINDOWS, Places
from tests.spark_bridge.writer.playing import named, staged

Row = tuple[int, int]
"""number, txid"""
MOST_LISTED: Final = 8


class Watch:
    """Checks the folder after each death: no position goes back, and nothing that a consumer needs is deleted."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._seen: dict[str, Position] = {}
        self._newest = 0

    def faults(self) -> list[str]:
        """Return the faults of this moment."""
        if not self._places.path("handover/contract.json").exists():
            return []
        handover = Handover.open(self._places.path("handover"))
        deleted, positions = handover.deleted(), handover.consumers()
        newest = handover.newest()
        faults = [f"the newest txid was {self._newest}, and is {newest}"] if newest < self._newest else []
        for name in self._places.queries:
            now, before = positions.get(name, Position()), self._seen.get(name, Position())
            if now.planned < before.planned or now.committed < before.committed:
                faults.append(f"consumer {name} was at {before}, and is at {now}")
            if not deleted <= now.committed <= now.planned <= newest:
                faults.append(f"consumer {name} is at {now}; up to {deleted} is deleted, and {newest} is the newest")
        self._seen, self._newest = positions, newest
        return faults


async def sink_faults(places: Places, count: int) -> list[str]:
    """Return the faults of the sinks at the end. `count`: how many numbers were read."""
    txids: dict[int, int] = {}
    faults: list[str] = []
    for name in places.row_sinks:
        rows = await rows_in(name, places)
        faults += _row_faults(name, rows, count)
        txids = txids or dict(rows)
        if not faults and dict(rows) != txids:
            faults.append(f"{name} has numbers with other txids than {places.row_sinks[0]}")
    expected = Counter((BEGAN_SECS + number) // WINDOW_SECS * WINDOW_SECS for number in range(count))
    return [*faults, *_window_faults(expected, windows_in(places))]


def position_faults(places: Places) -> list[str]:
    """Return the faults of the consumers at the end."""
    handover = Handover.open(places.path("handover"))
    newest = handover.newest()
    positions = handover.consumers()
    return [f"consumer {name} is at {positions[name]}, not at {newest}" for name in places.queries if positions[name].planned != newest]


def folder_faults(places: Places) -> list[str]:
    """Return the faults of the folder after the engine's end: missing deletions and wrong deletions."""
    handover = Handover.open(places.path("handover"))
    newest = handover.newest()
    may_go = min(newest - 1, *(position.committed for position in handover.consumers().values()))
    faults = [] if handover.deleted() == may_go else [f"up to {handover.deleted()} is deleted, and up to {may_go} might be"]
    there = sorted(int(path.stem) for path in places.path("handover/manifests").iterdir())
    if there != list(range(handover.deleted() + 1, newest + 1)):
        faults.append(f"manifests: {there}, where {handover.deleted()} is deleted and {newest} is the newest")
        return faults
    on_disk, wanted = staged(handover_of(places)), named(handover_of(places))
    faults += [f"no manifest names {name}" for name in sorted(on_disk - wanted)]
    return faults + [f"{name} is lost" for name in sorted(wanted - on_disk)]


# Reading


async def rows_in(name: str, places: Places) -> list[Row]:
    """Return the visible rows of a sink."""
    if name == "parquet":
        return list(_parquet_rows(places.path(name)))
    if name == "delta":
        return list(_delta_rows(places.path(name)))
    if name == "sqlite":
        with closing(sqlite3.connect(places.path("rows.db"))) as connection:
            return list(connection.execute("SELECT number, txid FROM rows"))
    import asyncpg

    database = await asyncpg.connect(places.database)
    try:
        return [(row["number"], row["txid"]) for row in await database.fetch(f"SELECT number, txid FROM {places.table}")]
    finally:
        await database.close()


def windows_in(places: Places) -> dict[int, int]:
    """Return the counted rows of each window, by the second of its begin."""
    with closing(sqlite3.connect(places.path("windows.db"))) as connection:
        return dict(connection.execute(f"SELECT second, count FROM {WINDOWS}").fetchall())


def _parquet_rows(folder: Path) -> Iterator[Row]:
    complete = Parquet(str(folder)).complete()
    assert complete is not None
    for path in folder.glob("txid=*/*.parquet"):
        txid = int(path.parent.name.removeprefix("txid="))
        if txid <= complete.txid:
            yield from ((number, txid) for number in pq.ParquetFile(path).read(["number"])["number"].to_pylist())


def _delta_rows(folder: Path) -> Iterator[Row]:
    """Yield the rows of files that the table's log has added and not removed."""
    paths: set[str] = set()
    for log in sorted((folder / "_delta_log").glob("*.json")):
        actions: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
        paths |= {action["add"]["path"] for action in actions if "add" in action}
        paths -= {action["remove"]["path"] for action in actions if "remove" in action}
    for path in paths:
        table = pq.ParquetFile(folder / unquote(path)).read(["number", "txid"])
        yield from zip(table["number"].to_pylist(), table["txid"].to_pylist(), strict=True)


def _row_faults(name: str, rows: Iterable[Row], count: int) -> Iterator[str]:
    found = Counter(number for number, _ in rows)
    missing = [number for number in range(count) if number not in found]
    doubled = [number for number, times in found.items() if times > 1]
    strange = [number for number in found if not 0 <= number < count]
    for what, numbers in (("has not", missing), ("has more than once", doubled), ("has what never was there", strange)):
        if numbers:
            yield f"{name} {what}: {len(numbers)} of {count} numbers, such as {sorted(numbers)[:MOST_LISTED]}"


def _window_faults(expected: Mapping[int, int], counted: Mapping[int, int]) -> Iterator[str]:
    wrong = [second for second in sorted(expected.keys() | counted.keys()) if expected.get(second) != counted.get(second)]
    for second in wrong[:MOST_LISTED]:
        yield f"{WINDOWS}: the window of {second} has {counted.get(second)} rows, and {expected.get(second)} are right"
