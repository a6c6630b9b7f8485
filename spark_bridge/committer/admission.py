"""How far batches may run ahead of who reads them (SP-6)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.topology import TaskContext
from engine.transactional import Admitted
from spark_bridge.committer.deciding import state_is_older
from spark_bridge.committer.open_folder import FolderOf, OpenFolder
from spark_bridge.committer.retention import standing
from spark_bridge.handover import Handover

if TYPE_CHECKING:
    from spark_bridge.committer.spark_handover import SparkHandover


@dataclass(frozen=True)
class HandoverAdmission:
    """Lets batches begin while no consumer is `max_pending_batches` behind."""

    handover: "SparkHandover"

    async def open(self, context: TaskContext, component_id: str) -> "OpenHandoverAdmission":
        """Claim the folder: so its contract is there before the first batch."""
        return OpenHandoverAdmission(await FolderOf(self.handover, component_id).open(context), self.handover)


class OpenHandoverAdmission:
    """What the coordinator asks."""

    def __init__(self, folder: OpenFolder, handover: "SparkHandover") -> None:
        self._folder, self._settings = folder, handover
        self._is_checked = False

    async def admitted(self, txid: int) -> Admitted:
        """Return the least that a consumer has planned, and `max_pending_batches`; FatalError where the folder is ahead."""
        return await self._folder.call(lambda: self._admitted(txid))

    def _admitted(self, txid: int) -> Admitted:
        if not self._is_checked:
            handover = Handover(self._folder.storage, self._folder.contract)
            newest = handover.newest()
            if newest >= txid:
                handover.check_unbroken(txid - 1, newest)
                raise state_is_older(repr(self._folder.storage.url), f"batch {newest}", f"a new batch {txid}")
            self._is_checked = True
        most = self._settings.max_pending_batches
        consumers = standing(self._folder.storage, self._settings.consumers)
        if not consumers:
            return Admitted(txid - 1 + most)
        name, position = min(consumers.items(), key=lambda item: item[1].planned)
        behind = txid - 1 - position.planned
        why = f"consumer {name!r} is {behind} batches behind, at {position.planned} (max_pending_batches={most})"
        return Admitted(position.planned + most, why)

    async def close(self) -> None:
        """Let go of the thread."""
        await self._folder.close()
