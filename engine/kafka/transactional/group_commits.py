"""Commits the ends of committed batches to a group. Only tools read these commits, for example to show a lag."""

import asyncio
from typing import Final

from engine.kafka.client.admin_client import MOST_METADATA_BYTES
from engine.kafka.client.errors import KafkaWarning, Report, describe_error, fatal_error, is_transient
from engine.kafka.client.partition import CommittedOffset, PartitionId
from engine.kafka.client.partition_link import PartitionLink
from engine.kafka.source import acked_set

_PAUSE_SECS: Final = 1.0
"""Pause between two commits. Only people look at the lag."""
_END_SECS: Final = 2.0


class GroupCommits:
    """Commits the newest ends of committed batches, in the background. Nothing waits for these commits or reads them back."""

    def __init__(self, link: PartitionLink, group: str, topology: str, report: Report) -> None:
        self._link, self._group, self._topology, self._report = link, group, topology, report
        self._ends: dict[int, dict[PartitionId, int]] = {}
        """Ends by txid."""
        self._due: dict[PartitionId, int] = {}
        self._wake = asyncio.Event()

    def note_batch_end(self, txid: int, partition: PartitionId, end: int) -> None:
        """Record the end of a batch. The newest attempt counts."""
        self._ends.setdefault(txid, {})[partition] = end

    def commit_batch(self, txid: int) -> None:
        """Schedule a commit of the ends of a batch."""
        self._due.update(self._ends.get(txid, {}))
        if self._due:
            self._wake.set()

    def forget_before(self, txid: int) -> None:
        """Forget the ends of earlier txids, which are committed."""
        for old in [one for one in self._ends if one < txid]:
            del self._ends[old]

    async def commit_when_due(self) -> None:
        """Run forever. Commit whenever ends are due."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._commit()
            await asyncio.sleep(_PAUSE_SECS)

    async def close(self) -> None:
        """Commit the due ends within a time limit."""
        if self._due:
            await self._commit(_END_SECS)

    async def _commit(self, most_secs: float | None = None) -> None:
        due, self._due = self._due, {}
        commits = {one: CommittedOffset(end, self._metadata(end)) for one, end in due.items()}
        try:
            async with asyncio.timeout(most_secs):
                await self._link.commit(commits, None)
        except Exception as error:
            if not is_transient(error):
                raise fatal_error(error, f"a commit of group {self._group!r}") from error
            self._due = due | self._due
            hint = "Only the lag of the group is out of date. Transactions do not need these commits."
            self._report(KafkaWarning(f"a commit of group {self._group!r} failed: {describe_error(error)}", hint=hint))

    def _metadata(self, offset: int) -> str:
        return acked_set.encode(self._topology, offset, (), MOST_METADATA_BYTES)[0]
