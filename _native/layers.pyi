from typing import Any

class Layers:
    """A dict of changes over older ones, all of canonical keys, and reads and writes that are as quick as those of a dict."""

    _changes: dict[Any, Any]
    _older: tuple[dict[Any, Any], ...]

    def __init__(self, deleted: object) -> None: ...
    def get(self, key: Any, default: Any = None) -> Any: ...
    def put(self, key: Any, value: Any) -> None: ...
