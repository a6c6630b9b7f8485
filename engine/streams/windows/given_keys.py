"""Keys in the type that the rows have them in. A state keeps all keys that are equal in one form: True, 1.0 and 1 are 1 there.

Windows work with this canonical form alone, because two keys of one form may be unequal to Python: a local time that a change of the
clock skips, and the same moment in another zone. A key whose type differs is stored once more, as a value, in a namespace beside its
pane, and dropped with the pane. Other keys cost one look at the types of a burst. The results of a key in a pane have the type of its
first row there, those of a window of several panes that of the first pane with the key. All open sessions of a key have one type.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from engine.state.codec import PLAIN, base_value, canonical_keys
from engine.streams.windows.keyed import Namespace, NamespacedState

KEYS: Final = "keys"
_COME_BACK: Final = frozenset({*PLAIN, bool, float, Decimal, datetime})
"""Types that a value in a state keeps."""


class GivenKeys:
    """The keys of the panes of one task that a state has in another form."""

    def __init__(self, state: NamespacedState) -> None:
        self._state = state
        self._panes = {_pane_of(name) for name in state.namespaces() if str(name).partition(" ")[0] == KEYS}
        """Panes that may have such keys."""

    def noted(self, pane: Any, keys: Sequence[Any], known: Namespace) -> Sequence[Any]:
        """Return the canonical forms of the keys of rows that come to a pane, and note those of another type.

        known: has the keys with rows, whose type is known. Raises TypeError for what cannot be a key.
        """
        forms = canonical_keys(keys)
        if forms is keys:
            return keys
        first = dict(zip(reversed(forms), reversed(keys), strict=True))
        given = {form: _stored(key) for form, key in first.items()}
        given = {form: key for form, key in given.items() if repr(key) != repr(form)}
        rows = known.get_many(list(given), None)
        added = {form: key for (form, key), row in zip(given.items(), rows, strict=True) if row is None}
        if added:
            self._space(pane).put_many(added)
            self._panes.add(pane)
        return forms

    def of(self, panes: Sequence[Any], keys: list[Any]) -> list[Any]:
        """Return canonical keys as they were given. Of several panes, the first one with rows of a key decides."""
        if self._panes.isdisjoint(panes):
            return keys
        shown, left = list(keys), list(range(len(keys)))
        for pane in panes:
            asked = [keys[at] for at in left]
            given = self._space(pane).get_many(asked, None) if pane in self._panes else [None] * len(asked)
            rows = self._state.namespace(pane).get_many(asked, None) if len(panes) > 1 else given
            for at, key in zip(left, given, strict=True):
                if key is not None:
                    shown[at] = key
            left = [at for at, row in zip(left, rows, strict=True) if row is None]
        return shown

    def forget(self, pane: Any, key: Any) -> None:
        """Forget a key of a pane."""
        if pane in self._panes:
            self._space(pane).delete(key)

    def drop(self, pane: Any) -> None:
        """Forget the keys of a pane."""
        if pane in self._panes:
            self._panes.remove(pane)
            self._space(pane).drop()

    def __bool__(self) -> bool:
        return bool(self._panes)

    def _space(self, pane: Any) -> Namespace:
        return self._state.namespace(f"{KEYS} {pane}")


def _pane_of(name: int | str) -> int | str:
    pane = str(name).partition(" ")[2]
    return int(pane) if pane.lstrip("-").isdigit() else pane


def _stored(key: Any) -> Any:
    """Return a key as a value keeps it: its own type, or the base of a class of the user."""
    if type(key) is tuple:
        return tuple(map(_stored, key))
    return key if type(key) in _COME_BACK else _stored(base_value(key))
