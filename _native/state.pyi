from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any, final

class Layers:
    """A dict of changes on top of older dicts, all with canonical keys. Reads and writes are as fast as those of a dict."""

    _changes: dict[Any, Any]
    _older: tuple[dict[Any, Any], ...]
    _holds_all: bool
    _is_masked: bool
    _is_changed: bool

    def __init__(
        self, deleted: object, root: Layers | None = None, groups: tuple[int, int, int] | None = None, holds_all: bool = False
    ) -> None:
        """root: the state of a namespace, which has the notes of all its namespaces.

        groups: the number of key groups, the first one of the task, and the first one behind them; None: keys are not hashed as they are.
        holds_all: a key in no layer is in no store either.
        """

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of key, else the default. Sees uncommitted changes of the task. Raises StateError for an invalid key."""

    def put(self, key: Any, value: Any) -> None:
        """Set the value of key. Raises StateError for an invalid key, or a key of another task's key group."""

    def get_many(self, keys: Iterable[Any], default: Any = None) -> list[Any]:
        """Return the values of keys, in their order, as `get` does for each."""

    def put_many(self, values: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Set the value of each key, as `put` does. values: a mapping, or pairs of a key and its value."""

    def add_many(self, amounts: Mapping[Any, Any] | Iterable[Any]) -> None:
        """Add to the values of keys. amounts: a mapping of keys to amounts, or keys, each of which adds 1. A missing key has 0."""

    def guard_call(self) -> None:
        """Note changes from now on, because a call begins."""

    def end_call(self) -> None:
        """Apply the noted changes, and stop noting changes."""

    def undo_call(self) -> None:
        """Undo every change since the call began, newest first, and stop noting changes."""

    def guard_only(self, call_var: ContextVar[Any], call: object) -> None:
        """Note only changes by code in whose context call_var is this call. Other code may run while the call is awaited."""

    def _note_change(self, key: Any) -> None:
        """Note the value of a canonical key before a change. For `_put_slow_path`."""

    def _note_drop(self, before: object) -> None:
        """Note what `_undo_drop` of this namespace needs, before the namespace is dropped."""

    @property
    def guarding(self) -> bool: ...

@final
class LayerWalk:
    """Walk over the entries of a layer, in parts. The layer must get no new keys meanwhile, but its values may be replaced."""

    def __init__(self, layer: dict[Any, Any]) -> None: ...
    def take(self, most: int) -> tuple[list[Any], list[Any]]:
        """Return the keys and the values of up to `most` more entries, as two lists. They are empty at the end."""

    def move_onto(self, older: dict[Any, Any], most: int) -> None:
        """Write up to `most` more entries to an older layer."""

def free_entries(layer: dict[Any, Any], most: int) -> None:
    """Remove up to `most` entries."""
