"""State in namespaces, in memory, with snapshots and splits by key."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from engine.state import LayeredState
from engine.state.memory import MemoryStore
from tests.state.states import state_on


class MemoryNamespace:
    """A namespace; what it counts are the calls that a burst costs."""

    def __init__(self, values: dict[Any, Any], calls: Counter[str]) -> None:
        self.values, self.calls = values, calls

    def get(self, key: Any, default: Any = None) -> Any:
        return self.values.get(key, default)

    def put(self, key: Any, value: Any) -> None:
        self.values[key] = value

    def delete(self, key: Any) -> None:
        del self.values[key]

    def get_many(self, keys: Collection[Any], default: Any = None) -> list[Any]:
        self.calls["get_many"] += 1
        return [self.values.get(key, default) for key in keys]

    def put_many(self, values: Mapping[Any, Any]) -> None:
        self.calls["put_many"] += 1
        self.values.update(values)

    def add_many(self, keys: Iterable[Any]) -> None:
        self.calls["add_many"] += 1
        for key in keys:
            self.values[key] = self.values.get(key, 0) + 1

    def items(self) -> Iterator[tuple[Any, Any]]:
        for key in list(self.values):
            if key in self.values:
                yield key, self.values[key]

    def slices(self, size: int) -> Iterator[tuple[list[Any], list[Any]]]:
        entries = iter(list(self.values.items()))
        while some := list(islice(entries, size)):
            yield [key for key, _ in some], [value for _, value in some]

    def drop(self) -> None:
        self.values.clear()


class StoredState:
    """State of a task as the engine has it, which encodes values that are lists."""

    def __init__(self, spaces: dict[int | str, dict[Any, Any]] | None = None) -> None:
        self.state: LayeredState[Any, Any] = state_on(MemoryStore())
        for name, values in (spaces or {}).items():
            self.state.namespace(name).put_many(values)
        self.namespace, self.namespaces = self.state.namespace, self.state.namespaces

    def snapshot(self, keep: Callable[[Any], bool] = lambda key: True) -> dict[int | str, dict[Any, Any]]:
        """Return the values of the keys to keep."""
        kept = {name: {key: value for key, value in self.namespace(name).items() if keep(key)} for name in self.namespaces()}
        return {name: values for name, values in kept.items() if values}


class MemoryState:
    """State of a task. A snapshot shares the values with the state, so a value that is changed in place is found."""

    def __init__(self, spaces: dict[int | str, dict[Any, Any]] | None = None) -> None:
        self.spaces = spaces or {}
        self.calls: Counter[str] = Counter()

    def namespace(self, name: int | str) -> MemoryNamespace:
        return MemoryNamespace(self.spaces.setdefault(name, {}), self.calls)

    def namespaces(self) -> list[int | str]:
        return [name for name, values in self.spaces.items() if values]

    def snapshot(self, keep: Callable[[Any], bool] = lambda key: True) -> dict[int | str, dict[Any, Any]]:
        """Return the values of the keys to keep."""
        kept = {name: {key: value for key, value in values.items() if keep(key)} for name, values in self.spaces.items()}
        return {name: values for name, values in kept.items() if values}
