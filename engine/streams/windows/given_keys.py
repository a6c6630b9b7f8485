"""Keys in the type that the rows have them in. A state keeps all keys that are equal in one form: True, 1.0 and 1 are 1 there.

A key whose form differs is stored once more, as a value, in a namespace beside its pane, and dropped with the pane. Other keys cost one
look at the types of a burst.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from engine.state.codec import PLAIN
from engine.streams.windows.keyed import Namespace, NamespacedState

KEYS: Final = "keys"
_COME_BACK: Final = frozenset({*PLAIN, bool, float, Decimal, datetime})
"""Types that a value in a state keeps."""


class GivenKeys:
    """The keys of the panes of one task that a state has in another form."""

    def __init__(self, state: NamespacedState) -> None:
        self._state = state
        self._names: dict[Any, list[Any]] = {}
        """By key the one that was given, and the number of panes that have it."""
        self._panes: set[str] = set()
        for name in state.namespaces():
            if isinstance(name, str) and name.partition(" ")[0] == KEYS:
                self._panes.add(name)
                self._add(state.namespace(name).items())

    def note(self, pane: object, keys: Sequence[Any]) -> None:
        """Note the keys of rows that come to a pane."""
        if set(map(type, keys)) <= PLAIN:
            return
        given = {key: key for key in keys if type(key) not in PLAIN and _comes_back(key)}
        space = self._space(pane)
        known = space.get_many(list(given), None)
        added = {key: key for key, before in zip(given, known, strict=True) if before is None}
        if added:
            self._panes.add(f"{KEYS} {pane}")
            space.put_many(added)
            self._add(added.items())

    def of(self, key: Any) -> Any:
        """Return a key as it was given."""
        found = self._names.get(key)
        return key if found is None else found[0]

    def forget(self, pane: object, key: Any) -> None:
        """Forget a key of a pane."""
        if key in self._names:
            self._space(pane).delete(key)
            self._remove([key])

    def drop(self, pane: object) -> None:
        """Forget the keys of a pane."""
        name = f"{KEYS} {pane}"
        if name in self._panes:
            self._panes.discard(name)
            space = self._state.namespace(name)
            self._remove([key for key, _ in space.items()])
            space.drop()

    def __bool__(self) -> bool:
        return bool(self._names)

    def _space(self, pane: object) -> Namespace:
        return self._state.namespace(f"{KEYS} {pane}")

    def _add(self, items: Iterable[tuple[Any, Any]]) -> None:
        for key, given in items:
            self._names.setdefault(key, [given, 0])[1] += 1

    def _remove(self, keys: Iterable[Any]) -> None:
        for key in keys:
            name = self._names[key]
            name[1] -= 1
            if not name[1]:
                del self._names[key]


def _comes_back(key: Any) -> bool:
    return type(key) in _COME_BACK or (type(key) is tuple and all(map(_comes_back, key)))
