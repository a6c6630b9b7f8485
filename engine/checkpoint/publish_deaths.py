"""`PublishDeaths`: processes that have ended while they published a checkpoint, because one of its rows may have ended them (EO-9).

A dead process can only speak through the store. So a process that finds COMMITTING(t) writes a number to the ledger before it publishes,
and takes it back as soon as it is known to be alive. A first process writes nothing, because that would cost a write for each commit.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Final

from engine.checkpoint.record_entries import Publishing, StoredEntries, publishing_entry
from engine.log import EngineLogger

LOGGER: Final = EngineLogger("engine.checkpoint")
DEATHS_WITHOUT_LIMIT: Final = 3
"""Deaths after which a start warns if `max_retries` is none."""


class PublishDeaths:
    """Deaths of the processes before, and the calls of this one that publish what it has found in COMMITTING."""

    def __init__(self, topology_name: str, max_retries: int | None, write: Callable[[Mapping[str, object]], Awaitable[None]]) -> None:
        """write: writes entries of the ledger durably."""
        self._topology_name = topology_name
        self._most: Final = DEATHS_WITHOUT_LIMIT if max_retries is None else max_retries
        self._write = write
        self._stored: Publishing | None = None
        """What the ledger has, with the deaths of the processes before. None: this process has found no COMMITTING, or has completed it."""
        self._calls = 0
        self._turns = asyncio.Lock()

    def take_up(self, stored: StoredEntries, unpublished: Collection[str]) -> dict[str, object]:
        """Read the deaths before this start, and warn of too many. Return the changes of the ledger.

        unpublished: component ids of the committers whose output of the decided checkpoint is not published.
        """
        found, record = stored.publishing, stored.record
        if record.phase != "committing" or not unpublished:
            return {} if found is None else publishing_entry(None)
        deaths = found.ended if found is not None and found.txid == record.txid else 0
        self._stored = Publishing(record.txid, deaths, tuple(sorted(unpublished)), is_under_way=False)
        if self.suspicion is not None:
            LOGGER.warning("topology %r: %s", self._topology_name, deaths_text(self._stored, deaths))
        return {} if found is None else publishing_entry(self._stored)

    @property
    def suspicion(self) -> str | None:
        """What is known of the deaths, if there are so many that a row may be the reason."""
        if self._stored is None or self._stored.deaths < self._most:
            return None
        return f"publish({self._stored.txid}), while which {processes_text(self._stored.deaths)} ended; see `committers give-up`"

    @asynccontextmanager
    async def under_way(self) -> AsyncIterator[None]:
        """Let the ledger have one death more while a call publishes. One that raises has not ended the process."""
        if self._stored is None:
            yield
            return
        self._calls += 1
        try:
            try:
                await self._note()
                yield
            finally:
                self._calls -= 1
        except Exception:
            await self._note()
            raise
        await self._note()  # not after a cancellation, because another call follows, or the end of the run

    async def _note(self) -> None:
        async with self._turns:
            if self._stored is not None and self._stored.is_under_way != (is_under_way := self._calls > 0):
                now = self._stored._replace(is_under_way=is_under_way)
                await self._write(publishing_entry(now))
                self._stored = now

    def committed_entries(self) -> dict[str, object]:
        """Return the changes of the ledger that belong to the save of COMMITTED."""
        if self._stored is None:
            return {}
        self._stored = None
        return publishing_entry(None)

    def end_entries(self) -> dict[str, object]:
        """Return the changes of the ledger for a process that ends by itself, and so has not died. Empty: none."""
        if self._stored is None or not self._stored.is_under_way:
            return {}
        return publishing_entry(self._stored._replace(is_under_way=False))


def processes_text(deaths: int) -> str:
    """Return the number of processes with its noun. The end of the process that was the first to publish leaves no trace.

    >>> processes_text(0), processes_text(1), processes_text(3)
    ('no process is known to have', '1 process has', '3 processes have')
    """
    return "no process is known to have" if deaths == 0 else "1 process has" if deaths == 1 else f"{deaths:,} processes have"


def deaths_text(publishing: Publishing, deaths: int) -> str:
    """Return what is known of so many deaths, and the command that helps."""
    names = ", ".join(map(repr, publishing.component_ids))
    which = f"committer{'s' * (len(publishing.component_ids) > 1)} {names}"
    return (
        f"{processes_text(deaths)} ended while publishing checkpoint {publishing.txid} by the {which}. Somebody may have killed "
        f"{'it' if deaths == 1 else 'them'}, or a row of this checkpoint is the reason. If it is, correct the committer, or make dead "
        "letters of the rows: python -m engine committers give-up FILE.py"
    )
