"""Sets the gauges of each partition (KS-9)."""

import asyncio
import math
from collections.abc import Iterable
from typing import Final

from engine.api import TaskContext
from engine.kafka.client.partition import PartitionId
from engine.kafka.source.consumer_loop import ConsumerLoop
from engine.kafka.source.offset_manager import OffsetManager

GAUGES: Final = (
    "kafka_lag",
    "kafka_committed",
    "kafka_position",
    "kafka_pending",
    "kafka_paused",
    "kafka_stopped",
    "kafka_retries",
    "kafka_dead_letters",
)
_PERIOD_SECS: Final = 1.0


class PartitionMetrics:
    """Sets the gauges of a task's partitions once a second. The command line shows one column for each gauge, in this order.

    The lag counts from the first unfinished record, not from the commit, which may be one period old. Unknown values are NaN.
    """

    def __init__(self, context: TaskContext, consumer_loop: ConsumerLoop) -> None:
        self._context, self._consumer_loop = context, consumer_loop
        for name in GAUGES:
            context.drop_metric(name)  # an instance that died set these gauges

    async def update_periodically(self) -> None:
        """Update the gauges forever."""
        while True:
            self.update_gauges()
            await asyncio.sleep(_PERIOD_SECS)

    def update_gauges(self) -> None:
        """Update the gauges now."""
        for manager in self._consumer_loop.partitions:
            labels = _labels(manager.partition)
            for name, value in zip(GAUGES, self._values(manager), strict=True):
                self._context.gauge(name, **labels).set(value)

    def _values(self, manager: OffsetManager) -> tuple[float, ...]:
        end = self._consumer_loop.end_of(manager.partition)
        return (
            math.nan if end is None else max(0, end - manager.committable),
            math.nan if manager.committed is None else manager.committed,
            manager.position,
            manager.in_flight,
            manager.is_paused,
            manager.in_order and manager.held > 0,
            manager.retries,
            manager.dead_letters + manager.dropped,
        )

    def drop_gauges(self, managers: Iterable[OffsetManager]) -> None:
        """Drop the gauges of these partitions, because another task or process owns them now."""
        for manager in managers:
            for name in GAUGES:
                self._context.drop_metric(name, **_labels(manager.partition))


def _labels(partition: PartitionId) -> dict[str, str]:
    return {"topic": partition.topic, "partition": str(partition.partition)}
