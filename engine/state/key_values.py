"""What a bolt sees of its state: values by key, and namespaces (CP-6, CP-12)."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, Generic, TypeVar, overload

from engine.errors import StateError
from engine.state.namespaces import Name

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


def _keys(method: str, keys: Iterable[K]) -> Iterable[K]:
    """Return the keys. Raises TypeError for a single text, whose characters would be taken for keys."""
    if isinstance(keys, str | bytes):
        raise TypeError(f"{method}() takes a collection of keys, not the single key {keys!r}. Write {method}([{keys!r}]).")
    return keys


class KeyValues(ABC, Generic[K, V]):
    """Values by key, which a bolt reads and changes: its state, or a namespace of it.

    Keys are None, bool, int, float, str, bytes, datetime, Decimal, UUID, and tuples of these. Equal keys are the same key. `items` may
    return a key in another form: 1 for True, UTC for another zone, a tuple for a named tuple. `put` stores a copy of the value. To change a
    list or a dict, get it, change it, and put it again.
    """

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    @abstractmethod
    def get(self, key: K, default: object = None) -> object:
        """Return the value of key, else the default. Sees uncommitted changes of the task. Raises StateError for an invalid key."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of key.

        Raises StateError for an invalid key, a key of another task's key group, or a value that cannot be stored.
        """

    @abstractmethod
    def delete(self, key: K) -> None:
        """Remove key. No effect if it is missing."""

    def get_many(self, keys: Iterable[K], default: Any = None) -> list[Any]:
        """Return the values of keys, in their order, as `get` does for each."""
        return [self.get(key, default) for key in _keys("get_many", keys)]

    def put_many(self, values: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Set the value of each key, as `put` does. values: a mapping, or pairs of a key and its value."""
        for key, value in values.items() if isinstance(values, Mapping) else values:
            self.put(key, value)

    def add_many(self, amounts: Mapping[K, Any] | Iterable[K]) -> None:
        """Add to the values of keys. A missing key has the value 0.

        amounts: a mapping of keys to amounts, such as a `Counter`, or a collection of keys, each of which adds 1. If a key is refused, the
        keys before it are changed. If the call of the bolt raises too, all its changes are undone (SV-2).
        """
        pairs = amounts.items() if isinstance(amounts, Mapping) else zip(_keys("add_many", amounts), repeat(1))
        for key, amount in pairs:
            value: Any = self.get(key, 0)
            self.put(key, value + amount)

    @abstractmethod
    def items(self) -> Iterator[tuple[K, V]]:
        """Yield each key once with its value, in any order. Changes during the iteration may be missing."""

    @abstractmethod
    def __contains__(self, key: object) -> bool: ...


class StateNamespace(KeyValues[K, V]):
    """A dict of its own within a state, which can be dropped as a whole (CP-12). `KeyValueState.namespace` returns it."""

    @property
    @abstractmethod
    def name(self) -> Name:
        """The name."""

    @abstractmethod
    def drop(self) -> None:
        """Remove all keys at once, in a time that does not depend on their number. The namespace can be used again, and is empty."""


class KeyValueState(KeyValues[K, V]):
    """Key-value state of a stateful bolt. It has the last commit, and the bolt's uncommitted changes."""

    def namespace(self, name: Name) -> StateNamespace[Any, Any]:
        """Return the namespace of this name, which begins empty. While it is in use, each call returns the same object.

        name: an int of at most 64 bits, or a str that is not empty. Raises StateError for another one.
        """
        raise StateError(f"{type(self).__name__} has no namespaces", hint="Use the state that the engine gives to the bolt.")

    def namespaces(self) -> list[Name]:
        """Return the names of the namespaces that have a key, in any order. Sees uncommitted changes of the task."""
        return []

    @abstractmethod
    async def prepare_commit(self, txid: int) -> None:
        """Stage the changes durably. Later changes belong to the next txid.

        Raises StateError if txid is already committed.
        """

    @abstractmethod
    async def commit(self, txid: int) -> None:
        """Commit the changes that `prepare_commit(txid)` staged. No effect if they are committed.

        Raises StateError if txid was never prepared.
        """

    @abstractmethod
    async def rollback(self) -> None:
        """Drop all uncommitted changes."""
