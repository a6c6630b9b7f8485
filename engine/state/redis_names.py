"""The names of our keys in Redis. All keys of a topology share a hash tag, so a cluster keeps them together and a script may use them."""

from typing import Final
from urllib.parse import quote

_STRINGS: Final = frozenset({"format", "owner"})
_LISTS: Final = frozenset({"delta"})


class KeyNames:
    """Names for one topology. What a user chose is %-encoded, so that no two of them give one key.

    >>> names = KeyNames("team:a", "word count")
    >>> names.slot("count{x}", 7), names.delta("count", 0, 12, 3)
    ('{team:a:word%20count}:rows:count%7Bx%7D:7', '{team:a:word%20count}:delta:count:0:12:3')
    """

    def __init__(self, prefix: str, topology_name: str) -> None:
        self._root: Final = f"{{{quote(prefix, safe=':', errors='surrogatepass')}:{_encoded(topology_name)}}}"
        self.format: Final = f"{self._root}:format"
        self.owner: Final = f"{self._root}:owner"
        self.lanes: Final = f"{self._root}:lanes"
        self.epochs: Final = f"{self._root}:epochs"

    def ledger(self, name: str) -> str:
        """A hash: entry to value."""
        return f"{self._root}:ledger:{_encoded(name)}"

    def slot(self, component_id: str, slot: int) -> str:
        """A hash: key to value, encoded."""
        return f"{self._root}:rows:{_encoded(component_id)}:{slot}"

    def deltas(self, component_id: str, task_index: int) -> str:
        """A hash, the index of what a task has staged: `txid:round` to the number of pieces, or to `open`; `folded` to a txid."""
        return f"{self._root}:deltas:{_encoded(component_id)}:{task_index}"

    def delta(self, component_id: str, task_index: int, txid: int, round_: int) -> str:
        """A list of pieces."""
        return f"{self._root}:delta:{_encoded(component_id)}:{task_index}:{txid}:{round_}"


def kind_of(key: str) -> str:
    """Return which of Redis's types a key of ours has."""
    role = key[key.index("}:") + 2 :].partition(":")[0]
    return "string" if role in _STRINGS else "list" if role in _LISTS else "hash"


def _encoded(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")
