"""The decider: a committer with one task, which makes the files of a batch visible by its manifest, in the commit phase (SP-2)."""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from engine.errors import EngineError
from engine.names import POOL_NAME
from engine.topology import TaskContext, Tuple
from engine.transactional import Committer, TransactionAttempt
from spark_bridge.committer.manifest_writer import ManifestWriter
from spark_bridge.committer.open_folder import FolderOf, OpenFolder, called
from spark_bridge.committer.retention import Retention, remove_drafts
from spark_bridge.committer.stager import REPORT
from spark_bridge.handover import Manifest, StagedFile

if TYPE_CHECKING:
    from spark_bridge.committer.spark_handover import SparkHandover

LOGGER: Final = logging.getLogger("spark_bridge.committer")
TIDY_EVERY_SECS: Final = 1.0
"""Consumers are looked at no oftener, and only after a commit."""


class Decider(Committer):
    """One attempt. Emits nothing."""

    needs_transactional_spout: ClassVar[bool] = True
    keyed_by: ClassVar[Sequence[str] | None] = None
    """One task alone writes manifests."""
    reads: ClassVar[tuple[str, ...]] = REPORT.names

    def __init__(self, handover: "SparkHandover") -> None:
        self._handover = handover
        self._reports: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        self._reports.append(tup)

    async def finish_batch(self) -> None:
        [stager] = {tup.source_component for tup in self._reports}
        folder = await self.resources.opened(DecidingOn(self._handover, stager))
        await folder.commit(self._manifest())

    def _manifest(self) -> Manifest:
        files: list[StagedFile] = []
        rejects: list[StagedFile] = []
        for tup in sorted(self._reports, key=lambda tup: tup["task"]):
            files += tup["files"]
            rejects += tup["rejects"]
        return Manifest(*self.attempt, round(self.context.clock.wall() * 1000), tuple(files), tuple(rejects))


@dataclass(frozen=True)
class DecidingOn:
    """The folder of a hand-over, as the resource of its decider."""

    handover: "SparkHandover"
    stager: str

    async def open(self, context: TaskContext) -> "DecidedFolder":
        """Open the folder, as the stager's."""
        folder = await FolderOf(self.handover, self.stager).open(context)
        await folder.call(lambda: remove_drafts(folder.storage))
        return DecidedFolder(folder, self.handover, context)


class DecidedFolder:
    """What the decider's task has open."""

    def __init__(self, folder: OpenFolder, handover: "SparkHandover", context: TaskContext) -> None:
        self._folder, self._context = folder, context
        self._writer = ManifestWriter(folder.storage, folder.contract)
        self._retention = Retention(self._writer.handover, handover.consumers, handover.keep_batches)
        self._beside = ThreadPoolExecutor(1, thread_name_prefix=f"{POOL_NAME} {context.component_id}")
        """Deletes: a commit does not wait for it."""
        self._tidying: asyncio.Task[None] | None = None
        self._untidied: TransactionAttempt | None = None
        """The newest that was committed, where nothing was tidied up since."""
        self._tidy_at = 0.0
        self._told = ""
        self._skipped = context.counter("handover_batches_skipped")

    async def commit(self, manifest: Manifest) -> None:
        """Have the manifest of this txid be there, then tidy up beside."""
        written = await self._folder.call(lambda: self._writer.write(manifest))
        if not written:
            self._skipped.add()
        self._untidied = TransactionAttempt(manifest.txid, manifest.attempt_id)
        self._retention.note(self._untidied)
        now = self._context.clock.now()
        if now >= self._tidy_at and (self._tidying is None or self._tidying.done()):
            self._tidy_at = now + TIDY_EVERY_SECS
            self._tidying = self._context.create_task(self._tidy(self._untidied))

    async def _tidy(self, attempt: TransactionAttempt) -> None:
        self._untidied = None
        try:
            await called(self._beside, lambda: self._retention.tidy(attempt))
            self._told = ""
        except EngineError as error:
            if error.message != self._told:
                LOGGER.warning("%s. What could be deleted stays for now.", error.message)
            self._told = error.message

    async def close(self) -> None:
        """Tidy up for the last time, and let go of the threads."""
        if self._untidied is not None:
            await self._tidy(self._untidied)
        self._beside.shutdown(wait=False, cancel_futures=True)
        await self._folder.close()
