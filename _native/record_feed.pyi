from collections.abc import Callable, Iterable
from typing import Any, final

from _native.offset_window import Entry, OffsetWindow

class Rotation:
    """The windows of a task, of which each emits in its turn; base of `Partitions`."""

    suspended: bool

    def rotate(self, windows: Iterable[OffsetWindow]) -> None: ...
    def take(self) -> Entry | None: ...
    def on_low(self, tell: Callable[[], object], *, below: int) -> None: ...
    @property
    def waiting(self) -> int: ...

@final
class RecordFeed:
    """What is called for every record: `next_tuple` is the spout's own."""

    has_retries: bool

    def __init__(self, rotation: Rotation, *, translate: Callable[[Any], Any], to_stream: type, tracked: bool, host: Any) -> None: ...
    @property
    def rotation(self) -> Rotation: ...
    def emit_by(self, emit: Callable[..., None] | None) -> None: ...
    def next_tuple(self) -> None: ...
