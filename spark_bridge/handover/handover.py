"""`Handover` is the reader's interface to a hand-over folder. Spark's side uses only this interface."""

import os
from collections.abc import Mapping
from typing import Any, Final

from spark_bridge.handover.checked_json import RESTORE, decode, encode, torn_file
from spark_bridge.handover.consumers import Consumer, Position, consumer_names, read_positions
from spark_bridge.handover.contract import Contract, read_contract
from spark_bridge.handover.errors import HandoverError, TransactionDeleted, TransactionMissing
from spark_bridge.handover.manifest import Manifest, StagedFile, open_staged, read_manifest
from spark_bridge.handover.names import DELETED, MANIFESTS, ManifestName, attempt_text
from spark_bridge.handover.storage import Storage, storage_at

REPAIR_DELETED: Final = "Restore it from a copy. Or move it away: the engine writes it again at its next deletion."


class Handover:
    """Reader of a folder, which writes only positions of consumers. Every call blocks, and may be made from any thread.

    >>> handover = Handover.open("/data/handover")                              # doctest: +SKIP
    >>> for txid in range(1, handover.newest() + 1):                            # doctest: +SKIP
    ...     for file in handover.manifest(txid).files:
    ...         table = pyarrow.parquet.read_table(handover.open_input(file))

    All methods raise StorageUnavailable, a HandoverError, if the storage fails.
    """

    def __init__(self, storage: Storage, contract: Contract) -> None:
        """Use `open` instead, which reads the contract."""
        self.storage: Final = storage
        self.contract: Final = contract
        """Writer of the folder, `contract.schema` of its rows, and `contract.by_attempt`."""
        self._newest = 0
        """Newest txid that this object has seen."""
        self._deleted = 0
        """Newest txid that this object has seen deleted."""

    @classmethod
    def open(cls, folder: str | os.PathLike[str], options: Mapping[str, Any] | None = None, *, filesystem: object = None) -> "Handover":
        """Return the hand-over at a folder. Raise HandoverError if there is none.

        `folder`, `options` (of fsspec's file system) and `filesystem` are arguments of `storage_at`. An executor that reads a file by name
        needs no contract. It calls `open_staged(storage_at(folder, options), file)`.
        """
        storage = storage_at(folder, options, filesystem)
        contract = read_contract(storage)
        if contract is None:
            hint = "Start the topology that writes there first: it creates the contract when it starts. Or correct the folder."
            raise HandoverError(f"{storage.url!r} is not a hand-over folder: it has no contract.json", hint=hint)
        return cls(storage, contract)

    def newest(self, known: int = 0) -> int:
        """Return the newest committed txid. 0 if there is none yet. The result never decreases.

        The search begins at `known`, a txid that the caller knows to be committed, or at the newest txid that this object has seen. Without
        a new txid the search costs two small reads. The search lists the folder only if both of these txids are 0, or if manifests are
        named by attempt.
        """
        newest = max(known, self._newest)
        if newest == 0 or self.contract.by_attempt:
            newest = max([newest, *(name.txid for name in self._manifest_names())])
        newest = self._probe_from(newest)
        deleted = self.deleted()
        # The next manifest existed and is deleted by now, so continue the search after the deleted ones.
        if deleted > newest:
            newest = self._probe_from(deleted)
        self._newest = newest
        return newest

    def _probe_from(self, txid: int) -> int:
        """Return the last of the consecutive txids after `txid` that have a manifest. Returns `txid` if manifests are named by attempt."""
        if not self.contract.by_attempt:
            while self.storage.exists(str(ManifestName(txid + 1))):
                txid += 1
        return txid

    def check_unbroken(self, begin: int, newest: int) -> None:
        """Raise TransactionMissing if a txid between `begin` and `newest` has no manifest and is not deleted.

        The error names the first missing txid and the file after the gap, because either one may be wrong.
        """
        there = {name.txid for name in self._manifest_names()}
        # Read `deleted` after the listing. The engine raises `deleted` before it removes a manifest, so no removed manifest looks lost.
        txid = max(begin, self.deleted()) + 1
        while txid in there:
            txid += 1
        if txid < newest:
            raise self._gap(txid, f"txid {txid}")

    def manifest(self, txid: int, attempt: int | None = None) -> Manifest:
        """Return the manifest of a txid. `attempt`: the attempt id that the consumer has planned, if any (`Position.attempts`).

        Raises TransactionDeleted if the txid is deleted, and TransactionMissing if it has no manifest. Raises TornFile, ForeignFile or
        NewerFormat if the file is not valid. Each error names the txid.
        """
        name = self._manifest_name(txid, attempt)
        content = None if name is None else self.storage.read(str(name))
        if name is None or content is None:
            raise self._no_manifest(txid, attempt)
        where = f"{self.storage.url}: the manifest {str(name)!r} of txid {txid}"
        manifest = read_manifest(content, where, name)
        if attempt not in (None, manifest.attempt_id):
            text = f"{where} names {attempt_text(txid, manifest.attempt_id)}, but the consumer has planned {attempt_text(txid, attempt)}"
            raise HandoverError(
                text, hint="The folder was created anew, or restored from a backup. Use another consumer and a new checkpoint."
            )
        return manifest

    def deleted(self) -> int:
        """Return the newest deleted txid. 0 if nothing was deleted."""
        self._deleted = max(self._deleted, read_deleted(self.storage))
        return self._deleted

    def consumers(self) -> dict[str, Position]:
        """Return the position of each consumer that has a file. The engine creates the files of declared consumers when it starts."""
        return read_positions(self.storage)

    def consumer_names(self) -> list[str]:
        """Return the sorted names of the consumers that have a file, damaged or not."""
        return consumer_names(self.storage)

    def consumer(self, name: str) -> Consumer:
        """Return a consumer by name. Raise HandoverError if the name is not valid. The consumer need not have a file."""
        return Consumer(self.storage, name)

    def open_input(self, file: StagedFile) -> Any:
        """Open a file of a manifest for pyarrow.parquet, verified by `open_staged`. Raise HandoverError if it does not exist."""
        return open_staged(self.storage, file)

    def _manifest_names(self) -> list[ManifestName]:
        parsed = [ManifestName.parse(name) for name in self.storage.names(MANIFESTS)]
        return [name for name in parsed if name is not None and (name.attempt_id is not None) == self.contract.by_attempt]

    def _manifest_name(self, txid: int, attempt: int | None) -> ManifestName | None:
        if not self.contract.by_attempt:
            return ManifestName(txid)
        if attempt is not None:
            return ManifestName(txid, attempt)
        found = [name for name in self._manifest_names() if name.txid == txid]
        return max(found, key=lambda name: name.attempt_id or 0, default=None)

    def _no_manifest(self, txid: int, attempt: int | None) -> HandoverError:
        deleted = self.deleted()
        if txid <= deleted:
            text = f"{self.storage.url}: txid {txid} is deleted, like all up to {deleted}"
            hint = (
                f"Begin at txid {deleted + 1} or later. Every consumer of that time had committed the deleted batches, or the folder began "
                "later. Declare a consumer before it is needed: batches that it has not committed are kept."
            )
            return TransactionDeleted(text, hint=hint)
        newest = self.newest()
        what = f"txid {txid}" if attempt is None else attempt_text(txid, attempt)
        if txid > newest:
            text = f"{self.storage.url}: {what} is not committed yet: the newest is {newest}"
            return TransactionMissing(
                text, hint="Try again later. If the transaction existed before, check whether the folder was restored from an older copy."
            )
        return self._gap(txid, what)

    def _gap(self, txid: int, what: str) -> HandoverError:
        text = f"{self.storage.url}: the manifest of {what} is missing"
        next_name = min((name for name in self._manifest_names() if name.txid > txid), key=lambda name: name.txid, default=None)
        if next_name is None:
            return TransactionMissing(text, hint=f"The engine has not deleted it, so it was lost or removed by hand. {RESTORE}")
        hint = f"Each batch has a manifest. Restore the missing one from a copy. If {str(next_name)!r} does not belong here, move it away."
        return TransactionMissing(f"{text}, and {str(next_name)!r} is there", hint=hint)


def read_deleted(storage: Storage) -> int:
    """Return the newest txid that `deleted.json` marks as deleted. 0 if there is no such file."""
    content = storage.read(DELETED)
    if content is None:
        return 0
    where = f"{storage.url}: {DELETED!r}"
    txid = decode(content, "deleted", where, REPAIR_DELETED).get("txid")
    if type(txid) is not int or not 0 <= txid < 2**63:
        raise torn_file(where, f"its txid is {txid!r}", REPAIR_DELETED)
    return txid


def mark_deleted(storage: Storage, txid: int) -> None:
    """Mark all txids up to this one as deleted. Call it before the first file is removed, so that no removed file looks lost."""
    storage.replace(DELETED, encode("deleted", {"txid": txid}))
