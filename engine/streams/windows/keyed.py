"""What windows need of the keyed state of a task."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol


class Namespace(Protocol):
    """Dict of its own within the state of a task."""

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key."""

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key."""

    def delete(self, key: Any) -> None:
        """Remove a key."""

    def get_many(self, keys: Collection[Any], default: Any = None) -> list[Any]:
        """Return the values of keys in their order."""

    def put_many(self, values: Mapping[Any, Any]) -> None:
        """Set the values of keys."""

    def add_many(self, keys: Any) -> Any:
        """Add 1 to the number of each key, as often as it is there."""

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yield each key with its value. Keys may be changed or deleted meanwhile, and then are missing or have their new value."""

    def slices(self, size: int) -> Iterator[tuple[list[Any], list[Any]]]:
        """Yield the keys and their values as two lists of at most `size`. No key may be changed meanwhile."""

    def drop(self) -> None:
        """Remove all keys with one mark."""


class NamespacedState(Protocol):
    """State of a task, in namespaces."""

    def namespace(self, name: int | str) -> Namespace:
        """Return a namespace, an empty one if it does not exist."""

    def namespaces(self) -> list[int | str]:
        """Return the names of the namespaces that have keys."""
