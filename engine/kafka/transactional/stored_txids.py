"""Decides by the stored txids whether a committer must write a transaction (TX-8). Contains no I/O.

Each task stores its newest txid as an offset of its own group. The Kafka transaction of the records also writes this offset. The metadata
of the offset hold the number of tasks.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote

from engine.errors import FatalError
from engine.state.rows import StoredTxid
from engine.transactional.stored_txids import WrittenInPart, is_written

PREFIX: Final = "stormcell-tx"
_VERSION: Final = "1"


class TxidOwner(NamedTuple):
    """Committer task that owns a stored txid."""

    topology: str
    component: str
    task: int
    parallelism: int

    @property
    def transactional_id(self) -> str:
        """Transactional id of the task. The id depends on the parallelism, so that a new task can fence all old tasks."""
        return f"{self._name}:{self.task}-of-{self.parallelism}"

    @property
    def group(self) -> str:
        """Group that stores the txid, for any parallelism."""
        return f"{self._name}:{self.task}"

    @property
    def metadata(self) -> str:
        """Metadata beside the txid."""
        return f"{PREFIX}:{_VERSION}:{self.parallelism}"

    @property
    def _name(self) -> str:
        return f"{PREFIX}:{quote(self.topology, safe='')}:{quote(self.component, safe='')}"


def read_stored_txid(owner: TxidOwner, offset: int, metadata: str) -> StoredTxid:
    """Return the txid that an offset stores. Raise FatalError if another program committed it.

    >>> read_stored_txid(TxidOwner("words", "counts", 0, 1), 17, "stormcell-tx:1:2")
    StoredTxid(txid=17, parallelism=2)
    """
    prefix, _, rest = metadata.partition(":")
    version, _, parallelism = rest.partition(":")
    if (prefix, version) != (PREFIX, _VERSION) or not parallelism.isdigit() or int(parallelism) < 1:
        text = f"group {owner.group!r} has offset {offset} with metadata {metadata!r}, which no committer wrote"
        raise FatalError(
            text, hint="No other program may commit as this group. Find out the last written transaction, then delete the group."
        )
    return StoredTxid(offset, int(parallelism))


def must_write(stored: Mapping[int, StoredTxid], owner: TxidOwner, txid: int, *, writes_unknown: bool) -> bool:
    """Return True if a task must write a txid, False if it has already written it.

    stored: newest txids of all tasks.
    Raises FatalError if this cannot be decided, or if the txid is older than the stored one.
    """
    if not stored:
        if txid == 1 or writes_unknown:
            return True
        raise _unknown(owner, txid)
    newest = max(stored.values())
    if newest.txid > txid:
        raise _newer(owner, txid, newest)
    try:
        return not is_written(stored, owner.task, owner.parallelism, txid)
    except WrittenInPart as part:
        raise _in_doubt(owner, part.newest, part.missing) from None


def _unknown(owner: TxidOwner, txid: int) -> FatalError:
    text = f"{owner.component!r} has stored no txid in group {owner.group!r}, and transaction {txid} is not the first"
    hint = (
        "If the committer is new in this topology, write when_unknown='write' for its first run. Else the brokers have lost the txid: "
        "after offsets.retention.minutes, or because the topic was deleted or created again. Look for the records of transaction "
        f"{txid} in the topic. If they are missing, write when_unknown='write'."
    )
    return FatalError(text, hint=hint)


def _newer(owner: TxidOwner, txid: int, newest: StoredTxid) -> FatalError:
    text = f"{owner.component!r} got transaction {txid}, but has stored transaction {newest.txid} already (group {owner.group!r})"
    hint = (
        "The state of the topology was lost, is an older copy, or is only in memory. Restore the state (state_provider=...), or rename "
        "the topology. To write everything again, delete the committer's groups."
    )
    return FatalError(text, hint=hint)


def _in_doubt(owner: TxidOwner, newest: StoredTxid, missing: Sequence[int]) -> FatalError:
    tasks = ", ".join(map(str, missing))
    text = (
        f"{owner.component!r} has {owner.parallelism} tasks, but had {newest.parallelism} when it wrote transaction {newest.txid}. "
        f"The output of task {tasks} of this transaction was not written"
    )
    return FatalError(
        text, hint=f"Run it once with a parallelism of {newest.parallelism} until this transaction is committed. Then change it."
    )
