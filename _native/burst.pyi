from collections.abc import Iterator
from typing import Any, final, overload

from _native.task import TaskCore
from _native.tuples import Tuple

@final
class Burst:
    """Tuples for one call of `BurstBolt.execute_many`, in order of arrival."""

    def __init__(self, tuples: list[Tuple], settler: object) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Tuple]: ...
    @overload
    def __getitem__(self, key: str) -> list[Any]: ...
    @overload
    def __getitem__(self, key: int) -> Tuple: ...
    @overload
    def __getitem__(self, key: slice) -> list[Tuple]: ...
    def __contains__(self, tup: object) -> bool: ...
    def items(self, name: str) -> Iterator[tuple[Tuple, Any]]:
        """Return an iterator over pairs of a tuple and its value of a field."""

    def ack(self, tup: Tuple) -> None:
        """Ack a tuple now. Tuples that are neither acked nor failed are acked when the call returns."""

    def fail(self, tup: Tuple, error: str | BaseException | None = None) -> None:
        """Fail one tuple. `error` is a text or an exception for `Failure.error`."""

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The values of each tuple, as a list of tuples."""

    @property
    def fields(self) -> Any:
        """The Fields of the first tuple."""

    @property
    def is_tick(self) -> bool:
        """True if the burst is a tick, which always comes alone."""

@final
class SentMark:
    """Numbers of tuples that a core has sent to each target, to take back what is sent after the mark."""

    def __init__(self, core: TaskCore) -> None: ...
