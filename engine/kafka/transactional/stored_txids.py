"""Decides which transactions a committer must write, from the txids that it has stored (TX-8). No I/O.

Each task stores its newest txid as an offset of its own group, in the same transaction of Kafka as its records. The metadata of the
offset hold the number of tasks.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

from engine.errors import FatalError

PREFIX: Final = "stormcell-tx"
_VERSION: Final = "1"


class Stored(NamedTuple):
    """Newest stored txid of one task."""

    txid: int
    parallelism: int
    """Number of tasks at that transaction."""


class Owner(NamedTuple):
    """One task of a committer."""

    topology: str
    component: str
    task: int
    parallelism: int

    @property
    def transactional_id(self) -> str:
        """Transactional id of the task. Tasks of another parallelism have other ids, so that a new task can fence all old ones."""
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


def read_stored(owner: Owner, offset: int, metadata: str) -> Stored:
    """Return the txid that an offset stores. Raise FatalError if another program committed it.

    >>> read_stored(Owner("words", "counts", 0, 1), 17, "stormcell-tx:1:2")
    Stored(txid=17, parallelism=2)
    """
    prefix, _, rest = metadata.partition(":")
    version, _, parallelism = rest.partition(":")
    if (prefix, version) != (PREFIX, _VERSION) or not parallelism.isdigit() or int(parallelism) < 1:
        text = f"group {owner.group!r} has offset {offset} with metadata {metadata!r}, which no committer has written"
        raise FatalError(text, hint="Nothing else may commit as this group. Delete the group once you know which transaction was the last.")
    return Stored(offset, int(parallelism))


def is_to_write(stored: Mapping[int, Stored], owner: Owner, txid: int, *, writes_unknown: bool) -> bool:
    """Return True if a task must write a txid, False if it was written already. stored: newest txids of all tasks.

    Raises FatalError if this cannot be decided, or if the txid is older than the stored one.
    """
    if not stored:
        if txid == 1 or writes_unknown:
            return True
        raise _unknown(owner, txid)
    newest = max(stored.values())
    if newest.txid > txid:
        raise _newer(owner, txid, newest)
    if newest.txid < txid:
        return True
    if newest.parallelism == owner.parallelism:
        return stored.get(owner.task) != newest
    missing = [task for task in range(newest.parallelism) if stored.get(task) != newest]
    if not missing:
        return False
    raise _in_doubt(owner, newest, missing)


def _unknown(owner: Owner, txid: int) -> FatalError:
    text = f"{owner.component!r} has stored no txid in group {owner.group!r}, and transaction {txid} is not the first"
    hint = (
        "Where the committer is new in this topology, write when_unknown='write' for its first run. Else the brokers have forgotten the "
        "offset: after offsets.retention.minutes, or with the topic, where that was deleted or made anew. See whether the topic has what "
        f"transaction {txid} writes; if not, when_unknown='write'."
    )
    return FatalError(text, hint=hint)


def _newer(owner: Owner, txid: int, newest: Stored) -> FatalError:
    text = f"{owner.component!r} was given transaction {txid}, and has stored {newest.txid} already (group {owner.group!r})"
    hint = (
        "The state of the topology was lost, is an older copy, or is kept in memory only. Give it back its state (state_provider=...), "
        "or run it by another name; or delete the committer's groups to have everything written again."
    )
    return FatalError(text, hint=hint)


def _in_doubt(owner: Owner, newest: Stored, missing: list[int]) -> FatalError:
    tasks = ", ".join(map(str, missing))
    text = (
        f"{owner.component!r} has {owner.parallelism} tasks now, and had {newest.parallelism} when it wrote transaction {newest.txid}, "
        f"of which the part of task {tasks} was not written"
    )
    return FatalError(text, hint=f"Run it once with a parallelism of {newest.parallelism}; when that has committed, change it.")
