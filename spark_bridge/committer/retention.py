"""What is not needed any more goes: what every consumer has committed, and what superseded attempts have staged. Used in a thread."""

from collections.abc import Collection, Iterator, Mapping

from engine.transactional import TransactionAttempt
from spark_bridge.handover import Handover, Position, Storage
from spark_bridge.handover.consumers import positions
from spark_bridge.handover.deletion import note_deleted
from spark_bridge.handover.names import FILES, MANIFESTS, REJECTS, ManifestName, StagedName
from spark_bridge.handover.storage import is_draft


def standing(storage: Storage, declared: Collection[str]) -> dict[str, Position]:
    """Return where each consumer stands: those that are declared, and those that have a file."""
    return {**{name: Position() for name in declared}, **positions(storage)}


def deletable(consumers: Mapping[str, Position], newest: int, keep_batches: int) -> int:
    """Return up to which txid all may go; 0 for nothing. The newest stays: by it a replay is known.

    >>> deletable({"a": Position(9, 7), "b": Position(9, 8)}, newest=9, keep_batches=0)
    7
    >>> deletable({}, newest=9, keep_batches=0)
    0
    """
    committed = min((position.committed for position in consumers.values()), default=0)
    return max(0, min(committed, newest - max(keep_batches, 1)))


def remove_drafts(storage: Storage) -> None:
    """Remove what is left of manifests that were never finished; to be called before the first is written."""
    for name in storage.names(MANIFESTS):
        if is_draft(name):
            storage.remove(f"{MANIFESTS}/{name}")


class Retention:
    """Deletes. Whatever it is stopped in the midst of, it does again at its next start."""

    def __init__(self, handover: Handover, declared: Collection[str], keep_batches: int) -> None:
        self._handover, self._storage = handover, handover.storage
        self._declared, self._keep_batches = declared, keep_batches
        self._removed: int | None = None
        """Up to which txid all files are known to be gone."""
        self._sweeps = True
        """True while superseded attempts may have left something."""
        self._last: TransactionAttempt | None = None
        self._visible: dict[int, int] = {}
        """By txid, whose files its manifest names; as far as it was looked for."""

    def note(self, attempt: TransactionAttempt) -> None:
        """Learn which attempt was committed: where it does not follow the last one, attempts between them were superseded."""
        if self._last is not None and attempt.attempt_id != self._last.attempt_id + 1:
            self._sweeps = True
        self._last = attempt

    def tidy(self, attempt: TransactionAttempt) -> None:
        """Delete what may go, now that this attempt is committed: first it is noted, then manifests go, then files."""
        deleted = self._handover.deleted()
        may_go = deletable(standing(self._storage, self._declared), attempt.txid, self._keep_batches)
        if may_go > deleted:
            note_deleted(self._storage, may_go)
            deleted = may_go
        if self._removed != deleted:
            self._remove_manifests(deleted)
        if self._removed != deleted or (self._sweeps and self._storage.exclusive):
            self._remove_files(deleted, attempt)
        self._removed = deleted

    def _remove_manifests(self, deleted: int) -> None:
        for text in self._storage.names(MANIFESTS):
            name = ManifestName.parse(text)
            if name is not None and name.txid <= deleted:
                self._storage.remove(f"{MANIFESTS}/{text}")

    def _remove_files(self, deleted: int, attempt: TransactionAttempt) -> None:
        staged = [name for folder in (FILES, REJECTS) for name in self._staged(folder)]
        for name in staged:
            if name.txid <= deleted:
                self._storage.remove(str(name))
        if self._sweeps and self._storage.exclusive:
            left = [name for name in staged if name.txid > deleted]
            for name in self._superseded(left, attempt):
                self._storage.remove(str(name))
            self._sweeps = any(name.txid > attempt.txid and name.attempt_id < attempt.attempt_id for name in left)
            self._visible = {txid: found for txid, found in self._visible.items() if txid > deleted and self._sweeps}

    def _staged(self, folder: str) -> Iterator[StagedName]:
        for text in self._storage.names(folder):
            name = StagedName.parse(f"{folder}/{text}")
            if name is not None:
                yield name

    def _superseded(self, staged: list[StagedName], attempt: TransactionAttempt) -> Iterator[StagedName]:
        """Yield what no manifest names, of txids that have one: no other will ever be there. One may name no file at all."""
        for name in staged:
            if name.txid <= attempt.txid and name.attempt_id != self._visible_attempt(name.txid):
                yield name

    def _visible_attempt(self, txid: int) -> int:
        if txid not in self._visible:
            self._visible[txid] = self._handover.manifest(txid).attempt_id
        return self._visible[txid]
