# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,untyped-decorator,unused-ignore"
"""The works on Pathway in streaming mode, with one worker and no tracking.

A Python connector feeds rows, and a subscriber is the null bolt. Word count is a group-by with a running count. Pathway emits its changes
per minibatch, not per word.
"""

import logging
import time
from typing import Any

import pathway as pw

from bench.measuring import rate_figures
from bench.texts import SENTENCE, units_of

AUTOCOMMIT_MS = 100


class Row(pw.Schema):
    """One spout tuple."""

    value: str


class ConstSubject(pw.io.python.ConnectorSubject):
    """Feeds the same row. Notes its start."""

    started = 0.0

    def __init__(self, value: str, tuples: int) -> None:
        super().__init__()
        self.value, self.tuples = value, tuples

    def run(self) -> None:
        ConstSubject.started = time.perf_counter()
        for _ in range(self.tuples):
            self.next(value=self.value)


class NullBolt:
    """Takes the rows of the last table."""

    def __init__(self) -> None:
        self.rows = 0
        self.counts: dict[str, int] = {}
        self.ended = 0.0

    def execute(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        self.rows += 1
        if is_addition and "count" in row:
            self.counts[row["word"]] = row["count"]

    def end(self) -> None:
        self.ended = time.perf_counter()


def run(work: str, tuples: int) -> dict[str, float]:
    """Run a work."""
    logging.disable(logging.WARNING)
    null = NullBolt()
    pw.io.subscribe(_last_table(work, tuples), on_change=null.execute, on_end=null.end)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    units = units_of(work, tuples)
    done = sum(null.counts.values()) if work == "word-count" else null.rows
    if done != units:
        raise SystemExit(f"{done} units came out of {units}")
    return rate_figures(units, null.ended - ConstSubject.started)


def _last_table(work: str, tuples: int) -> Any:
    subject = ConstSubject(SENTENCE if work == "word-count" else "hello", tuples)
    rows = pw.io.python.read(subject, schema=Row, autocommit_duration_ms=AUTOCOMMIT_MS)
    if work == "const-id-null":
        return rows.select(value=pw.apply_with_type(lambda value: value, str, pw.this.value))
    if work != "word-count":
        return rows

    @pw.udf(deterministic=True)
    def split(line: str) -> list[str]:
        return line.split()

    words = rows.select(word=split(pw.this.value)).flatten(pw.this.word)
    return words.groupby(pw.this.word).reduce(pw.this.word, count=pw.reducers.count())
