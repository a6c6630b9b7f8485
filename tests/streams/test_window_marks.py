"""Watermarks and windows of a flow where they have failed before: found by random flows, one behaviour each."""

from collections.abc import Hashable
from typing import Any, NamedTuple

import pytest

from engine import Config, Spout, SpoutExhausted
from engine.streams import Flow, seconds, tumbling
from engine.testing import run_topology

DAY = 1_700_000_000_000
ROWS = {"fast": [90_000], "slow": [1000 * number for number in range(30)]}
"""Times of two partitions in milliseconds."""


class Reading(NamedTuple):
    partition: str
    at: int


class TwoPartitions(Spout):
    """Emits the row of the fast partition, and then those of the slow one, without message ids."""

    output_fields = Reading._fields

    def seek(self, position: list[int] | None) -> None:
        self.next = dict(zip(ROWS, position or [0, 0], strict=True))
        self.due = 0.0

    def position(self) -> list[int]:
        return list(self.next.values())

    def partitions(self) -> list[str]:
        return list(ROWS)

    def partition_of(self, message_id: Any) -> Hashable:
        return self.current

    def caught_up(self, partition: Hashable = None) -> bool:
        return False

    def next_tuple(self) -> None:
        left = [name for name, times in ROWS.items() if self.next[name] < len(times)]
        if not left:
            raise SpoutExhausted
        now = self.context.clock.now()
        if now >= self.due:
            self.due, self.current = now + 0.05, left[0]
            self.next[self.current] += 1
            self.collector.emit((self.current, DAY + ROWS[self.current][self.next[self.current] - 1]))


@pytest.mark.guarantee("ET-1", "ET-2")
def test_a_row_that_is_retried_alone_moves_no_other_partition() -> None:
    failures, counted, late = 2, list[Any](), list[Any]()

    def flaky(row: Reading) -> Reading:
        nonlocal failures
        if row.partition == "fast" and failures:
            failures -= 1
            raise ValueError("not now")
        return row

    flow = Flow("retried", Config(state_provider="memory://", state_checkpoint_interval_ms=5000))
    rows = flow.stream("readings", TwoPartitions, Reading).event_time("at").map(flaky, name="flaky")
    seconds_of = rows.key_by("partition").window(tumbling(seconds(1))).count(name="seconds", parallelism=2)
    seconds_of.sink("seen", counted.append)
    seconds_of.late.sink("late", late.append)
    run_topology(flow.topology())
    assert late == []
    assert sum(each.value for each in counted) == 31
    assert failures == 0
