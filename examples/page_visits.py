"""Visits of pages in ten-minute windows and sessions, by event time, exactly once into SQLite.

Reads JSON lines, counts the visits of each page in windows of ten minutes, finds the sessions of each user, keeps late rows apart, and
compares the windows with a plain count: `python examples/page_visits.py FILE DATABASE`. Kill it at any time and start it again: the result
is the same.
"""

import asyncio
import json
import sys
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from engine import Config, FileSpout
from engine.cli import run_in_terminal
from engine.streams import Flow, Put, Windowed, minutes, seconds, session, tumbling
from engine.transactional.values import SqliteValues

BOUND = seconds(30)


class Visit(NamedTuple):
    """One visit of a page."""

    user: str
    page: str
    at: datetime


def parse(line: dict[str, Any]) -> Visit:
    """Return the visit of a JSON line."""
    return Visit(line["user"], line["page"], datetime.fromisoformat(line["at"]))


def key_of(row: Windowed[str, int]) -> str:
    """Return the key of a result in its table."""
    return f"{row.key} {row.start:%FT%T}"


def page_visits(file: str, database: str) -> Flow:
    """Return the flow over a file of visits."""
    flow = Flow("page-visits", Config(state_provider=f"sqlite:///{database}.state"))
    lines = flow.stream("lines", lambda: FileSpout([file], format="jsonl"), dict[str, Any])
    visits = lines.map(parse, name="parse").event_time("at", max_out_of_order=BOUND)
    pages = visits.key_by("page").window(tumbling(minutes(10))).count(name="pages", parallelism=2)
    trips = visits.key_by("user").window(session(gap=minutes(30))).count(name="trips")
    for name, windows in (("pages", pages), ("trips", trips)):
        table = Put[Windowed[str, int]](SqliteValues(database, name), key=key_of, value=lambda row: row.value)
        windows.sink(f"{name}-table", table)
    pages.late.sink("late", lambda late: print(f"late by {late.late_by}: {late.row}"))
    return flow


def expected_pages(file: str) -> Counter[str]:
    """Count the visits of each page in each window in a plain way. No visit of the file is late."""
    counts: Counter[str] = Counter()
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        visit = parse(json.loads(line))
        start = visit.at - timedelta(minutes=visit.at.minute % 10, seconds=visit.at.second, microseconds=visit.at.microsecond)
        counts[f"{visit.page} {start:%FT%T}"] += 1
    return counts


async def stored(database: str, name: str) -> dict[Any, Any]:
    """Return what the flow has written."""
    values = SqliteValues(database, name)
    async with values.reader() as reader:
        return {key: value async for key, value in reader.items()}


if __name__ == "__main__":
    given, to = sys.argv[1], sys.argv[2]
    ended = run_in_terminal(page_visits(given, to).topology())
    if asyncio.run(stored(to, "pages")) != expected_pages(given):
        sys.exit("The windows differ from a plain count of the same file.")
    print("The windows equal a plain count of the same file.")
    sys.exit(ended.exit_status)
