"""Writes the manifest of each batch, once (SP-2). Used in a thread."""

import logging
from typing import Final

from engine.transactional import TransactionAttempt
from spark_bridge.committer.deciding import Step, next_step
from spark_bridge.handover import Contract, Handover, HandoverError, Manifest, Storage
from spark_bridge.handover.deletion import note_deleted

LOGGER: Final = logging.getLogger("spark_bridge.committer")
MOST_ROUNDS: Final = 5
"""How often one commit looks again, because another has written meanwhile."""


class ManifestWriter:
    """The one who writes manifests of a folder, as long as nobody else does."""

    def __init__(self, storage: Storage, contract: Contract) -> None:
        self._storage = storage
        self._by_attempt = contract.by_attempt
        self.handover: Final = Handover(storage, contract)
        self._newest: int | None = None
        """What this object has written last; None: look."""

    def write(self, manifest: Manifest) -> bool:
        """Have the manifest of a txid be there; return False where an earlier attempt's is. Raises FatalError as `next_step` says."""
        attempt = TransactionAttempt(manifest.txid, manifest.attempt_id)
        content, name = manifest.encoded(), str(manifest.name(by_attempt=self._by_attempt))
        for _ in range(MOST_ROUNDS):
            step = self._next_step(attempt)
            if step is Step.BEGIN:
                LOGGER.warning(
                    "the hand-over %r is new, at batch %s of its topology: what came before is not in it", self._storage.url, attempt
                )
                note_deleted(self._storage, attempt.txid - 1)
            if step is Step.SKIP or self._is_created(name, content):
                self._newest = attempt.txid
                return step is not Step.SKIP
            self._newest = None
        text = f"{self._storage.url}: {name!r} is there, and is not"
        raise HandoverError(text, hint="Does the storage keep what it is given? See that one engine alone writes here.")

    def _is_created(self, name: str, content: bytes) -> bool:
        """Create a manifest. One of the same content, attempt and time included, is ours: clients repeat what they had no answer to."""
        return self._storage.create(name, content) or self._storage.read(name) == content

    def _next_step(self, attempt: TransactionAttempt) -> Step:
        """Decide; what nobody else can have changed is not looked at again: `create` would tell."""
        newest = self._newest
        if newest is None or newest != attempt.txid - 1 or self._by_attempt:
            newest = self.handover.newest(newest or 0)
        if newest > attempt.txid:
            self.handover.check_unbroken(attempt.txid - 1, newest)
        written = self.handover.manifest(attempt.txid).attempt_id if newest == attempt.txid else None
        return next_step(repr(self._storage.url), attempt, newest, written)
