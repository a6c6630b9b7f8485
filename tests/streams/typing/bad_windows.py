"""What windows and their results do not have."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from engine import spout
from engine.streams import Flow, minutes, tumbling


class Click(NamedTuple):
    user: str
    page: str
    at: datetime


@spout("user", "page", "at")
def clicks() -> Iterator[tuple[str, str, datetime]]:
    yield from ()


source = Flow("bad").stream("clicks", clicks, Click)
source.event_time("at", max_out_of_order=10)  # error: max_out_of_order|timedelta
source.event_time(lambda click: click.att)  # error: att
timed = source.event_time("at", unit="ms")
timed.window(tumbling(minutes(1)))  # error: window
pages = timed.key_by(lambda click: click.page)
pages.window("1 minute")  # error: overload|parameter "spec"
counts = pages.window(tumbling(minutes(1))).count(name="counts")
counts.map(lambda row: row.valeu)  # error: valeu
counts.map(lambda row: row.value.upper())  # error: upper
counts.late.map(lambda late: late.page)  # error: page
pages.window(tumbling(minutes(1))).sum(lambda click: click.ms, name="sum")  # error: ms
counts.late.map(lambda late: late.row.pgae)  # error: pgae
updates = pages.window(tumbling(minutes(1)), early=True).count(name="updates")
updates.map(lambda row: row.start)  # error: start
updates.key_by(lambda row: row.value.key)  # error: UpdatesReplaceEarlierOnes
