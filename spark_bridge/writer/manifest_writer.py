"""Writes one manifest per txid. Decides from the folder whether to write an attempt's manifest (SP-2, TX-8). Runs in a thread."""

from enum import Enum
from typing import Final

from engine.errors import FatalError
from engine.log import EngineLogger
from engine.transactional import TransactionAttempt
from spark_bridge.handover import Contract, Handover, HandoverError, Manifest, Storage
from spark_bridge.handover.handover import mark_deleted

LOGGER: Final = EngineLogger("spark_bridge.writer")
MAX_ROUNDS: Final = 5
"""Attempts of one commit, if another process creates a manifest at the same time."""


class ManifestStep(Enum):
    """Decision about the manifest of an attempt in its commit phase."""

    WRITE = "write"
    SKIP = "skip"
    """A lower attempt wrote the manifest of this txid, but the coordinator does not know of this commit."""
    BEGIN = "begin"
    """The folder is new, and earlier batches were committed without it. Mark these batches as deleted, then write."""


def next_step(where: str, attempt: TransactionAttempt, newest: int, written: int | None, *, is_again: bool = False) -> ManifestStep:
    """Decide the next step. `newest`: newest txid of the folder, including deleted ones. `written`: attempt id in its manifest, if any.

    is_again: at a checkpoint an interval is published again with the same attempt, and with no other one (EO-9).

    Raises FatalError if the folder and the coordinator's state do not belong to one history.
    """
    txid, attempt_id = attempt
    if is_again and (newest, written) == (txid, attempt_id):
        return ManifestStep.SKIP
    if newest > txid or (written is not None and written >= attempt_id):
        there = TransactionAttempt(newest, written) if newest == txid and written is not None else newest
        raise state_is_older(where, f"batch {there}", f"batch {attempt}")
    if newest == txid and not is_again:
        return ManifestStep.SKIP
    if newest == txid:
        raise state_is_older(where, f"batch {TransactionAttempt(newest, written or 0)}", f"batch {attempt}")
    if newest == 0 and txid > 1:
        return ManifestStep.BEGIN
    if newest < txid - 1:
        raise FatalError(
            f"the hand-over {where} has batches up to {newest}, and this is batch {attempt}: the batches between are missing",
            hint="It was restored from an older copy, or manifests were removed. Restore the newest copy, or begin with an empty folder.",
        )
    return ManifestStep.WRITE


def state_is_older(where: str, there: str, now: str) -> FatalError:
    """Return the error for a folder that is ahead of the coordinator's state."""
    return FatalError(
        f"the hand-over {where} has {there} already, and the coordinator continues with {now}",
        hint="If another process has taken the topology over, nothing is wrong. Else the topology's state is older than the folder, or "
        "belongs to another run: restore it (state_provider), or begin with an empty folder.",
    )


class ManifestWriter:
    """Only writer of a folder's manifests, which notices if another process writes there."""

    def __init__(self, storage: Storage, contract: Contract) -> None:
        self._storage = storage
        self._by_attempt = contract.by_attempt
        self.handover: Final = Handover(storage, contract)
        self._newest: int | None = None
        """Txid that this object wrote last. None: read the folder."""

    def write_manifest(self, manifest: Manifest, *, is_again: bool = False) -> bool:
        """Create the manifest of a txid. Return False if it has one. is_again: as in `next_step`, whose FatalErrors it raises."""
        attempt = TransactionAttempt(manifest.txid, manifest.attempt_id)
        content, name = manifest.encoded(), str(manifest.name(by_attempt=self._by_attempt))
        for _ in range(MAX_ROUNDS):
            step = self._next_step(attempt, is_again=is_again)
            if step is ManifestStep.BEGIN:
                LOGGER.warning(
                    "the hand-over %r is new and begins at batch %s: it has no earlier batches of this topology", self._storage.url, attempt
                )
                mark_deleted(self._storage, attempt.txid - 1)
            if step is ManifestStep.SKIP or self._create(name, content):
                self._newest = attempt.txid
                return step is not ManifestStep.SKIP
            self._newest = None
        text = f"{self._storage.url}: {name!r} could not be created because it exists, and could not be read because it does not"
        raise HandoverError(text, hint="Check that the storage keeps its files, and that only one engine writes here.")

    def _create(self, name: str, content: bytes) -> bool:
        """Create a manifest. One with the same content is ours: a client that lost the storage's answer sends the manifest again."""
        return self._storage.create(name, content) or self._storage.read(name) == content

    def _next_step(self, attempt: TransactionAttempt, *, is_again: bool) -> ManifestStep:
        # After our own manifest of the previous txid, do not read the folder again. `create` fails if another process has written there.
        newest = self._newest
        if newest is None or newest != attempt.txid - 1 or self._by_attempt:
            newest = self.handover.newest(newest or 0)
        if newest > attempt.txid:
            self.handover.check_unbroken(attempt.txid - 1, newest)
        written = self.handover.manifest(attempt.txid).attempt_id if newest == attempt.txid else None
        return next_step(repr(self._storage.url), attempt, newest, written, is_again=is_again)
