from collections.abc import Iterable, Iterator
from typing import Any, final

@final
class Source:
    """Origin of tuples: one stream of one task, with the Fields of the stream."""

    def __init__(self, component_id: str, stream: str, task_id: int, fields: Iterable[str]) -> None: ...
    @property
    def component_id(self) -> str: ...
    @property
    def stream(self) -> str: ...
    @property
    def task_id(self) -> int: ...
    @property
    def fields(self) -> Any: ...
    @property
    def arity(self) -> int: ...

@final
class Tuple:
    """One message for one task. Only the engine creates tuples.

    Values are read as `tup[0]` or `tup["word"]`. A tuple is equal only to itself.
    """

    @property
    def values(self) -> tuple[Any, ...]: ...
    def __getitem__(self, key: int | str, /) -> Any: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __contains__(self, value: object, /) -> bool: ...
    @property
    def fields(self) -> Any:
        """The Fields of the tuple's stream."""

    @property
    def stream(self) -> str: ...
    @property
    def source_component(self) -> str:
        """The id of the component that emitted the tuple."""

    @property
    def source_task(self) -> int:
        """The id of the task that emitted the tuple."""

    @property
    def is_tick(self) -> bool:
        """True for a tick (`tick_tuple_freq_secs`). A tick has no values, and settling it has no effect."""

    @property
    def is_control(self) -> bool:
        """True for a tuple that the executor handles: a barrier, a batch report, or a mark."""

    @property
    def is_mark(self) -> bool:
        """True for a mark, which has a watermark."""

    @property
    def is_settled(self) -> bool:
        """True if the bolt or the engine has acked or failed the tuple."""

    @property
    def roots(self) -> tuple[int, ...]:
        """Root ids of the tuple's trees, for traces and tests."""

NO_ROOTS: tuple[()]

def treat_as_atoms(kind: type) -> None:
    """Let the values of this class count as atoms, because they never hold anything but atoms. For the attempts of batches."""

def make_tuple(values: tuple[Any, ...], origin: Source) -> Tuple:
    """Return a tuple that belongs to no tree, for ticks and tests."""
