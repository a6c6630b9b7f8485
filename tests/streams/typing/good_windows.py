"""Types of windows that a flow infers."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple, assert_type

from engine import spout
from engine.streams import (
    Aggregate,
    Flow,
    KeyedStream,
    Late,
    Put,
    Revised,
    RevisedWindowedStage,
    Stage,
    Stream,
    Windowed,
    WindowedStage,
    minutes,
    seconds,
    session,
    sliding,
    tumbling,
)
from engine.transactional.values import MemoryValues


class Click(NamedTuple):
    user: str
    page: str
    at: datetime


class Trip(Aggregate[Click, list[str], int]):
    def initial(self) -> list[str]:
        return []

    def add(self, acc: list[str], row: Click) -> list[str]:
        return [*acc, row.page]

    def merge(self, a: list[str], b: list[str]) -> list[str]:
        return a + b

    def result(self, acc: list[str]) -> int:
        return len(acc)


@spout("user", "page", "at")
def clicks() -> Iterator[tuple[str, str, datetime]]:
    yield from ()


timed = Flow("windows").stream("clicks", clicks, Click).event_time("at", max_out_of_order=seconds(10), idle_secs=5)
assert_type(timed, Stream[Click])
by_name = timed.key_by("page")
assert_type(by_name, KeyedStream[Any, Click])
pages = timed.key_by(lambda click: click.page)
assert_type(pages, KeyedStream[str, Click])
counts = pages.window(tumbling(minutes(1))).count(name="counts", parallelism=2)
assert_type(counts, WindowedStage[Click, Windowed[str, int]])
counts.sink("show", lambda row: print(row.key.upper(), row.start.year, row.end, row.value + 1))
assert_type(counts.late, Stream[Late[Click]])
counts.late.sink("late", lambda late: print(late.row.page, late.late_by.total_seconds(), late.reason))
trips = timed.key_by(lambda click: click.user).window(session(gap=minutes(30))).aggregate(Trip(), name="trips")
assert_type(trips, WindowedStage[Click, Windowed[str, int]])
firsts = pages.window(sliding(minutes(5), every=seconds(30))).collect(name="firsts")
assert_type(firsts, WindowedStage[Click, Windowed[str, list[Click]]])
assert_type(counts.top(3, name="top"), Stage[Windowed[None, list[Windowed[str, int]]], Windowed[None, list[Windowed[str, int]]]])
table = Put[Windowed[str, int]](MemoryValues("counts"), key=lambda row: (row.key, row.start), value=lambda row: row.value)
counts.sink("table", table)
again = counts.key_by(lambda row: row.key).window(tumbling(minutes(5))).sum(lambda row: row.value, name="again")
assert_type(again, WindowedStage[Windowed[str, int], Windowed[str, int]])
updates = pages.window(tumbling(minutes(1)), allowed_lateness=minutes(5)).count(name="updates")
assert_type(updates, RevisedWindowedStage[Click, Windowed[str, int]])
updates.sink("live", lambda row: print(row.revision, row.kind, row.value.key.upper(), row.value.value + 1))
assert_type(updates.finals(), Stream[Windowed[str, int]])
assert_type(updates.late, Stream[Late[Click]])
early = pages.window(session(gap=minutes(5)), early=True).max_by(lambda click: click.at, name="early")
live: Stream[Revised[Windowed[str, Click]]] = early
