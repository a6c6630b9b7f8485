"""Keys in the type that the rows have them in. A state keeps all keys that are equal in one form: True, 1.0 and 1 are 1 there.

A key whose form differs is stored once more, as a value, in a namespace beside its pane, and dropped with the pane. Other keys cost one
look at the types of a burst. If a pane has equal keys of several types, its results have the first one whose form differs.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from engine.state.codec import PLAIN, canonical
from engine.streams.windows.keyed import Namespace, NamespacedState

KEYS: Final = "keys"
_COME_BACK: Final = frozenset({*PLAIN, bool, float, Decimal, datetime})
"""Types that a value in a state keeps."""


class GivenKeys:
    """The keys of the panes of one task that a state has in another form."""

    def __init__(self, state: NamespacedState) -> None:
        self._state = state
        self._panes: dict[Any, dict[Any, Any]] = {}
        """By pane and canonical key the key that was given."""
        for name in state.namespaces():
            kind, _, pane = str(name).partition(" ")
            if kind == KEYS:
                self._panes[int(pane) if pane.lstrip("-").isdigit() else pane] = dict(state.namespace(name).items())

    def note(self, pane: Any, keys: Sequence[Any]) -> None:
        """Note the keys of rows that come to a pane."""
        if set(map(type, keys)) <= PLAIN:
            return
        given = {canonical(key): key for key in reversed(keys) if type(key) not in PLAIN and _comes_back(key)}
        given = {form: key for form, key in given.items() if repr(form) != repr(key)}
        if not given:
            return
        space = self._space(pane)  # asked, because a call that failed has undone what it stored
        known = space.get_many(list(given), None)
        added = {form: key for (form, key), before in zip(given.items(), known, strict=True) if before is None}
        if added:
            space.put_many(added)
            self._panes.setdefault(pane, {}).update(added)

    def of(self, panes: Iterable[Any], key: Any) -> Any:
        """Return a key of one of these panes as it was given."""
        for pane in panes:
            found = self._panes.get(pane)
            if found is not None and key in found:
                return found[key]
        return key

    def forget(self, pane: Any, key: Any) -> None:
        """Forget a key of a pane."""
        if self._panes and self._panes.get(pane, {}).pop(canonical(key), None) is not None:
            self._space(pane).delete(key)

    def drop(self, pane: Any) -> None:
        """Forget the keys of a pane."""
        if self._panes.pop(pane, None):
            self._space(pane).drop()

    def __bool__(self) -> bool:
        return bool(self._panes)

    def _space(self, pane: Any) -> Namespace:
        return self._state.namespace(f"{KEYS} {pane}")


def _comes_back(key: Any) -> bool:
    return type(key) in _COME_BACK or (type(key) is tuple and all(map(_comes_back, key)))
