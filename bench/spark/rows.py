"""Rows to hand over, with five columns like an access log. They are the same for the engine and for pyarrow."""

import datetime
import gc
from operator import itemgetter
from typing import Final, TypeAlias

import pyarrow as pa

from spark_bridge.handover import schema_of

FIELDS: Final = ("id", "host", "value", "at", "path")
DDL: Final = "id long not null, host string, value double, at timestamp, path string"
SCHEMA: Final = schema_of(DDL)
BATCH_ROWS: Final = 50_000
WARM_ROWS: Final = 1_000
"""Rows that are written before the clock starts, because pyarrow loads pandas with its first column."""
Row: TypeAlias = tuple[int, str, float, datetime.datetime, str]


def make_rows(count: int) -> list[Row]:
    """Return `count` rows. The garbage collector never traverses them."""
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    made = [
        (number, f"host-{number % 1000}", number * 0.5, start + datetime.timedelta(seconds=number % 86_400), f"/path/{number % 5000}/x")
        for number in range(count)
    ]
    gc.collect()
    gc.freeze()
    return made


def table_of(batch: list[Row]) -> pa.Table:
    """Return a table of rows, made column by column. This is the fastest way from tuples to Arrow."""
    columns = [pa.array(list(map(itemgetter(place), batch)), field.type) for place, field in enumerate(SCHEMA)]
    return pa.Table.from_arrays(columns, schema=SCHEMA)
