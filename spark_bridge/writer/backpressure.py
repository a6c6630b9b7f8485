"""Backpressure of the hand-over. No new batch begins while a consumer is too far behind (SP-6)."""

from dataclasses import dataclass

from engine.api import TaskContext
from engine.transactional import Admitted
from spark_bridge.handover import Handover
from spark_bridge.writer.manifest_writer import state_is_older
from spark_bridge.writer.open_folder import FolderResource, HandoverSettings, OpenFolder
from spark_bridge.writer.retention import consumer_positions


@dataclass(frozen=True)
class HandoverBackpressure:
    """Admission of the stager. Batches may begin while no consumer is `max_pending_batches` behind."""

    settings: HandoverSettings

    async def open(self, context: TaskContext, component_id: str) -> "OpenHandoverBackpressure":
        """Claim the folder, so that its contract exists before the first batch."""
        return OpenHandoverBackpressure(await FolderResource(self.settings, component_id).open(context), self.settings)


class OpenHandoverBackpressure:
    """Admission while the coordinator runs."""

    def __init__(self, folder: OpenFolder, settings: HandoverSettings) -> None:
        self._folder, self._settings = folder, settings
        self._is_checked = False
        """True after the folder was compared with the coordinator's state."""

    async def admitted(self, txid: int) -> Admitted:
        """Return the lowest planned txid of all consumers plus `max_pending_batches`.

        Raises FatalError if the folder is ahead of the coordinator's state.
        """
        return await self._folder.run_in_thread(lambda: self._admitted(txid))

    def _admitted(self, txid: int) -> Admitted:
        if not self._is_checked:
            self._check_history(txid)
            self._is_checked = True
        limit = self._settings.max_pending_batches
        consumers = consumer_positions(self._folder.storage, self._settings.consumers)
        if not consumers:
            return Admitted(txid - 1 + limit)
        name, position = min(consumers.items(), key=lambda item: item[1].planned)
        behind = txid - 1 - position.planned
        why = f"consumer {name!r} is {behind} batches behind, at {position.planned} (max_pending_batches={limit})"
        return Admitted(position.planned + limit, why)

    def _check_history(self, txid: int) -> None:
        """Raise FatalError if the folder already has the first new txid of this run. Nothing is written before this check."""
        handover = Handover(self._folder.storage, self._folder.contract)
        newest = handover.newest()
        if newest >= txid:
            handover.check_unbroken(txid - 1, newest)
            raise state_is_older(repr(self._folder.storage.url), f"batch {newest}", f"a new batch {txid}")

    async def close(self) -> None:
        """End the thread."""
        await self._folder.close()
