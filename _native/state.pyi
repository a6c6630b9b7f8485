from contextvars import ContextVar
from typing import Any

class Layers:
    """A dict of changes on top of older dicts, all with canonical keys. Reads and writes are as fast as those of a dict."""

    _changes: dict[Any, Any]
    _older: tuple[dict[Any, Any], ...]

    def __init__(self, deleted: object) -> None: ...
    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of key, else the default. Sees uncommitted changes of the task. Raises StateError for an invalid key."""

    def put(self, key: Any, value: Any) -> None:
        """Set the value of key. Raises StateError for an invalid key, or a key of another task's key group."""

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

    @property
    def guarding(self) -> bool: ...
