"""Which transactions a committer's topic has already: how that is written, and what follows from it (TX-8). Decides; does nothing.

Each task stores its newest txid as an offset of a group of its own, in the same transaction of Kafka as its records. The metadata of the
offset say how many tasks there were.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

from engine.errors import FatalError

PREFIX: Final = "stormcell-tx"
_VERSION: Final = "1"


class Stored(NamedTuple):
    """What one task has stored last."""

    txid: int
    parallelism: int
    """How many tasks there were."""


class Owner(NamedTuple):
    """One task of a committer."""

    topology: str
    component: str
    task: int
    parallelism: int

    @property
    def transactional_id(self) -> str:
        """What no two processes have at once. Tasks of another parallelism have others: these may fence all of them."""
        return f"{self._name}:{self.task}-of-{self.parallelism}"

    @property
    def group(self) -> str:
        """Where its txid stands, whatever the parallelism."""
        return f"{self._name}:{self.task}"

    @property
    def metadata(self) -> str:
        """What stands beside the txid."""
        return f"{PREFIX}:{_VERSION}:{self.parallelism}"

    @property
    def _name(self) -> str:
        return f"{PREFIX}:{quote(self.topology, safe='')}:{quote(self.component, safe='')}"


def read_stored(owner: Owner, offset: int, metadata: str) -> Stored:
    """Return what an offset says; FatalError for one that another program has committed.

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
    """Tell whether a task is to write a txid, or it is there already. `stored`: by task, what all of them have stored.

    Raises FatalError where that cannot be told, or where transactions come that were committed long ago.
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
