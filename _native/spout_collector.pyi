"""Stubs of `_native.spout_collector`."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final, Protocol, final

from _native.spout import SpoutCore

ROWS_PER_TURN: Final[int]
"""Rows that are emitted in one turn of the loop, in about half a millisecond."""

class _PendingRows(Protocol):
    @property
    def is_on_loop_thread(self) -> bool: ...
    def append_calls(self, emit: Callable[..., None], arguments: Iterator[tuple[Any, ...]]) -> None: ...

@final
class SpoutCollector:
    """Collector of one instance of a spout. `engine.api.SpoutCollector` documents the methods of the user."""

    def __init__(
        self,
        core: SpoutCore,
        pending: _PendingRows | None = None,
        *,
        ready: Callable[[], Awaitable[None]] | None = None,
        report_error: Callable[[BaseException], None] | None = None,
    ) -> None: ...
    @property
    def retired(self) -> bool: ...
    @property
    def rows_emitted(self) -> int: ...
    def retire(self) -> None:
        """From now on raise errors for emits, because the instance has ended."""

    def divert(self, on: bool) -> None:
        """Start or stop queuing emits behind the pending rows."""

    def check_alive(self) -> None:
        """Raise an error if the instance has ended."""

    def emit(self, values: object, message_id: object = None, stream: str = "default") -> None: ...
    def emit_many(self, rows: Iterable[Any], message_ids: Iterable[object] | None = None, stream: str = "default") -> None: ...
    def emit_direct(self, task: int, values: object, message_id: object = None, stream: str = "default") -> None: ...
    def report_error(self, error: BaseException) -> None: ...
    def ready(self) -> Awaitable[None]: ...
