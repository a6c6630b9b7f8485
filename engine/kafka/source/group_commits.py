"""Commits positions that a ledger owns to a group. Only tools read these commits, for example to show a lag."""

import asyncio
from collections.abc import Mapping
from typing import Final

from engine.kafka.client.consumer_link import ConsumerLink
from engine.kafka.client.errors import KafkaWarning, Report, describe_error, fatal_error, is_transient
from engine.kafka.client.partition import CommittedOffset, PartitionId

_PAUSE_SECS: Final = 1.0
"""Pause between two commits. Only people look at the lag."""
_END_SECS: Final = 2.0
_REPEAT_SECS: Final = 600.0
"""Time between two commits of all positions, also of idle partitions. Brokers keep them for `offsets.retention.minutes`."""


class GroupCommits:
    """Commits the newest positions in the background. Nothing waits for these commits or reads them back."""

    def __init__(self, link: ConsumerLink, group: str, metadata: str, report: Report) -> None:
        """metadata: those of every commit, which name the owner of the positions (`acked_set.copied_position`)."""
        self._link, self._group, self._report = link, group, report
        self._metadata = metadata
        self._scheduled: dict[PartitionId, int] = {}
        """Newest positions that were given."""
        self._due: dict[PartitionId, int] = {}
        """The ones among them that are not committed yet."""
        self._wake = asyncio.Event()

    def schedule(self, positions: Mapping[PartitionId, int]) -> None:
        """Schedule a commit of those positions that have changed."""
        changed = dict(positions.items() - self._scheduled.items())
        if changed:
            self._scheduled |= changed
            self._due |= changed
            self._wake.set()

    async def commit_when_due(self) -> None:
        """Run forever. Commit whenever positions are due, and repeat the commits of idle partitions."""
        now = asyncio.get_running_loop().time
        repeat_at = now() + _REPEAT_SECS
        while True:
            try:
                async with asyncio.timeout_at(repeat_at):
                    await self._wake.wait()
            except TimeoutError:
                pass
            if now() >= repeat_at:
                self._due = dict(self._scheduled)
                repeat_at = now() + _REPEAT_SECS
            self._wake.clear()
            if self._due:
                await self._commit()
            await asyncio.sleep(_PAUSE_SECS)

    async def close(self) -> None:
        """Commit the due positions within a time limit."""
        if self._due:
            await self._commit(_END_SECS)

    async def _commit(self, most_secs: float | None = None) -> None:
        due, self._due = self._due, {}
        commits = {one: CommittedOffset(end, self._metadata) for one, end in due.items() if self._link.exists(one)}  # others are refused
        if not commits:
            return
        try:
            async with asyncio.timeout(most_secs):
                await self._link.commit(commits, None)
        except asyncio.CancelledError:
            self._due = due | self._due  # `close` commits them
            raise
        except Exception as error:
            if not is_transient(error):
                raise fatal_error(error, f"a commit of group {self._group!r}") from error
            self._due = due | self._due
            self._wake.set()
            hint = "Only the lag of the group is out of date. The run does not need these commits."
            self._report(KafkaWarning(f"a commit of group {self._group!r} failed: {describe_error(error)}", hint=hint))
