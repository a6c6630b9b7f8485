"""Retention deletes batches that every consumer has committed, and files of superseded attempts. Runs in a thread."""

from collections.abc import Collection, Iterator, Mapping

from engine.transactional import TransactionAttempt
from spark_bridge.handover import Handover, Position, Storage
from spark_bridge.handover.consumers import read_positions
from spark_bridge.handover.handover import mark_deleted
from spark_bridge.handover.names import FILES, MANIFESTS, REJECTS, ManifestName, StagedName
from spark_bridge.handover.storage import is_draft


def consumer_positions(storage: Storage, declared: Collection[str]) -> dict[str, Position]:
    """Return the position of each consumer that is declared or has a file. A declared consumer without a file has position 0."""
    return {**{name: Position() for name in declared}, **read_positions(storage)}


def deletable_txid(consumers: Mapping[str, Position], newest: int, keep_batches: int) -> int:
    """Return the highest txid that may be deleted. 0 for none.

    The newest batch is kept, because its manifest identifies a replay of this batch.

    >>> deletable_txid({"a": Position(9, 7), "b": Position(9, 8)}, newest=9, keep_batches=0)
    7
    >>> deletable_txid({}, newest=9, keep_batches=0)
    0
    """
    committed = min((position.committed for position in consumers.values()), default=0)
    return max(0, min(committed, newest - max(keep_batches, 1)))


def remove_drafts(storage: Storage) -> None:
    """Remove drafts of manifests that a killed process left. Call it before the first manifest is written."""
    for name in storage.names(MANIFESTS):
        if is_draft(name):
            storage.remove(f"{MANIFESTS}/{name}")


class Retention:
    """Deletes files. After a crash at any point the next start deletes the rest."""

    def __init__(self, handover: Handover, declared: Collection[str], keep_batches: int) -> None:
        self._handover, self._storage = handover, handover.storage
        self._declared, self._keep_batches = declared, keep_batches
        self._removed: int | None = None
        """Txid up to which all files are known to be removed."""
        self._sweeps = True
        """True while superseded attempts may have left files."""
        self._last: TransactionAttempt | None = None
        self._visible_attempts: dict[int, int] = {}
        """Attempt in the manifest of each txid. Filled on demand."""

    def note_commit(self, attempt: TransactionAttempt) -> None:
        """Note a committed attempt. A gap in the attempt ids means that the attempts in the gap were superseded."""
        if self._last is not None and attempt.attempt_id != self._last.attempt_id + 1:
            self._sweeps = True
        self._last = attempt

    def apply_after(self, attempt: TransactionAttempt) -> None:
        """Delete everything that may be deleted after the commit of this attempt."""
        deleted = self._handover.deleted()
        target = deletable_txid(consumer_positions(self._storage, self._declared), attempt.txid, self._keep_batches)
        # The order is mark, manifests, files. So a reader that misses a file finds it marked as deleted.
        if target > deleted:
            mark_deleted(self._storage, target)
            deleted = target
        if self._removed != deleted:
            self._remove_manifests(deleted)
        # Without exclusive creation a consumer may have planned a superseded attempt, so its files stay.
        if self._removed != deleted or (self._sweeps and self._storage.exclusive):
            self._remove_files(deleted, attempt)
        self._removed = deleted

    def _remove_manifests(self, deleted: int) -> None:
        for text in self._storage.names(MANIFESTS):
            name = ManifestName.parse(text)
            if name is not None and name.txid <= deleted:
                self._storage.remove(f"{MANIFESTS}/{text}")

    def _remove_files(self, deleted: int, attempt: TransactionAttempt) -> None:
        staged = [name for folder in (FILES, REJECTS) for name in self._staged_names(folder)]
        for name in staged:
            if name.txid <= deleted:
                self._storage.remove(str(name))
        if self._sweeps and self._storage.exclusive:
            kept = [name for name in staged if name.txid > deleted]
            for name in self._superseded(kept, attempt):
                self._storage.remove(str(name))
            self._sweeps = any(name.txid > attempt.txid and name.attempt_id < attempt.attempt_id for name in kept)
            self._visible_attempts = {txid: found for txid, found in self._visible_attempts.items() if txid > deleted and self._sweeps}

    def _staged_names(self, folder: str) -> Iterator[StagedName]:
        for text in self._storage.names(folder):
            name = StagedName.parse(f"{folder}/{text}")
            if name is not None:
                yield name

    def _superseded(self, staged: list[StagedName], attempt: TransactionAttempt) -> Iterator[StagedName]:
        """Yield files of superseded attempts. The txid of such a file has the manifest of another attempt, which is never replaced.

        Compares the attempt and not the manifest's list of files, because a committed batch may have no files.
        """
        for name in staged:
            if name.txid <= attempt.txid and name.attempt_id != self._visible_attempt(name.txid):
                yield name

    def _visible_attempt(self, txid: int) -> int:
        if txid not in self._visible_attempts:
            self._visible_attempts[txid] = self._handover.manifest(txid).attempt_id
        return self._visible_attempts[txid]
