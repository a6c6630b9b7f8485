"""Where the first transaction begins, by partition."""

from collections.abc import Collection, Mapping

from engine.kafka.client.errors import Report
from engine.kafka.client.partition import PartitionId
from engine.kafka.client.partition_link import PartitionLink
from engine.kafka.transactional.batch_spout_config import KafkaBatchSpoutConfig
from engine.kafka.transactional.bounds import Bounds


class StartOffsets:
    """Asked once for each partition, of all partitions of a leader together."""

    def __init__(self, link: PartitionLink, config: KafkaBatchSpoutConfig, report: Report) -> None:
        self._link, self._config = link, config
        doing = "asking where to begin"
        self._of_settings = Bounds(link, self._ask, report, doing)
        self._first = Bounds(link, lambda its: link.bounds(its, "earliest"), report, doing)

    async def of(self, partition: PartitionId, *, is_added: bool) -> int | None:
        """Return where a partition begins, None where its leader does not answer in time.

        `is_added`: it was not there at the first transaction, so that its beginning is where it begins: what was written before it was
        seen would never be read.
        """
        bounds = self._first if is_added else self._of_settings
        if partition not in bounds.known:
            known = self._link.partitions_of(partition.topic)
            await bounds.learn({partition} | {one for one in known if one not in bounds.known})
        return bounds.known.get(partition)

    async def _ask(self, partitions: Collection[PartitionId]) -> Mapping[PartitionId, int]:
        if self._config.start == "earliest":
            return await self._link.bounds(partitions, "earliest")
        if self._config.start_timestamp_ms is None:
            return await self._link.bounds(partitions, "latest")
        last = await self._link.bounds(partitions, "latest")  # first: a record that comes after it was told is found, or read
        return {**last, **await self._link.at_time(partitions, self._config.start_timestamp_ms)}

    async def close(self) -> None:
        """Ask no more."""
        await self._of_settings.close()
        await self._first.close()
