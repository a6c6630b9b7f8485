"""Stubs of `_native.bolt_collector`."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, final

from _native.bolt import BoltCore
from _native.tuples import Tuple

@final
class BoltCollector:
    """Collector of one instance of a Bolt or BurstBolt. `engine.api.BoltCollector` documents the methods of the user."""

    def __init__(
        self,
        core: BoltCore,
        *,
        ready: Callable[[], Awaitable[None]] | None = None,
        report_error: Callable[[BaseException], None] | None = None,
    ) -> None: ...
    @property
    def retired(self) -> bool: ...
    def retire(self) -> None:
        """From now on ignore settles and raise errors for emits, because the instance has ended."""

    def check_alive(self) -> None:
        """Raise an error if the instance has ended."""

    def emit(self, values: object, anchors: object = None, stream: str = "default") -> None: ...
    def emit_many(self, rows: Iterable[object], anchors: object = None, stream: str = "default") -> None: ...
    def emit_each(self, values: Iterable[object], anchors: object = None, stream: str = "default") -> None: ...
    def emit_aligned(self, rows: list[Any], anchors: list[Tuple], stream: str = "default", single_values: bool = False) -> None:
        """Emit one tuple for each row, anchored to the input at the same place of `anchors`. For fused stages (`engine.streams`).

        single_values: a row is the only value of its tuple.
        """

    def emit_direct(self, task: int, values: object, anchors: object = None, stream: str = "default") -> None: ...
    def ack(self, tup: Tuple) -> None: ...
    def fail(self, tup: Tuple, error: str | BaseException | None = None) -> None: ...
    def reset_timeout(self, tup: Tuple) -> None: ...
    def report_error(self, error: BaseException) -> None: ...
    def ready(self) -> Awaitable[None]: ...
