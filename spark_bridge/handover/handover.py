"""A hand-over folder as a reader has it: everything that the Spark side asks, in one place."""

import os
from collections.abc import Mapping
from typing import Any, Final

from spark_bridge.handover.checked_json import RESTORE
from spark_bridge.handover.consumers import Consumer, Position, names_of_consumers, positions
from spark_bridge.handover.contract import Contract, read_contract
from spark_bridge.handover.deletion import read_deleted
from spark_bridge.handover.errors import HandoverError, TransactionDeleted, TransactionMissing
from spark_bridge.handover.manifest import Manifest, read_manifest
from spark_bridge.handover.names import MANIFESTS, ManifestName, attempt_text
from spark_bridge.handover.staged_file import StagedFile, open_staged
from spark_bridge.handover.storage import Storage, storage_at


class Handover:
    """Reads; the one thing that it writes is a consumer's position. Every call blocks, and may be made from any thread.

    >>> handover = Handover.open("/data/handover")                              # doctest: +SKIP
    >>> for txid in range(1, handover.newest() + 1):                            # doctest: +SKIP
    ...     for file in handover.manifest(txid).files:
    ...         table = pyarrow.parquet.read_table(handover.open_input(file))

    All methods raise StorageUnavailable, a HandoverError, where the storage does not answer.
    """

    def __init__(self, storage: Storage, contract: Contract) -> None:
        """Use `open`."""
        self.storage: Final = storage
        self.contract: Final = contract
        """Who writes here, `contract.schema` of the rows, and `contract.by_attempt`."""
        self._known = 0
        """The newest txid that was seen."""
        self._known_deleted = 0

    @classmethod
    def open(cls, folder: str | os.PathLike[str], options: Mapping[str, Any] | None = None, *, filesystem: object = None) -> "Handover":
        """Return the hand-over at a folder; raise HandoverError where there is none.

        `folder`, `options` (of fsspec's file system) and `filesystem` are as in `storage_at`. An executor that reads a file by its name
        needs no contract: `open_staged(storage_at(folder, options), file)`.
        """
        storage = storage_at(folder, options, filesystem)
        contract = read_contract(storage)
        if contract is None:
            hint = "Start the topology that writes there first: it makes the contract when it starts. Or correct the folder."
            raise HandoverError(f"{storage.url!r} is no hand-over folder: it has no contract.json", hint=hint)
        return cls(storage, contract)

    def newest(self, known: int = 0) -> int:
        """Return the newest txid that is committed, 0 where there is none yet. It never gets smaller.

        It is probed for from `known`, a txid that the caller knows to be committed, or from what this object has seen: two small reads
        where nothing is new. Only a call without either lists the folder; where manifests are named by attempt every call does.
        """
        newest = max(known, self._known)
        if newest == 0 or self.contract.by_attempt:
            newest = max([newest, *(name.txid for name in self._manifest_names())])
        newest = self._followed(newest)
        deleted = self.deleted()
        if deleted > newest:  # the next one was there, and is gone: go on behind those
            newest = self._followed(deleted)
        self._known = newest
        return newest

    def _followed(self, txid: int) -> int:
        """Return the last txid of those behind this one that have a manifest without a hole, where names can be told beforehand."""
        if not self.contract.by_attempt:
            while self.storage.exists(str(ManifestName(txid + 1))):
                txid += 1
        return txid

    def check_unbroken(self, begin: int, newest: int) -> None:
        """Raise TransactionMissing where a txid behind `begin`, below `newest` and not deleted, has no manifest.

        It names the first that is missing, and the file behind the gap: which of the two is wrong nobody can tell from here.
        """
        there = {name.txid for name in self._manifest_names()}
        txid = max(begin, self.deleted()) + 1  # manifests go only after that is raised
        while txid in there:
            txid += 1
        if txid < newest:
            raise self._gap(txid, f"txid {txid}")

    def manifest(self, txid: int, attempt: int | None = None) -> Manifest:
        """Return the manifest of a txid. `attempt`: the attempt id that the consumer has planned, where it has (`Position.attempts`).

        Raises TransactionDeleted where the txid is gone, TransactionMissing where it has no manifest, TornFile, ForeignFile or NewerFormat
        where the file is not what it should be; each names the txid.
        """
        name = self._name_of(txid, attempt)
        content = None if name is None else self.storage.read(str(name))
        if name is None or content is None:
            raise self._no_manifest(txid, attempt)
        where = f"{self.storage.url}: the manifest {str(name)!r} of txid {txid}"
        manifest = read_manifest(content, where, name)
        if attempt not in (None, manifest.attempt_id):
            text = f"{where} is that of {attempt_text(txid, manifest.attempt_id)}, and {attempt_text(txid, attempt)} was planned"
            raise HandoverError(text, hint="Was the folder begun anew, or restored? Then use another consumer, and a new checkpoint.")
        return manifest

    def deleted(self) -> int:
        """Return up to which txid nothing is left; 0 where nothing was deleted."""
        self._known_deleted = max(self._known_deleted, read_deleted(self.storage))
        return self._known_deleted

    def consumers(self) -> dict[str, Position]:
        """Return where each consumer stands that has a file; one that is declared has it once its engine has started."""
        return positions(self.storage)

    def consumer_names(self) -> list[str]:
        """Return the consumers that have a file, sorted, whatever stands in it."""
        return names_of_consumers(self.storage)

    def consumer(self, name: str) -> Consumer:
        """Return a consumer by name; raise HandoverError for what can be no name. It need not have a file."""
        return Consumer(self.storage, name)

    def open_input(self, file: StagedFile) -> Any:
        """Return a file of a manifest for pyarrow.parquet, verified as `open_staged` says; raise HandoverError where it is not there."""
        return open_staged(self.storage, file)

    def _manifest_names(self) -> list[ManifestName]:
        parsed = [ManifestName.parse(name) for name in self.storage.names(MANIFESTS)]
        return [name for name in parsed if name is not None and (name.attempt_id is not None) == self.contract.by_attempt]

    def _name_of(self, txid: int, attempt: int | None) -> ManifestName | None:
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
                f"Begin at txid {deleted + 1} or later. Consumers of that time had committed what is deleted, or the folder began later. "
                "Declare a consumer before it is needed: what it has not committed is kept."
            )
            return TransactionDeleted(text, hint=hint)
        newest = self.newest()
        what = f"txid {txid}" if attempt is None else attempt_text(txid, attempt)
        if txid > newest:
            text = f"{self.storage.url}: {what} is not committed yet: the newest is {newest}"
            return TransactionMissing(text, hint="Ask again later. If it was there once: was the folder restored from an older copy?")
        return self._gap(txid, what)

    def _gap(self, txid: int, what: str) -> HandoverError:
        text = f"{self.storage.url}: the manifest of {what} is missing"
        behind = min((name for name in self._manifest_names() if name.txid > txid), key=lambda name: name.txid, default=None)
        if behind is None:
            return TransactionMissing(text, hint=f"It is not deleted, and one that is written is never removed before. {RESTORE}")
        hint = f"Each batch has one. Restore what is missing from a copy. If {str(behind)!r} does not belong here, move it away."
        return TransactionMissing(f"{text}, and {str(behind)!r} is there", hint=hint)
