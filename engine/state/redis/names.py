"""Names of keys in Redis. All keys of a topology share a hash tag, so that a script may use them together on a cluster."""

from typing import Final, NamedTuple
from urllib.parse import quote, unquote

_STRINGS: Final = frozenset({"format", "owner", "lease"})
_SETS: Final = frozenset({"namespaces"})
_LISTS: Final = frozenset({"delta", "journal", "undo"})


class KeyParts(NamedTuple):
    """Parts of a key: its role, and for some roles the component or ledger, and a number."""

    role: str
    owner: str = ""
    number: int = -1


class KeyNames:
    """Keys of one topology. Names of users are %-encoded, so that different names give different keys.

    >>> names = KeyNames("team:a", "word count")
    >>> names.slot("count{x}", 7), names.delta("count", 0, 12, 3)
    ('{team:a:word%20count}:rows:count%7Bx%7D:7', '{team:a:word%20count}:delta:count:0:12:3')
    """

    def __init__(self, prefix: str, topology_name: str) -> None:
        self._root: Final = f"{{{_encoded_prefix(prefix)}:{_encoded(topology_name)}}}"
        self.every: Final = f"{self._root}:*"
        """Pattern of all keys of the topology."""
        self.format: Final = f"{self._root}:format"
        self.owner: Final = f"{self._root}:owner"
        self.lease: Final = f"{self._root}:lease"
        self.lanes: Final = f"{self._root}:lanes"
        self.epochs: Final = f"{self._root}:epochs"

    def ledger(self, name: str) -> str:
        """Hash from entry to value."""
        return f"{self._root}:ledger:{_encoded(name)}"

    def slot(self, component_id: str, slot: int, prefix: bytes = b"") -> str:
        """Hash from key to value, both encoded. prefix: that of the keys of a namespace, which has a hash of its own."""
        return f"{self._root}:rows:{_encoded(component_id)}:{slot}" + (f":{prefix.hex()}" if prefix else "")

    def namespaces(self, component_id: str, slot: int) -> str:
        """Set of the prefixes of the namespaces that may have a hash for a slot, each with a checksum."""
        return f"{self._root}:namespaces:{_encoded(component_id)}:{slot}"

    def deltas(self, component_id: str, task_index: int) -> str:
        """Index of the staged deltas of a task, a hash.

        The field `txid:round` has the number of pieces or `open`. The field `folded` has the last folded txid.
        """
        return f"{self._root}:deltas:{_encoded(component_id)}:{task_index}"

    def delta(self, component_id: str, task_index: int, txid: int, round_: int) -> str:
        """List of the pieces of a delta."""
        return f"{self._root}:delta:{_encoded(component_id)}:{task_index}:{txid}:{round_}"

    def parts(self, key: str) -> KeyParts:
        """Return the parts of a key of this topology.

        >>> names = KeyNames("team", "words")
        >>> names.parts(names.slot("count{x}", 7))
        KeyParts(role='rows', owner='count{x}', number=7)
        """
        role, owner, number, *_ = [*key[len(self._root) + 1 :].split(":"), "", ""]
        return KeyParts(role, unquote(owner, errors="surrogatepass"), int(number) if number.isdigit() else -1)


def formats_of_all(prefix: str) -> str:
    """Return the pattern of the `format` keys of all topologies of a prefix."""
    return f"{{{_encoded_prefix(prefix)}:*}}:format"


def topology_of(prefix: str, key: str) -> str | None:
    """Return the topology of a `format` key, None if the key belongs to a longer prefix.

    >>> topology_of("team", KeyNames("team", "word count").format), topology_of("team", KeyNames("team:a", "words").format)
    ('word count', None)
    """
    name = key[len(_encoded_prefix(prefix)) + 2 : key.index("}:")]
    return None if ":" in name else unquote(name, errors="surrogatepass")


def kind_of(key: str) -> str:
    """Return the Redis type of a key."""
    role = key[key.index("}:") + 2 :].partition(":")[0]
    return next((kind for roles, kind in ((_STRINGS, "string"), (_LISTS, "list"), (_SETS, "set")) if role in roles), "hash")


def values_root(prefix: str, map_name: str) -> str:
    """Return the first part of the keys of a map of values. This part is a hash tag that no topology can have.

    >>> values_root("team:a", "words")
    '{team:a/words}'
    """
    return f"{{{_encoded_prefix(prefix)}/{_encoded(map_name)}}}"


def _encoded_prefix(prefix: str) -> str:
    return quote(prefix, safe=":", errors="surrogatepass")


def _encoded(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")
