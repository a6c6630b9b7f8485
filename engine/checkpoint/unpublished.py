"""Makes dead letters of the staged rows of a checkpoint that counts and is not published, for tools (EO-11).

Runs do not use this module.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from engine.checkpoint.given_up import GivenUpRow, Letters
from engine.checkpoint.publish_deaths import processes_text
from engine.checkpoint.record_entries import LEDGER, Refused, StoredEntries, publishing_entry, refused_entry
from engine.checkpoint.staged_output import StagedTask, open_outputs
from engine.clock import Clock
from engine.config import Config
from engine.errors import ERROR, Failure, StateError
from engine.state import Ledger, SealedStores, StateProvider, codec_named
from engine.topology.interval_output import RefusedRow


class UnpublishedOutput:
    """The staged output of a decided checkpoint, by committer."""

    def __init__(self, topology_name: str, ledger: Ledger, stored: StoredEntries, letters: Letters) -> None:
        self._topology_name = topology_name
        self._ledger = ledger
        self._letters = letters
        self.txid: Final = stored.record.txid
        found = stored.publishing
        self._deaths = found.ended if found is not None and found.txid == self.txid else 0
        self.by_committer: Final[dict[str, list[StagedTask]]] = {}
        """The output of each task. Committers of which everything is published are left out."""

    @property
    def deaths_text(self) -> str:
        """How many processes are known to have ended while they published it."""
        return f"{processes_text(self._deaths)} ended while publishing checkpoint {self.txid}"

    @property
    def room(self) -> int:
        """Number of letters that may be added."""
        return self._letters.room

    async def give_up(self, component_id: str, rows: Mapping[int, Sequence[RefusedRow]]) -> None:
        """Make dead letters of all rows that are not left out, in one atomic write. rows: by task index."""
        failure = Failure(ERROR, component_id, None, f"given up by `committers give-up`: {self.deaths_text}")
        outputs = self.by_committer[component_id]
        letters = [
            GivenUpRow(row.source, (row.values, row.stream, None), failure, max(self._deaths, 1))
            for output in outputs
            for row in rows[output.task_index]
        ]
        changes = self._letters.add_refused(self.txid, outputs[0].round, letters) | publishing_entry(None)
        for output in outputs:
            left_out = output.left_out.union(row.number for row in rows[output.task_index])
            changes |= refused_entry(component_id, output.task_index, Refused(output.txid, output.round, left_out))
        await self._ledger.write(changes)


@asynccontextmanager
async def open_unpublished(provider: StateProvider, topology_name: str, config: Config) -> AsyncIterator[UnpublishedOutput]:
    """Open a provider, read what is not published, and close it.

    Raises StateError if a process runs the topology, or no checkpoint waits to be published.
    """
    await provider.open(topology_name)
    try:
        ledger = provider.ledger(LEDGER)
        await ledger.claim()
        entries = await ledger.read()
        stored = StoredEntries(entries, topology_name)
        stored.check_whole()
        stored.check_codec(codec_named(config.state_codec))
        letters = Letters(topology_name, config, Clock.of(asyncio.get_running_loop()).wall)
        letters.take_up(entries, ledger.most_bytes)
        found = UnpublishedOutput(topology_name, ledger, stored, letters)
        keyed = dict.fromkeys([*stored.outputs, *stored.stagers], False)
        stores = SealedStores(provider, topology_name, keyed, txid=lambda: found.txid, bare=stored.has_bare_blocks)
        for component_id, outputs in (await open_outputs(stored, stored.outputs, stores, _at_once)).items():
            if tasks := [each for index in range(outputs.tasks) for each in outputs.unpublished(index, found.txid)]:
                found.by_committer[component_id] = tasks
        if stored.record.phase != "committing" or not found.by_committer:
            text = f"topology {topology_name!r}: no output of a committer waits to be published"
            raise StateError(text, hint="Start the topology. Nothing was changed.")
        yield found
    finally:
        await provider.close()


async def _at_once(call: Callable[[], Awaitable[Any]]) -> Any:
    return await call()
