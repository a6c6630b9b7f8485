"""`ManifestCommitter` makes the files of a batch visible by a manifest, in the commit phase (SP-2). This bolt has one task."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from typing import Any, ClassVar, Final, NamedTuple

from engine.api import TaskContext, Tuple
from engine.errors import EngineError
from engine.log import EngineLogger
from engine.names import POOL_NAME
from engine.transactional import Committer, TransactionAttempt
from spark_bridge.handover import Manifest, StagedFile
from spark_bridge.writer.manifest_writer import ManifestWriter
from spark_bridge.writer.open_folder import FolderResource, HandoverSettings, OpenFolder, call_in_thread
from spark_bridge.writer.retention import Retention, remove_drafts
from spark_bridge.writer.stager import REPORT

LOGGER: Final = EngineLogger("spark_bridge.writer")
RETENTION_PERIOD_SECS: Final = 1.0
"""Shortest time between two runs of retention, because a run reads all consumers. Retention only runs after a commit."""


class Report(NamedTuple):
    """What a stager task reports of a batch."""

    task: int
    stager: str
    """Id of the stager."""
    files: Sequence[StagedFile]
    rejects: Sequence[StagedFile]


class ManifestCommitter(Committer):
    """Committer of one attempt. It collects the reports of the stager tasks and writes the manifest. Emits nothing."""

    needs_transactional_spout: ClassVar[bool] = True
    keyed_by: ClassVar[Sequence[str] | None] = None
    """Makes `build()` refuse a second task, because two tasks would write two manifests."""
    reads: ClassVar[tuple[str, ...]] = REPORT.names

    def __init__(self, settings: HandoverSettings) -> None:
        self._settings = settings
        self._reports: list[Report] = []

    def execute(self, tup: Tuple) -> None:
        self._reports.append(Report(tup["task"], tup.source_component, tup["files"], tup["rejects"]))

    async def finish_batch(self) -> None:
        await self._commit(self._reports, is_again=False)

    def stage(self) -> Iterator[list[Any]]:
        """Yield the reports, which are stored until `publish` (EO-9)."""
        for report in self._reports:
            yield [report.task, report.stager, *([list(astuple(file)) for file in files] for files in (report.files, report.rejects))]

    async def publish(self, pieces: Iterable[list[Any]]) -> None:
        """Write the manifest of staged reports, unless this attempt has written it."""
        reports = [Report(task, stager, _files(files), _files(rejects)) for task, stager, files, rejects in pieces]
        await self._commit(reports, is_again=True)

    async def _commit(self, reports: Iterable[Report], *, is_again: bool) -> None:
        """is_again: the attempt may have written its manifest before."""
        ordered = sorted(reports, key=lambda report: report.task)
        [stager] = {report.stager for report in ordered}
        folder = await self.resources.opened(CommitterResource(self._settings, stager))
        await folder.commit_manifest(self._manifest(ordered), is_again=is_again)

    def _manifest(self, reports: Iterable[Report]) -> Manifest:
        files: list[StagedFile] = []
        rejects: list[StagedFile] = []
        for report in reports:
            files += report.files
            rejects += report.rejects
        return Manifest(*self.attempt, round(self.context.clock.wall() * 1000), tuple(files), tuple(rejects))


def _files(stored: Iterable[list[Any]]) -> list[StagedFile]:
    return [StagedFile(*fields) for fields in stored]


@dataclass(frozen=True)
class CommitterResource:
    """Key and factory of the committer task's `CommitterFolder`."""

    settings: HandoverSettings
    stager: str
    """Id of the stager, which the contract names as the writer."""

    async def open(self, context: TaskContext) -> "CommitterFolder":
        """Open the folder, and remove drafts that an earlier process left."""
        folder = await FolderResource(self.settings, self.stager).open(context)
        await folder.run_in_thread(lambda: remove_drafts(folder.storage))
        return CommitterFolder(folder, self.settings, context)


class CommitterFolder:
    """Folder of the committer task, which writes manifests, and runs retention in a second thread."""

    def __init__(self, folder: OpenFolder, settings: HandoverSettings, context: TaskContext) -> None:
        self._folder, self._context = folder, context
        self._writer = ManifestWriter(folder.storage, folder.contract)
        self._retention = Retention(self._writer.handover, settings.consumers, settings.keep_batches)
        self._retention_pool = ThreadPoolExecutor(1, thread_name_prefix=f"{POOL_NAME} {context.component_id}")
        """A separate thread, so that no commit waits for a deletion."""
        self._deleting: asyncio.Task[None] | None = None
        self._unapplied: TransactionAttempt | None = None
        """Newest commit since the last run of retention."""
        self._next_run_at = 0.0
        self._last_warning = ""
        self._skipped = context.counter("handover_batches_skipped")

    async def commit_manifest(self, manifest: Manifest, *, is_again: bool = False) -> None:
        """Write the manifest unless its txid has one, then run retention in the background. is_again: as in `write_manifest`."""
        written = await self._folder.run_in_thread(lambda: self._writer.write_manifest(manifest, is_again=is_again))
        if not written:
            self._skipped.add()
        self._unapplied = TransactionAttempt(manifest.txid, manifest.attempt_id)
        self._retention.note_commit(self._unapplied)
        now = self._context.clock.now()
        if now >= self._next_run_at and (self._deleting is None or self._deleting.done()):
            self._next_run_at = now + RETENTION_PERIOD_SECS
            self._deleting = self._context.create_task(self._apply_retention(self._unapplied))

    async def _apply_retention(self, attempt: TransactionAttempt) -> None:
        """Delete the files that are due. A failure is logged once and fails no batch. The next run tries again."""
        self._unapplied = None
        try:
            await call_in_thread(self._retention_pool, lambda: self._retention.apply_after(attempt))
            self._last_warning = ""
        except EngineError as error:
            if error.message != self._last_warning:
                LOGGER.warning("%s. Old batches are not deleted for now.", error.message)
            self._last_warning = error.message

    async def close(self) -> None:
        """Run retention for the last commits, and end the threads."""
        if self._unapplied is not None:
            await self._apply_retention(self._unapplied)
        self._retention_pool.shutdown(wait=False, cancel_futures=True)
        await self._folder.close()
